/* Work of training on a CPU: products of matrices of any layout, and what lies between them.

   torch calls these functions through mtkit/layers/native_kernels.py; gradients are there. Sums run in one order, whatever
   the number of threads, so that the bits of a result do not depend on it. */

#ifndef TRAINING_H
#define TRAINING_H

#include "instructions.h"
#include "products.h"

/* Groups of a panel (products.h) that tiles multiply before the next ones; with 16 lanes 64 KiB. A result in bfloat16 has no
   more, since its sums are not in memory in between: d_ff = 1,024 fits. */
enum { BLOCK_GROUPS = 512 };

/* A matrix, of which one of the strides, in elements, is 1. */
typedef struct {
    const void *data;
    int64_t row_stride, column_stride;
    int32_t is_bfloat16, rows, columns;
} Matrix;

/* C = A B + bias, with sums in float32. The numbers of A and B are rounded to `type`. */
typedef struct {
    Matrix a, b;
    const float *bias; /* [columns of B] or NULL */
    int32_t *panels;   /* of all groups of B, packed or to be packed; NULL: they are kept for no other product */
    float *row_sums;   /* [rows of A] their sums are written, of an A whose row_stride is 1; or NULL */
    void *c;           /* rows of `c_stride` elements */
    int64_t c_stride;
    int32_t c_is_bfloat16, type;
    int32_t adds, is_packed; /* 1: to what is in C, which is float32; `panels` are packed */
} MatrixProduct;

/* 32 bits of any type. */
typedef int32_t __attribute__((may_alias)) Bits;

/* y [columns, rows] = the transpose of x [rows, columns]; rows of y are written up to a multiple of LANES, with zeros. */
INTERNAL void transpose(const void *x, int64_t x_stride, int rows, int columns, void *y, int64_t y_stride);

INLINE Floats load_number(const void *data, int is_bfloat16, int64_t i) {
    return is_bfloat16 ? load_halves((const Half *)data + i) : load((const float *)data + i);
}

INLINE float number_at(const void *data, int is_bfloat16, int64_t i) {
    return is_bfloat16 ? of_half(((const Half *)data)[i]) : ((const float *)data)[i];
}

/* The threads of torch: others would compete with them, since they wait for work without sleeping. */
typedef struct {
    void *parallel; /* GOMP_parallel of torch's OpenMP, which calls a function on all threads; NULL: one thread */
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
    const uint8_t *random;    /* [sentences, heads, queries, keys] below drop_levels: it is dropped; NULL: no dropout */
    int32_t *failed; /* set to 1 if memory is exhausted */
    int64_t visible_sentence, visible_query; /* strides */
    int32_t sentences, heads, queries, keys, width, is_bfloat16, drop_levels; /* the width is a multiple of LANES */
    float scale, keep_scale;
} TrainedAttention;

/* y = base + factor x of the numbers that are kept, and base of the others. Dropped are those whose random byte is below
   drop_levels, whose `gate` is 0 and, with is_relu, negative ones. */
typedef struct {
    const void *x, *gate, *base; /* gate has the type of x; gate, base and random may be NULL */
    const uint8_t *random;
    void *y;
    int64_t count;
    int32_t x_is_bfloat16, base_is_bfloat16, y_is_bfloat16, drop_levels, is_relu;
    float factor;
} Dropped;

/* Scores v . tanh(key + query) of each query to all keys of its sentence, or their gradients. */
typedef struct {
    const void *query, *keys, *v; /* [sentences, queries, width], [sentences, positions, width], [width] */
    void *hidden, *scores;        /* [sentences, queries, positions, width] the tanh, written or read; without width */
    const void *grad_scores;      /* NULL: no gradients are computed */
    void *grad_query;
    float *grad_keys, *grad_v; /* gradients are added, of keys without the factor v; [sentences, width] of v */
    int32_t sentences, queries, positions, width, is_bfloat16; /* the width is a multiple of LANES */
} AdditiveScores;

/* 0, or 1 if memory is exhausted. */
int mtkit_multiply(const MatrixProduct *product, const Threads *threads);
int mtkit_softmax_rows(const SoftmaxRows *rows, const Threads *threads);
int mtkit_attend(const TrainedAttention *attention, const Threads *threads);
int mtkit_drop(const Dropped *dropped, const Threads *threads);
int mtkit_score_additively(const AdditiveScores *scores, const Threads *threads);

/* Number of floats of a vector. */
int mtkit_lanes(void);

#endif
