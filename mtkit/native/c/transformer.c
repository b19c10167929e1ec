#include "transformer.h"

#include "scratch.h"

/* ---- attention: softmax(q K^T) V of one head, over the source or over the preceding tokens of a hypothesis ---- */

/* Weights of scores [count], in place; `count` is at most `padded`, a multiple of LANES. */
static void softmax(float *scores, int count, int padded) {
    for (int i = count; i < padded; i++) scores[i] = -INFINITY;
    Floats maxima = load(scores);
    for (int i = LANES; i < padded; i += LANES) maxima = larger(load(scores + i), maxima);
    const float largest = largest_of(maxima);
    Floats total = splat(0);
    for (int i = 0; i < padded; i += LANES) {
        const Floats e = exponential_of_negative(load(scores + i) - largest);
        store(scores + i, e);
        total += e;
    }
    const float factor = 1 / sum_of(total);
    for (int i = 0; i < padded; i += LANES) store(scores + i, load(scores + i) * factor);
}

/* What is added to the scores of a query at `position`, for the keys at 0, 1, 2 ... of one head; NULL: nothing. */
INLINE const float *bias_of(const Stack *stack, int head, int position) {
    const size_t stride = 2 * (size_t)stack->bias_length - 1 + BIAS_PADDING;
    return stack->bias ? stack->bias + head * stride + stack->bias_length - 1 - position : NULL;
}

/* Attention of one query to a source: keys [K, padded length] and values [length, K] of one head, bias [padded length]
   or NULL, weights [padded length]. A query that sees nothing yields zeros. */
static void attend_to_source(const float *q, const float *keys, const float *values, const float *bias, int length,
                             int width, float *weights, float *y) {
    const int padded = padded_length(length);
    memset(y, 0, sizeof(float) * (size_t)width);
    if (!length) return;
    for (int s = 0; s < padded; s += LANES) {
        Floats even = splat(0), odd = splat(0);
        int k = 0;
        for (; k + 1 < width; k += 2) {
            even += q[k] * load(keys + (size_t)k * padded + s);
            odd += q[k + 1] * load(keys + (size_t)(k + 1) * padded + s);
        }
        if (k < width) even += q[k] * load(keys + (size_t)k * padded + s);
        store(weights + s, bias ? even + odd + load(bias + s) : even + odd);
    }
    softmax(weights, length, padded);
    for (int s = 0; s < length; s++) add_scaled(y, weights[s], values + (size_t)s * width, width);
}

INLINE void prefetch(const float *p, size_t count) {
    for (size_t i = 0; i < count; i += 16) __builtin_prefetch(p + i);
}

/* Keys and values of the tokens of a hypothesis, [slots, heads * width] each. */
typedef struct {
    const float *keys, *values;
    const int32_t *slots; /* [length], or NULL for 0, 1, 2 ... */
    int length, heads, width;
} TokenMemory;

INLINE size_t slot_of(const TokenMemory *tokens, int t) { return (size_t)(tokens->slots ? tokens->slots[t] : t); }

/* Attention of all heads q [heads, K] of a stack to the tokens of a hypothesis; weights [heads, padded length].

   The loops over tokens are the outer ones: keys or values of a token are then read at once, while the next ones are on
   their way from memory. */
static void attend_to_tokens(const Stack *stack, const float *q, const TokenMemory *tokens, float *weights, float *y) {
    const int heads = tokens->heads, width = tokens->width, length = tokens->length, padded = padded_length(length);
    const size_t stride = (size_t)heads * width;
    for (int t = 0; t < length; t++) {
        const float *key = tokens->keys + slot_of(tokens, t) * stride;
        if (t + 2 < length) prefetch(tokens->keys + slot_of(tokens, t + 2) * stride, stride);
        for (int h = 0; h < heads; h++) weights[h * padded + t] = dot(q + h * width, key + h * width, width);
    }
    for (int h = 0; h < heads; h++) {
        const float *bias = bias_of(stack, h, length - 1);
        for (int t = 0; bias && t < length; t++) weights[h * padded + t] += bias[t];
        softmax(weights + h * padded, length, padded);
    }
    memset(y, 0, sizeof(float) * stride);
    for (int t = 0; t < length; t++) {
        const float *value = tokens->values + slot_of(tokens, t) * stride;
        if (t + 2 < length) prefetch(tokens->values + slot_of(tokens, t + 2) * stride, stride);
        for (int h = 0; h < heads; h++) add_scaled(y + h * width, weights[h * padded + t], value + h * width, width);
    }
}

/* Rows of projected keys and values, as a matrix product leaves them. */
typedef struct {
    const float *keys, *values; /* row s at s * stride */
    size_t stride;
    int length, heads, width;
} KeyValueRows;

