#include "search.h"

int rank_extensions(Search *s, int row, Logits *logits) {
    const int n = s->active_of[row], width = s->task->width;
    float *model_logits = restrict_logits(s, row, logits, 0);
    if (!model_logits) return 0;
    Ranking ranking = {s->candidates + (size_t)n * width, width, s->num_candidates[n]};
    rank_row(&ranking, logits, s->now.log_prob[row] - s->normaliser[row], row);
    s->num_candidates[n] = ranking.count;
    for (int k = 0; k < ranking.count; k++) {
        Candidate *one = ranking.best + k;
        if (one->row == row) one->model_log_prob = model_log_prob(s, row, model_logits, one->token, one->logit);
    }
    return 1;
}

/* `rank_row` compared logit + (log-probability of the hypothesis - normaliser). The reference adds in another order,
   so that near-ties may change places: sort by its sums. */
static void sort_candidates(const Search *s, Candidate *best, int count) {
    for (int k = 0; k < count; k++) {
        Candidate one = best[k];
        one.total = s->now.log_prob[one.row] + (one.logit - s->normaliser[one.row]);
        int i = k;
        for (; i > 0 && one.total > best[i - 1].total; i--) best[i] = best[i - 1];
        best[i] = one;
    }
}

/* Log-probability of the end of sentence after a hypothesis, by the model. */
INLINE float end_log_prob(const Search *s, int row) { return s->end_logit[row] - s->normaliser[row]; }

static void end_hypothesis(Search *s, Active *a, int row, int is_finished) {
    const float end = end_log_prob(s, row);
    add_result(s, a, &(Ending){row, end, s->now.log_prob[row] + end, is_finished});
}

/* End the hypotheses whose end of sentence is among the best; `best` [count] are the extensions, best first. */
static void end_hypotheses(Search *s, Active *a, int first, const Candidate *best, int count) {
    const Task *task = s->task;
    const int is_at_limit = a->length >= task->max_lengths[a->sentence];
    const int is_forced = task->constraints && forced_token(task->constraints, a->sentence, a->length) >= 0;
    const int may_end = a->length >= task->min_lengths[a->sentence] && !is_forced;
    int num_ends = 0;
    for (int r = first; r < first + a->width && may_end; r++) {
        const float end = s->now.log_prob[r] + end_log_prob(s, r);
        int better = 0;
        for (int k = 0; k < count; k++) better += best[k].total > end;
        for (int i = first; i < first + a->width; i++) better += s->now.log_prob[i] + end_log_prob(s, i) > end;
        if (better >= task->width || end == -INFINITY) continue;
        end_hypothesis(s, a, r, !is_at_limit);
        num_ends++;
    }
    /* Every sentence gets a translation: where neither an extension nor an end is left, all hypotheses end. */
    for (int r = first; r < first + a->width && !count && !num_ends && !a->ended; r++) end_hypothesis(s, a, r, 0);
    a->ended += num_ends;
}

/* ---- stopping rules, as in mtkit/search/beam.py; `best` is the log-probability of the best live hypothesis ---- */

static int have_enough_ended(const Search *s, const Active *a, float best) {
    (void)best;
    return s->task->stops_early && a->ended && (float)a->ended >= s->task->enough_ends;
}

/* The score that a further hypothesis must exceed; -inf while fewer than n_best have ended. */
static float worst_score(const Task *task, const Active *a) {
    const int count = task->counts[a->sentence];
    return count < task->n_best ? -INFINITY : task->scores[(size_t)a->sentence * task->n_best + count - 1];
}

static int is_bound_reached(const Search *s, const Active *a, float best) {
    const Task *task = s->task;
    const int max_length = task->max_lengths[a->sentence];
    const float bound = fmaxf(score_of(task, best, a->length + 2), score_of(task, best, max_length + 1));
    return task->stops_early && bound <= worst_score(task, a);
}

static int is_present_score_reached(const Search *s, const Active *a, float best) {
    return !s->task->stops_early && score_of(s->task, best, a->length + 1) <= worst_score(s->task, a);
}

static int (*const STOPPING_RULES[])(const Search *s, const Active *a, float best) = {
    have_enough_ended, is_bound_reached, is_present_score_reached};

static int is_stopped(const Search *s, const Active *a, float best) {
    for (size_t i = 0; i < sizeof STOPPING_RULES / sizeof *STOPPING_RULES; i++)
        if (STOPPING_RULES[i](s, a, best)) return 1;
    return 0;
}

int advance_beam(Search *s, Active *a, int first, int to) {
    const int n = s->active_of[first];
    Candidate *best = s->candidates + (size_t)n * s->task->width;
    for (int r = first; r < first + a->width; r++)
        if (!isfinite(s->normaliser[r])) {
            s->task->counts[a->sentence] = FAILED;
            return 1;
        }
    const int count = a->length >= s->task->max_lengths[a->sentence] ? 0 : s->num_candidates[n];
    sort_candidates(s, best, count);
    end_hypotheses(s, a, first, best, count);
    if (!count || is_stopped(s, a, best[0].total)) return 1;
    for (int k = 0; k < count; k++)
        extend(s, a, &(Extension){best[k].row, best[k].token, best[k].model_log_prob, best[k].total}, to + k);
    a->width = count;
    a->length++;
    return 0;
}
