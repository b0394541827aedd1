"""A Toeplitz mechanism from coefficients of your own.

Error: whatever your coefficients give.   Cost: one draw a step, online convolution by FFT, O(T) vectors of memory.
L is the lower-triangular Toeplitz matrix of the coefficients, R = L⁻¹A that of r = 1/((1 - x) l(x)), computed with a
proven bound on its rounding (`verified_inverse`). Every column of R is a beginning of r, so one step of a person moves
at most ‖r‖. For several steps the sensitivity is exact if r is nonnegative and falls (`toeplitz_participation`), and a
safe bound otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpstream import portable
from dpstream.mechanisms.base import NoiseLaw, check_noise_law
from dpstream.mechanisms.convolution import ConvolutionMechanism
from dpstream.mechanisms.given_numbers import GivenNumbers, given_array, refused
from dpstream.mechanisms.matrix_participation import UNIT, ColumnGram
from dpstream.mechanisms.toeplitz import lower_toeplitz
from dpstream.mechanisms.toeplitz_participation import lag_bound, squared_norm_of_first_columns
from dpstream.mechanisms.verified_inverse import verified_series
from dpstream.participation import Participation

__all__ = ["FromCoefficients"]

#: More coefficients are refused: a stream keeps twice as many vectors.
LARGEST_HORIZON = 2**22
#: Up to this many steps all products of columns are looked at when r changes sign.
GRAM_STEPS = 1024


@dataclass(frozen=True, eq=False, repr=False, init=False)
class FromCoefficients(GivenNumbers, ConvolutionMechanism):
    """The mechanism whose L is the lower-triangular Toeplitz matrix with these coefficients.

    Parameters
    ----------
    coefficients
        The first column of L: finite, the first not 0, at most 2^22 of them. They are copied. There are as many
        releases as coefficients.

    Raises
    ------
    InvalidArgument
        If they are none such; when the sensitivity is asked for, also if L is too ill-conditioned to know it.

    Examples
    --------
    >>> m = FromCoefficients([1, 0.5, 0.375])
    >>> m
    FromCoefficients([1.0, 0.5, 0.375])
    >>> round(m.sensitivity() ** 2, 6), m.horizon
    (1.390625, 3)
    """

    numbers: NDArray[np.float64]
    horizon: int = field(init=False)
    noise: NoiseLaw = field(default="gaussian", kw_only=True)

    reference: ClassVar[str] = "the caller's own coefficients"

    def __init__(self, coefficients: ArrayLike, *, noise: NoiseLaw = "gaussian") -> None:
        check_noise_law("FromCoefficients", noise, allowed=("gaussian",))
        given = given_array("coefficients", coefficients, dimensions=1)
        if given.size > LARGEST_HORIZON:
            raise refused("coefficients", given, f"at most {LARGEST_HORIZON} numbers")
        if given[0] == 0:
            raise refused("coefficients", given, "such that the first is not 0: L must have an inverse")
        object.__setattr__(self, "numbers", given)
        object.__setattr__(self, "horizon", given.size)
        object.__setattr__(self, "noise", noise)

    def coefficients(self, count: int) -> NDArray[np.float64]:
        """Return the first `count` coefficients, at most as many as there are."""
        return self.numbers[:count]

    def computed_numbers(self) -> Iterator[NDArray[np.float64]]:
        """Return all coefficients."""
        yield self.numbers

    @cached_property
    def _column(self) -> tuple[NDArray[np.float64], float]:
        """The first column of R, and its error."""
        return verified_series(self.numbers)

    @cached_property
    def _row_sums(self) -> NDArray[np.float64]:
        return np.cumsum(self.numbers**2)

    def _factors(self, steps: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return lower_toeplitz(self.numbers[:steps]), lower_toeplitz(self._column[0][:steps])

    def _sensitivity(self, participation: Participation) -> tuple[float, bool]:
        r, error = self._column
        k, s = participation.times, participation.separation
        single = portable.dot(r, r)
        # Sums of products of r are off by at most so many units of the product of norms, and k² of them are added.
        rounding = (k * k) * (r.size + k * k + 4) * UNIT * 1.01 * single
        if k == 1:
            squared, exact = single, True
        elif (r >= 0).all() and (np.diff(r) <= 0).all():
            squared, exact = squared_norm_of_first_columns(r, None, k, s), True
        elif r.size <= GRAM_STEPS:
            return self._gram.sensitivity(participation)
        else:
            squared, exact = min(k * k * single, lag_bound(lambda lag: float(self._by_lag[lag]), k, s)), False
        return math.sqrt(squared + rounding) * (1 + 4 * UNIT) + k * error, exact

    @cached_property
    def _gram(self) -> ColumnGram:
        r, error = self._column
        return ColumnGram.of_toeplitz(r, column_error=error)

    @cached_property
    def _by_lag(self) -> NDArray[np.float64]:
        """A bound on |products| of two columns at distance d or more: Σ_i |r_i||r_{i+d}|."""
        r = np.abs(self._column[0])
        products = portable.series_product(r, r[::-1], 2 * r.size - 1)[r.size - 1 :]
        lost = portable.series_product_error(r, r)
        bounds: NDArray[np.float64] = np.maximum.accumulate(products[::-1])[::-1] + lost
        return bounds

    def squared_row_norm(self, t: int) -> float:
        return float(self._row_sums[t - 1])

    def squared_row_norms(self, steps: int) -> NDArray[np.float64]:
        return self._row_sums[:steps].copy()

    def max_squared_row_norm(self, steps: int) -> float:
        return float(self._row_sums[steps - 1])
