#include "ranking.h"

#include "layers.h"
#include "scratch.h"

enum {
    ROWS_AT_ONCE = 12, /* whose logits or products exist at once */
    MAX_BIAS = 1 << 30 /* of a bias in the unit of integer products, to which products of 2^26 are added */
};

INLINE float block_maximum(const float *logits) {
    Floats maxima[4];
    for (int j = 0; j < 4; j++) maxima[j] = larger(load(logits + (j + 4) * LANES), load(logits + j * LANES));
    return largest_of(larger(larger(maxima[0], maxima[1]), larger(maxima[2], maxima[3])));
}

void update_maximum(Logits *logits, int token) {
    logits->maxima[token / BLOCK] = block_maximum(logits->values + token / BLOCK * BLOCK);
}

void update_all_maxima(Logits *logits) {
    for (int b = 0; b < logits->count / BLOCK; b++) logits->maxima[b] = block_maximum(logits->values + b * BLOCK);
}

int visit_logits(const Linear *output, const float *hidden, int rows, LogitsVisitor visit, void *context) {
    const int count = (output->outputs + BLOCK - 1) / BLOCK * BLOCK;
    float *values = scratch_floats(LOGITS, (size_t)ROWS_AT_ONCE * count);
    float *maxima = scratch_floats(BLOCK_MAXIMA, count / BLOCK);
    if (!values || !maxima) return 0;
    for (int first = 0; first < rows; first += ROWS_AT_ONCE) {
        const int n = rows - first < ROWS_AT_ONCE ? rows - first : ROWS_AT_ONCE;
        const Operand operand = operand_of(NULL, hidden + (size_t)first * output->inputs, n, output);
        if (!operand.data) return 0;
        multiply(output, &operand, n, &(Destination){.y = values, .stride = (size_t)count});
        for (int r = 0; r < n; r++) {
            Logits logits = {values + (size_t)r * count, maxima, count};
            for (int c = output->outputs; c < count; c++) logits.values[c] = -INFINITY;
            update_all_maxima(&logits);
            if (!visit(context, first + r, &logits)) return 0;
        }
    }
    return 1;
}

float log_sum_exp(const Logits *logits) {
    Floats total[4] = {splat(0), splat(0), splat(0), splat(0)};
    float largest = -INFINITY;
    for (int b = 0; b < logits->count / BLOCK; b++) largest = logits->maxima[b] > largest ? logits->maxima[b] : largest;
    for (int i = 0; i < logits->count; i += 4 * LANES)
        for (int j = 0; j < 4; j++)
            total[j] += exponential_of_negative(load(logits->values + i + j * LANES) - largest);
    return largest + logf(sum_of((total[0] + total[1]) + (total[2] + total[3])));
}

INLINE void insert(Ranking *ranking, Candidate candidate) {
    if (ranking->count == ranking->size) ranking->count--;
    int i = ranking->count++;
    for (; i > 0 && candidate.total > ranking->best[i - 1].total; i--) ranking->best[i] = ranking->best[i - 1];
    ranking->best[i] = candidate;
}

/* Whether a total is better than the worst one of a full list. */
INLINE int is_ranked(const Ranking *ranking, float total) {
    return ranking->count < ranking->size || total > ranking->best[ranking->size - 1].total;
}

void rank_row(Ranking *ranking, const Logits *logits, float offset, int row) {
    for (int b = 0; b < logits->count / BLOCK; b++) {
        if (!is_ranked(ranking, logits->maxima[b] + offset)) continue;
        for (int i = b * BLOCK; i < (b + 1) * BLOCK; i++) {
            const float logit = logits->values[i];
            if (logit > -INFINITY && is_ranked(ranking, logit + offset))
                insert(ranking, (Candidate){logit + offset, logit, 0, row, i});
        }
    }
}

/* ---- the most probable token, found with 8-bit products ---- */

