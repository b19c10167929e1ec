#include "ranking.h"

#include "layers.h"
#include "scratch.h"

enum { ROWS_AT_ONCE = 12 }; /* whose logits exist at once */

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
