/* The best next tokens: from logits that never leave the cache of the processor, or, if only the most probable one is
   needed, from 8-bit products (see PrunedOutput in mtkit/inference). */

#ifndef RANKING_H
#define RANKING_H

#include "products.h"

enum { BLOCK = 8 * LANES }; /* logits whose maximum is compared first */

/* A row of logits. The last ones, beyond the outputs of the projection, are -inf. */
typedef struct {
    float *values; /* [count] */
    float *maxima; /* [count / BLOCK] maximum of each block */
    int count;     /* a multiple of BLOCK */
} Logits;

/* Call `visit(context, row, logits)` for every row of hidden [rows, D]; it may change the logits. Returns 0 if memory is
   exhausted, which `visit` reports in the same way. */
typedef int (*LogitsVisitor)(void *context, int row, Logits *logits);
INTERNAL int visit_logits(const Linear *output, const float *hidden, int rows, LogitsVisitor visit, void *context);

/* Maximum of the block of a token, or of all blocks, after logits were changed. */
INTERNAL void update_maximum(Logits *logits, int token);
INTERNAL void update_all_maxima(Logits *logits);

/* log sum exp of the logits; NaN if one is NaN. */
INTERNAL float log_sum_exp(const Logits *logits);

typedef struct {
    float total;          /* by which candidates are ranked: logit plus offset, or log-probability */
    float logit;          /* after constraints */
    float model_log_prob; /* set by beam search */
    int32_t row, token;
} Candidate;

/* The best candidates, best first; one that is equal to another comes after it. */
typedef struct {
    Candidate *best; /* [size] */
    int size, count;
} Ranking;

/* Rank the logits of a row that are not -inf, each plus `offset`. */
INTERNAL void rank_row(Ranking *ranking, const Logits *logits, float offset, int row);

/* An output projection that finds its largest output.

   Let x = x' + d and w = w' + e, where x' and w' are integers times a scale. An output x w differs from x' w' by
   d w + x' e, hence by at most |d| |w| + |x'| |e|. Only an output whose product x' w' is within this bound of the largest
   output so far can be larger: usually one of 10,000. These are computed in float32. */
typedef struct {
    Linear rounded;          /* 8-bit weights with one scale */
    const float *weight;     /* [V, D] */
    const float *bias;       /* [V], or NULL; it is added in float32 */
    float scale;             /* of the 8-bit weights */
    float max_norm;          /* |w|, maximum over the tokens */
    float max_rounding_norm; /* |e|, maximum over the tokens */
    float max_bias;          /* magnitude, maximum over the tokens */
} Pruned;

/* Pack the rows of finite weights from `first` on, rounded to multiples of the scale; norms [2]: the maxima of |w| and |e|
   over these rows. Returns 0 if memory is exhausted. */
int mtkit_pack_pruned(const Pruned *pruned, int first, int count, int32_t *panels, float *norms);

/* Tokens that rows do not have: the first `counts[r]` ones. */
typedef struct {
    const int32_t *tokens, *counts; /* counts: [rows] */
} Banned;

/* The token with the largest logit of each row of hidden [rows, D], and the logit: NaN where logits are not finite, -inf
   if all tokens are excluded. Returns 0 if memory is exhausted. */
int mtkit_most_probable(const Pruned *pruned, const float *hidden, int rows, const Banned *banned, int64_t *token,
                        float *logit);

#endif
