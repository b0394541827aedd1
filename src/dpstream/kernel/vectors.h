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

#define AHEAD (512 / sizeof(REAL)) /* how far ahead memory is asked for, where the processor follows too many rows to guess */

/* Ask for the lines of a tile that will be written. */
INLINE void NAMED(fetch_tile)(const REAL *tile)
{
    for (size_t i = 0; i < TILE; i += 64 / sizeof(REAL))
        FETCH_TO_WRITE(tile + i);
}

/* out += noise - last, and last = noise: the increments of a mechanism whose releases are made whole. */
INLINE void NAMED(add_difference)(const REAL *restrict noise, REAL *restrict last, REAL *restrict out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = out[i] + (noise[i] - last[i]);
        last[i] = noise[i];
    }
}

/* top = base + node_weight z, out = top + pad_weight z'. base may be NULL or top; out may be NULL; pad_words may be NULL. With `last`,
 * the noise of the step before, the difference to it is added to out instead, and last becomes the noise of this one. */
INLINE void NAMED(stack_step_from)(const unsigned char *node_words, int node_made, REAL node_weight,
                                   const unsigned char *pad_words, int pad_made, REAL pad_weight, const REAL *base, REAL *top,
                                   REAL *last, REAL *out, size_t n)
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
        if (last == NULL)
            NAMED(keep)(out + start, sum, count);
        else if (count == TILE)
            NAMED(add_difference)(sum, last + start, out + start, TILE);
        else
            NAMED(add_difference)(sum, last + start, out + start, count);
    }
}

/* Draws that were made already are rare, and a loop of their own keeps them out of the way of the others. */
static CLONES void NAMED(stack_step)(const unsigned char *node_words, int node_made, REAL node_weight,
                                     const unsigned char *pad_words, int pad_made, REAL pad_weight, const REAL *base, REAL *top,
                                     REAL *out, size_t n)
{
    if (node_made || pad_made)
        NAMED(stack_step_from)(node_words, node_made, node_weight, pad_words, pad_made, pad_weight, base, top, NULL, out, n);
    else
        NAMED(stack_step_from)(node_words, 0, node_weight, pad_words, 0, pad_weight, base, top, NULL, out, n);
}