/* Copy keys and values of a sentence into the order of `attend_to_source`: keys [H, K, padded length] and values
   [H, padded length, K], so that the keys of LANES tokens are neighbours. */
static void arrange_source(const KeyValueRows *rows, float *keys, float *values) {
    const int width = rows->width, length = rows->length, padded = padded_length(length);
    for (int h = 0; h < rows->heads; h++, keys += (size_t)width * padded, values += (size_t)width * padded) {
        for (int s = 0; s < length; s++) {
            const size_t from = s * rows->stride + (size_t)h * width;
            for (int i = 0; i < width; i++) keys[(size_t)i * padded + s] = rows->keys[from + i];
            memcpy(values + (size_t)s * width, rows->values + from, sizeof(float) * (size_t)width);
        }
        for (int i = 0; i < width; i++)
            for (int s = length; s < padded; s++) keys[(size_t)i * padded + s] = 0;
    }
}

/* Rotate the pairs of x [heads, width] by (cos, sin) [width / 2, 2]; see RoPE. */
static void rotate(float *x, int heads, int width, const float *rotation, int rotate_halves) {
    const int pairs = width / 2, step = rotate_halves ? 1 : 2, other = rotate_halves ? pairs : 1;
    for (int h = 0; h < heads; h++, x += width)
        for (int i = 0; i < pairs; i++) {
            const float c = rotation[2 * i], s = rotation[2 * i + 1], a = x[i * step], b = x[i * step + other];
            x[i * step] = a * c - b * s;
            x[i * step + other] = a * s + b * c;
        }
}

/* ---- sublayers ---- */

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
                                 bias_of(stack, h, s), lengths[n], width, weights,
                                 y + (size_t)(r + s) * heads_width + h * width);
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
        const Row *row = step->rows + first + r;
        float *q = qkv + (size_t)r * qkv_width;
        const int position = row->length - 1;
        const size_t begin = (size_t)row->place * step->capacity * heads_width;
        const TokenMemory tokens = {cache->keys + begin, cache->values + begin, row->slots, row->length, layer->heads,
                                    width};
        const size_t new_token = begin + slot_of(&tokens, position) * heads_width;
        float *weights = scratch_floats(ATTENTION_WEIGHTS, (size_t)layer->heads * padded_length(row->length));
        if (!weights) return 0;
        if (step->rotations)
            rotate(q, 2 * layer->heads, width, step->rotations + (size_t)position * width, stack->rotate_halves);
        scale_row(q, heads_width, stack->scale);
        memcpy(cache->keys + new_token, q + heads_width, sizeof(float) * (size_t)heads_width);
        memcpy(cache->values + new_token, q + 2 * heads_width, sizeof(float) * (size_t)heads_width);
        attend_to_tokens(stack, q, &tokens, weights, y + (size_t)r * heads_width);
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
        const Row *row = step->rows + first + r;
        const int length = row->source_length;
        const size_t begin = (size_t)row->first_source * heads_width, head_size = (size_t)width * padded_length(length);
        float *weights = scratch_floats(ATTENTION_WEIGHTS, padded_length(length));
        if (!weights) return 0;
        scale_row(q + (size_t)r * heads_width, heads_width, stack->source_scale);
        for (int h = 0; h < layer->source_heads; h++) {
            const size_t head = (size_t)r * heads_width + h * width;
            attend_to_source(q + head, memory->keys + begin + h * head_size, memory->values + begin + h * head_size,
                             NULL, length, width, weights, y + head);
            if (attention)
                memcpy(attention + ((size_t)(first + r) * layer->source_heads + h) * step->source_length, weights,
                       sizeof(float) * (size_t)length);
        }
    }
    return add_residual(layer, &layer->source_norm, &layer->source_out, y, x, rows);
}

/* ---- encoder and decoder ---- */

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
        normalise_rows(&stack->embedding_norm, x, rows, stack->d_model);
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

int decode(const Stack *stack, const Cache *caches, const Memory *memories, const Step *step, float *x, int rows) {
    for (int r = 0; r < rows; r += CHUNK) {
        const int n = rows - r < CHUNK ? rows - r : CHUNK;
        float *part = x + (size_t)r * stack->d_model;
        normalise_rows(&stack->embedding_norm, part, n, stack->d_model);
        for (int l = 0; l < stack->num_layers; l++) {
            const Layer *layer = stack->layers + l;
            if (!decode_self_attention(stack, layer, caches + l, step, part, r, n) ||
                !decode_cross_attention(stack, layer, memories + l, step, part, r, n,
                                        l == stack->alignment_layer ? step->attention : NULL) ||
                !feed_forward(layer, part, n))
                return 0;
        }
        normalise_rows(&stack->final_norm, part, n, stack->d_model);
    }
    return 1;
}