/* Bound of the error of a row's integer products, in their unit; NaN or infinity if the row or a weight has one. */
static float error_bound(const Pruned *pruned, const float *x, const int8_t *rounded, float row_scale) {
    double error = 0, norm = 0;
    for (int i = 0; i < pruned->rounded.inputs; i++) {
        const double nearest = (double)row_scale * rounded[i];
        error += (x[i] - nearest) * (x[i] - nearest);
        norm += nearest * nearest;
    }
    const double bound = sqrt(error) * pruned->max_norm + sqrt(norm) * pruned->max_rounding_norm;
    return (float)(bound / ((double)row_scale * pruned->scale));
}

/* The products of a row from which on a token may have the largest logit. */
static int32_t lowest_candidate(const int32_t *products, int count, float bound) {
    int32_t largest = INT32_MIN;
    for (int c = 0; c < count; c++) largest = products[c] > largest ? products[c] : largest;
    /* twice the bound: the largest product and that of the best token may both be off by it; the rest is for the
       rounding of the bound itself */
    const double threshold = (double)largest - 2.001 * bound - 1;
    return threshold > INT32_MIN + 1 ? (int32_t)floor(threshold) : INT32_MIN + 1;
}

/* Add the bias to the integer products of a row, in their unit and rounded. Returns 0 if that is too large for it, so that
   every token may have the largest logit. */
static int add_bias(const Pruned *pruned, float unit, int32_t *products) {
    const int count = pruned->rounded.outputs;
    float largest = 0;
    for (int c = 0; c < count; c++) largest = fabsf(pruned->bias[c]) > largest ? fabsf(pruned->bias[c]) : largest;
    if (!(largest / unit < MAX_BIAS)) return 0;
    const double factor = 1 / (double)unit;
    for (int c = 0; c < count; c++) products[c] += (int32_t)nearbyint(pruned->bias[c] * factor);
    return 1;
}

int mtkit_most_probable(const Pruned *pruned, const float *hidden, int rows, const int32_t *excluded, int num_excluded,
                        int64_t *token, float *logit) {
    const Linear *w = &pruned->rounded;
    const int padded = padded_outputs(w);
    int32_t *all_products = scratch(INTEGER_LOGITS, sizeof(int32_t) * (size_t)ROWS_AT_ONCE * padded);
    if (!all_products) return 0;
    for (int first = 0; first < rows; first += ROWS_AT_ONCE) {
        const int n = rows - first < ROWS_AT_ONCE ? rows - first : ROWS_AT_ONCE;
        const Operand operand = operand_of(NULL, hidden + (size_t)first * w->inputs, n, w);
        if (!operand.data) return 0;
        multiply(w, &operand, n, &(Destination){.integer_sums = all_products});
        for (int r = 0; r < n; r++) {
            const float *x = hidden + (size_t)(first + r) * w->inputs;
            const int8_t *rounded = (const int8_t *)(operand.data + (size_t)r * operand.groups);
            const float bound = error_bound(pruned, x, rounded, operand.scale[r]);
            token[first + r] = 0, logit[first + r] = bound < INFINITY ? -INFINITY : NAN;
            if (!(bound < INFINITY)) continue;
            /* all products of a row contain the same summand, since the weights have 128 added */
            int32_t *products = all_products + (size_t)r * padded;
            const int is_bounded = !pruned->bias || add_bias(pruned, operand.scale[r] * pruned->scale, products);
            for (int c = w->outputs; c < padded; c++) products[c] = INT32_MIN;
            for (int e = 0; e < num_excluded; e++) products[excluded[e]] = INT32_MIN;
            const float rounding = pruned->bias ? 1 : 0; /* of the bias */
            const int32_t lowest = is_bounded ? lowest_candidate(products, padded, bound + rounding) : INT32_MIN + 1;
            for (int c = 0; c < padded; c += LANES) {
                int32_t any = 0;
                for (int i = 0; i < LANES; i++) any |= products[c + i] >= lowest;
                for (int i = c; any && i < c + LANES; i++) {
                    if (products[i] < lowest) continue;
                    const float product = dot(x, pruned->weight + (size_t)i * w->inputs, w->inputs);
                    const float exact = product + (pruned->bias ? pruned->bias[i] : 0);
                    if (exact > logit[first + r]) logit[first + r] = exact, token[first + r] = i;
                }
            }
        }
    }
    return 1;
}
