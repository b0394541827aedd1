/* Numbers of twice a double's precision: the unevaluated sum high + low (Dekker 1971, Knuth 4.2.2). */

#ifndef DPSTREAM_DOUBLE_DOUBLE_H
#define DPSTREAM_DOUBLE_DOUBLE_H

#include "transform.h"

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

#endif
