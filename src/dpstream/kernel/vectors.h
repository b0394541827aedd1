/* One step of a long vector: draws are made, weighed and added in the same pass. Written once for float32 and float64.
 *
 * Before including, define REAL, TILE, NORMAL_TILE and NAMED(name). A tile's normals live in a small local array, so that the
 * vectors themselves are read and written once. Vectors may end inside their last tile. */

/* The normals of one tile: from keystream, or as they are if they were made before (`made`). */
INLINE void NAMED(draw)(const unsigned char *source, int made, REAL *tile)
{
    if (made)
        memcpy(tile, source, TILE * sizeof(REAL));
    else
        NORMAL_TILE(source, tile);
}

/* A tile's first `count` values to where they belong; whole tiles without a call. */
INLINE void NAMED(keep)(REAL *to, const REAL *tile, size_t count)
{
    if (count == TILE)
        memcpy(to, tile, TILE * sizeof(REAL));
    else
        memcpy(to, tile, count * sizeof(REAL));
}

/* top = base + node_weight z, out = top + pad_weight z'. base may be NULL or top; out may be NULL; pad_words may be NULL. */
INLINE void NAMED(stack_step_from)(const unsigned char *node_words, int node_made, REAL node_weight,
                                   const unsigned char *pad_words, int pad_made, REAL pad_weight, const REAL *base, REAL *top,
                                   REAL *out, size_t n)
{
    REAL node[TILE], pad[TILE], sum[TILE];
    for (size_t start = 0; start < n; start += TILE) {
        size_t count = n - start < TILE ? n - start : TILE;
        NAMED(draw)(node_words + start * sizeof(REAL), node_made, node);
        for (size_t i = 0; i < TILE; i++)
            sum[i] = node_weight * node[i];
        if (base != NULL) {
            if (count == TILE)
                for (size_t i = 0; i < TILE; i++)
                    sum[i] = base[start + i] + sum[i];
            else
                for (size_t i = 0; i < count; i++)
                    sum[i] = base[start + i] + sum[i];
        }
        NAMED(keep)(top + start, sum, count);
        if (out == NULL)
            continue;
        if (pad_words != NULL) {
            NAMED(draw)(pad_words + start * sizeof(REAL), pad_made, pad);
            for (size_t i = 0; i < TILE; i++)
                sum[i] = sum[i] + pad_weight * pad[i];
        }
        NAMED(keep)(out + start, sum, count);
    }
}

/* Draws that were made already are rare, and a loop of their own keeps them out of the way of the others. */
static CLONES void NAMED(stack_step)(const unsigned char *node_words, int node_made, REAL node_weight,
                                     const unsigned char *pad_words, int pad_made, REAL pad_weight, const REAL *base, REAL *top,
                                     REAL *out, size_t n)
{
    if (node_made || pad_made)
        NAMED(stack_step_from)(node_words, node_made, node_weight, pad_words, pad_made, pad_weight, base, top, out, n);
    else
        NAMED(stack_step_from)(node_words, 0, node_weight, pad_words, 0, pad_weight, base, top, out, n);
}

/* A tile of one slow buffer: it decays, is added to the sum and takes u in. */
INLINE void NAMED(slow_buffer)(double *restrict state, double gap, double weight, const REAL *restrict u, double *restrict sum,
                               int first, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double decayed = state[i] - state[i] * gap;
        sum[i] = first ? decayed * weight : sum[i] + decayed * weight;
        state[i] = decayed + (double)u[i];
    }
}

INLINE void NAMED(fast_buffer)(REAL *restrict state, REAL gap, REAL weight, const REAL *restrict u, REAL *restrict sum,
                               size_t count)
{
    for (size_t i = 0; i < count; i++) {
        REAL decayed = state[i] - state[i] * gap;
        sum[i] = sum[i] + decayed * weight;
        state[i] = decayed + u[i];
    }
}

/* One step of the buffers in columns lo .. hi. The slow buffers, in double, come first in the sum and are rounded to REAL once;
 * then the fast ones, in order. */
INLINE void NAMED(recurrence_step_from)(const unsigned char *words, int made, double input_scale, double output_scale,
                                        const double *gaps, const double *weights, size_t slow, double *slow_state, size_t fast,
                                        REAL *fast_state, size_t row, size_t lo, size_t hi, REAL *out)
{
    REAL p = (REAL)output_scale, q = (REAL)input_scale;
    REAL u[TILE], sum[TILE];
    double slow_sum[TILE];
    for (size_t start = lo; start < hi; start += TILE) {
        size_t count = hi - start < TILE ? hi - start : TILE;
        NAMED(draw)(words + (start - lo) * sizeof(REAL), made, u);
        for (size_t i = 0; i < TILE; i++)
            sum[i] = u[i] = u[i] * q;
        for (size_t b = 0; b < slow; b++) {
            double *state = slow_state + b * row + start;
            if (count == TILE && b == 0)
                NAMED(slow_buffer)(state, gaps[b], weights[b], u, slow_sum, 1, TILE);
            else if (count == TILE)
                NAMED(slow_buffer)(state, gaps[b], weights[b], u, slow_sum, 0, TILE);
            else
                NAMED(slow_buffer)(state, gaps[b], weights[b], u, slow_sum, b == 0, count);
        }
        if (slow > 0)
            for (size_t i = 0; i < count; i++)
                sum[i] = sum[i] + (REAL)slow_sum[i];
        for (size_t b = 0; b < fast; b++) {
            REAL *state = fast_state + b * row + start;
            if (count == TILE)
                NAMED(fast_buffer)(state, (REAL)gaps[slow + b], (REAL)weights[slow + b], u, sum, TILE);
            else
                NAMED(fast_buffer)(state, (REAL)gaps[slow + b], (REAL)weights[slow + b], u, sum, count);
        }
        for (size_t i = 0; i < TILE; i++)
            sum[i] = sum[i] * p;
        NAMED(keep)(out + (start - lo), sum, count);
    }
}

static CLONES void NAMED(recurrence_step)(const unsigned char *words, int made, double input_scale, double output_scale,
                                          const double *gaps, const double *weights, size_t slow, double *slow_state,
                                          size_t fast, REAL *fast_state, size_t row, size_t lo, size_t hi, REAL *out)
{
    if (made)
        NAMED(recurrence_step_from)(words, 1, input_scale, output_scale, gaps, weights, slow, slow_state, fast, fast_state, row, lo,
                                    hi, out);
    else
        NAMED(recurrence_step_from)(words, 0, input_scale, output_scale, gaps, weights, slow, slow_state, fast, fast_state, row, lo,
                                    hi, out);
}
