"""Steps of a buffered Toeplitz stream whose draws are made: in doubles, partly in double-double, or many at once."""

from __future__ import annotations

from typing import Any, SupportsFloat

import numpy as np

from dpstream.kernel.twin.arguments import Double, array_of, check_apart, check_items, check_shape, state_rows
from dpstream.kernel.twin.double_double import add, multiply, quick_two_sum

#: Steps that are made at once.
STEPS_AT_ONCE = 16
MOST_LANES = 32
FEW_COLUMNS = 16  # columns up to which Python's floats are faster than NumPy's arrays


def recurrence_block_f64(
    z: Double,
    input_scale: Double,
    output_scale: Double,
    gaps: Double,
    weights: Double,
    state: Double,
    out: Double,
    /,
) -> None:
    """Make many steps over short vectors, in plain doubles: `RecurrenceMechanism.advance` to the last bit.

    Row t of `z` holds the draws of step t, row i of `state` buffer i.
    """
    draws = array_of("z", z, np.float64, ndim=2)
    q = array_of("input_scale", input_scale, np.float64, ndim=1)
    p = array_of("output_scale", output_scale, np.float64, ndim=1)
    gap = array_of("gaps", gaps, np.float64, ndim=1)
    weight = array_of("weights", weights, np.float64, ndim=1)
    buffers = array_of("state", state, np.float64, write=True, ndim=2)
    result = array_of("out", out, np.float64, write=True, ndim=2)
    (n, d), b = draws.shape, gap.size
    check_items("input_scale", q, n)
    check_items("output_scale", p, n)
    check_items("weights", weight, b)
    check_shape("state", buffers, b, d)
    check_shape("out", result, n, d)
    check_apart(
        {"state": buffers, "out": result},
        {"z": draws, "input_scale": q, "output_scale": p, "gaps": gap, "weights": weight},
    )
    if d > FEW_COLUMNS:
        _recur(draws, q, p, gap, weight, buffers, result)
        return
    # One column after the other in Python's floats: the same arithmetic, without the cost of NumPy's calls.
    scales, factors = (q.tolist(), p.tolist()), (gap.tolist(), weight.tolist())
    for j in range(d):
        column, releases = buffers[:, j].tolist(), [0.0] * n
        _recur(draws[:, j].tolist(), *scales, *factors, column, releases)
        buffers[:, j], result[:, j] = column, releases


def _recur(z: Any, q: Any, p: Any, gap: Any, weight: Any, state: Any, releases: Any) -> None:
    """Advance the buffers through all steps; numbers or rows of numbers alike."""
    for t in range(len(z)):
        total = u = z[t] * q[t]
        for i in range(len(state)):
            decayed = state[i] - state[i] * gap[i]
            total = total + decayed * weight[i]
            state[i] = decayed + u
        releases[t] = total * p[t]


def increment_block_f64(
    z: Double,
    output_scale: Double,
    buffers: Double,
    state: Double,
    total: Double | None,
    out: Double,
    /,
) -> None:
    """Make many steps of a stream of increments over short vectors, in plain doubles.

    Row t of `z` holds the draws of step t; `buffers` and `total` as in `increment_step_f32`, `state` holds the rows of
    all buffers in order.
    """
    draws = array_of("z", z, np.float64, ndim=2)
    p = array_of("output_scale", output_scale, np.float64, ndim=1)
    table = array_of("buffers", buffers, np.float64, ndim=2)
    held = array_of("state", state, np.float64, write=True, ndim=2)
    sums = None if total is None else array_of("total", total, np.float64, write=True, ndim=1)
    result = array_of("out", out, np.float64, write=True, ndim=2)
    (n, d), b = draws.shape, len(table)
    check_items("output_scale", p, n)
    check_shape("buffers", table, b, 4)
    check_shape("state", held, state_rows(table), d)
    if sums is not None:
        check_items("total", sums, d)
    check_shape("out", result, n, d)
    check_apart(
        {"state": held, "out": result} | ({} if sums is None else {"total": sums}),
        {"z": draws, "output_scale": p, "buffers": table},
    )
    for t in range(n):
        total_now = u = draws[t]
        row = 0
        for gap, turn, weight, turned_weight in table:
            a = held[row].copy()
            moved = a - a * gap
            if turn == 0:
                total_now = total_now + moved * weight
            else:
                turned = (held[row + 1] - held[row + 1] * gap) + a * turn
                moved = moved - held[row + 1] * turn
                total_now = (total_now + moved * weight) + turned * turned_weight
                held[row + 1] = turned
            held[row] = moved + u
            row += 1 if turn == 0 else 2
        scaled = total_now * p[t]
        if sums is None:
            result[t] = scaled
        else:
            sums += scaled
            result[t] = sums