static CLONES void NAMED(stack_increment)(const unsigned char *node_words, int node_made, REAL node_weight,
                                          const unsigned char *pad_words, int pad_made, REAL pad_weight, const REAL *base, REAL *top,
                                          REAL *last, REAL *out, size_t n)
{
    if (node_made || pad_made)
        NAMED(stack_step_from)(node_words, node_made, node_weight, pad_words, pad_made, pad_weight, base, top, last, out, n);
    else
        NAMED(stack_step_from)(node_words, 0, node_weight, pad_words, 0, pad_weight, base, top, last, out, n);
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

/* A tile of a pair: the vector (state, turned) shrinks and turns, is added to the sum, and takes u in. */
INLINE void NAMED(slow_pair)(double *restrict state, double *restrict turned, const double *restrict buffer,
                             const REAL *restrict u, double *restrict sum, size_t count)
{
    double gap = buffer[0], turn = buffer[1], weight = buffer[2], turned_weight = buffer[3];
    for (size_t i = 0; i < count; i++) {
        double a = (state[i] - state[i] * gap) - turned[i] * turn;
        double b = (turned[i] - turned[i] * gap) + state[i] * turn;
        sum[i] = (sum[i] + a * weight) + b * turned_weight;
        state[i] = a + (double)u[i];
        turned[i] = b;
    }
}

INLINE void NAMED(fast_pair)(REAL *restrict state, REAL *restrict turned, const double *restrict buffer, const REAL *restrict u,
                             REAL *restrict sum, size_t count)
{
    REAL gap = (REAL)buffer[0], turn = (REAL)buffer[1], weight = (REAL)buffer[2], turned_weight = (REAL)buffer[3];
    for (size_t i = 0; i < count; i++) {
        REAL a = (state[i] - state[i] * gap) - turned[i] * turn;
        REAL b = (turned[i] - turned[i] * gap) + state[i] * turn;
        sum[i] = (sum[i] + a * weight) + b * turned_weight;
        state[i] = a + u[i];
        turned[i] = b;
    }
}

/* The increment, or with `total` the sum of all of them so far, to `out`; with `add` it is added to what is there. */
INLINE void NAMED(hand_out)(REAL *restrict increment, REAL scale, double *restrict total, REAL *restrict out, size_t count, int add)
{
    for (size_t i = 0; i < TILE; i++)
        increment[i] = increment[i] * scale;
    if (total != NULL)
        for (size_t i = 0; i < count; i++) {
            total[i] = total[i] + (double)increment[i];
            increment[i] = (REAL)total[i];
        }
    if (!add)
        NAMED(keep)(out, increment, count);
    else
        for (size_t i = 0; i < count; i++)
            out[i] = out[i] + increment[i];
}

/* One step of increments in columns lo .. hi. A buffer is a row (gap, turn, weight, turned weight) of the table, with one row of state,
 * or two if it turns. The first `slow` are in double; their sum comes first and is rounded to REAL once. */
INLINE void NAMED(increment_step_from)(const unsigned char *words, int made, double input_scale, double output_scale,
                                       const double *buffers, size_t slow, double *slow_state, size_t fast, REAL *fast_state,
                                       double *total, size_t row, size_t lo, size_t hi, REAL *out, int add)
{
    REAL p = (REAL)output_scale, q = (REAL)input_scale;
    REAL u[TILE], sum[TILE];
    double slow_sum[TILE];
    for (size_t start = lo; start < hi; start += TILE) {
        size_t count = hi - start < TILE ? hi - start : TILE;
        NAMED(draw)(words + (start - lo) * sizeof(REAL), made, u);
        for (size_t i = 0; i < TILE; i++)
            sum[i] = u[i] = u[i] * q;
        if (slow > 0) {
            double *state = slow_state + start;
            for (size_t i = 0; i < TILE; i++)
                slow_sum[i] = 0;
            for (size_t b = 0; b < slow; b++, state += row) {
                if (buffers[4 * b + 1] == 0) {
                    NAMED(slow_buffer)(state, buffers[4 * b], buffers[4 * b + 2], u, slow_sum, 0, count);
                    continue;
                }
                NAMED(slow_pair)(state, state + row, buffers + 4 * b, u, slow_sum, count);
                state += row;
            }
            for (size_t i = 0; i < count; i++)
                sum[i] = sum[i] + (REAL)slow_sum[i];
        }
        REAL *state = fast_state + start;
        for (size_t b = slow; b < slow + fast; b++, state += row) {
            const double *buffer = buffers + 4 * b;
            if (start + AHEAD + TILE <= hi) {
                NAMED(fetch_tile)(state + AHEAD);
                if (buffer[1] != 0)
                    NAMED(fetch_tile)(state + row + AHEAD);
            }
            if (buffer[1] == 0) {
                if (count == TILE)
                    NAMED(fast_buffer)(state, (REAL)buffer[0], (REAL)buffer[2], u, sum, TILE);
                else
                    NAMED(fast_buffer)(state, (REAL)buffer[0], (REAL)buffer[2], u, sum, count);
                continue;
            }
            if (count == TILE)
                NAMED(fast_pair)(state, state + row, buffer, u, sum, TILE);
            else
                NAMED(fast_pair)(state, state + row, buffer, u, sum, count);
            state += row;
        }
        if (total != NULL && start + AHEAD + TILE <= hi)
            for (size_t i = AHEAD; i < AHEAD + TILE; i += 64 / sizeof(double))
                FETCH_TO_WRITE(total + start + i);
        if (count == TILE)
            NAMED(hand_out)(sum, p, total == NULL ? NULL : total + start, out + (start - lo), TILE, add);
        else
            NAMED(hand_out)(sum, p, total == NULL ? NULL : total + start, out + (start - lo), count, add);
    }
}

static CLONES void NAMED(increment_step)(const unsigned char *words, int made, double input_scale, double output_scale,
                                         const double *buffers, size_t slow, double *slow_state, size_t fast, REAL *fast_state,
                                         double *total, size_t row, size_t lo, size_t hi, REAL *out, int add)
{
    if (made)
        NAMED(increment_step_from)(words, 1, input_scale, output_scale, buffers, slow, slow_state, fast, fast_state, total, row, lo,
                                   hi, out, add);
    else
        NAMED(increment_step_from)(words, 0, input_scale, output_scale, buffers, slow, slow_state, fast, fast_state, total, row, lo,
                                   hi, out, add);
}

static CLONES void NAMED(add_increment)(const REAL *noise, REAL *last, REAL *out, size_t n)
{
    NAMED(add_difference)(noise, last, out, n);
}

#define BAND_TILES 16 /* tiles that are worked on together, so that each of the many rows is read a page at a time */

/* One step of a banded stream: z minus the weighted increments before it, the last one first; it takes the oldest one's place. */
static CLONES void NAMED(banded_step)(const unsigned char *words, int made, double input_scale, double output_scale,
                                      const double *coefficients, size_t n, REAL *ring, size_t position, double *total, size_t row,
                                      size_t lo, size_t hi, REAL *out, int add)
{
    REAL p = (REAL)output_scale, q = (REAL)input_scale;
    REAL sum[BAND_TILES * TILE], scaled[TILE];
    for (size_t start = lo; start < hi; start += BAND_TILES * TILE) {
        size_t count = hi - start < BAND_TILES * TILE ? hi - start : BAND_TILES * TILE;
        for (size_t first = 0; first < count; first += TILE)
            NAMED(draw)(words + (start - lo + first) * sizeof(REAL), made, sum + first);
        for (size_t i = 0; i < BAND_TILES * TILE; i++)
            sum[i] = i < count ? sum[i] * q : 0;
        for (size_t j = 1; j <= n; j++) {
            const REAL *restrict before = ring + (position + n - j) % n * row + start;
            REAL coefficient = (REAL)coefficients[j - 1];
            for (size_t i = 0; i < count; i++)
                sum[i] = sum[i] - before[i] * coefficient;
        }
        if (n > 0)
            memcpy(ring + position * row + start, sum, count * sizeof(REAL));
        for (size_t first = 0; first < count; first += TILE) {
            size_t here = count - first < TILE ? count - first : TILE;
            memcpy(scaled, sum + first, TILE * sizeof(REAL));
            NAMED(hand_out)(scaled, p, total == NULL ? NULL : total + start + first, out + (start - lo + first), here, add);
        }
    }
}
#undef BAND_TILES
#undef AHEAD
