/* The layers of a Transformer for translation: encoder and one step of the decoder; search is in search.h.

   Python (mtkit/inference/native) makes the structures, owns all memory but the scratch, and calls the functions whose
   names begin with mtkit. Rows are tokens of the source, or hypotheses. Shapes use the letters of
   mtkit/layers/__init__.py. */

#include "vectors.h"
#include "scratch.h"
#include "instructions.h"
#include "products.h"
#include "attention.h"
#include "ranking.h"
#include "layers.h"
#include "output.h"

enum { CHUNK = 96 }; /* rows that go through all layers together, so that their activations stay in the cache */

/* Copy keys and values of a sentence, row s at k + s * stride, into the order of `attend_to_source`. */
static void store_memory(const float *k, const float *v, size_t stride, int length, int heads, int width, float *keys,
                         float *values) {
    const int padded = padded_length(length);
    for (int h = 0; h < heads; h++) {
        for (int s = 0; s < length; s++) {
            const float *key = k + s * stride + (size_t)h * width, *value = v + s * stride + (size_t)h * width;
            for (int i = 0; i < width; i++) keys[((size_t)h * width + i) * padded + s] = key[i];
            memcpy(values + ((size_t)h * padded + s) * width, value, 4 * (size_t)width);
        }
        for (int i = 0; i < width; i++)
            for (int s = length; s < padded; s++) keys[((size_t)h * width + i) * padded + s] = 0;
    }
}

static void scale_row(float *q, int count, float scale) {
    for (int i = 0; i < count; i++) q[i] *= scale;
}

static int encode_self_attention(const Stack *stack, const Layer *layer, float *x, int rows, const int32_t *lengths,
                                 int sentences, const float *rotation) {
    const int width = stack->head_dim, own = layer->heads * width, wide = 3 * own;
    int longest = 0;
    for (int n = 0; n < sentences; n++) longest = lengths[n] > longest ? lengths[n] : longest;
    const size_t padded = padded_length(longest);
    float *qkv = floats(PROJECTION, (size_t)rows * wide), *y = floats(ATTENTION, (size_t)rows * own);
    float *keys = floats(LOGITS, 2 * padded * own), *weights = floats(WEIGHTS, padded);
    if (!qkv || !y || !keys || !weights) return 0;
    float *values = keys + padded * own;
    if (!project(layer->is_pre_norm ? &layer->norm : NULL, x, rows, &layer->query_key_value, qkv, NO_ACTIVATION, 0))
        return 0;
    for (int r = 0; r < rows; r++) {
        float *q = qkv + (size_t)r * wide;
        if (rotation) rotate(q, 2 * layer->heads, width, rotation + (size_t)r * width, stack->rotate_halves);
        scale_row(q, own, stack->scale);
    }
    for (int n = 0, r = 0; n < sentences; r += lengths[n++]) {
        const float *first = qkv + (size_t)r * wide;
        const size_t size = (size_t)width * padded_length(lengths[n]);
        store_memory(first + own, first + 2 * own, wide, lengths[n], layer->heads, width, keys, values);
        for (int s = 0; s < lengths[n]; s++)
            for (int h = 0; h < layer->heads; h++)
                attend_to_source(first + (size_t)s * wide + h * width, keys + h * size, values + h * size, lengths[n],
                                 width, weights, y + (size_t)(r + s) * own + h * width);
    }
    return add_residual(layer, &layer->norm, &layer->out, y, x, rows);
}

/* Arguments of a step that are the same for all layers. Sentences may be at different positions. */
typedef struct {
    const int32_t *sentences;      /* [rows] sentence of each hypothesis */
    const int32_t *slots;          /* [rows, stride] slots of its tokens in the cache; NULL: 0, 1, 2 ... */
    const int32_t *lengths;        /* [N] tokens of the hypotheses of each sentence, the new one included */
    const int32_t *storage;        /* [N] index of each sentence in the cache */
    const int32_t *source_lengths; /* [N] */
    const int64_t *offsets;        /* [N] tokens before each source in the memory */
    const float *rotations;        /* [positions, K] cos and sin, beginning at `first_position`; or NULL */
    float *attention;              /* [rows, H, S] of the alignment layer, zeroed; or NULL */
    int32_t stride, capacity;      /* of `slots`; slots of a sentence */
    int32_t first_position, source_length; /* source_length is S, of the attention */
} Step;

