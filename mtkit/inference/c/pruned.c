#include "pruned.h"

#include "layers.h"
#include "scratch.h"

enum { ROWS_AT_ONCE = 12 }; /* whose products exist at once */

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
            for (int c = w->outputs; c < padded; c++) products[c] = INT32_MIN;
            for (int e = 0; e < num_excluded; e++) products[excluded[e]] = INT32_MIN;
            const int32_t lowest = lowest_candidate(products, padded, bound);
            for (int c = 0; c < padded; c += LANES) {
                int32_t any = 0;
                for (int i = 0; i < LANES; i++) any |= products[c + i] >= lowest;
                for (int i = c; any && i < c + LANES; i++) {
                    if (products[i] < lowest) continue;
                    const float exact = dot(x, pruned->weight + (size_t)i * w->inputs, w->inputs);
                    if (exact > logit[first + r]) logit[first + r] = exact, token[first + r] = i;
                }
            }
        }
    }
    return 1;
}
