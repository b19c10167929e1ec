/* The output projection: the best next tokens of beams, and the most probable token of each row. */

enum { RANKED_ROWS = 12 }; /* whose logits exist at once */

/* The `count` best tokens of beams of `width` hypotheses, best first, by logit minus normaliser plus log-probability.

   Args:
     hidden: [beams * width, D].
     log_prob: [beams * width] of the hypotheses.
     excluded: tokens that are no candidates, although the normaliser counts them.
     end: token whose logit is returned for every row.
     value, row, column: [beams, count], the logit of each candidate, its row, its token; -inf if there are too few.
     normaliser, end_logit: [beams * width]. */
int mtkit_rank(const Linear *w, const float *hidden, int beams, int width, const float *log_prob,
               const int32_t *excluded, int num_excluded, int end, int count, float *value, int64_t *row,
               int64_t *column, float *normaliser, float *end_logit) {
    const int stride = (w->outputs + BLOCK - 1) / BLOCK * BLOCK;
    const int together = width < RANKED_ROWS ? RANKED_ROWS / width : 1; /* beams */
    float *logits = floats(LOGITS, (size_t)together * width * stride);
    Candidate *best = reserve(CANDIDATES, sizeof(Candidate) * count);
    float *maxima = floats(WEIGHTS, stride / BLOCK);
    if (!logits || !best || !maxima) return 0;
    for (int beam = 0; beam < beams; beam += together) {
        const int n = beams - beam < together ? beams - beam : together, first = beam * width;
        const Operand a = operand_of(NULL, hidden + (size_t)first * w->inputs, n * width, w);
        if (!a.data) return 0;
        multiply(w, &a, n * width, &(Target){logits, stride, NO_ACTIVATION, 0});
        for (int b = 0; b < n; b++) {
            int found = 0;
            for (int i = b * width; i < (b + 1) * width; i++) {
                float *own = logits + (size_t)i * stride;
                for (int c = w->outputs; c < stride; c++) own[c] = -INFINITY;
                for (int m = 0; m < stride / BLOCK; m++) maxima[m] = block_maximum(own + m * BLOCK);
                const float total = normaliser[first + i] = log_sum_exp(own, stride, maxima);
                end_logit[first + i] = own[end];
                for (int e = 0; e < num_excluded; e++) own[excluded[e]] = -INFINITY;
                for (int e = 0; e < num_excluded; e++)
                    maxima[excluded[e] / BLOCK] = block_maximum(own + excluded[e] / BLOCK * BLOCK);
                found = rank_row(own, stride, maxima, log_prob[first + i] - total, first + i, best, found, count);
            }
            for (int k = found; k < count; k++) best[k] = (Candidate){-INFINITY, -INFINITY, first + b * width, 0};
            for (int k = 0; k < count; k++) {
                const size_t at = (size_t)(beam + b) * count + k;
                value[at] = best[k].value, row[at] = best[k].row, column[at] = best[k].column;
            }
        }
    }
    return 1;
}

/* Weights of an output projection for `mtkit_most_probable`; see PrunedArgmax in native/output.py. */
typedef struct {
    Linear rounded;             /* 8-bit weights with one scale */
    const float *weight;        /* [V, D] */
    float scale;                /* of the 8-bit weights */
    float max_norm;             /* of the weights of a token, maximum over the tokens */
    float max_rounding_norm;    /* of their rounding errors */
} Pruned;

/* Bound of the error of a row's integer products, in their unit; NaN or infinity if the row or a weight has one. */
static float error_bound(const Pruned *p, const float *x, const int8_t *rounded, float row_scale) {
    double error = 0, norm = 0;
    for (int i = 0; i < p->rounded.inputs; i++) {
        const double nearest = (double)row_scale * rounded[i];
        error += (x[i] - nearest) * (x[i] - nearest);
        norm += nearest * nearest;
    }
    return (float)((sqrt(error) * p->max_norm + sqrt(norm) * p->max_rounding_norm) / ((double)row_scale * p->scale));
}

/* The token with the largest logit of each row of hidden [rows, D], and the logit; -inf where they are not finite.

   Only tokens that the 8-bit products cannot exclude are computed in float32; `raw` are those products of a row. */
int mtkit_most_probable(const Pruned *p, const float *hidden, int rows, const int32_t *excluded, int num_excluded,
                        int64_t *column, float *value) {
    const Linear *w = &p->rounded;
    const int padded = panels_of(w->outputs) * PANEL;
    int32_t *products = reserve(LOGITS, 4 * (size_t)RANKED_ROWS * padded);
    if (!products) return 0;
    for (int first = 0; first < rows; first += RANKED_ROWS) {
        const int n = rows - first < RANKED_ROWS ? rows - first : RANKED_ROWS;
        const Operand a = operand_of(NULL, hidden + (size_t)first * w->inputs, n, w);
        if (!a.data) return 0;
        multiply_int8(w, &a, n, &(Target){0}, products);
        for (int r = 0; r < n; r++) {
            const float *x = hidden + (size_t)(first + r) * w->inputs;
            int32_t *raw = products + (size_t)r * padded;
            const float bound = error_bound(p, x, (const int8_t *)(a.data + (size_t)r * a.groups), a.scale[r]);
            column[first + r] = 0, value[first + r] = -INFINITY;
            if (!(bound < INFINITY)) continue;
            /* all products of a row contain the same summand, since the weights have 128 added */
            for (int c = w->outputs; c < padded; c++) raw[c] = INT32_MIN;
            for (int e = 0; e < num_excluded; e++) raw[excluded[e]] = INT32_MIN;
            int32_t most = INT32_MIN;
            for (int c = 0; c < padded; c++) most = raw[c] > most ? raw[c] : most;
            /* twice the bound: the largest product and that of the best token may both be off by it; the rest is for
               the rounding of the bound itself */
            const double threshold = (double)most - 2.001 * bound - 1;
            const int32_t lowest = threshold > INT32_MIN + 1 ? (int32_t)floor(threshold) : INT32_MIN + 1;
            for (int c = 0; c < padded; c += LANES) {
                int32_t any = 0;
                for (int i = 0; i < LANES; i++) any |= raw[c + i] >= lowest;
                for (int i = c; any && i < c + LANES; i++) {
                    if (raw[i] < lowest) continue;
                    const float logit = dot(x, p->weight + (size_t)i * w->inputs, w->inputs);
                    if (logit > value[first + r]) value[first + r] = logit, column[first + r] = i;
                }
            }
        }
    }
    return 1;
}
