/* The walk of a smooth tree: from label to label, and what each step pops and pads. */

#ifndef DPSTREAM_LABELS_H
#define DPSTREAM_LABELS_H

#include "transform.h"

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

#endif