static int decode_self_attention(const Stack *stack, const Layer *layer, const Cache *cache, const Step *step, float *x,
                                 int first, int rows) {
    const int width = stack->head_dim, own = layer->heads * width, wide = 3 * own;
    float *qkv = floats(PROJECTION, (size_t)rows * wide), *y = floats(ATTENTION, (size_t)rows * own);
    if (!qkv || !y) return 0;
    if (!project(layer->is_pre_norm ? &layer->norm : NULL, x, rows, &layer->query_key_value, qkv, NO_ACTIVATION, 0))
        return 0;
    for (int r = 0; r < rows; r++) {
        float *q = qkv + (size_t)r * wide;
        const int sentence = step->sentences[first + r], length = step->lengths[sentence], position = length - 1;
        const int32_t *slots = step->slots ? step->slots + (size_t)(first + r) * step->stride : NULL;
        const size_t base = (size_t)step->storage[sentence] * step->capacity * own;
        const size_t new = base + (size_t)(slots ? slots[position] : position) * own;
        float *weights = floats(WEIGHTS, (size_t)layer->heads * padded_length(length));
        if (!weights) return 0;
        if (step->rotations)
            rotate(q, 2 * layer->heads, width, step->rotations + (size_t)(position - step->first_position) * width,
                   stack->rotate_halves);
        scale_row(q, own, stack->scale);
        memcpy(cache->keys + new, q + own, 4 * (size_t)own);
        memcpy(cache->values + new, q + 2 * own, 4 * (size_t)own);
        attend_to_tokens(q, cache->keys + base, cache->values + base, slots, length, layer->heads, width, weights,
                         y + (size_t)r * own);
    }
    return add_residual(layer, &layer->norm, &layer->out, y, x, rows);
}

static int decode_cross_attention(const Stack *stack, const Layer *layer, const Memory *memory, const Step *step,
                                  float *x, int first, int rows, float *attention) {
    const int width = stack->head_dim, own = layer->source_heads * width;
    float *q = floats(PROJECTION, (size_t)rows * own), *y = floats(ATTENTION, (size_t)rows * own);
    if (!q || !y) return 0;
    if (!project(layer->is_pre_norm ? &layer->source_norm : NULL, x, rows, &layer->source_query, q, NO_ACTIVATION, 0))
        return 0;
    for (int r = 0; r < rows; r++) {
        const int sentence = step->sentences[first + r], length = step->source_lengths[sentence];
        const size_t base = (size_t)step->offsets[sentence] * own, size = (size_t)width * padded_length(length);
        float *weights = floats(WEIGHTS, padded_length(length));
        if (!weights) return 0;
        scale_row(q + (size_t)r * own, own, stack->source_scale);
        for (int h = 0; h < layer->source_heads; h++) {
            attend_to_source(q + (size_t)r * own + h * width, memory->keys + base + h * size,
                             memory->values + base + h * size, length, width, weights, y + (size_t)r * own + h * width);
            if (attention)
                memcpy(attention + ((size_t)(first + r) * layer->source_heads + h) * step->source_length, weights,
                       4 * (size_t)length);
        }
    }
    return add_residual(layer, &layer->source_norm, &layer->source_out, y, x, rows);
}

/* Keys and values of the encoder states x [length, D] of a sentence for each layer of the decoder; `offset` is the number
   of tokens before it in the memory. */
static int project_memory(const Stack *stack, const float *x, int length, int64_t offset, const Memory *memories) {
    for (int l = 0; l < stack->num_layers; l++) {
        const Layer *layer = stack->layers + l;
        const int own = layer->source_heads * stack->head_dim;
        const size_t base = (size_t)offset * own;
        float *kv = floats(PROJECTION, (size_t)length * 2 * own);
        if (!kv || !project(NULL, x, length, &layer->source_key_value, kv, NO_ACTIVATION, 0)) return 0;
        store_memory(kv, kv + own, 2 * (size_t)own, length, layer->source_heads, stack->head_dim,
                     memories[l].keys + base, memories[l].values + base);
    }
    return 1;
}

