"""What a buffered Toeplitz stream does to its buffers and releases within a leap of `kernel.LEAP` steps, as tables.

Each entry is the exact number, rounded once; powers of the poles are kept in double-double, since they are applied to
the same buffers over and over.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstream import kernel

__all__ = ["LeapTables", "leap_tables"]


class LeapTables(NamedTuple):
    """The tables of `kernel.recurrence_leap_f64`."""

    carried: NDArray[np.float64]
    response: NDArray[np.float64]
    decay: NDArray[np.float64]
    decay_low: NDArray[np.float64]


@lru_cache(maxsize=64)
def leap_tables(gaps: tuple[float, ...], weights: tuple[float, ...]) -> LeapTables:
    """The tables for poles 1 - gap, worked out in fractions; all streams of one mechanism share them."""
    poles = [1 - Fraction(gap) for gap in gaps]
    heights = [Fraction(weight) for weight in weights]
    powers = [[Fraction(1)] * len(poles)]
    for _ in range(kernel.LEAP):
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
