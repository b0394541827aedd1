/* Many steps of a tree over a short vector, whose draws are already made. */

#ifndef DPSTREAM_STACK_H
#define DPSTREAM_STACK_H

#include "transform.h"

/* n steps of a stack of d numbers a level; the caller has checked every pop against the depth. Returns the new depth. */
INLINE size_t stack_moves(const uint8_t *restrict pops, const double *restrict push, const double *restrict padding,
                                 const double *restrict mix, size_t mix_columns, const double *restrict z,
                                 const double *restrict zpad, double *restrict stack, size_t depth, double *restrict out, size_t n,
                                 size_t d)
{
    for (size_t t = 0; t < n; t++) {
        size_t popped = pops[t];
        depth -= popped;
        double *entry = stack + depth * d; /* the new one; until it is written, the lowest of those popped */
        const double *base = depth > 0 ? entry - d : entry;
        double *release = out + t * d;
        double weight = push[t];
        for (size_t j = 0; j < d; j++)
            release[j] = z[t * d + j] * weight;
        if (mix != NULL && popped > 0 && mix_columns > 0) {
            const double *weights = mix + popped * mix_columns;
            size_t mixed = popped < mix_columns ? popped : mix_columns;
            for (size_t j = 0; j < d; j++) {
                double below = depth > 0 ? base[j] : 0, top = below;
                for (size_t l = 0; l < mixed; l++) {
                    double former = entry[(popped - 1 - l) * d + j];
                    double part = (depth > 0 ? former - below : former) * weights[l];
                    top = depth > 0 || l > 0 ? top + part : part;
                }
                release[j] = top + release[j];
            }
        }
        else if (depth > 0)
            for (size_t j = 0; j < d; j++)
                release[j] = base[j] + release[j];
        for (size_t j = 0; j < d; j++)
            entry[j] = release[j];
        if (zpad != NULL) { /* without a branch: whether a step has padding is hard to predict */
            double pad_weight = padding[t];
            uint64_t mask = (uint64_t)0 - (uint64_t)(pad_weight != 0);
            for (size_t j = 0; j < d; j++) {
                uint64_t bare = double_bits(entry[j]), padded = double_bits(entry[j] + zpad[t * d + j] * pad_weight);
                release[j] = double_of(((padded ^ bare) & mask) ^ bare);
            }
        }
        depth += 1;
    }
    return depth;
}

static CLONES size_t loop_stack_block(const uint8_t *pops, const double *push, const double *padding, const double *mix,
                                        size_t mix_columns, const double *z, const double *zpad, double *stack, size_t depth, double *out,
                                        size_t n, size_t d)
{
    if (d == 1 && mix == NULL && zpad != NULL)
        return stack_moves(pops, push, padding, NULL, 0, z, zpad, stack, depth, out, n, 1);
    if (d == 1)
        return stack_moves(pops, push, padding, mix, mix_columns, z, zpad, stack, depth, out, n, 1);
    return stack_moves(pops, push, padding, mix, mix_columns, z, zpad, stack, depth, out, n, d);
}

#endif
