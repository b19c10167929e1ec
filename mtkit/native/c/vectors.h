/* Vectors of floats, as wide as the registers of the processor that this file is compiled for.

   GCC and Clang translate arithmetic on vector types to the instructions of any processor. Intrinsics are used only
   where they save time, and where C has no operator (instructions.h). */

#ifndef VECTORS_H
#define VECTORS_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__AVX512F__)
#include <immintrin.h>
#define LANES 16    /* floats of a vector */
#define MAX_ROWS 12 /* rows of a panel whose sums fit into the registers; 12 of 32 registers, 6 of 16 */
#elif defined(__AVX2__)
#define LANES 8
#define MAX_ROWS 6
#elif defined(__aarch64__)
#define LANES 4
#define MAX_ROWS 12
#else
#define LANES 4
#define MAX_ROWS 6
#endif

#if __FINITE_MATH_ONLY__ + 0
#error NaN and infinity are tested for: compile without -ffast-math and -ffinite-math-only
#endif

#define INLINE static inline __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))
#define INTERNAL __attribute__((visibility("hidden"))) /* a function of several files that Python does not call */

/* Before a loop of few, constant iterations: an array that it indexes can then be in registers. */
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* `unaligned` vectors are loaded from and stored to any address of a float. */
typedef float Floats __attribute__((vector_size(sizeof(float) * LANES)));
typedef int32_t Ints __attribute__((vector_size(sizeof(float) * LANES)));
typedef float UnalignedFloats __attribute__((vector_size(sizeof(float) * LANES), aligned(sizeof(float)), may_alias));
typedef int32_t UnalignedInts __attribute__((vector_size(sizeof(float) * LANES), aligned(sizeof(float)), may_alias));

INLINE Floats load(const float *p) { return *(const UnalignedFloats *)p; }
INLINE Ints load_ints(const int32_t *p) { return *(const UnalignedInts *)p; }
INLINE void store(float *p, Floats v) { *(UnalignedFloats *)p = v; }
INLINE void store_ints(int32_t *p, Ints v) { *(UnalignedInts *)p = v; }
INLINE Floats splat(float x) { return x - (Floats){}; } /* x - 0 is x, also for x = -0; x + 0 would be 0 */
INLINE Ints splat_int(int32_t x) { return x - (Ints){}; }
INLINE Floats to_floats(Ints v) { return __builtin_convertvector(v, Floats); }
INLINE Floats select_floats(Ints condition, Floats yes, Floats no) {
    return (Floats)((condition & (Ints)yes) | (~condition & (Ints)no));
}

/* The larger of two; `b` where one is NaN. */
INLINE Floats larger(Floats a, Floats b) {
#if LANES == 16
    return (Floats)_mm512_max_ps((__m512)a, (__m512)b);
#endif
    return select_floats(a > b, a, b);
}

INLINE float sum_of(Floats v) {
#if LANES == 16
    return _mm512_reduce_add_ps((__m512)v);
#endif
    float s[LANES];
    memcpy(s, &v, sizeof s);
    for (int n = LANES / 2; n; n /= 2)
        for (int i = 0; i < n; i++) s[i] += s[i + n];
    return s[0];
}

INLINE float largest_of(Floats v) {
#if LANES == 16
    return _mm512_reduce_max_ps((__m512)v);
#endif
    float s[LANES];
    memcpy(s, &v, sizeof s);
    for (int n = LANES / 2; n; n /= 2)
        for (int i = 0; i < n; i++) s[i] = s[i] > s[i + n] ? s[i] : s[i + n];
    return s[0];
}

/* e^x for x up to 88.7, with a relative error below 2e-7; e^-87.3 below that, NaN for NaN.

   x = n ln 2 + r with |r| <= ln 2 / 2. A polynomial gives e^r, and n is added to the exponent of the result. */
INLINE Floats exponential_of_negative(Floats x) {
    x = larger(splat(-87.3f), x);
    const Floats magic = splat(12582912.0f); /* 1.5 * 2^23: adding it rounds to an integer in the low bits */
    const Floats shifted = x * 1.44269504f + magic, n = shifted - magic;
    const Floats r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
    Floats p = splat(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    return p * (Floats)(((Ints)shifted - (Ints)magic + 127) << 23);
}

/* e^x of any x; infinity above 88. */
INLINE Floats exponential(Floats x) {
    const Ints is_too_large = x > 88.0f;
    const Floats y = exponential_of_negative(select_floats(is_too_large, splat(0.0f), x));
    return select_floats(is_too_large, splat(INFINITY), y);
}

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

#endif
