#include "sampling.h"

#include "scratch.h"

enum { FIRST_RANKED = 64 }; /* tokens that are ranked first: they hold nearly all of the mass of a trained model */

/* splitmix64's finaliser. */
static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

double uniform(const Sampling *sampling, int sentence, int path, int step) {
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

/* The sampled token of a list, best first; -1 if it depends on tokens that are not in the list. */
static int choose(const Sampling *sampling, const Ranking *ranked, double total, double random, int is_complete) {
    double *mass = scratch(CUMULATIVE_MASS, sizeof(double) * (size_t)ranked->count); /* of the tokens up to each */
    if (!mass) return -2;
    double mass_before = 0;
    int kept = 0;
    for (; kept < ranked->count; kept++) {
        const double distance = ranked->best[kept].logit - ranked->best[0].logit;
        const double probability = exp(distance / sampling->temperature) / total;
        const int is_within = mass_before < sampling->top_p && probability >= sampling->epsilon &&
                              (!sampling->top_k || kept < sampling->top_k);
        if (kept && !is_within) break;
        mass[kept] = mass_before += probability;
    }
    const int is_whole = !sampling->top_k && sampling->top_p >= 1 && sampling->epsilon <= 0;
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

int sample(const Sampling *sampling, const Logits *logits, double random) {
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
