/* Instructions that C has no operator for: dot products of 8-bit integers and of bfloat16, added to 32-bit sums.

   Each function adds to every element of `sum` the dot product of the same element of `w`, 4 bytes or 2 bfloat16, and
   of `a`. The bytes of `w` are unsigned, those of `a` signed: the order in which x86 and ARM have them. */

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#if defined(__AVX512VNNI__)
#define HAS_INT8 1
INLINE Ints add_dot_int8(Ints sum, Ints w, int32_t a) {
    return (Ints)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)w, _mm512_set1_epi32(a));
}
#elif defined(__AVXVNNI__) && LANES == 8
#define HAS_INT8 1
INLINE Ints add_dot_int8(Ints sum, Ints w, int32_t a) {
    return (Ints)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)w, _mm256_set1_epi32(a));
}
#elif defined(__aarch64__) && defined(__ARM_FEATURE_MATMUL_INT8)
#define HAS_INT8 1
INLINE Ints add_dot_int8(Ints sum, Ints w, int32_t a) {
    return (Ints)vusdotq_s32((int32x4_t)sum, (uint8x16_t)w, vreinterpretq_s8_s32(vdupq_n_s32(a)));
}
#else
#define HAS_INT8 0
INLINE Ints add_dot_int8(Ints sum, Ints w, int32_t a) { return sum + w * a; } /* never called */
#endif

#if defined(__AVX512BF16__)
#define HAS_BFLOAT16 1
INLINE Ints add_dot_bfloat16(Ints sum, Ints w, int32_t a) {
    const __m512i pair = _mm512_set1_epi32(a);
    __m512bh weights, pairs;
    memcpy(&weights, &w, sizeof w);
    memcpy(&pairs, &pair, sizeof pair);
    return (Ints)_mm512_dpbf16_ps((__m512)sum, weights, pairs);
}
#elif defined(__aarch64__) && defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#define HAS_BFLOAT16 1
INLINE Ints add_dot_bfloat16(Ints sum, Ints w, int32_t a) {
    const int32x4_t pair = vdupq_n_s32(a);
    bfloat16x8_t weights, pairs;
    memcpy(&weights, &w, sizeof w);
    memcpy(&pairs, &pair, sizeof pair);
    return (Ints)vbfdotq_f32((float32x4_t)sum, weights, pairs);
}
#else
#define HAS_BFLOAT16 0
INLINE Ints add_dot_bfloat16(Ints sum, Ints w, int32_t a) { return sum + w * a; } /* never called */
#endif
