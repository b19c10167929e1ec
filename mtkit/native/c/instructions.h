/* Dot products of 8-bit integers and of bfloat16, added to 32-bit sums, and conversions of bfloat16: instructions that C
   has no operator for.

   Each function of the former adds to every element of `sum` the dot product of the same element of `w`, 4 bytes or 2 bfloat16, and
   of `a`. The bytes of `w` are unsigned, those of `a` signed: the order in which x86 and ARM have them. Processors
   without such an instruction compute the same with several others. Integer sums are exact on all of them.

   The bytes of `w` are integers from -127 to 127 with 128 added; the sums contain WEIGHT_OFFSET times the sum of `a`
   besides the products with the integers themselves. */

#ifndef INSTRUCTIONS_H
#define INSTRUCTIONS_H

#include "vectors.h"

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#if defined(__AVX512VNNI__)
INLINE Ints add_dot_int8(Ints sum, Ints w, int32_t a) {
    return (Ints)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)w, _mm512_set1_epi32(a));
}
#elif defined(__AVXVNNI__) && LANES == 8
INLINE Ints add_dot_int8(Ints sum, Ints w, int32_t a) {
    return (Ints)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)w, _mm256_set1_epi32(a));
}
#elif defined(__aarch64__) && defined(__ARM_FEATURE_MATMUL_INT8)
INLINE Ints add_dot_int8(Ints sum, Ints w, int32_t a) {
    return (Ints)vusdotq_s32((int32x4_t)sum, (uint8x16_t)w, vreinterpretq_s8_s32(vdupq_n_s32(a)));
}
#elif defined(__AVX2__) && LANES == 8
/* With w' = w - 128, the products |w'| (sign(w') a) are sums of two in 16 bits: 2 * 127 * 127 < 2^15. */
#define WEIGHT_OFFSET 0
INLINE Ints add_dot_int8(Ints sum, Ints w, int32_t a) {
    const __m256i signed_w = _mm256_xor_si256((__m256i)w, _mm256_set1_epi8(-128));
    const __m256i signed_a = _mm256_sign_epi8(_mm256_set1_epi32(a), signed_w);
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(signed_w), signed_a);
    return sum + (Ints)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}
#else
INLINE Ints add_dot_int8(Ints sum, Ints w, int32_t a) {
    for (int i = 0; i < 32; i += 8) sum += (w >> i & 255) * (int8_t)(a >> i);
    return sum;
}
#endif

#ifndef WEIGHT_OFFSET
#define WEIGHT_OFFSET 128
#endif

#if defined(__AVX512BF16__)
INLINE Ints add_dot_bfloat16(Ints sum, Ints w, int32_t a) {
    const __m512i pair = _mm512_set1_epi32(a);
    __m512bh weights, pairs;
    memcpy(&weights, &w, sizeof w);
    memcpy(&pairs, &pair, sizeof pair);
    return (Ints)_mm512_dpbf16_ps((__m512)sum, weights, pairs);
}
#elif defined(__aarch64__) && defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
INLINE Ints add_dot_bfloat16(Ints sum, Ints w, int32_t a) {
    const int32x4_t pair = vdupq_n_s32(a);
    bfloat16x8_t weights, pairs;
    memcpy(&weights, &w, sizeof w);
    memcpy(&pairs, &pair, sizeof pair);
    return (Ints)vbfdotq_f32((float32x4_t)sum, weights, pairs);
}
#else
INLINE Ints add_dot_bfloat16(Ints sum, Ints w, int32_t a) { /* a bfloat16 is the upper half of a float */
    const uint32_t halves[2] = {(uint32_t)a << 16, (uint32_t)a & 0xffff0000u};
    float x[2];
    memcpy(x, halves, sizeof x);
    const Floats first = (Floats)(w << 16), second = (Floats)(w & (Ints)(splat_int(-1) << 16));
    return (Ints)((Floats)sum + first * x[0] + second * x[1]);
}
#endif

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
