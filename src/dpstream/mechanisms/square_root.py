"""Square-root mechanism: the lowest error of all Toeplitz factorisations, with all draws in memory.

Guarantee: rho-zCDP for streams that differ in one element by at most `per_person`,
all releases together, adaptive inputs.
Error: V = S_T · S_t with S_t = Σ_{k<t} f_k², about (1 + ln(T)/π)²; 7 to 12 % less when normalized.
Cost: one draw a step, amortised O(log² T) time, 2T vectors of memory.
Fichtenberger, Henzinger, Upadhyay 2023, arXiv:2202.11205; Henzinger, Upadhyay, Upadhyay 2023,
arXiv:2211.05006. The normalisation is ours, after Henzinger, Kalinin, Upadhyay 2025, arXiv:2509.14334: see
`toeplitz`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpstream.arguments import check_horizon
from dpstream.errors import InvalidArgument
from dpstream.mechanisms.base import NoiseLaw, check_noise_law
from dpstream.mechanisms.convolution import ConvolutionMechanism
from dpstream.mechanisms.toeplitz import SENSITIVITY_MARGIN, column_weights, lower_toeplitz, series_product
from dpstream.mechanisms.toeplitz_participation import squared_norm_of_first_columns
from dpstream.participation import Participation

__all__ = ["SquareRoot"]


@dataclass(frozen=True)
class SquareRoot(ConvolutionMechanism):
    """L = R = √A: Toeplitz with f_0 = 1, f_k = f_{k-1} (1 - 1/(2k)).

    Parameters
    ----------
    horizon
        The number of releases, at most 2^28: all draws are kept.
    normalized
        Scale draw t by q_t so that every column of R has norm 1: less variance, same cost.

    Examples
    --------
    >>> [round(SquareRoot(250, normalized=n).max_variance(), 4) for n in (False, True)]
    [7.9721, 7.0625]
    >>> L, R = SquareRoot(3).factors()
    >>> L.tolist()
    [[1.0, 0.0, 0.0], [0.5, 1.0, 0.0], [0.375, 0.5, 1.0]]
    """

    horizon: int
    normalized: bool = False
    noise: NoiseLaw = field(default="gaussian", kw_only=True, repr=False, compare=False)

    reference: ClassVar[str] = "Fichtenberger, Henzinger, Upadhyay 2023, arXiv:2202.11205"

    def __post_init__(self) -> None:
        object.__setattr__(self, "horizon", check_horizon(self.horizon, most=2**28))
        if not isinstance(self.normalized, bool):
            raise InvalidArgument("normalized", self.normalized, "True or False")
        check_noise_law("SquareRoot", self.noise, allowed=("gaussian",))

    def coefficients(self, count: int) -> NDArray[np.float64]:
        """Return f_0 .. f_{count-1}."""
        return _square_root_series(1 << (count - 1).bit_length())[:count]

    def input_scale(self, first: int, count: int) -> NDArray[np.float64]:
        """Return q_t, 1 unless normalized."""
        if not self.normalized:
            return np.ones(count)
        return self._scales[first - 1 : first - 1 + count]

    @cached_property
    def _weights(self) -> NDArray[np.float64]:
        """1/q_t² of every step, in step order."""
        weights = column_weights(self.coefficients(self.horizon))[::-1].copy()
        weights.flags.writeable = False
        return weights

    @cached_property
    def _scales(self) -> NDArray[np.float64]:
        scales: NDArray[np.float64] = 1.0 / np.sqrt(self._weights)
        scales.flags.writeable = False
        return scales

    def _factors(self, steps: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        F = lower_toeplitz(self.coefficients(steps))
        q = self.input_scale(1, steps)
        return F * q, F / q[:, None]

    def _sensitivity(self, participation: Participation) -> tuple[float, bool]:
        k, s = participation.times, participation.separation
        if k == 1 and self.normalized:
            return SENSITIVITY_MARGIN, True
        weights = self._weights if self.normalized else None
        squared = squared_norm_of_first_columns(self.coefficients(self.horizon), weights, k, s)
        return SENSITIVITY_MARGIN * math.sqrt(squared), True

    def squared_row_norm(self, t: int) -> float:
        f = self.coefficients(t)
        if not self.normalized:
            return float(f @ f)
        return float((f * f) @ (self._scales[:t] ** 2)[::-1])

    def squared_row_norms(self, steps: int) -> NDArray[np.float64]:
        f = self.coefficients(steps)
        if not self.normalized:
            return np.asarray(np.cumsum(f * f), dtype=np.float64)
        return series_product(f * f, self._scales[:steps] ** 2, steps)


@lru_cache(maxsize=4)
def _square_root_series(count: int) -> NDArray[np.float64]:
    """Return the first `count` coefficients of (1 - x)^(-1/2); a longer run starts with the same doubles."""
    k = np.arange(1, count, dtype=np.float64)
    factors = np.concatenate(([1.0], (2.0 * k - 1.0) / (2.0 * k)))
    series = np.asarray(np.cumprod(factors), dtype=np.float64)
    series.flags.writeable = False
    return series
