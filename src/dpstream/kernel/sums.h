/* Sums of float32 vectors: what a release is made of, and how long an input is. */

#ifndef DPSTREAM_SUMS_H
#define DPSTREAM_SUMS_H

#include "transform.h"

#if defined(__GNUC__)
#define FETCH(address) __builtin_prefetch(address)
#define FETCH_TO_WRITE(address) __builtin_prefetch(address, 1)
#else
#define FETCH(address) ((void)(address))
#define FETCH_TO_WRITE(address) ((void)(address))
#endif

#define RELEASE_RUN 64 /* values whose sums are formed before they are rounded */
#define RUNS_AHEAD 8   /* how far ahead memory is asked for: a page, where the processor's own guesses end */

/* One pass over a float32 stream's sums: take x in, release sum plus noise, rounded to the grid. From 2^23 steps of the grid on
   a float has no bits below it. By bits, since a choice between floats would keep the loop from being vectorised; -0 becomes 0. */
INLINE void release_run(const float *restrict x, double *restrict total, float *restrict release, float grid, float per_grid,
                        size_t count)
{
    float steps[RELEASE_RUN];
    for (size_t i = 0; i < count; i++) {
        double sum = total[i] + (double)x[i];
        total[i] = sum;
        steps[i] = (float)(sum + (double)release[i]) * per_grid;
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = float_bits(steps[i]), size = bits & 0x7fffffffu;
        uint32_t is_small = 0u - (uint32_t)((int32_t)size < 0x4b000000), is_not_0 = 0u - (uint32_t)(size != 0);
        uint32_t whole = float_bits((float_of(size) + 0x1p23f) - 0x1p23f);
        release[i] = float_of((((whole ^ size) & is_small) ^ size) | ((bits ^ size) & is_not_0)) * grid;
    }
}

static CLONES void loop_release_f32(const float *restrict x, double *restrict total, float *restrict release, float grid,
                                    float per_grid, size_t n)
{
    size_t start = 0;
    for (; n - start >= RELEASE_RUN; start += RELEASE_RUN) {
        if (n - start > (RUNS_AHEAD + 1) * RELEASE_RUN) {
            for (size_t i = RUNS_AHEAD * RELEASE_RUN; i < (RUNS_AHEAD + 1) * RELEASE_RUN; i += 8)
                FETCH_TO_WRITE(total + start + i);
            for (size_t i = RUNS_AHEAD * RELEASE_RUN; i < (RUNS_AHEAD + 1) * RELEASE_RUN; i += 16)
                FETCH(x + start + i);
        }
        release_run(x + start, total + start, release + start, grid, per_grid, RELEASE_RUN);
    }
    release_run(x + start, total + start, release + start, grid, per_grid, n - start);
}

#define RUN_LANES 64 /* sums that are formed side by side */
#define RUN_ROWS 16  /* squares to each of them in float32, before it is taken over in double */

INLINE void add_run(const float *restrict x, double *restrict total)
{
    float sum[RUN_LANES] = {0};
    for (size_t row = 0; row < RUN_ROWS; row++)
        for (size_t i = 0; i < RUN_LANES; i++)
            sum[i] += x[row * RUN_LANES + i] * x[row * RUN_LANES + i];
    for (size_t i = 0; i < RUN_LANES; i++)
        total[i] += (double)sum[i];
}

static CLONES double loop_squared_norm(const float *restrict x, size_t n)
{
    double total[RUN_LANES] = {0}, all = 0;
    float last[RUN_LANES * RUN_ROWS] = {0};
    size_t whole = n - n % (RUN_LANES * RUN_ROWS);
    for (size_t first = 0; first < whole; first += RUN_LANES * RUN_ROWS)
        add_run(x + first, total);
    if (whole < n) {
        memcpy(last, x + whole, (n - whole) * sizeof(float));
        add_run(last, total);
    }
    for (size_t i = 0; i < RUN_LANES; i++)
        all += total[i];
    return all;
}

#endif
