"""The law of one release's noise before rounding: Gaussian, or a sum of independent Laplace draws.

A sum of n Laplace draws of scale b is not Gaussian, and need not be treated as if it were: from the partial fractions

    1/(1 - u²)^n = Σ_{j=1..n} c_j (1/(1 - u)^j + 1/(1 + u)^j),   c_j = C(2n-j-1, n-1) / 2^(2n-j),

it exceeds x ≥ 0 with probability Σ c_j · Q(j, x/b), where Q(j, ·) is the tail of a gamma law: all terms positive,
nothing cancels. A Laplace draw of a larger scale c is a sum of N draws of scale b with N geometric of mean (c/b)²
(compare 1/(1 + c²s²) with the geometric series), so draws of several scales are a mixture over n: positive again.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter as Multiset
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstream.mechanisms.base import Mechanism

__all__ = [
    "GaussianNoise",
    "LaplaceNoise",
    "RealNoise",
    "laplace_noise",
    "noise_at",
    "rounded_stddev",
    "rounded_variance",
]

#: A mixture over the number of Laplace draws is cut where what is left is less likely than this.
_NEGLIGIBLE = 1e-18
#: From this standard deviation on, the variance of rounded Gaussian noise is σ² + 1/12 to all digits of a float64;
#: below it the variance of rounded noise is summed term by term.
WIDE = 2.0


class RealNoise(ABC):
    """The law of one release's noise before rounding: symmetric around 0."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """The variance of the noise."""

    @abstractmethod
    def beyond(self, x: Any) -> Any:
        """P(|noise| > x) for x ≥ 0, a number or an array."""

    @abstractmethod
    def transform(self, s: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """E cos(s · noise), the characteristic function, and its derivative."""


@dataclass(frozen=True)
class GaussianNoise(RealNoise):
    """Gaussian noise of the given standard deviation."""

    stddev: float

    @property
    def variance(self) -> float:
        return self.stddev**2

    def beyond(self, x: Any) -> Any:
        from scipy.special import erfc  # here, because importing SciPy takes longer than all the rest

        return erfc(np.asarray(x) / (self.stddev * math.sqrt(2)))

    def transform(self, s: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        value = np.exp(-0.5 * (self.stddev * s) ** 2)
        return value, -(self.stddev**2) * s * value


@dataclass(frozen=True)
class LaplaceNoise(RealNoise):
    """A sum of independent Laplace draws: as many as `counts` says of each of the `scales` (rising)."""

    scales: tuple[float, ...]
    counts: tuple[int, ...]

    @property
    def variance(self) -> float:
        return sum(2 * count * scale**2 for scale, count in zip(self.scales, self.counts, strict=True))

    def beyond(self, x: Any) -> Any:
        from scipy.special import gammaincc

        j = np.arange(1, self._mixture.size + 1)
        tails = gammaincc(j, np.asarray(x, dtype=np.float64)[..., None] / self.scales[0])
        return tails @ self._mixture

    def transform(self, s: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        value, slope = np.ones_like(s), np.zeros_like(s)
        for scale, count in zip(self.scales, self.counts, strict=True):
            factor = 1 + (scale * s) ** 2
            value = value * np.exp(-count * np.log(factor))
            slope = slope - 2 * count * scale**2 * s / factor
        return value, slope * value

    @cached_property
    def _mixture(self) -> NDArray[np.float64]:
        """The chance of each j = 1, 2, ... that |noise| has the law of j exponentials of the least scale."""
        from scipy.special import gammaln

        number = self._number_of_draws
        j = np.arange(1, number.size + 1)[None, :]
        n = np.flatnonzero(number)[:, None] + 1  # a single number, if all draws have one scale
        number = number[number > 0]
        with np.errstate(invalid="ignore"):
            logs = gammaln(2 * n - j) - gammaln(n) - gammaln(n - j + 1) - (2 * n - j - 1) * math.log(2)
        weights = number @ np.where(j <= n, np.exp(np.where(j <= n, logs, 0.0)), 0.0)
        return np.asarray(weights / weights.sum())

    @property
    def _number_of_draws(self) -> NDArray[np.float64]:
        """The chance of each n = 1, 2, ... that the noise is a sum of n draws of the least scale."""
        chances = np.ones(1)  # of 0, 1, 2, ...
        for scale, count in zip(self.scales, self.counts, strict=True):
            chances = np.convolve(chances, _negative_binomial(count, (self.scales[0] / scale) ** 2))
        return chances[1:]


def _negative_binomial(successes: int, p: float) -> NDArray[np.float64]:
    """The chance of each n = 0, 1, 2, ... that the given number of successes takes n trials."""
    chances = [0.0] * successes + [p**successes]
    failures, left = 0, 1.0 - chances[-1]
    while p < 1 and left > _NEGLIGIBLE and (failures < successes / p or chances[-1] > _NEGLIGIBLE):
        failures += 1
        chances.append(chances[-1] * (1 - p) * (successes + failures - 1) / failures)
        left -= chances[-1]
    return np.array(chances)


def noise_at(mechanism: Mechanism, scale: float, t: int) -> RealNoise:
    """The law of the noise of release t."""
    if mechanism.noise == "gaussian":
        return GaussianNoise(scale * math.sqrt(mechanism.squared_row_norm(t)))
    return laplace_noise(mechanism.row_weights(t), scale)


def laplace_noise(weights: Iterable[float], scale: float) -> LaplaceNoise:
    """The law of a sum of Laplace draws with these weights, all of one scale."""
    found = Multiset(abs(weight) * scale for weight in weights)
    scales = tuple(sorted(found))
    return LaplaceNoise(scales, tuple(found[s] for s in scales))


@lru_cache(maxsize=4096)
def rounded_stddev(noise: RealNoise) -> float:
    """Return the standard deviation of the integer nearest to the noise."""
    return math.sqrt(rounded_variance(noise))


def rounded_variance(noise: RealNoise) -> float:
    """Return the variance of the integer nearest to the noise: its own and 1/12, up to what rounding correlates.

    With r(x) = x - (nearest integer) = Σ_m (-1)^(m+1) sin(2πmx)/(πm), the variance E(G - r(G))² needs no more than the
    characteristic function at multiples of 2π. Where that falls slowly, the tail is summed instead.

    Examples
    --------
    >>> rounded_variance(GaussianNoise(3.0))
    9.08333333...
    >>> rounded_variance(GaussianNoise(0.1)) < 1e-5
    True
    """
    spread = math.sqrt(noise.variance)
    if spread < WIDE:
        k = np.arange(1, 64 + math.ceil(64 * spread))
        return float(((2 * k - 1) * noise.beyond(k - 0.5)).sum())
    m = np.arange(1.0, 1001.0)
    sign = np.where(m % 2, -1.0, 1.0)
    value, slope = noise.transform(2 * np.pi * m)
    return noise.variance + 1 / 12 + float((sign * (value / (np.pi * m) ** 2 - 2 * slope / (np.pi * m))).sum())
