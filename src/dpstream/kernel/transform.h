/* Words of keystream to normal and Laplace draws, one tile at a time.
 *
 * Only + - x / and square root, which IEEE 754 rounds correctly everywhere, and integer operations; no contraction. So every
 * compiler, every vector width and the NumPy twin give the same bits. docs/exact-rounding.md, "The transform", proves the error
 * of the float64 draws; research/fit_polynomials.py makes the coefficients. Branch-free, so that compilers vectorise it. */

#ifndef DPSTREAM_TRANSFORM_H
#define DPSTREAM_TRANSFORM_H

#include <float.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "coefficients.h"

#if defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD != 0
#error "excess precision: the results would differ from the NumPy twin"
#endif
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the keystream is read as little-endian words"
#endif

#if defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline))
#define SQRT_F32(x) __builtin_sqrtf(x)
#define SQRT_F64(x) __builtin_sqrt(x)
#else
#include <math.h>
#define INLINE static inline
#define SQRT_F32(x) sqrtf(x)
#define SQRT_F64(x) sqrt(x)
#endif

/* One copy of each loop per x86-64 level, chosen when the module is loaded. It needs ifunc (glibc) and GCC's names of the
 * levels; elsewhere, and where DPSTREAM_ONE_PATH asks for it (make portability), there is the one copy that the compiler's own flags
 * give. Results do not depend on it. That copy is never inlined: with a constant count, GCC 12 for aarch64 unrolls the sum of
 * comparisons in count_unsafe_normal at -O3 and forgets the sign of its masks, so that a count of 10 comes out as -10. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12 && !defined(DPSTREAM_ONE_PATH)
#define CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#elif defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 8 && !defined(DPSTREAM_ONE_PATH)
#define CLONES __attribute__((target_clones("default", "avx2")))
#elif defined(__GNUC__) && !defined(__clang__)
#define CLONES __attribute__((noipa))
#else
#define CLONES
#endif

#define TILE_F32 64 /* words, and draws, of a float32 tile */
#define TILE_F64 32

/* Keystream buffers need not be aligned. */
INLINE uint32_t word_f32(const unsigned char *words, size_t i)
{
    uint32_t word;
    memcpy(&word, words + 4 * i, sizeof word);
    return word;
}

INLINE uint64_t word_f64(const unsigned char *words, size_t i)
{
    uint64_t word;
    memcpy(&word, words + 8 * i, sizeof word);
    return word;
}

INLINE float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

INLINE uint32_t float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

