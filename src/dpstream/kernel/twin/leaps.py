"""Many steps of a buffered Toeplitz stream at once, its buffers in double-double."""

from __future__ import annotations

import numpy as np

from dpstream.kernel.twin.buffers import Double, array_of, check_apart, check_items, check_shape
from dpstream.kernel.twin.double_double import add, multiply

#: Steps that are made at once.
LEAP = 16
MOST_LANES = 32


def recurrence_leap_f64(
    z: Double,
    input_scale: Double,
    output_scale: Double,
    carried: Double,
    response: Double,
    decay: Double,
    decay_low: Double,
    high: Double,
    low: Double,
    out: Double,
    /,
) -> None:
    """Make many steps over short vectors, `LEAP` at a time; the buffers are the sums ``high + low``.

    Row t of `z` holds the draws of step t, row i of `high` and `low` buffer i. A leap is made by tables, with poles d
    and weights w: ``carried[i, k] = w_i d_i^(k+1)`` is what buffer i adds to the leap's release k, ``response[m]``,
    1 or Σ w_i d_i^m, is what an input adds m steps later, and ``decay[m, i] + decay_low[m, i] = d_i^m``. Releases
    are sums of plain products; the buffers decay over the whole leap in one product of double-double precision, off by
    less than 2^-102 of what they hold.
    """
    draws = array_of("z", z, np.float64, ndim=2)
    q = array_of("input_scale", input_scale, np.float64, ndim=1)
    p = array_of("output_scale", output_scale, np.float64, ndim=1)
    reach = array_of("carried", carried, np.float64, ndim=2)
    answer = array_of("response", response, np.float64, ndim=1)
    power = array_of("decay", decay, np.float64, ndim=2)
    power_low = array_of("decay_low", decay_low, np.float64, ndim=2)
    state = array_of("high", high, np.float64, write=True, ndim=2)
    state_low = array_of("low", low, np.float64, write=True, ndim=2)
    result = array_of("out", out, np.float64, write=True, ndim=2)
    (n, d), b = draws.shape, len(state)
    if b > MOST_LANES:
        raise ValueError(f"high must have at most {MOST_LANES} rows, got {b}")
    check_items("input_scale", q, n)
    check_items("output_scale", p, n)
    check_shape("carried", reach, b, LEAP)
    check_items("response", answer, LEAP)
    check_shape("decay", power, LEAP + 1, b)
    check_shape("decay_low", power_low, LEAP + 1, b)
    check_shape("high", state, b, d)
    check_shape("low", state_low, b, d)
    check_shape("out", result, n, d)
    check_apart(
        {"high": state, "low": state_low, "out": result},
        {
            "z": draws,
            "input_scale": q,
            "output_scale": p,
            "carried": reach,
            "response": answer,
            "decay": power,
            "decay_low": power_low,
        },
    )
    lagged = np.concatenate([np.zeros(LEAP), answer])[:, None]  # no input counts before its time
    reach, power, power_low = reach[:, :, None], power[:, :, None], power_low[:, :, None]
    for first in range(0, n, LEAP):
        count = min(LEAP, n - first)
        here = slice(first, first + count)
        x = draws[here] * q[here, None]
        past, near, entered = np.zeros((4, LEAP, d)), np.zeros((4, LEAP, d)), np.zeros((4, b, d))
        for i in range(b):
            past[i % 4] += reach[i] * state[i]
        for s in range(count):
            near[s % 4] += lagged[LEAP - s : 2 * LEAP - s] * x[s]
            entered[s % 4] += power[count - 1 - s] * x[s]
        total = _all_four(past) + _all_four(near)
        np.multiply(total[:count], p[here, None], out=result[here])
        kept, kept_low = multiply(state, state_low, power[count], power_low[count])
        state[...], state_low[...] = add(kept, kept_low, _all_four(entered))


def _all_four(parts: Double) -> Double:
    """Add what was summed in four parts."""
    total: Double = (parts[0] + parts[1]) + (parts[2] + parts[3])
    return total
