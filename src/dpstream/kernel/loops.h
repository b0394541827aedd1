/* The hot loops. No Python here: pointers and sizes that module.c has checked. */

#ifndef DPSTREAM_LOOPS_H
#define DPSTREAM_LOOPS_H

#include "transform.h"

/* One copy of each loop per x86-64 level, chosen when the module is loaded. It needs ifunc (glibc) and GCC's names of the
 * levels; elsewhere there is the one copy that the compiler's own flags give. Results do not depend on it. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
#define CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#elif defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 8
#define CLONES __attribute__((target_clones("default", "avx2")))
#else
#define CLONES
#endif

#define REAL float
#define BITS uint32_t
#define TO_BITS float_bits
#define FROM_BITS float_of
#define TILE TILE_F32
#define NORMAL_TILE normal_tile_f32
#define NAMED(name) loop_##name##_f32
#include "arrays.h"
#undef REAL
#undef BITS
#undef TO_BITS
#undef FROM_BITS
#undef TILE
#undef NORMAL_TILE
#undef NAMED

#define REAL double
#define BITS uint64_t
#define TO_BITS double_bits
#define FROM_BITS double_of
#define TILE TILE_F64
#define NORMAL_TILE normal_tile_f64
#define NAMED(name) loop_##name##_f64
#include "arrays.h"
#undef REAL
#undef BITS
#undef TO_BITS
#undef FROM_BITS
#undef TILE
#undef NORMAL_TILE
#undef NAMED

static CLONES void loop_laplace(const unsigned char *restrict words, double *restrict out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = laplace_of(word_f64(words, i));
}

/* How many of `count` words are outside the proven range. */
static CLONES uint64_t count_unsafe_normal(const unsigned char *words, size_t count)
{
    uint64_t unsafe = 0;
    for (size_t i = 0; i < count; i++)
        unsafe += normal_is_unsafe(word_f64(words, i));
    return unsafe;
}

static CLONES uint64_t count_unsafe_laplace(const unsigned char *words, size_t count)
{
    uint64_t unsafe = 0;
    for (size_t i = 0; i < count; i++)
        unsafe += laplace_is_unsafe(word_f64(words, i));
    return unsafe;
}

/* Both return how many positions are unsafe, and write them to `where` unless it is NULL. */
static size_t flag_normal(const unsigned char *words, size_t tiles, int64_t *where)
{
    size_t found = 0;
    for (size_t tile = 0; tile < tiles; tile++) {
        const unsigned char *first = words + tile * TILE_F64 * 8;
        uint64_t unsafe = count_unsafe_normal(first, TILE_F64 / 2);
        if (unsafe != 0 && where != NULL)
            for (size_t p = 0, next = found; p < TILE_F64 / 2; p++)
                if (normal_is_unsafe(word_f64(first, p))) {
                    where[next] = (int64_t)(tile * TILE_F64 + p);
                    where[next + unsafe] = (int64_t)(tile * TILE_F64 + TILE_F64 / 2 + p);
                    next++;
                }
        found += 2 * unsafe;
    }
    return found;
}

static size_t flag_laplace(const unsigned char *words, size_t n, int64_t *where)
{
    size_t found = 0;
    for (size_t start = 0; start < n; start += 256) {
        size_t count = n - start < 256 ? n - start : 256;
        uint64_t unsafe = count_unsafe_laplace(words + 8 * start, count);
        if (unsafe != 0 && where != NULL)
            for (size_t i = 0, next = found; i < count; i++)
                if (laplace_is_unsafe(word_f64(words, start + i)))
                    where[next++] = (int64_t)(start + i);
        found += unsafe;
    }
    return found;
}

/* The first words of a tile fill 128 bytes, of either width; their top 32 bits are every word of float32 tiles, every second of float64. */
#define TAIL_LIMIT 1024u /* of the top 32 bits: one pair in 2^22 */

/* Whether the first word of some pair is small. `stride` is 1 for float32 tiles, 2 for float64. */
static CLONES int has_tails(const unsigned char *words, size_t tiles, size_t stride)
{
    uint32_t least[32], lowest = TAIL_LIMIT;
    memset(least, 0xff, sizeof least);
    for (size_t tile = 0; tile < tiles; tile++)
        for (size_t i = 0; i < 32; i++) {
            uint32_t word = word_f32(words + 256 * tile, i);
            least[i] = word < least[i] ? word : least[i];
        }
    for (size_t i = stride - 1; i < 32; i += stride)
        lowest = least[i] < lowest ? least[i] : lowest;
    return lowest < TAIL_LIMIT;
}

/* How many draws rest on a small first word; writes their positions to `where` unless it is NULL. */
static size_t flag_tails(const unsigned char *words, size_t tiles, size_t stride, int64_t *where)
{
    size_t found = 0, half = 32 / stride;
    for (size_t tile = 0; tile < tiles; tile++)
        for (size_t lane = 0; lane < 2 * half; lane++)
            if (word_f32(words + 256 * tile, lane % half * stride + stride - 1) < TAIL_LIMIT) {
                if (where != NULL)
                    where[found] = (int64_t)(tile * 2 * half + lane);
                found++;
            }
    return found;
}

