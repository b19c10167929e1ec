/* Work of training on a CPU: products of matrices of any layout, and what lies between them.

   torch calls these functions through mtkit/layers/native_kernels.py; gradients are there. Sums run in one order, whatever
   the number of threads, so that the bits of a result do not depend on it. */

#ifndef TRAINING_H
#define TRAINING_H

#include "products.h"

/* Groups of a panel (products.h) that tiles multiply before the next ones: half of the first cache of a core. A result in
   bfloat16 has no more, since its sums are not in memory in between. */
enum { BLOCK_GROUPS = 512 };

/* A matrix, of which one of the strides, in elements, is 1. */
typedef struct {
    const void *data;
    int64_t row_stride, column_stride;
    int32_t is_bfloat16, rows, columns;
} Matrix;

/* C = activation(A B + bias), or C += A B, with sums in float32. The numbers of A and B are rounded to `type`. */
typedef struct {
    Matrix a, b;
    const float *bias; /* [columns of B] or NULL */
    void *c;           /* rows of `c_stride` elements */
    int64_t c_stride;
    int32_t c_is_bfloat16, type, activation, adds;
} MatrixProduct;

/* Call a function on several threads at once: GOMP_parallel of the library of threads that torch uses, whose threads wait
   for work beside ours otherwise; NULL: there is none, and everything runs on the calling thread. */
typedef struct {
    void *parallel;
    int32_t threads;
} Threads;

/* Call task(context, i) for all i below `tasks`, in any order, on several threads. */
INTERNAL void run_tasks(const Threads *threads, int tasks, void (*task)(const void *, int), const void *context);

/* Probabilities of logits plus a bias, in place, and what the loss needs of each row. */
typedef struct {
    void *logits;          /* [rows, columns] */
    const float *bias;     /* [columns] or NULL */
    const int64_t *target; /* [rows] a column */
    float *maximum, *target_logit, *norm; /* [rows] the largest logit, that of the target, sum of e^(logit - maximum) */
    int32_t *failed; /* set to 1 if memory is exhausted */
    int32_t rows, columns, is_bfloat16;
} SoftmaxRows;

/* Numbers [sentences, heads, tokens, width], whose last dimension is adjacent; strides in elements. */
typedef struct {
    void *data;
    int64_t sentence_stride, head_stride, token_stride;
} Heads;

/* softmax(scale Q K^T) V of each head, with a mask and dropout of the weights, or its gradients. */
typedef struct {
    Heads q, k, v, out;
    Heads grad_out, grad_q, grad_k, grad_v; /* data of grad_out is NULL: no gradients are computed */
    void *weights;            /* [sentences, heads, queries, keys] before dropout, written or read */
    const void *grad_weights; /* the same, or NULL */
    const uint8_t *visible;   /* of a sentence, a query and each key: 0 hides the key; NULL: all are visible */
    const uint8_t *keep;      /* [sentences, heads, queries, keys] 0: the weight is dropped; NULL: no dropout */
    int32_t *failed; /* set to 1 if memory is exhausted */
    int64_t visible_sentence, visible_query; /* strides */
    int32_t sentences, heads, queries, keys, width, is_bfloat16; /* the width is a multiple of LANES */
    float scale, keep_scale;
} TrainedAttention;

/* 0, or 1 if memory is exhausted. */
int mtkit_multiply(const MatrixProduct *product, const Threads *threads);
int mtkit_softmax_rows(const SoftmaxRows *rows, const Threads *threads);
int mtkit_attend(const TrainedAttention *attention, const Threads *threads);

/* Number of floats of a vector. */
int mtkit_lanes(void);

/* A bfloat16 is the upper half of a float. */
typedef uint16_t __attribute__((may_alias)) Half;
typedef uint16_t Halves __attribute__((vector_size(sizeof(uint16_t) * LANES)));
typedef uint16_t UnalignedHalves __attribute__((vector_size(sizeof(uint16_t) * LANES), aligned(2), may_alias));

/* The bits of floats, rounded to the nearest even in their upper half; NaN stays NaN. */
INLINE Ints rounded_bits(Floats x) {
    const Ints bits = (Ints)x;
    const Ints rounded = bits + 0x7fff + ((bits >> 16) & 1);
    return (Ints)select_floats(x != x, (Floats)(bits | 0x400000), (Floats)rounded);
}

INLINE Halves to_halves(Floats x) {
#if defined(__AVX512BF16__)
    const __m256bh halves = _mm512_cvtneps_pbh((__m512)x);
    Halves out;
    memcpy(&out, &halves, sizeof out);
    return out;
#endif
    return __builtin_convertvector((rounded_bits(x) >> 16) & 0xffff, Halves);
}

INLINE uint16_t to_half(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(x != x ? bits >> 16 | 64 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

INLINE float of_half(uint16_t half) {
    const uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

INLINE Floats load_halves(const Half *p) {
    return (Floats)(__builtin_convertvector(*(const UnalignedHalves *)p, Ints) << 16);
}

#endif
