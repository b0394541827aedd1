"""Many steps of a buffered Toeplitz stream over a short vector, with numbers of twice a double's precision.

A number is the unevaluated sum of two doubles; additions and products keep what they round off.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpstream.kernel.twin.buffers import Double, array_of, check_apart, check_items, check_shape

FEW = 16  # columns up to which Python's floats are faster than NumPy's arrays


def _two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    total = a + b
    moved = total - a
    return total, (a - (total - moved)) + (b - moved)


def _quick_two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    total = a + b
    return total, b - (total - a)


def _two_product(a: Any, b: Any) -> tuple[Any, Any]:
    product = a * b
    a_wide, b_wide = 134217729.0 * a, 134217729.0 * b
    a_high, b_high = a_wide - (a_wide - a), b_wide - (b_wide - b)
    a_low, b_low = a - a_high, b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _scale(a: Any, a_low: Any, b: Any) -> tuple[Any, Any]:
    product, rest = _two_product(a, b)
    return _quick_two_sum(product, rest + a_low * b)


def _add(a: Any, a_low: Any, b: Any, b_low: Any) -> tuple[Any, Any]:
    total, rest = _two_sum(a, b)
    return _quick_two_sum(total, rest + (a_low + b_low))


def recurrence_block_f64(
    z: Double,
    input_scale: Double,
    output_scale: Double,
    gaps: Double,
    weights: Double,
    high: Double,
    low: Double | None,
    out: Double,
    rest: Double | None,
    /,
) -> None:
    """Make many steps of a buffered Toeplitz stream over short vectors, with buffers ``high + low``.

    Each operation errs by less than 2^-102 of its operands, so that no recurrence is long enough for it to
    matter. ``out + rest`` is the release, ``out`` its nearest double. With ``low=None`` the buffers are
    plain doubles, about four times faster, and the step is `RecurrenceMechanism.advance` to the last bit.
    """
    draws = array_of("z", z, np.float64, ndim=2)
    q = array_of("input_scale", input_scale, np.float64, ndim=1)
    p = array_of("output_scale", output_scale, np.float64, ndim=1)
    gap = array_of("gaps", gaps, np.float64, ndim=1)
    weight = array_of("weights", weights, np.float64, ndim=1)
    state = array_of("high", high, np.float64, write=True, ndim=2)
    state_low = None if low is None else array_of("low", low, np.float64, write=True, ndim=2)
    result = array_of("out", out, np.float64, write=True, ndim=2)
    result_low = None if rest is None else array_of("rest", rest, np.float64, write=True, ndim=2)
    (n, d), b = draws.shape, gap.size
    if state_low is None and result_low is not None:
        raise ValueError("rest must be None when low is: plain doubles keep no rest")
    check_items("input_scale", q, n)
    check_items("output_scale", p, n)
    check_items("weights", weight, b)
    written = {"high": state, "out": result}
    check_shape("high", state, b, d)
    if state_low is not None:
        check_shape("low", state_low, b, d)
        written["low"] = state_low
    check_shape("out", result, n, d)
    if result_low is not None:
        check_shape("rest", result_low, n, d)
        written["rest"] = result_low
    check_apart(written, {"z": draws, "input_scale": q, "output_scale": p, "gaps": gap, "weights": weight})
    if d <= FEW:
        # One column after the other in Python's floats: the same arithmetic, without the cost of NumPy's calls.
        scales, factors = (q.tolist(), p.tolist()), (gap.tolist(), weight.tolist())
        for j in range(d):
            buffers, releases, rests = state[:, j].tolist(), [0.0] * n, [0.0] * n
            buffers_low = None if state_low is None else state_low[:, j].tolist()
            _recur(draws[:, j].tolist(), *scales, *factors, buffers, buffers_low, releases, rests)
            state[:, j], result[:, j] = buffers, releases
            if state_low is not None:
                state_low[:, j] = buffers_low
            if result_low is not None:
                result_low[:, j] = rests
    else:
        _recur(
            draws, q, p, gap, weight, state, state_low, result, np.empty((n, d)) if result_low is None else result_low
        )


def _recur(
    z: Any, q: Any, p: Any, gap: Any, weight: Any, state: Any, state_low: Any, releases: Any, rests: Any
) -> None:
    """Advance the buffers through all steps; numbers or rows of numbers alike."""
    for t in range(len(z)):
        if state_low is None:
            total = u = z[t] * q[t]
            for i in range(len(state)):
                decayed = state[i] - state[i] * gap[i]
                total = total + decayed * weight[i]
                state[i] = decayed + u
            releases[t] = total * p[t]
            continue
        total, total_low = u, u_low = _two_product(z[t], q[t])
        for i in range(len(state)):
            lost, lost_low = _scale(state[i], state_low[i], gap[i])
            kept, kept_low = _add(state[i], state_low[i], -lost, -lost_low)
            part, part_low = _scale(kept, kept_low, weight[i])
            state[i], state_low[i] = _add(kept, kept_low, u, u_low)
            total, total_low = _add(total, total_low, part, part_low)
        releases[t], rests[t] = _scale(total, total_low, p[t])
