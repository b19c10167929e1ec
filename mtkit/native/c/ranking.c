#include "ranking.h"

#include "layers.h"
#include "scratch.h"

/* Rows whose logits exist at once: all of them share the weights, which are read from memory once. Many rows save such
   reading, and their logits need memory themselves. */
enum { FEW_ROWS_AT_ONCE = 12, MANY_ROWS_AT_ONCE = 48, CACHE_BYTES = 8 << 20 };

static int rows_at_once(const Linear *w) {
    const size_t bytes = sizeof(int32_t) * (size_t)mtkit_packed_elements(w->outputs, w->inputs, w->type);
    return bytes < CACHE_BYTES ? FEW_ROWS_AT_ONCE : MANY_ROWS_AT_ONCE;
}

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
    const int together = rows < rows_at_once(output) ? rows : rows_at_once(output);
    float *values = scratch_floats(LOGITS, (size_t)together * count);
    float *maxima = scratch_floats(BLOCK_MAXIMA, count / BLOCK);
    if (!values || !maxima) return 0;
    for (int first = 0; first < rows; first += together) {
        const int n = rows - first < together ? rows - first : together;
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

int mtkit_pack_pruned(const Pruned *pruned, int first, int count, int32_t *panels, float *norms) {
    const int inputs = pruned->rounded.inputs;
    uint8_t *row = scratch(OPERAND_ROWS, (size_t)inputs + LANES);
    if (!row) return 0;
    double largest = 0, largest_rounding = 0;
    for (int o = first; o < first + count; o++) {
        const float *x = pruned->weight + (size_t)o * inputs;
        double norm = 0, rounding = 0;
        for (int i = 0; i < inputs; i++) {
            const float nearest = fminf(fmaxf(rintf(x[i] / pruned->scale), -127), 127);
            const float error = x[i] - nearest * pruned->scale;
            row[i] = (uint8_t)((int32_t)nearest + 128);
            norm += x[i] * x[i], rounding += error * error;
        }
        largest = norm > largest ? norm : largest;
        largest_rounding = rounding > largest_rounding ? rounding : largest_rounding;
        pack_row(&pruned->rounded, panels, o, row);
    }
    norms[0] = (float)sqrt(largest), norms[1] = (float)sqrt(largest_rounding);
    return 1;
}

/* Outputs whose products exist at once: all rows share the weights, which are read from memory once, and the products
   stay in the cache. */
enum { COLUMNS = 16 * PANEL };

/* What is known of a row: its token with the largest logit among the columns so far. */
typedef struct {
    const float *x;
    float unit, bound; /* of the integer products, and of the error of a logit that is computed from them */
    float best;        /* logit; NaN if the row or a weight is not finite */
    int64_t token;
} RowMaximum;

static RowMaximum begin_row(const Pruned *pruned, const Operand *operand, const float *x, int row) {
    const int8_t *rounded = (const int8_t *)(operand->data + (size_t)row * operand->groups);
    const float scale = operand->scale[row];
    double error = 0, norm = 0;
    for (int i = 0; i < pruned->rounded.inputs; i++) {
        const double nearest = (double)scale * rounded[i];
        error += (x[i] - nearest) * (x[i] - nearest);
        norm += nearest * nearest;
    }
    norm = sqrt(norm);
    /* the last part is for the rounding of logits to float, the factor for that of the bound */
    const double largest = norm * (pruned->max_norm + pruned->max_rounding_norm) + pruned->max_bias;
    const double bound = sqrt(error) * pruned->max_norm + norm * pruned->max_rounding_norm + 1e-6 * largest;
    RowMaximum row_maximum = {x, scale * pruned->scale, (float)(1.001 * bound), -INFINITY, 0};
    if (!(row_maximum.bound < INFINITY)) row_maximum.best = NAN;
    return row_maximum;
}

/* Approximate logits of the columns from `first` on, in place of their integer products, and the largest one. */
static float approximate(const RowMaximum *row, const Linear *part, const float *bias, int32_t sum, int32_t *products) {
    float *logits = (float *)products;
    Floats largest = splat(-INFINITY);
    for (int c = 0; c < padded_outputs(part); c += LANES) {
        Floats value = to_floats(load_ints(products + c) - sum) * row->unit;
        if (bias) {
            float last[LANES] = {0};
            const int remaining = part->outputs - c, is_whole = remaining >= LANES;
            if (!is_whole) memcpy(last, bias + c, sizeof(float) * (size_t)(remaining > 0 ? remaining : 0));
            value += load(is_whole ? bias + c : last);
        }
        store(logits + c, value);
        largest = larger(value, largest);
    }
    return largest_of(largest);
}

/* Compare the columns from `first` on, of which `logits` are nearly the logits, with the best token so far. */
static void update_row(RowMaximum *row, const Pruned *pruned, int first, int count, const float *logits) {
    for (int c = 0; c < count; c++) {
        if (!(logits[c] > row->best - row->bound)) continue;
        const int token = first + c;
        const float product = dot(row->x, pruned->weight + (size_t)token * pruned->rounded.inputs, pruned->rounded.inputs);
        const float exact = product + (pruned->bias ? pruned->bias[token] : 0);
        if (exact > row->best) row->best = exact, row->token = token;
    }
}

int mtkit_most_probable(const Pruned *pruned, const float *hidden, int rows, const Banned *banned, int64_t *token,
                        float *logit) {
    const Linear *w = &pruned->rounded;
    for (int from = 0; from < rows; from += CHUNK) {
        const int n = rows - from < CHUNK ? rows - from : CHUNK;
        int32_t *all_products = scratch(INTEGER_LOGITS, sizeof(int32_t) * (size_t)n * COLUMNS);
        const Operand operand = operand_of(NULL, hidden + (size_t)from * w->inputs, n, w);
        if (!all_products || !operand.data) return 0;
        RowMaximum maxima[CHUNK];
        for (int r = 0; r < n; r++) maxima[r] = begin_row(pruned, &operand, hidden + (size_t)(from + r) * w->inputs, r);
        for (int first = 0; first < w->outputs; first += COLUMNS) {
            const Linear part = part_of(w, first, COLUMNS);
            multiply(&part, &operand, n, &(Destination){.integer_sums = all_products});
            for (int r = 0; r < n; r++) {
                RowMaximum *row = maxima + r;
                int32_t *products = all_products + (size_t)r * padded_outputs(&part);
                const float *bias = pruned->bias ? pruned->bias + first : NULL;
                if (!(approximate(row, &part, bias, operand.sum[r], products) > row->best - row->bound)) continue;
                float *logits = (float *)products;
                for (int e = 0; e < banned->counts[from + r]; e++) {
                    const int column = banned->tokens[e] - first;
                    if (column >= 0 && column < part.outputs) logits[column] = -INFINITY;
                }
                update_row(row, pruned, first, part.outputs, logits);
            }
        }
        for (int r = 0; r < n; r++) token[from + r] = maxima[r].token, logit[from + r] = maxima[r].best;
    }
    return 1;
}
