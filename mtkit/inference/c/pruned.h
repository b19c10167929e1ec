/* The most probable token of each row, found with 8-bit products: see PrunedOutput in mtkit/inference. */

#ifndef PRUNED_H
#define PRUNED_H

#include "products.h"

/* An output projection without a bias.

   Let x = x' + d and w = w' + e, where x' and w' are integers times a scale. An output x w differs from x' w' by
   d w + x' e, hence by at most |d| |w| + |x'| |e|. Only outputs whose integer product is within twice this bound of the
   largest one can be the largest: usually one of 10,000. These are computed in float32. */
typedef struct {
    Linear rounded;          /* 8-bit weights with one scale */
    const float *weight;     /* [V, D] */
    float scale;             /* of the 8-bit weights */
    float max_norm;          /* |w|, maximum over the tokens */
    float max_rounding_norm; /* |e|, maximum over the tokens */
} Pruned;

/* The token with the largest logit of each row of hidden [rows, D], and the logit: NaN where logits are not finite, -inf
   if all tokens are excluded. Returns 0 if memory is exhausted. */
int mtkit_most_probable(const Pruned *pruned, const float *hidden, int rows, const int32_t *excluded, int num_excluded,
                        int64_t *token, float *logit);

#endif
