/* Attention: softmax(q K^T) V of one head, over the source or over the preceding tokens of a hypothesis. */

#ifndef ATTENTION_H
#define ATTENTION_H

#include "vectors.h"

INLINE int padded_length(int length) { return (length + LANES - 1) / LANES * LANES; }

/* Keys and values of the tokens of a hypothesis, [slots, heads * width] each. */
typedef struct {
    const float *keys, *values;
    const int32_t *slots; /* [length], or NULL for 0, 1, 2 ... */
    int length, heads, width;
} TokenMemory;

/* Attention of one query to a source: keys [K, padded length] and values [length, K] of one head, weights [padded
   length]. A query that sees nothing yields zeros. */
INTERNAL void attend_to_source(const float *q, const float *keys, const float *values, int length, int width,
                               float *weights, float *y);

/* Attention of all heads q [heads, K] to the tokens of a hypothesis; weights [heads, padded length]. */
INTERNAL void attend_to_tokens(const float *q, const TokenMemory *tokens, float *weights, float *y);

/* Rows of projected keys and values, as a matrix product leaves them. */
typedef struct {
    const float *keys, *values; /* row s at s * stride */
    size_t stride;
    int length, heads, width;
} KeyValueRows;

/* Copy keys and values of a sentence into the order of `attend_to_source`: keys [H, K, padded length] and values
   [H, padded length, K], so that the keys of LANES tokens are neighbours. */
INTERNAL void arrange_source(const KeyValueRows *rows, float *keys, float *values);

/* Rotate the pairs of x [heads, width] by (cos, sin) [width / 2, 2]; see RoPE. */
INTERNAL void rotate(float *x, int heads, int width, const float *rotation, int rotate_halves);

#endif
