/* Rounding to integers, and which results are too close to call. */

#ifndef DPSTREAM_ROUNDING_H
#define DPSTREAM_ROUNDING_H

#include "transform.h"

/* Nonzero if some |x| is 2^62 or more, or not a number: as integers, the bits of |x| are in the order of |x|. */
static CLONES uint64_t count_unroundable(const double *x, size_t n)
{
    uint64_t found = 0;
    for (size_t i = 0; i < n; i++)
        found += (int64_t)(double_bits(x[i]) & 0x7fffffffffffffffu) >= (int64_t)0x43d0000000000000;
    return found;
}

static CLONES uint64_t count_large(const double *x, size_t n) /* 2^51 or more */
{
    uint64_t found = 0;
    for (size_t i = 0; i < n; i++)
        found += (int64_t)(double_bits(x[i]) & 0x7fffffffffffffffu) >= (int64_t)0x4320000000000000;
    return found;
}

INLINE double nearest_integer_of_any(double x)
{
    double size = x < 0 ? -x : x;
    double nearest = size < 0x1p52 ? (size + 0x1p52) - 0x1p52 : size;
    return x < 0 ? -nearest : nearest;
}

/* Half minus the distance to the nearest integer: how far x is from the half-integer where the answer changes. */
INLINE uint64_t is_close(double x, double nearest, double guard)
{
    double away = x - nearest;
    double size = double_of(double_bits(away) & 0x7fffffffffffffffu);
    return 0.5 - size <= guard;
}

static CLONES uint64_t round_small(const double *restrict x, double guard, int64_t *restrict out, size_t n)
{
    uint64_t close = 0;
    for (size_t i = 0; i < n; i++) {
        double shifted = x[i] + 0x1.8p52;
        out[i] = (int64_t)(double_bits(shifted) - 0x4338000000000000u); /* the integer stands in the low bits */
        close += is_close(x[i], shifted - 0x1.8p52, guard);
    }
    return close;
}

#define ROUND_BLOCK 512

static size_t loop_round(const double *restrict x, double guard, int64_t *restrict out, size_t n)
{
    size_t close = 0;
    for (size_t start = 0; start < n; start += ROUND_BLOCK) {
        size_t count = n - start < ROUND_BLOCK ? n - start : ROUND_BLOCK;
        if (count_large(x + start, count) == 0)
            close += round_small(x + start, guard, out + start, count);
        else
            for (size_t i = start; i < start + count; i++) {
                double nearest = nearest_integer_of_any(x[i]);
                out[i] = (int64_t)nearest;
                close += is_close(x[i], nearest, guard);
            }
    }
    return close;
}

static void find_close(const double *x, double guard, int64_t *where, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (is_close(x[i], nearest_integer_of_any(x[i]), guard))
            *where++ = (int64_t)i;
}

#endif
