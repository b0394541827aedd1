"""Tables and error bounds of the recurrence engine.

*Tables* say what `kernel.STEPS_AT_ONCE` steps do to the buffers and releases of a buffered Toeplitz stream. Each entry
is the exact number, rounded once; powers of the poles are kept in double-double, since they are applied to the
same buffers over and over.

*Repeated rounding.* A buffer that is rounded at every step carries each rounding on, decaying as slowly as the buffer
itself: a draw m steps ago has been rounded m times. Buffers that decay fast forget before that matters; the slow ones
are kept in double-double. Only as many as the bound needs: every one of them is a vector more.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstream import kernel
from dpstream.mechanisms.recurrence import RecurrenceMechanism

__all__ = ["TOLERANCE", "LeapTables", "leap_tables", "repeated_rounding", "slow_buffers"]

#: What repeated rounding may move a release of unit scale by. At scale 10^4, two releases in a million are then so
#: close to a half-integer that ball arithmetic has to decide.
TOLERANCE = 1e-10
#: Lags are looked at in cells this much wider than the one before.
CELL = 1.02
#: Steps of a stream without a last one.
STEPS_WITHOUT_HORIZON = 2**50


class LeapTables(NamedTuple):
    """The tables of `kernel.recurrence_leap_f64`."""

    carried: NDArray[np.float64]
    response: NDArray[np.float64]
    decay: NDArray[np.float64]
    decay_low: NDArray[np.float64]


@lru_cache(maxsize=64)
def leap_tables(gaps: tuple[float, ...], weights: tuple[float, ...]) -> LeapTables:
    """The tables for poles 1 - gap, computed in fractions; all streams of one mechanism share them."""
    poles = [1 - Fraction(gap) for gap in gaps]
    heights = [Fraction(weight) for weight in weights]
    powers = [[Fraction(1)] * len(poles)]
    for _ in range(kernel.STEPS_AT_ONCE):
        powers.append([power * pole for power, pole in zip(powers[-1], poles, strict=True)])
    parts = [[height * power for height, power in zip(heights, row, strict=True)] for row in powers]
    high = np.array(powers, dtype=np.float64)
    low = [
        [power - Fraction(x) for power, x in zip(*rows, strict=True)]
        for rows in zip(powers, high.tolist(), strict=True)
    ]
    return LeapTables(
        carried=np.ascontiguousarray(np.array(parts[1:], dtype=np.float64).T),
        response=np.array([1.0, *(float(sum(row)) for row in parts[1:-1])]),
        decay=high,
        decay_low=np.array(low, dtype=np.float64),
    )


def repeated_rounding(gaps: NDArray[np.float64], weights: NDArray[np.float64], slow: int, steps: int) -> float:
    """K such that no release is moved by more than ε · K · ‖L_t‖ · max|z|, if the first `slow` buffers are not rounded.

    A draw of lag m has a share of the fast buffers in L_t,t-m of s(m) = Σ_fast c_i w_i d_i^m / Σ w_i d_i^m, and
    c_i = 1 + 2 gap_i / d_i roundings a step. So the sum of |L_t,t-m| m s(m) counts them all, and by Cauchy and Schwarz
    K² = Σ_m (m s(m))² will do. It is summed over cells of lags: in a cell no numerator is larger than at its start, no
    denominator smaller than at its end.
    """
    if slow == len(gaps):
        return 0.0
    cells = 2 + math.ceil(math.log(steps + 1) / math.log(CELL))
    edges = np.unique(np.append(np.floor(np.geomspace(1, steps + 1, cells)), steps + 1.0))
    rates = np.log1p(-gaps)
    roundings = 1 + 2 * gaps / (1 - gaps)
    first, last = edges[:-1, None], edges[1:, None] - 1
    # All powers relative to the slowest: far out everything else underflows.
    fast = (roundings * weights * np.exp(first * (rates - rates[0])))[:, slow:].sum(axis=1)
    whole = (weights * np.exp(last * (rates - rates[0]))).sum(axis=1)
    share = np.minimum(fast / whole * np.exp((first - last)[:, 0] * rates[0]), roundings[slow:].max())
    return 1.01 * math.sqrt(float(share**2 @ np.diff(edges**3)) / 3)


def slow_buffers(mechanism: RecurrenceMechanism, largest_draw: float, unit: float) -> int:
    """How many of the slowest buffers must be in double-double for the others' roundings to stay within tolerance."""
    steps = mechanism.horizon or STEPS_WITHOUT_HORIZON
    row = math.sqrt(1.1 * mechanism.squared_row_norm_bound(steps))
    for slow in range(len(mechanism.gaps)):
        if unit * largest_draw * row * repeated_rounding(mechanism.gaps, mechanism.weights, slow, steps) <= TOLERANCE:
            return slow
    return len(mechanism.gaps)
