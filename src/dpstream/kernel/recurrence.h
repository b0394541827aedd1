/* Steps of a buffered Toeplitz stream whose draws are already made: in doubles, partly in double-double, or many at once. */

#ifndef DPSTREAM_RECURRENCE_H
#define DPSTREAM_RECURRENCE_H

#include "double_double.h"

#define STEPS_AT_ONCE 16       /* steps that are made at once, with one rounding of the buffers for all of them */
#define LANES 8       /* buffers, or steps, that are worked on together */
#define MOST_LANES 32 /* buffers */

/* What a leap is made with: `loop_recurrence_leap`'s tables, with zeros where there is no buffer, or no input yet. */
typedef struct {
    double carried[MOST_LANES][STEPS_AT_ONCE];
    double response[2 * STEPS_AT_ONCE];
    double decay[2 * STEPS_AT_ONCE + 1][MOST_LANES], decay_low[STEPS_AT_ONCE + 1][MOST_LANES];
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

/* Many steps, STEPS_AT_ONCE (a leap) at a time. Within a leap every release is a sum of products with tables, in plain
 * doubles: of the buffers before it, and of its inputs. Only then do the buffers decay by the whole leap, in double-double: what
 * a plain rounding of them would cost, all later steps would repeat. */
static CLONES void loop_recurrence_leap(const double *restrict z, const double *restrict input_scale,
                                        const double *restrict output_scale, const double *restrict carried,
                                        const double *restrict response, const double *restrict decay,
                                        const double *restrict decay_low, double *restrict high, double *restrict low,
                                        double *restrict out, size_t n, size_t d, size_t b)
{
    Leap leap = {0};
    size_t lanes = (b + LANES - 1) / LANES * LANES;
    memcpy(leap.carried, carried, b * STEPS_AT_ONCE * sizeof(double));
    memcpy(leap.response + STEPS_AT_ONCE, response, STEPS_AT_ONCE * sizeof(double));
    for (size_t k = 0; k <= STEPS_AT_ONCE; k++) {
        memcpy(leap.decay[STEPS_AT_ONCE + k], decay + k * b, b * sizeof(double));
        memcpy(leap.decay_low[k], decay_low + k * b, b * sizeof(double));
    }
    for (size_t column = 0; column < d; column++) {
        double state[MOST_LANES] = {0}, state_low[MOST_LANES] = {0};
        for (size_t i = 0; i < b; i++) {
            state[i] = high[i * d + column];
            state_low[i] = low[i * d + column];
        }
        for (size_t first = 0; first < n; first += STEPS_AT_ONCE) {
            size_t count = n - first < STEPS_AT_ONCE ? n - first : STEPS_AT_ONCE;
            double x[STEPS_AT_ONCE] = {0}, past[STEPS_AT_ONCE], near[STEPS_AT_ONCE], entered[LANES];
            for (size_t k = 0; k < count; k++)
                x[k] = z[(first + k) * d + column] * input_scale[first + k];
            for (size_t k = 0; k < STEPS_AT_ONCE; k += LANES) {
                lane_products(&leap.carried[0][k], STEPS_AT_ONCE, state, lanes, past + k);
                lane_products(&leap.response[STEPS_AT_ONCE + k], -1, x, STEPS_AT_ONCE, near + k);
            }
            for (size_t k = 0; k < count; k++)
                out[(first + k) * d + column] = (past[k] + near[k]) * output_scale[first + k];
            for (size_t lane = 0; lane < lanes; lane += LANES) {
                lane_products(&leap.decay[STEPS_AT_ONCE + count - 1][lane], -MOST_LANES, x, STEPS_AT_ONCE, entered);
                for (size_t i = 0; i < LANES; i++) {
                    double *top = &state[lane + i], *rest = &state_low[lane + i], kept_low;
                    double decay_high = leap.decay[STEPS_AT_ONCE + count][lane + i];
                    double kept = multiply(*top, *rest, decay_high, leap.decay_low[count][lane + i], &kept_low);
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

/* Many steps of increments in plain doubles: the pure step of mechanisms/fitted_toeplitz.py, operation for operation. */
static CLONES void loop_increment_block(const double *restrict z, const double *restrict output_scale,
                                        const double *restrict buffers, double *restrict state, double *restrict total,
                                        double *restrict out, size_t n, size_t d, size_t b)
{
    for (size_t t = 0; t < n; t++)
        for (size_t j = 0; j < d; j++) {
            double u = z[t * d + j], sum = u;
            double *held = state + j;
            for (size_t i = 0; i < b; i++, held += d) {
                double gap = buffers[4 * i], turn = buffers[4 * i + 1];
                double moved = *held - *held * gap;
                if (turn == 0)
                    sum = sum + moved * buffers[4 * i + 2];
                else {
                    double *turned = held + d;
                    double b_moved = (*turned - *turned * gap) + *held * turn;
                    moved = moved - *turned * turn;
                    sum = (sum + moved * buffers[4 * i + 2]) + b_moved * buffers[4 * i + 3];
                    *turned = b_moved;
                }
                *held = moved + u;
                if (turn != 0)
                    held += d;
            }
            double scaled = sum * output_scale[t];
            if (total != NULL)
                scaled = total[j] = total[j] + scaled;
            out[t * d + j] = scaled;
        }
}

#endif
