/* Attention: softmax(q K^T) V of one head, over the source or over the preceding tokens of a hypothesis. */

/* Weights of scores [count], in place; `count` is at most `padded`, a multiple of LANES. */
static void softmax(float *scores, int count, int padded) {
    for (int i = count; i < padded; i++) scores[i] = -INFINITY;
    Floats most = load(scores);
    for (int i = LANES; i < padded; i += LANES) most = larger(load(scores + i), most);
    const float largest = largest_of(most);
    Floats total = splat(0);
    for (int i = 0; i < padded; i += LANES) {
        const Floats e = exponential_of_negative(load(scores + i) - largest);
        store(scores + i, e);
        total += e;
    }
    const float factor = 1 / sum_of(total);
    for (int i = 0; i < padded; i += LANES) store(scores + i, load(scores + i) * factor);
}

INLINE int padded_length(int length) { return (length + LANES - 1) / LANES * LANES; }

INLINE float dot(const float *a, const float *b, int count) {
    Floats sum = splat(0);
    int i = 0;
    for (; i + LANES <= count; i += LANES) sum += load(a + i) * load(b + i);
    float total = sum_of(sum);
    for (; i < count; i++) total += a[i] * b[i];
    return total;
}

/* y += factor * x */
INLINE void add_scaled(float *restrict y, float factor, const float *restrict x, int count) {
    int i = 0;
    for (; i + LANES <= count; i += LANES) store(y + i, load(y + i) + factor * load(x + i));
    for (; i < count; i++) y[i] += factor * x[i];
}

INLINE void prefetch(const float *p, size_t count) {
    for (size_t i = 0; i < count; i += 16) __builtin_prefetch(p + i);
}

/* Keys [K, padded length] and values [length, K] of one head of a sentence: the keys of LANES tokens are neighbours. */
static void attend_to_source(const float *q, const float *keys, const float *values, int length, int width,
                             float *weights, float *y) {
    const int padded = padded_length(length);
    memset(y, 0, 4 * (size_t)width);
    if (!length) return; /* a query that sees nothing yields zeros */
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

/* Attention of all heads to the tokens in `slots`: keys and values of a token are neighbours, [heads, K] each.

   The loops over tokens are the outer ones: a token is then read at once, and the next ones are on their way from
   memory. `slots` is NULL for 0, 1, 2 ...; weights [heads, padded length]. */
static void attend_to_tokens(const float *q, const float *keys, const float *values, const int32_t *slots, int length,
                             int heads, int width, float *weights, float *y) {
    const size_t stride = (size_t)heads * width;
    const int padded = padded_length(length);
    for (int t = 0; t < length; t++) {
        const float *key = keys + (slots ? slots[t] : t) * stride;
        if (t + 2 < length) prefetch(keys + (slots ? slots[t + 2] : t + 2) * stride, stride);
        for (int h = 0; h < heads; h++) weights[h * padded + t] = dot(q + h * width, key + h * width, width);
    }
    for (int h = 0; h < heads; h++) softmax(weights + h * padded, length, padded);
    memset(y, 0, 4 * stride);
    for (int t = 0; t < length; t++) {
        const float *value = values + (slots ? slots[t] : t) * stride;
        if (t + 2 < length) prefetch(values + (slots ? slots[t + 2] : t + 2) * stride, stride);
        for (int h = 0; h < heads; h++) add_scaled(y + h * width, weights[h * padded + t], value + h * width, width);
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
