#include "search.h"

/* ---- sampling: every hypothesis is a path of its own, extended by a random token ---- */

/* Draw the next token of a path; after the first token of the decoder, that of all paths, which begin alike. A token of
   -1 is an end that was forced, since no token is allowed. */
int sample_tokens(Search *s, int row, Logits *logits) {
    const Task *task = s->task;
    const int n = s->sentences[row], length = s->lengths[n] - 1, sentence = s->active[n].sentence;
    const int is_at_limit = length >= task->max_lengths[sentence], has_min_length = length >= task->min_lengths[sentence];
    const int num_paths = length ? 1 : task->width;
    Candidate *samples = s->candidates + (size_t)n * task->width;
    const float *model_logits = restrict_logits(s, row, logits, has_min_length);
    if (!model_logits) return 0;
    for (int i = 0; i < num_paths; i++) {
        const int path = length ? s->now.paths[row] : i;
        Candidate one = {.row = row, .token = -1};
        if (!is_at_limit && isfinite(s->normaliser[row]))
            one.token = sample(task->sampling, logits, uniform(task->sampling, sentence, path, length));
        if (one.token == -2) return 0;
        if (one.token >= 0)
            one.model_log_prob = model_log_prob(s, row, model_logits, one.token, logits->values[one.token]);
        samples[s->num_candidates[n]++] = one;
    }
    return 1;
}

int advance_paths(Search *s, Active *a, int first, int to) {
    Task *task = s->task;
    const int n = s->sentences[first], end = end_of(task);
    const Candidate *samples = s->candidates + (size_t)n * task->width;
    int width = 0;
    for (int i = 0; i < s->num_candidates[n]; i++) {
        const Candidate *one = samples + i;
        if (!isfinite(s->normaliser[one->row])) {
            task->counts[a->sentence] = FAILED;
            return 1;
        }
        const int path = a->length ? s->now.paths[one->row] : i;
        if (one->token < 0 || one->token == end) {
            add_result(s, a, &(Ending){one->row, s->end_logit[one->row] - s->normaliser[one->row], NAN, one->token == end});
            continue;
        }
        s->next.paths[to + width] = path;
        extend(s, a, &(Extension){one->row, one->token, one->model_log_prob, 0}, to + width++);
    }
    a->width = width;
    a->length++;
    return !width;
}

/* ---- greedy search without log-probabilities: the most probable token, found without all logits ---- */

int choose_most_probable(Search *s) {
    const Task *task = s->task;
    const int num_banned = task->num_excluded - 1; /* the end of sentence is a token like others */
    if (!mtkit_most_probable(task->pruned, s->x, s->num_rows, task->excluded, num_banned, s->best_tokens, s->end_logit))
        return 0;
    for (int r = 0; r < s->num_rows; r++) {
        if (s->active[r].length >= task->min_lengths[s->active[r].sentence]) continue;
        const float *x = s->x + (size_t)r * task->decoder->d_model;
        if (!mtkit_most_probable(task->pruned, x, 1, task->excluded, task->num_excluded, s->best_tokens + r,
                                 s->end_logit + r))
            return 0;
    }
    return 1;
}

int advance_greedily(Search *s, Active *a, int row, int to) {
    const int token = (int)s->best_tokens[row];
    const float logit = s->end_logit[row];
    if (token == end_of(s->task) || logit == -INFINITY) { /* -inf: no token is left, so that the end is forced */
        add_result(s, a, &(Ending){row, NAN, NAN, logit > -INFINITY});
        return 1;
    }
    if (!isfinite(logit)) {
        s->task->counts[a->sentence] = FAILED;
        return 1;
    }
    extend(s, a, &(Extension){row, token, NAN, NAN}, to);
    a->length++;
    return 0;
}

/* End the search of sentences that have their maximum length: the model need not compute the end. */
void end_at_limit(Search *s) {
    int kept = 0;
    for (int n = 0; n < s->num_active; n++) {
        const Active a = s->active[n];
        if (a.length >= s->task->max_lengths[a.sentence]) {
            add_result(s, &a, &(Ending){n, NAN, NAN, 0});
            s->free_places[s->num_free++] = a.place;
            continue;
        }
        const size_t from = (size_t)n * s->stride, to = (size_t)kept * s->stride;
        /* log-probabilities need no copy: greedy search without them has NaN for all */
        if (n > kept) memcpy(s->now.tokens + to, s->now.tokens + from, sizeof(int32_t) * (size_t)a.length);
        s->active[kept++] = a;
    }
    s->num_active = s->num_rows = kept;
}
