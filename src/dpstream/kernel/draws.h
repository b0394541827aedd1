/* Normal and Laplace draws from words, which of them carry no proof, and which need more bits than their words have. */

#ifndef DPSTREAM_DRAWS_H
#define DPSTREAM_DRAWS_H

#include "transform.h"

static CLONES void loop_normal_f32(const unsigned char *restrict words, float *restrict out, size_t tiles)
{
    for (size_t i = 0; i < tiles; i++)
        normal_tile_f32(words + i * TILE_F32 * sizeof(float), out + i * TILE_F32);
}

static CLONES void loop_normal_f64(const unsigned char *restrict words, double *restrict out, size_t tiles)
{
    for (size_t i = 0; i < tiles; i++)
        normal_tile_f64(words + i * TILE_F64 * sizeof(double), out + i * TILE_F64);
}

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
#define TAIL_LIMIT 256u /* of the top 32 bits: one pair in 2^24 */

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
    for (size_t tile = 0; tile < tiles; tile++) {
        if (!has_tails(words + 256 * tile, 1, stride))
            continue;
        for (size_t lane = 0; lane < 2 * half; lane++)
            if (word_f32(words + 256 * tile, lane % half * stride + stride - 1) < TAIL_LIMIT) {
                if (where != NULL)
                    where[found] = (int64_t)(tile * 2 * half + lane);
                found++;
            }
    }
    return found;
}

#endif
