#include "scratch.h"
#include "search.h"

/* ---- random numbers ---- */

enum { FIRST_RANKED = 64 }; /* tokens that are ranked first: they hold nearly all of the mass of a trained model */

/* splitmix64's finaliser. */
static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* A number in [0, 1) of a choice: splitmix64 (Steele et al. 2014) of the seed and the identity of the choice. */
static double uniform(const Sampling *sampling, int sentence, int path, int step) {
    const uint64_t parts[] = {(uint64_t)sampling->sentence_ids[sentence], (uint64_t)path, (uint64_t)step};
    uint64_t state = (uint64_t)sampling->seed;
    for (int i = 0; i < 3; i++) state = mix(state + (parts[i] + 1) * 0x9e3779b97f4a7c15u);
    return (double)(state >> 11) / 9007199254740992.0; /* 2^53 */
}

/* Sum of e^((logit - largest) / temperature). */
static double total_weight(const Logits *logits, float largest, double temperature) {
    const float factor = (float)(1 / temperature);
    Floats total[4] = {splat(0), splat(0), splat(0), splat(0)};
    for (int i = 0; i < logits->count; i += 4 * LANES)
        for (int j = 0; j < 4; j++)
            total[j] += exponential_of_negative((load(logits->values + i + j * LANES) - largest) * factor);
    return sum_of((total[0] + total[1]) + (total[2] + total[3]));
}

/* ---- truncations of the distribution, as in mtkit/search/single_path.py ---- */

static int has_top_k(const Sampling *s) { return s->top_k > 0; }
static int has_top_p(const Sampling *s) { return s->top_p < 1; }
static int has_epsilon(const Sampling *s) { return s->epsilon > 0; }

/* A token, among those in descending order of probability. */
typedef struct {
    int rank;
    double probability, mass_before; /* mass of all tokens that are more probable */
} RankedToken;

static int is_in_top_k(const Sampling *s, const RankedToken *token) { return !s->top_k || token->rank < s->top_k; }
static int is_in_top_p(const Sampling *s, const RankedToken *token) { return token->mass_before < s->top_p; }
static int is_probable(const Sampling *s, const RankedToken *token) { return token->probability >= s->epsilon; }

/* Each keeps the tokens up to some rank. */
static const struct {
    int (*is_on)(const Sampling *s);
    int (*keeps)(const Sampling *s, const RankedToken *token);
} TRUNCATIONS[] = {{has_top_k, is_in_top_k}, {has_top_p, is_in_top_p}, {has_epsilon, is_probable}};
enum { NUM_TRUNCATIONS = sizeof TRUNCATIONS / sizeof *TRUNCATIONS };

/* ---- random choice of a token from the truncated distribution ---- */

/* The sampled token of a list, best first; -1 if it depends on tokens that are not in the list. */
static int choose(const Sampling *sampling, const Ranking *ranked, double total, double random, int is_complete) {
    double *mass = scratch(CUMULATIVE_MASS, sizeof(double) * (size_t)ranked->count); /* of the tokens up to each */
    if (!mass) return -2;
    double mass_before = 0;
    int kept = 0;
    for (; kept < ranked->count; kept++) {
        const double distance = ranked->best[kept].logit - ranked->best[0].logit;
        const double probability = exp(distance / sampling->temperature) / total;
        const RankedToken token = {kept, probability, mass_before};
        int is_kept = 1;
        for (int i = 0; i < NUM_TRUNCATIONS; i++) is_kept &= TRUNCATIONS[i].keeps(sampling, &token);
        if (kept && !is_kept) break;
        mass[kept] = mass_before += probability;
    }
    int is_whole = 1;
    for (int i = 0; i < NUM_TRUNCATIONS; i++) is_whole &= !TRUNCATIONS[i].is_on(sampling);
    if (kept == ranked->count && !is_complete && !is_whole) return -1;
    const double threshold = random * (is_whole && !is_complete ? 1 : mass[kept - 1]);
    for (int i = 0; i < kept; i++)
        if (mass[i] > threshold) return ranked->best[i].token;
    return is_complete || !is_whole ? ranked->best[kept - 1].token : -1;
}

