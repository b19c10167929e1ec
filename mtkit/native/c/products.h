/* Products of activations and packed weights: y = x W^T + b in float32, bfloat16 or 8-bit integers.

   The sum of an output runs over the inputs in order, whatever the number of rows. A row therefore has the same result,
   to the last bit, in any batch. Shapes use the letters of mtkit/layers/__init__.py. */

#ifndef PRODUCTS_H
#define PRODUCTS_H

#include "vectors.h"

#define PANEL (2 * LANES) /* outputs of a projection that are computed together */

enum { FLOAT32, BFLOAT16, INT8, NUM_TYPES };
enum { NO_ACTIVATION, RELU, GELU, GELU_TANH, SILU };

/* A projection. Its weights are in panels of PANEL outputs; a panel is [groups, PANEL] elements of 32 bits.

   The 32-bit sums of 8-bit integers are correct for up to 66,000 inputs: 66,000 * 255 * 127 < 2^31. */
typedef struct {
    const int32_t *panels;
    const float *bias;  /* [outputs] or NULL */
    const float *scale; /* [outputs] of 8-bit weights, which are stored with 128 added */
    int32_t inputs, outputs, type;
} Linear;

/* Rows of activations in the type of a projection. */
typedef struct {
    int32_t *data; /* [rows, groups] elements of 32 bits; NULL: memory is exhausted */
    float *scale;  /* [rows] of 8-bit integers */
    int32_t *sum;  /* [rows] WEIGHT_OFFSET times the sum of the 8-bit integers */
    int groups;
} Operand;

/* Where the result of a product goes. */
typedef struct {
    float *y;
    size_t stride;
    int activation;
    int adds;              /* add to y (a residual connection) instead of writing it */
    int32_t *integer_sums; /* [rows, padded_outputs] 8-bit products without scale and bias, instead of y; or NULL */
} Destination;

/* Memory for `rows` rows of the inputs of a projection, and one more row of floats at `spare`. */
INTERNAL Operand reserve_operand(const Linear *w, int rows, float **spare);

/* Convert the row x [inputs] into row `row` of an operand. */
INTERNAL void convert_row(const Linear *w, const float *x, const Operand *operand, int row);

INTERNAL void multiply(const Linear *w, const Operand *operand, int rows, const Destination *out);

/* The projection to `count` outputs, or those that there are, from `first` on, a multiple of PANEL. */
INTERNAL Linear part_of(const Linear *w, int first, int count);

/* activation(gates) * values of x [rows, 2 width], gates first, into [rows, width] at its beginning. */
INTERNAL void apply_gates(float *x, int rows, int width, int activation);

/* Write a row of weights, in the type of a projection, into its panels. */
INTERNAL void pack_row(const Linear *w, int32_t *panels, int row, const void *weights);

/* Number of elements of 32 bits of packed weights. */
int64_t mtkit_packed_elements(int outputs, int inputs, int type);

INLINE int padded_outputs(const Linear *w) { return (w->outputs + PANEL - 1) / PANEL * PANEL; }

#endif