INLINE int trailing_zeros(uint64_t x) /* x != 0 */
{
#if defined(__GNUC__)
    return __builtin_ctzll(x);
#else
    int n = 0;
    while (!(x >> n & 1u))
        n++;
    return n;
#endif
}

/* Walks from label to label of a smooth tree (docs/mathematics.md, "Next label"). Returns the label reached, or 0 past the last one. */
static CLONES uint64_t loop_smooth_moves(uint64_t label, uint8_t *restrict pops, uint8_t *restrict padding, size_t n)
{
    for (size_t t = 0; t < n; t++) {
        uint64_t next = label + (label & (0u - label));
        if (next == 0)
            return 0;
        int zeros = trailing_zeros(label);
        int ones = trailing_zeros(next) - zeros;    /* the lowest block, all of which is replaced */
        pops[t] = (uint8_t)(zeros == 0 ? 0 : ones); /* trailing ones are padding, which is never stored */
        padding[t] = (uint8_t)(ones - 1);
        label = next | ((label & ~next) >> (zeros + 1)); /* all ones of the block but one become the lowest bits */
    }
    return label;
}

/* ---- double-double: a number as an unevaluated sum high + low; Dekker 1971, Knuth 4.2.2 ---- */

INLINE double two_sum(double a, double b, double *rest)
{
    double sum = a + b;
    double moved = sum - a;
    *rest = (a - (sum - moved)) + (b - moved);
    return sum;
}

INLINE double quick_two_sum(double a, double b, double *rest) /* |a| >= |b| */
{
    double sum = a + b;
    *rest = b - (sum - a);
    return sum;
}

INLINE double two_product(double a, double b, double *rest)
{
    double product = a * b;
    double a_wide = 134217729.0 * a, b_wide = 134217729.0 * b; /* 2^27 + 1 */
    double a_high = a_wide - (a_wide - a), b_high = b_wide - (b_wide - b);
    double a_low = a - a_high, b_low = b - b_high;
    *rest = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low;
    return product;
}

/* (a + a_low) (b + b_low) */
INLINE double multiply(double a, double a_low, double b, double b_low, double *low)
{
    double rest;
    double product = two_product(a, b, &rest);
    return quick_two_sum(product, rest + (a * b_low + a_low * b), low);
}

/* (a + a_low) + b */
INLINE double add(double a, double a_low, double b, double *low)
{
    double rest;
    double sum = two_sum(a, b, &rest);
    return quick_two_sum(sum, rest + a_low, low);
}

#define LEAP 16       /* steps that are made at once, with one rounding of the buffers for all of them */
#define LANES 8       /* buffers, or steps, that are worked on together */
#define MOST_LANES 32 /* buffers */

/* What a leap is made with: `loop_recurrence_leap`'s tables, with zeros where there is no buffer, or no input yet. */
typedef struct {
    double carried[MOST_LANES][LEAP];
    double response[2 * LEAP];
    double decay[2 * LEAP + 1][MOST_LANES], decay_low[LEAP + 1][MOST_LANES];
} Leap;

/* Σ_s table[s * step + i] factors[s] over s < count, for LANES neighbours i. Every fourth s makes a sum of its own, which shortens both the
 * wait and the error; count is a multiple of 4. */
INLINE void lane_products(const double *restrict table, ptrdiff_t step, const double *restrict factors, size_t count,
                          double *restrict out)
{
    double sum[4][LANES] = {{0}};
    for (size_t s = 0; s < count; s += 4)
        for (size_t part = 0; part < 4; part++, table += step)
            for (size_t i = 0; i < LANES; i++)
                sum[part][i] += table[i] * factors[s + part];
    for (size_t i = 0; i < LANES; i++)
        out[i] = (sum[0][i] + sum[1][i]) + (sum[2][i] + sum[3][i]);
}

/* Many steps, LEAP at a time. Within a leap every release is a sum of products with tables, in plain doubles: of the buffers before
 * it, and of its inputs. Only then do the buffers decay by LEAP steps at once, in double-double: what a plain rounding of them
 * would cost, all later steps would repeat. */