static int compare(const void *a, const void *b) {
    const Candidate *x = a, *y = b;
    if (x->logit != y->logit) return x->logit < y->logit ? 1 : -1;
    return x->token - y->token;
}

/* The token for a random number in [0, 1), by inverse transform sampling: -1 if all logits are -inf, -2 if memory is
   exhausted. */
static int sample(const Sampling *sampling, const Logits *logits, double random) {
    Candidate *candidates = scratch(RANKED_CANDIDATES, sizeof(Candidate) * (size_t)logits->count);
    if (!candidates) return -2;
    Ranking ranked = {.best = candidates, .size = FIRST_RANKED};
    rank_row(&ranked, logits, 0, 0);
    if (!ranked.count) return -1;
    const double total = total_weight(logits, candidates[0].logit, sampling->temperature);
    const int token = choose(sampling, &ranked, total, random, ranked.count < FIRST_RANKED);
    if (token != -1) return token;
    ranked.count = 0;
    for (int i = 0; i < logits->count; i++)
        if (logits->values[i] > -INFINITY)
            candidates[ranked.count++] = (Candidate){.logit = logits->values[i], .token = i};
    qsort(candidates, (size_t)ranked.count, sizeof(Candidate), compare);
    return choose(sampling, &ranked, total, random, 1);
}

/* ---- sampling: every hypothesis is a path of its own, extended by a random token ---- */

/* Draw the next token of a path; after the first token of the decoder, that of all paths, which begin alike. A token of
   -1 is an end that was forced, since no token is allowed. */
int sample_tokens(Search *s, int row, Logits *logits) {
    const Task *task = s->task;
    const int n = s->active_of[row], length = s->active[n].length, sentence = s->active[n].sentence;
    const int is_at_limit = length >= task->max_lengths[sentence], has_min_length = length >= task->min_lengths[sentence];
    const int num_paths = length ? 1 : task->width;
    Candidate *samples = s->candidates + (size_t)n * task->width;
    float *model_logits = restrict_logits(s, row, logits, has_min_length);
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
    const int n = s->active_of[first], end = end_of(task);
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

/* ---- greedy search: the most probable token, which is the same with and without log-probabilities ---- */

int choose_most_probable(Search *s) {
    const Task *task = s->task;
    int32_t *counts = scratch(NUM_BANNED, sizeof(int32_t) * (size_t)s->num_rows);
    if (!counts) return 0;
    for (int r = 0; r < s->num_rows; r++) { /* the end of sentence, which is the last one, is a token like others */
        const int has_min_length = s->active[r].length >= task->min_lengths[s->active[r].sentence];
        counts[r] = task->num_banned - has_min_length;
    }
    const Banned banned = {task->banned, counts};
    return mtkit_most_probable(task->pruned, s->x, s->num_rows, &banned, s->best_tokens, s->best_logits);
}

int advance_greedily(Search *s, Active *a, int row, int to) {
    const Task *task = s->task;
    const int token = (int)s->best_tokens[row], with_log_probs = task->with_log_probs;
    const float logit = s->best_logits[row];
    if (isnan(logit) || logit == INFINITY || (with_log_probs && !isfinite(s->normaliser[row]))) {
        task->counts[a->sentence] = FAILED;
        return 1;
    }
    const int is_at_limit = a->length >= task->max_lengths[a->sentence];
    if (is_at_limit || token == end_of(task) || logit == -INFINITY) { /* -inf: no token is left */
        const float end = with_log_probs ? s->end_logit[row] - s->normaliser[row] : NAN;
        add_result(s, a, &(Ending){row, end, NAN, !is_at_limit && logit > -INFINITY});
        return 1;
    }
    extend(s, a, &(Extension){row, token, with_log_probs ? s->best_log_probs[row] : NAN, NAN}, to);
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
