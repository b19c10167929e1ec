/* Structures of the layers, and what all sublayers do: norm, projection, residual connection.

   Functions that return an int return 0 if memory is exhausted. */

#ifndef LAYERS_H
#define LAYERS_H

#include "products.h"

INLINE int padded_length(int length) { return (length + LANES - 1) / LANES * LANES; }

enum { CHUNK = 96 }; /* rows that go through all layers together, so that their activations stay in the cache */
enum { BIAS_PADDING = 16 }; /* floats after the biases of a head, as many as a vector may have */
enum { NO_NORM, LAYER_NORM, RMS_NORM };

typedef struct {
    const float *weight, *bias; /* [D], or NULL */
    float epsilon;
    int32_t kind;
} Norm;

/* A layer of encoder or decoder; an encoder layer has no parts for the source. A gated feed-forward layer has twice as
   many outputs in `inner`, gates first, as inputs in `outer`. */
typedef struct {
    Linear query_key_value, out, source_query, source_key_value, source_out, inner, outer;
    Norm norm, source_norm, feed_forward_norm;
    int32_t heads, source_heads, activation, is_pre_norm;
} Layer;

typedef struct {
    const Layer *layers;
    Norm embedding_norm, final_norm;
    const float *bias;         /* [H, 2 bias_length - 1 + BIAS_PADDING] of self-attention, by key minus query; or NULL */
    float scale, source_scale; /* of products of queries and keys */
    int32_t num_layers, d_model, head_dim, rotate_halves, alignment_layer, bias_length;
    int32_t alignment_head; /* of that layer; -1: the mean of all */
} Stack;

INTERNAL void normalise_rows(const Norm *norm, float *x, int rows, int width);

/* Rows of x [rows, inputs], normalised if `norm` is not NULL, in the type of a projection. */
INTERNAL Operand operand_of(const Norm *norm, const float *x, int rows, const Linear *w);

/* y = activation(norm(x) W^T + b) of rows [rows, inputs]; the norm may be NULL. */
INTERNAL int project(const Norm *norm, const float *x, int rows, const Linear *w, float *y, int activation);

/* The end of a sublayer: x + out(y), then the norm of a post-norm layer. */
INTERNAL int add_residual(const Layer *layer, const Norm *norm, const Linear *out, const float *y, float *x, int rows);

INTERNAL int feed_forward(const Layer *layer, float *x, int rows);

#endif