/* ---- functions that Python calls; those that compute return 0 if memory is exhausted, as do those of output.h ---- */

int mtkit_lanes(void) { return LANES; }
int mtkit_has_type(int type) {
    return type == FLOAT32 || (type == BFLOAT16 && HAS_BFLOAT16) || (type == INT8 && HAS_INT8);
}
int64_t mtkit_packed_elements(int outputs, int inputs, int type) {
    return (int64_t)panels_of(outputs) * PANEL * groups_of(inputs, type);
}

/* Weights [outputs, inputs] as panels: float, the bits of bfloat16, or integers with 128 added. */
void mtkit_pack(const void *weight, int outputs, int inputs, int type, int32_t *panels) {
    const int groups = groups_of(inputs, type);
    const size_t size = 4 / GROUP[type];
    const char *from = weight;
    memset(panels, 0, 4 * (size_t)mtkit_packed_elements(outputs, inputs, type));
    for (int o = 0; o < outputs; o++)
        for (int i = 0; i < inputs; i++, from += size) {
            char *element = (char *)(panels + ((size_t)(o / PANEL) * groups + i / GROUP[type]) * PANEL + o % PANEL);
            memcpy(element + i % GROUP[type] * size, from, size);
        }
}

/* y [rows, outputs] = x W^T + b of x [rows, inputs]. */
int mtkit_project(const Linear *w, const float *x, int64_t rows, float *y) {
    for (int64_t r = 0; r < rows; r += CHUNK) {
        const int n = (int)(rows - r < CHUNK ? rows - r : CHUNK);
        if (!project(NULL, x + r * w->inputs, n, w, y + r * w->outputs, NO_ACTIVATION, 0)) return 0;
    }
    return 1;
}

/* The encoder: the real tokens x [rows, D] of sentences, one after another, in place; rotation [rows, K] or NULL. */
int mtkit_encode(const Stack *stack, float *x, const int32_t *lengths, int sentences, const float *rotation) {
    for (int n = 0; n < sentences;) {
        int count = 0, rows = 0; /* whole sentences, about CHUNK rows */
        while (n + count < sentences && (!count || rows + lengths[n + count] <= CHUNK)) rows += lengths[n + count++];
        for (int l = 0; l < stack->num_layers; l++)
            if (!encode_self_attention(stack, stack->layers + l, x, rows, lengths + n, count, rotation) ||
                !feed_forward(stack->layers + l, x, rows))
                return 0;
        normalise_rows(&stack->final_norm, x, rows, stack->d_model);
        x += (size_t)rows * stack->d_model;
        if (rotation) rotation += (size_t)rows * stack->head_dim;
        n += count;
    }
    return 1;
}

/* Keys and values of encoder states x [rows, D] for each layer of the decoder; `offsets` [sentences] of the memory. */
int mtkit_project_memory(const Stack *stack, const float *x, const int32_t *lengths, const int64_t *offsets,
                         int sentences, const Memory *memories) {
    for (int n = 0; n < sentences; x += (size_t)lengths[n++] * stack->d_model)
        if (!project_memory(stack, x, lengths[n], offsets[n], memories)) return 0;
    return 1;
}

/* One step of the decoder: the new tokens x [rows, D] of the hypotheses first ... first + rows - 1, in place. */
int mtkit_decode(const Stack *stack, const Cache *caches, const Memory *memories, const Step *step, float *x, int first,
                 int rows) {
    for (int r = 0; r < rows; r += CHUNK) {
        const int n = rows - r < CHUNK ? rows - r : CHUNK;
        float *part = x + (size_t)(first + r) * stack->d_model;
        for (int l = 0; l < stack->num_layers; l++) {
            const Layer *layer = stack->layers + l;
            if (!decode_self_attention(stack, layer, caches + l, step, part, first + r, n) ||
                !decode_cross_attention(stack, layer, memories + l, step, part, first + r, n,
                                        l == stack->alignment_layer ? step->attention : NULL) ||
                !feed_forward(layer, part, n))
                return 0;
        }
        normalise_rows(&stack->final_norm, part, n, stack->d_model);
    }
    return 1;
}

#include "search.h"