INLINE double double_of(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

INLINE uint64_t double_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* ---- float32 ---- */

/* -2 ln u for u = (word + 1/2) 2^-32. f is the distance of u to the nearer end of (0, 1), so nothing is lost near 1. */
INLINE float twice_negative_log_f32(uint32_t word)
{
    uint32_t side = 0u - (word >> 31); /* all ones if u > 1/2 */
    float f = ((float)(int32_t)(word ^ side) + 0.5f) * 0x1p-32f;
    float one = float_of(side & 0x3f800000u);
    float signed_f = float_of(float_bits(f) ^ (side & 0x80000000u));
    float x = one + signed_f;
    uint32_t shifted = float_bits(x) - 0x3f3504f3u;    /* sqrt(1/2): x = 2^e m with m in [sqrt(1/2), sqrt(2)) */
    float e = (float)((int32_t)shifted >> 23);
    float m = float_of((shifted & 0x007fffffu) + 0x3f3504f3u);
    uint32_t below = (uint32_t)((int32_t)shifted >> 31); /* all ones if e < 0; e = 0 only if side, and then t = -f */
    float t = float_of(((float_bits(m - 1.0f) ^ float_bits(signed_f)) & below) ^ float_bits(signed_f));
    float square = t * t; /* two short chains instead of one long one: half the latency */
    float even = LOG32[8];
    even = even * square + LOG32[6];
    even = even * square + LOG32[4];
    even = even * square + LOG32[2];
    even = even * square + LOG32[0];
    float odd = LOG32[7];
    odd = odd * square + LOG32[5];
    odd = odd * square + LOG32[3];
    odd = odd * square + LOG32[1];
    return e * -0x1.62e430p+0f - (even + odd * t) * t; /* -2 ln 2 */
}

/* r cos and r sin of 2 pi u for u = (word + 1/2) 2^-32: the nearest quarter turn from the bits, the rest by polynomials. */
INLINE void polar_f32(float r, uint32_t word, float *x, float *y)
{
    float turn = ((float)(int32_t)(word << 2) + 2.0f) * 0x1p-34f; /* from -1/8 to 1/8 */
    float square = turn * turn;
    float sine = SIN32[3];
    sine = sine * square + SIN32[2];
    sine = sine * square + SIN32[1];
    sine = sine * square + SIN32[0];
    sine = sine * turn;
    float cosine = COS32[2];
    cosine = cosine * square + COS32[1];
    cosine = cosine * square + COS32[0];
    cosine = cosine * square + 1.0f;
    uint32_t quarter = word + 0x20000000u;
    uint32_t swap = (uint32_t)((int32_t)(quarter << 1) >> 31); /* all ones at an odd number of quarter turns */
    uint32_t change = (float_bits(sine) ^ float_bits(cosine)) & swap;
    *x = r * float_of(float_bits(cosine) ^ change ^ ((quarter + 0x40000000u) & 0x80000000u));
    *y = r * float_of(float_bits(sine) ^ change ^ (quarter & 0x80000000u));
}

/* 64 words, 64 normals: pair p comes from words p and 32 + p. */
INLINE void normal_tile_f32(const unsigned char *restrict words, float *restrict z)
{
    float r[TILE_F32 / 2]; /* two short loops: more of them are in flight at once than of one long loop */
    for (int p = 0; p < TILE_F32 / 2; p++)
        r[p] = SQRT_F32(twice_negative_log_f32(word_f32(words, p)));
    for (int p = 0; p < TILE_F32 / 2; p++)
        polar_f32(r[p], word_f32(words, TILE_F32 / 2 + p), &z[p], &z[TILE_F32 / 2 + p]);
}

/* ---- float64 ---- */

/* -ln u where u = numerator 2^-65 (side 0) or 1 - numerator 2^-65 (side all ones), 0 < numerator 2^-65 <= 1/2. */
INLINE double negative_log_f64(uint64_t numerator, uint64_t side)
{
    /* 2^84 + high 2^32 and 2^52 + low, by their bits: integers to doubles without a 64-bit conversion; one rounding. */
    double high = double_of((numerator >> 32) | 0x4530000000000000u) - (0x1p84 + 0x1p52);
    double f = (high + double_of((numerator & 0xffffffffu) | 0x4330000000000000u)) * 0x1p-65;
    double one = double_of(side & 0x3ff0000000000000u);
    double signed_f = double_of(double_bits(f) ^ (side & 0x8000000000000000u));
    double x = one + signed_f;
    double lost = (one - x) + signed_f;
    uint64_t shifted = double_bits(x) - (0x3fe6a09e667f3bcdu - 0x3ff0000000000000u);
    double e = double_of((shifted >> 52) | 0x4330000000000000u) - (0x1p52 + 1023.0);
    double m = double_of((shifted & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu);
    double t = (m - 1.0) + lost * (1.0 - e);
    double s = t / (2.0 + t);
    double v = s * s;
    double square = v * v;
    double even = LOG64[6];
    even = even * square + LOG64[4];
    even = even * square + LOG64[2];
    even = even * square + LOG64[0];
    double odd = LOG64[5];
    odd = odd * square + LOG64[3];
    odd = odd * square + LOG64[1];
    double half = (0.5 * t) * t;
    double bend = half - s * (half + (even + odd * v) * v); /* t - ln(1 + t) */
    return e * -LN2_HIGH + ((bend + e * -LN2_LOW) - t);
}

INLINE void polar_f64(double r, uint64_t word, double *x, double *y)
{
    uint64_t rest = word << 2; /* signed: from minus to plus half a quarter turn */
    double high = double_of(((rest >> 32) ^ 0x80000000u) | 0x4530000000000000u) - (0x1p84 + 0x1p63 + 0x1p52);
    double turn = (high + double_of((rest & 0xffffffffu) | 0x4330000000000002u)) * 0x1p-66;
    double square = turn * turn;
    double sine = SIN64[6];
    sine = sine * square + SIN64[5];
    sine = sine * square + SIN64[4];
    sine = sine * square + SIN64[3];
    sine = sine * square + SIN64[2];
    sine = sine * square + SIN64[1];
    sine = sine * square + SIN64[0];
    sine = sine * turn;
    double cosine = COS64[6];
    cosine = cosine * square + COS64[5];
    cosine = cosine * square + COS64[4];
    cosine = cosine * square + COS64[3];
    cosine = cosine * square + COS64[2];
    cosine = cosine * square + COS64[1];
    cosine = cosine * square + COS64[0];
    cosine = cosine * square + 1.0;
    uint64_t quarter = word + 0x2000000000000000u;
    uint64_t swap = 0u - ((quarter << 1) >> 63);
    uint64_t change = (double_bits(sine) ^ double_bits(cosine)) & swap;
    *x = r * double_of(double_bits(cosine) ^ change ^ ((quarter + 0x4000000000000000u) & 0x8000000000000000u));
    *y = r * double_of(double_bits(sine) ^ change ^ (quarter & 0x8000000000000000u));
}

/* 32 words, 32 normals: pair p comes from words p and 16 + p. */
INLINE void normal_tile_f64(const unsigned char *restrict words, double *restrict z)
{
    double r[TILE_F64 / 2];
    for (int p = 0; p < TILE_F64 / 2; p++) {
        uint64_t word = word_f64(words, p);
        uint64_t side = 0u - (word >> 63);
        r[p] = SQRT_F64(2.0 * negative_log_f64(((word ^ side) << 1) | 1u, side));
    }
    for (int p = 0; p < TILE_F64 / 2; p++)
        polar_f64(r[p], word_f64(words, TILE_F64 / 2 + p), &z[p], &z[TILE_F64 / 2 + p]);
}

/* The top bit is the sign; the other 63 begin the fraction, whose midpoint is fraction 2^-64. */
INLINE double laplace_of(uint64_t word)
{
    uint64_t fraction = (word << 1) | 1u;
    uint64_t side = 0u - (fraction >> 63);
    double size = negative_log_f64(((fraction ^ side) - side) << 1, side);
    return double_of(double_bits(size) | (word & 0x8000000000000000u));
}

#define NORMAL_LOWEST 0x0000200000000000u  /* 2^45 */
#define NORMAL_HIGHEST 0xfffffffc00000000u /* 2^64 - 2^34 */
#define LAPLACE_LOWEST 0x0000800000000000u /* 2^47, of 63 bits */

INLINE uint64_t normal_is_unsafe(uint64_t word)
{
    return word - NORMAL_LOWEST > NORMAL_HIGHEST - NORMAL_LOWEST;
}

INLINE uint64_t laplace_is_unsafe(uint64_t word)
{
    return (word & 0x7fffffffffffffffu) < LAPLACE_LOWEST;
}

#endif
