/* The output projection: the best next tokens of beams, and the most probable token of each row. */

enum { RANKED_ROWS = 12 }; /* whose logits exist at once */

/* The best tokens of beams by logit minus normaliser plus log-probability.

   Args:
     hidden: [rows, D], the hypotheses of one beam after another.
     beams: [rows] beam of each hypothesis.
     log_prob: [rows].
     excluded: tokens that are no candidates, although the normaliser counts them.
     end: token whose logit is returned for every row.
     count: maximum number of candidates of a beam.
     best, found: [beams, count] candidates, best first, and [beams] their number, which is 0 before the call.
     normaliser, end_logit: [rows]. */
static int rank(const Linear *w, const float *hidden, int rows, const int32_t *beams, const float *log_prob,
                const int32_t *excluded, int num_excluded, int end, int count, Candidate *best, int32_t *found,
                float *normaliser, float *end_logit) {
    const int stride = (w->outputs + BLOCK - 1) / BLOCK * BLOCK;
    float *logits = floats(LOGITS, (size_t)RANKED_ROWS * stride), *maxima = floats(WEIGHTS, stride / BLOCK);
    if (!logits || !maxima) return 0;
    for (int first = 0; first < rows; first += RANKED_ROWS) {
        const int n = rows - first < RANKED_ROWS ? rows - first : RANKED_ROWS;
        const Operand a = operand_of(NULL, hidden + (size_t)first * w->inputs, n, w);
        if (!a.data) return 0;
        multiply(w, &a, n, &(Target){logits, stride, NO_ACTIVATION, 0});
        for (int r = first; r < first + n; r++) {
            float *own = logits + (size_t)(r - first) * stride;
            for (int c = w->outputs; c < stride; c++) own[c] = -INFINITY;
            for (int m = 0; m < stride / BLOCK; m++) maxima[m] = block_maximum(own + m * BLOCK);
            normaliser[r] = log_sum_exp(own, stride, maxima);
            end_logit[r] = own[end];
            for (int e = 0; e < num_excluded; e++) own[excluded[e]] = -INFINITY;
            for (int e = 0; e < num_excluded; e++)
                maxima[excluded[e] / BLOCK] = block_maximum(own + excluded[e] / BLOCK * BLOCK);
            const int beam = beams[r];
            found[beam] = rank_row(own, stride, maxima, log_prob[r] - normaliser[r], r, best + (size_t)beam * count,
                                   found[beam], count);
        }
    }
    return 1;
}

/* `rank` of beams of `width` hypotheses; value, row, column: [beams, count] the logit of each candidate, its row, its
   token; -inf if there are too few. */
int mtkit_rank(const Linear *w, const float *hidden, int rows, int width, const float *log_prob,
               const int32_t *excluded, int num_excluded, int end, int count, float *value, int64_t *row,
               int64_t *column, float *normaliser, float *end_logit) {
    const int beams = rows / width;
    const size_t candidates = sizeof(Candidate) * (size_t)beams * count;
    Candidate *best = reserve(CANDIDATES, candidates + sizeof(int32_t) * ((size_t)beams + rows));
    if (!best) return 0;
    int32_t *found = (int32_t *)((char *)best + candidates), *beam_of_row = found + beams;
    for (int b = 0; b < beams; b++) found[b] = 0;
    for (int r = 0; r < rows; r++) beam_of_row[r] = r / width;
    if (!rank(w, hidden, rows, beam_of_row, log_prob, excluded, num_excluded, end, count, best, found, normaliser,
              end_logit))
        return 0;
    for (int b = 0; b < beams; b++)
        for (int k = 0; k < count; k++) {
            const size_t at = (size_t)b * count + k;
            const Candidate none = {-INFINITY, -INFINITY, b * width, 0}, one = k < found[b] ? best[at] : none;
            value[at] = one.value, row[at] = one.row, column[at] = one.column;
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

/* The token with the largest logit of each row of hidden [rows, D], and the logit: NaN where logits are not finite, -inf
   if all tokens are excluded.

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
            column[first + r] = 0, value[first + r] = bound < INFINITY ? -INFINITY : NAN;
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
