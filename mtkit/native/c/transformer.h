/* The layers of a Transformer: encoder, and one step of the decoder. Rows are tokens of the source, or hypotheses.

   Functions that return an int return 0 if memory is exhausted. */

#ifndef TRANSFORMER_H
#define TRANSFORMER_H

#include "layers.h"

/* Keys and values of the decoder's tokens in one layer, [sentences, capacity, heads * K] each. */
typedef struct {
    float *keys, *values;
} Cache;

/* Keys [H, K, padded length] and values [H, padded length, K] of each sentence of the source, in one layer. */
typedef struct {
    float *keys, *values;
} Memory;

/* A hypothesis, and its new token. */
typedef struct {
    const int32_t *slots;  /* of its tokens in the cache, the new one included; NULL: 0, 1, 2 ... */
    int64_t first_source;  /* tokens before its source in the memory */
    int32_t place, length; /* index of its sentence in the cache; its tokens, the new one included */
    int32_t source_length;
} Row;

/* Arguments of a step that are the same for all layers. Sentences may be at different positions. */
typedef struct {
    const Row *rows;
    const float *rotations; /* [positions, K] cos and sin; or NULL */
    float *attention;       /* [rows, H, S] of the alignment layer, zeroed; or NULL */
    int32_t capacity;       /* slots of a sentence */
    int32_t source_length;  /* S, of the attention */
} Step;

/* The encoder: the real tokens x [rows, D] of sentences, one after another, in place; rotation [rows, K] or NULL. */
int mtkit_encode(const Stack *stack, float *x, const int32_t *lengths, int sentences, const float *rotation);

/* Keys and values of the encoder states x [length, D] of a sentence for each layer of the decoder; `offset` is the number
   of tokens before it in the memory. */
INTERNAL int project_memory(const Stack *stack, const float *x, int length, int64_t offset, const Memory *memories);

/* One step of the decoder: the new tokens x [rows, D], in place. */
INTERNAL int decode(const Stack *stack, const Cache *caches, const Memory *memories, const Step *step, float *x,
                    int rows);

#endif
