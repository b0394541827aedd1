/* Loops over vectors, written once for float32 and float64.
 *
 * Before including, define REAL and its BITS, TO_BITS and FROM_BITS, TILE, NORMAL_TILE and NAMED(name). A tile's normals live
 * in a small local array, so that the vectors themselves are read and written once. Vectors may end inside their last tile. */

static CLONES void NAMED(normal)(const unsigned char *restrict words, REAL *restrict out, size_t tiles)
{
    for (size_t i = 0; i < tiles; i++)
        NORMAL_TILE(words + i * TILE * sizeof(REAL), out + i * TILE);
}

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

/* n steps of a stack of d numbers a level; the caller has checked every pop against the depth. Returns the new depth. */
INLINE size_t NAMED(stack_moves)(const uint8_t *restrict pops, const double *restrict push, const double *restrict padding,
                                 const double *restrict mix, size_t mix_columns, const REAL *restrict z,
                                 const REAL *restrict zpad, REAL *restrict stack, size_t depth, REAL *restrict out, size_t n,
                                 size_t d)
{
    for (size_t t = 0; t < n; t++) {
        size_t popped = pops[t];
        depth -= popped;
        REAL *entry = stack + depth * d; /* the new one; until it is written, the lowest of those popped */
        const REAL *base = depth > 0 ? entry - d : entry;
        REAL *release = out + t * d;
        REAL weight = (REAL)push[t];
        for (size_t j = 0; j < d; j++)
            release[j] = z[t * d + j] * weight;
        if (mix != NULL && popped > 0 && mix_columns > 0) {
            const double *weights = mix + popped * mix_columns;
            size_t mixed = popped < mix_columns ? popped : mix_columns;
            for (size_t j = 0; j < d; j++) {
                REAL below = depth > 0 ? base[j] : 0, top = below;
                for (size_t l = 0; l < mixed; l++) {
                    REAL former = entry[(popped - 1 - l) * d + j];
                    REAL part = (depth > 0 ? former - below : former) * (REAL)weights[l];
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
            REAL pad_weight = (REAL)padding[t];
            BITS mask = (BITS)0 - (BITS)(pad_weight != 0);
            for (size_t j = 0; j < d; j++) {
                BITS bare = TO_BITS(entry[j]), padded = TO_BITS(entry[j] + zpad[t * d + j] * pad_weight);
                release[j] = FROM_BITS(((padded ^ bare) & mask) ^ bare);
            }
        }
        depth += 1;
    }
    return depth;
}

static CLONES size_t NAMED(stack_block)(const uint8_t *pops, const double *push, const double *padding, const double *mix,
                                        size_t mix_columns, const REAL *z, const REAL *zpad, REAL *stack, size_t depth, REAL *out,
                                        size_t n, size_t d)
{
    if (d == 1 && mix == NULL && zpad != NULL)
        return NAMED(stack_moves)(pops, push, padding, NULL, 0, z, zpad, stack, depth, out, n, 1);
    if (d == 1)
        return NAMED(stack_moves)(pops, push, padding, mix, mix_columns, z, zpad, stack, depth, out, n, 1);
    return NAMED(stack_moves)(pops, push, padding, mix, mix_columns, z, zpad, stack, depth, out, n, d);
}
