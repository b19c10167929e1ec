/* Single steps of search for Python: keys and values of sources, and the best next tokens of beams. */

#include "ranking.h"
#include "scratch.h"
#include "transformer.h"

/* Keys and values of encoder states x [rows, D] for each layer of the decoder; `offsets` [sentences] of the memory. */
int mtkit_project_memory(const Stack *stack, const float *x, const int32_t *lengths, const int64_t *offsets,
                         int sentences, const Memory *memories) {
    for (int n = 0; n < sentences; x += (size_t)lengths[n++] * stack->d_model)
        if (!project_memory(stack, x, lengths[n], offsets[n], memories)) return 0;
    return 1;
}

/* Beams of `width` hypotheses whose next tokens are ranked. */
typedef struct {
    const float *log_prob;   /* [rows] */
    const int32_t *excluded; /* tokens that are no candidates, although the normaliser counts them */
    int32_t num_excluded, width, end, count; /* `count` candidates of a beam; `end`: the token of `end_logit` */
    float *value;            /* [beams, count] the logit of each candidate; -inf if there are too few */
    int64_t *row, *token;    /* [beams, count] */
    float *normaliser, *end_logit; /* [rows] */
} Beams;

typedef struct {
    const Beams *beams;
    Ranking ranking; /* of the beam of the last row */
} BeamRanking;

static int rank_beam_row(void *context, int row, Logits *logits) {
    BeamRanking *s = context;
    const Beams *beams = s->beams;
    if (row % beams->width == 0) s->ranking.count = 0;
    beams->normaliser[row] = log_sum_exp(logits);
    beams->end_logit[row] = logits->values[beams->end];
    for (int e = 0; e < beams->num_excluded; e++) logits->values[beams->excluded[e]] = -INFINITY;
    for (int e = 0; e < beams->num_excluded; e++) update_maximum(logits, beams->excluded[e]);
    rank_row(&s->ranking, logits, beams->log_prob[row] - beams->normaliser[row], row);
    if ((row + 1) % beams->width) return 1;
    for (int k = 0; k < beams->count; k++) {
        const size_t at = (size_t)(row / beams->width) * beams->count + k;
        const Candidate none = {.logit = -INFINITY, .row = row + 1 - beams->width};
        const Candidate one = k < s->ranking.count ? s->ranking.best[k] : none;
        beams->value[at] = one.logit, beams->row[at] = one.row, beams->token[at] = one.token;
    }
    return 1;
}

int mtkit_rank(const Linear *w, const float *hidden, int rows, const Beams *beams) {
    BeamRanking state = {beams, {scratch(RANKED_CANDIDATES, sizeof(Candidate) * (size_t)beams->count), beams->count, 0}};
    return state.ranking.best && visit_logits(w, hidden, rows, rank_beam_row, &state);
}
