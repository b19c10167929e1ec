#include "transformer.h"

#include "attention.h"
#include "scratch.h"

static void scale_row(float *q, int count, float scale) {
    for (int i = 0; i < count; i++) q[i] *= scale;
}

INLINE const Norm *pre_norm(const Layer *layer, const Norm *norm) { return layer->is_pre_norm ? norm : NULL; }

static int encode_self_attention(const Stack *stack, const Layer *layer, float *x, int rows, const int32_t *lengths,
                                 int sentences, const float *rotation) {
    const int width = stack->head_dim, heads_width = layer->heads * width, qkv_width = 3 * heads_width;
    int longest = 0;
    for (int n = 0; n < sentences; n++) longest = lengths[n] > longest ? lengths[n] : longest;
    const size_t padded = padded_length(longest);
    float *qkv = scratch_floats(QUERIES_KEYS_VALUES, (size_t)rows * qkv_width);
    float *y = scratch_floats(HEAD_OUTPUTS, (size_t)rows * heads_width);
    float *keys = scratch_floats(SENTENCE_KEYS_VALUES, 2 * padded * heads_width);
    float *weights = scratch_floats(ATTENTION_WEIGHTS, padded);
    if (!qkv || !y || !keys || !weights) return 0;
    float *values = keys + padded * heads_width;
    if (!project(pre_norm(layer, &layer->norm), x, rows, &layer->query_key_value, qkv, NO_ACTIVATION)) return 0;
    for (int r = 0; r < rows; r++) {
        float *q = qkv + (size_t)r * qkv_width;
        if (rotation) rotate(q, 2 * layer->heads, width, rotation + (size_t)r * width, stack->rotate_halves);
        scale_row(q, heads_width, stack->scale);
    }
    for (int n = 0, r = 0; n < sentences; r += lengths[n++]) {
        const float *first = qkv + (size_t)r * qkv_width;
        const size_t head_size = (size_t)width * padded_length(lengths[n]);
        const KeyValueRows projected = {first + heads_width, first + 2 * heads_width, (size_t)qkv_width, lengths[n],
                                        layer->heads, width};
        arrange_source(&projected, keys, values);
        for (int s = 0; s < lengths[n]; s++)
            for (int h = 0; h < layer->heads; h++)
                attend_to_source(first + (size_t)s * qkv_width + h * width, keys + h * head_size, values + h * head_size,
                                 lengths[n], width, weights, y + (size_t)(r + s) * heads_width + h * width);
    }
    return add_residual(layer, &layer->norm, &layer->out, y, x, rows);
}

static int decode_self_attention(const Stack *stack, const Layer *layer, const Cache *cache, const Step *step, float *x,
                                 int first, int rows) {
    const int width = stack->head_dim, heads_width = layer->heads * width, qkv_width = 3 * heads_width;
    float *qkv = scratch_floats(QUERIES_KEYS_VALUES, (size_t)rows * qkv_width);
    float *y = scratch_floats(HEAD_OUTPUTS, (size_t)rows * heads_width);
    if (!qkv || !y) return 0;
    if (!project(pre_norm(layer, &layer->norm), x, rows, &layer->query_key_value, qkv, NO_ACTIVATION)) return 0;
    for (int r = 0; r < rows; r++) {
        float *q = qkv + (size_t)r * qkv_width;
        const int sentence = step->sentences[first + r], length = step->lengths[sentence], position = length - 1;
        const int32_t *slots = step->slots ? step->slots + (size_t)(first + r) * step->stride : NULL;
        const size_t begin = (size_t)step->storage[sentence] * step->capacity * heads_width;
        const size_t new_token = begin + (size_t)(slots ? slots[position] : position) * heads_width;
        float *weights = scratch_floats(ATTENTION_WEIGHTS, (size_t)layer->heads * padded_length(length));
        if (!weights) return 0;
        if (step->rotations)
            rotate(q, 2 * layer->heads, width, step->rotations + (size_t)(position - step->first_position) * width,
                   stack->rotate_halves);
        scale_row(q, heads_width, stack->scale);
        memcpy(cache->keys + new_token, q + heads_width, sizeof(float) * (size_t)heads_width);
        memcpy(cache->values + new_token, q + 2 * heads_width, sizeof(float) * (size_t)heads_width);
        const TokenMemory tokens = {cache->keys + begin, cache->values + begin, slots, length, layer->heads, width};
        attend_to_tokens(q, &tokens, weights, y + (size_t)r * heads_width);
    }
    return add_residual(layer, &layer->norm, &layer->out, y, x, rows);
}

static int decode_cross_attention(const Stack *stack, const Layer *layer, const Memory *memory, const Step *step,
                                  float *x, int first, int rows, float *attention) {
    const int width = stack->head_dim, heads_width = layer->source_heads * width;
    float *q = scratch_floats(QUERIES_KEYS_VALUES, (size_t)rows * heads_width);
    float *y = scratch_floats(HEAD_OUTPUTS, (size_t)rows * heads_width);
    if (!q || !y) return 0;
    if (!project(pre_norm(layer, &layer->source_norm), x, rows, &layer->source_query, q, NO_ACTIVATION)) return 0;
    for (int r = 0; r < rows; r++) {
        const int sentence = step->sentences[first + r], length = step->source_lengths[sentence];
        const size_t begin = (size_t)step->offsets[sentence] * heads_width;
        const size_t head_size = (size_t)width * padded_length(length);
        float *weights = scratch_floats(ATTENTION_WEIGHTS, padded_length(length));
        if (!weights) return 0;
        scale_row(q + (size_t)r * heads_width, heads_width, stack->source_scale);
        for (int h = 0; h < layer->source_heads; h++) {
            const size_t head = (size_t)r * heads_width + h * width;
            attend_to_source(q + head, memory->keys + begin + h * head_size, memory->values + begin + h * head_size,
                             length, width, weights, y + head);
            if (attention)
                memcpy(attention + ((size_t)(first + r) * layer->source_heads + h) * step->source_length, weights,
                       sizeof(float) * (size_t)length);
        }
    }
    return add_residual(layer, &layer->source_norm, &layer->source_out, y, x, rows);
}

int project_memory(const Stack *stack, const float *x, int length, int64_t offset, const Memory *memories) {
    for (int l = 0; l < stack->num_layers; l++) {
        const Layer *layer = stack->layers + l;
        const int width = layer->source_heads * stack->head_dim;
        const size_t begin = (size_t)offset * width;
        float *projected = scratch_floats(SOURCE_KEYS_VALUES, (size_t)length * 2 * width);
        if (!projected || !project(NULL, x, length, &layer->source_key_value, projected, NO_ACTIVATION)) return 0;
        const KeyValueRows rows = {projected, projected + width, 2 * (size_t)width, length, layer->source_heads,
                                   stack->head_dim};
        arrange_source(&rows, memories[l].keys + begin, memories[l].values + begin);
    }
    return 1;
}

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