static CLONES void loop_recurrence_leap(const double *restrict z, const double *restrict input_scale,
                                        const double *restrict output_scale, const double *restrict carried,
                                        const double *restrict response, const double *restrict decay,
                                        const double *restrict decay_low, double *restrict high, double *restrict low,
                                        double *restrict out, size_t n, size_t d, size_t b)
{
    Leap leap = {0};
    size_t lanes = (b + LANES - 1) / LANES * LANES;
    memcpy(leap.carried, carried, b * LEAP * sizeof(double));
    memcpy(leap.response + LEAP, response, LEAP * sizeof(double));
    for (size_t k = 0; k <= LEAP; k++) {
        memcpy(leap.decay[LEAP + k], decay + k * b, b * sizeof(double));
        memcpy(leap.decay_low[k], decay_low + k * b, b * sizeof(double));
    }
    for (size_t column = 0; column < d; column++) {
        double state[MOST_LANES] = {0}, state_low[MOST_LANES] = {0};
        for (size_t i = 0; i < b; i++) {
            state[i] = high[i * d + column];
            state_low[i] = low[i * d + column];
        }
        for (size_t first = 0; first < n; first += LEAP) {
            size_t count = n - first < LEAP ? n - first : LEAP;
            double x[LEAP] = {0}, past[LEAP], near[LEAP], entered[LANES];
            for (size_t k = 0; k < count; k++)
                x[k] = z[(first + k) * d + column] * input_scale[first + k];
            for (size_t k = 0; k < LEAP; k += LANES) {
                lane_products(&leap.carried[0][k], LEAP, state, lanes, past + k);
                lane_products(&leap.response[LEAP + k], -1, x, LEAP, near + k);
            }
            for (size_t k = 0; k < count; k++)
                out[(first + k) * d + column] = (past[k] + near[k]) * output_scale[first + k];
            for (size_t lane = 0; lane < lanes; lane += LANES) {
                lane_products(&leap.decay[LEAP + count - 1][lane], -MOST_LANES, x, LEAP, entered);
                for (size_t i = 0; i < LANES; i++) {
                    double *top = &state[lane + i], *rest = &state_low[lane + i], kept_low;
                    double kept = multiply(*top, *rest, leap.decay[LEAP + count][lane + i], leap.decay_low[count][lane + i], &kept_low);
                    *top = add(kept, kept_low, entered[i], rest);
                }
            }
        }
        for (size_t i = 0; i < b; i++) {
            high[i * d + column] = state[i];
            low[i * d + column] = state_low[i];
        }
    }
}

#define COLUMNS 32 /* columns that are worked on together */

/* One step over many columns: the first `slow` of b buffers in double-double, the others in doubles. */
static CLONES void loop_recurrence_mixed(const double *restrict z, double input_scale, double output_scale,
                                         const double *restrict gaps, const double *restrict weights, double *restrict high,
                                         double *restrict low, double *restrict out, size_t d, size_t b, size_t slow)
{
    double u[COLUMNS], sum[COLUMNS];
    for (size_t start = 0; start < d; start += COLUMNS) {
        size_t count = d - start < COLUMNS ? d - start : COLUMNS;
        for (size_t j = 0; j < count; j++)
            sum[j] = u[j] = z[start + j] * input_scale;
        for (size_t i = 0; i < slow; i++) {
            double *row = high + i * d + start, *row_low = low + i * d + start, gap = gaps[i], weight = weights[i];
            for (size_t j = 0; j < count; j++) {
                double lost_low, kept_low;
                double lost = multiply(row[j], row_low[j], gap, 0.0, &lost_low);
                double kept = add(row[j], row_low[j], -lost, &kept_low);
                kept = quick_two_sum(kept, kept_low - lost_low, &kept_low);
                sum[j] = sum[j] + kept * weight;
                row[j] = add(kept, kept_low, u[j], &row_low[j]);
            }
        }
        for (size_t i = slow; i < b; i++) {
            double *row = high + i * d + start, gap = gaps[i], weight = weights[i];
            for (size_t j = 0; j < count; j++) { /* the buffer itself is rounded once: each rounding of it stays for long */
                double lost = row[j] * gap;
                sum[j] = sum[j] + (row[j] - lost) * weight;
                row[j] = row[j] + (u[j] - lost);
            }
        }
        for (size_t j = 0; j < count; j++)
            out[start + j] = sum[j] * output_scale;
    }
}

/* Many steps in plain doubles: the pure step of mechanisms/recurrence.py, operation for operation. */
static CLONES void loop_recurrence_block(const double *restrict z, const double *restrict input_scale,
                                         const double *restrict output_scale, const double *restrict gaps,
                                         const double *restrict weights, double *restrict state, double *restrict out, size_t n,
                                         size_t d, size_t b)
{
    for (size_t t = 0; t < n; t++) {
        double p = output_scale[t], q = input_scale[t];
        for (size_t j = 0; j < d; j++) {
            double u = z[t * d + j] * q, sum = u;
            for (size_t i = 0; i < b; i++) {
                double decayed = state[i * d + j] - state[i * d + j] * gaps[i];
                sum = sum + decayed * weights[i];
                state[i * d + j] = decayed + u;
            }
            out[t * d + j] = sum * p;
        }
    }
}

/* ---- rounding ---- */

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

#if defined(__GNUC__)
#define FETCH(address) __builtin_prefetch(address)
#else
#define FETCH(address) ((void)(address))
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
                FETCH(total + start + i);
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