def recurrence_mixed_f64(
    z: Double,
    input_scale: SupportsFloat,
    output_scale: SupportsFloat,
    gaps: Double,
    weights: Double,
    high: Double,
    low: Double,
    out: Double,
    /,
) -> None:
    """Make one step over a long vector; row i of `high` holds buffer i.

    The first buffers, as many as `low` has rows, are the sums ``high + low``; a step moves them by less than 2^-102
    of themselves. Of the others each step rounds the buffer once, and what it loses and takes in.
    """
    draws = array_of("z", z, np.float64, ndim=1)
    q, p = float(input_scale), float(output_scale)
    gap = array_of("gaps", gaps, np.float64, ndim=1)
    weight = array_of("weights", weights, np.float64, ndim=1)
    state = array_of("high", high, np.float64, write=True, ndim=2)
    state_low = array_of("low", low, np.float64, write=True, ndim=2)
    result = array_of("out", out, np.float64, write=True, ndim=1)
    d, b, slow = draws.size, gap.size, len(state_low)
    if slow > b:
        raise ValueError(f"low must have at most {b} rows, got {slow}")
    check_items("weights", weight, b)
    check_shape("high", state, b, d)
    check_shape("low", state_low, slow, d)
    check_items("out", result, d)
    check_apart({"high": state, "low": state_low, "out": result}, {"z": draws, "gaps": gap, "weights": weight})
    u = draws * q
    total = u
    for i in range(slow):
        lost, lost_low = multiply(state[i], state_low[i], gap[i], 0.0)
        kept, kept_low = add(state[i], state_low[i], -lost)
        kept, kept_low = quick_two_sum(kept, kept_low - lost_low)
        total = total + kept * weight[i]
        state[i], state_low[i] = add(kept, kept_low, u)
    for i in range(slow, b):
        lost = state[i] * gap[i]
        total = total + (state[i] - lost) * weight[i]
        state[i] += u - lost
    np.multiply(total, p, out=result)


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
    """Make many steps over short vectors, `STEPS_AT_ONCE` at a time; the buffers are the sums ``high + low``.

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
    check_shape("carried", reach, b, STEPS_AT_ONCE)
    check_items("response", answer, STEPS_AT_ONCE)
    check_shape("decay", power, STEPS_AT_ONCE + 1, b)
    check_shape("decay_low", power_low, STEPS_AT_ONCE + 1, b)
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
    lagged = np.concatenate([np.zeros(STEPS_AT_ONCE), answer])[:, None]  # no input counts before its time
    reach, power, power_low = reach[:, :, None], power[:, :, None], power_low[:, :, None]
    for first in range(0, n, STEPS_AT_ONCE):
        count = min(STEPS_AT_ONCE, n - first)
        here = slice(first, first + count)
        x = draws[here] * q[here, None]
        past, near, entered = np.zeros((4, STEPS_AT_ONCE, d)), np.zeros((4, STEPS_AT_ONCE, d)), np.zeros((4, b, d))
        for i in range(b):
            past[i % 4] += reach[i] * state[i]
        for s in range(count):
            near[s % 4] += lagged[STEPS_AT_ONCE - s : 2 * STEPS_AT_ONCE - s] * x[s]
            entered[s % 4] += power[count - 1 - s] * x[s]
        total = _all_four(past) + _all_four(near)
        np.multiply(total[:count], p[here, None], out=result[here])
        kept, kept_low = multiply(state, state_low, power[count], power_low[count])
        state[...], state_low[...] = add(kept, kept_low, _all_four(entered))


def _all_four(parts: Double) -> Double:
    """Add what was summed in four parts."""
    total: Double = (parts[0] + parts[1]) + (parts[2] + parts[3])
    return total
