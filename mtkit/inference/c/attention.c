#include "attention.h"

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

void attend_to_source(const float *q, const float *keys, const float *values, int length, int width,
                      float *weights, float *y) {
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
        store(weights + s, even + odd);
    }
    softmax(weights, length, padded);
    for (int s = 0; s < length; s++) add_scaled(y, weights[s], values + (size_t)s * width, width);
}

INLINE void prefetch(const float *p, size_t count) {
    for (size_t i = 0; i < count; i += 16) __builtin_prefetch(p + i);
}

INLINE size_t slot_of(const TokenMemory *tokens, int t) { return (size_t)(tokens->slots ? tokens->slots[t] : t); }

/* The loops over tokens are the outer ones: keys or values of a token are then read at once, while the next ones are on
   their way from memory. */
void attend_to_tokens(const float *q, const TokenMemory *tokens, float *weights, float *y) {
    const int heads = tokens->heads, width = tokens->width, length = tokens->length, padded = padded_length(length);
    const size_t stride = (size_t)heads * width;
    for (int t = 0; t < length; t++) {
        const float *key = tokens->keys + slot_of(tokens, t) * stride;
        if (t + 2 < length) prefetch(tokens->keys + slot_of(tokens, t + 2) * stride, stride);
        for (int h = 0; h < heads; h++) weights[h * padded + t] = dot(q + h * width, key + h * width, width);
    }
    for (int h = 0; h < heads; h++) softmax(weights + h * padded, length, padded);
    memset(y, 0, sizeof(float) * stride);
    for (int t = 0; t < length; t++) {
        const float *value = tokens->values + slot_of(tokens, t) * stride;
        if (t + 2 < length) prefetch(tokens->values + slot_of(tokens, t + 2) * stride, stride);
        for (int h = 0; h < heads; h++) add_scaled(y + h * width, weights[h * padded + t], value + h * width, width);
    }
}

void arrange_source(const KeyValueRows *rows, float *keys, float *values) {
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

void rotate(float *x, int heads, int width, const float *rotation, int rotate_halves) {
    const int pairs = width / 2, step = rotate_halves ? 1 : 2, other = rotate_halves ? pairs : 1;
    for (int h = 0; h < heads; h++, x += width)
        for (int i = 0; i < pairs; i++) {
            const float c = rotation[2 * i], s = rotation[2 * i + 1], a = x[i * step], b = x[i * step + other];
            x[i * step] = a * c - b * s;
            x[i * step + other] = a * s + b * c;
        }
}
