"""How fast something grows: the slope of its logarithm."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

__all__ = ["exponent", "exponent_of", "two_digits"]


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The e of the best fit ``value = c · size^e``, by least squares on both logarithms.

    >>> round(exponent([1, 2, 4], [3, 12, 48]), 6)
    2.0
    """
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def exponent_of(law: Callable[[float], float], sizes: Sequence[float]) -> float:
    """What `exponent` would show for a known law over the same sizes.

    >>> round(exponent_of(lambda T: T * np.log(T), [2**8, 2**13]), 3)
    1.14
    """
    return exponent(sizes, [law(size) for size in sizes])


def two_digits(value: float) -> str:
    """An exponent in print, without a sign before nothing.

    >>> two_digits(-0.001), two_digits(1.125)
    ('0.00', '1.12')
    """
    return f"{round(value, 2) + 0.0:.2f}"
