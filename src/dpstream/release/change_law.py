"""The law of the change between two releases: the noise of the later one minus that of the earlier one.

Two releases share draws, so their difference G_t - G_s has the variance scale²·‖L_t - L_s‖², not the sum of the two. In
the exact lane both are rounded, and the change is off by e = round(G_t) - round(G_s). With W = G_t - G_s and f, the
fractional part of G_s + 1/2, this is e = ⌊f + W⌋. So

* |e| > h implies |W| > h, whatever f is: P(|e| > h) ≤ P(|W| > h);
* if f were uniform and independent of W, P(|e| > h) would be the mean of P(|W| > x) over h ≤ x ≤ h + 1. What f lacks of
  that is bounded by a Fourier series: given W, the chance of an arc differs from its length by at most
  (2/π) Σ_m |φ(2πm)|/m, with φ the characteristic function of what G_s holds beside W. That matters only where |W| is
  between h and h + 1;
* |e| > 0 implies that one of the two is not rounded to 0.

All three are proven bounds, and the least of them is taken: the interval holds the truth with the confidence asked for,
and where noise is wide it is the narrowest of whole numbers that does.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter as Multiset
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from dpstream.mechanisms.base import Mechanism
from dpstream.release.noise_law import GaussianNoise, LaplaceNoise, RealNoise, laplace_noise, rounded_variance

__all__ = ["ChangeNoise", "GaussianChange", "LaplaceChange", "change_between", "change_half_width", "change_variance"]

RealArray = NDArray[np.float64]

#: The mean of P(|W| > x) over an interval of length 1 is taken from this many trapezoids: P is convex, so never less.
_PANELS = 64
#: From these variances on, of both releases, of their difference and of what one holds beside it, the variance of the
#: rounded change is that of W plus 1/6 to all digits of a float64.
_WIDE = 2.0
#: Terms of the Fourier series of a rounding error, where noise is so narrow that they matter.
_TERMS = 128
#: Norms that a mechanism computes are taken to be right up to this part of themselves.
_NORM_ERROR = 1e-9


class ChangeNoise(ABC):
    """The joint law of the noise of two releases, t and s < t, before rounding."""

    @property
    @abstractmethod
    def later(self) -> RealNoise:
        """The law of G_t."""

    @property
    @abstractmethod
    def earlier(self) -> RealNoise:
        """The law of G_s."""

    @property
    @abstractmethod
    def difference(self) -> RealNoise:
        """The law of W = G_t - G_s."""

    @property
    @abstractmethod
    def unevenness(self) -> float:
        """At least the amount by which the chance of an arc of G_s modulo 1, given W, differs from its length."""

    @property
    @abstractmethod
    def wide(self) -> bool:
        """Whether rounding adds exactly 1/6 to the variance of the difference."""

    @abstractmethod
    def transform(self, a: RealArray, b: RealArray) -> tuple[RealArray, RealArray]:
        """E cos(a·G_t + b·G_s) = φ(a, b) and (∂/∂a - ∂/∂b) φ."""


@dataclass(frozen=True)
class GaussianChange(ChangeNoise):
    """Gaussian noise, by three variances: of the later release, of the earlier one and of their difference."""

    later_variance: float
    earlier_variance: float
    difference_variance: float

    @property
    def later(self) -> GaussianNoise:
        return GaussianNoise(math.sqrt(self.later_variance))

    @property
    def earlier(self) -> GaussianNoise:
        return GaussianNoise(math.sqrt(self.earlier_variance))

    @property
    def difference(self) -> GaussianNoise:
        return GaussianNoise(math.sqrt(self.difference_variance))

    @property
    def unevenness(self) -> float:
        return float(gaussian_unevenness(*map(np.asarray, self._variances)))

    @property
    def wide(self) -> bool:
        return min(*self._variances, float(beside_variance(*map(np.asarray, self._variances)))) >= _WIDE

    @property
    def _variances(self) -> tuple[float, float, float]:
        return self.later_variance, self.earlier_variance, self.difference_variance

    def transform(self, a: RealArray, b: RealArray) -> tuple[RealArray, RealArray]:
        t, s, w = self._variances
        shared = (t + s - w) / 2
        value = np.exp(-0.5 * (a * a * t + 2 * a * b * shared + b * b * s))
        return value, -value * (a * (t - shared) + b * (shared - s))


@dataclass(frozen=True)
class LaplaceChange(ChangeNoise):
    """Sums of independent Laplace draws: how many have each pair of weights, in the later and the earlier release."""

    weights: tuple[tuple[float, float], ...]
    counts: tuple[int, ...]

    @cached_property
    def later(self) -> LaplaceNoise:
        return self._sum([later for later, _ in self.weights])

    @cached_property
    def earlier(self) -> LaplaceNoise:
        return self._sum([earlier for _, earlier in self.weights])

    @cached_property
    def difference(self) -> LaplaceNoise:
        return self._sum([later - earlier for later, earlier in self.weights])

    @property
    def wide(self) -> bool:
        return False

    @cached_property
    def unevenness(self) -> float:
        m = np.arange(1.0, _TERMS + 1.0)
        value, widest = np.ones_like(m), 0.0
        for (later, earlier), count in zip(self.weights, self.counts, strict=True):
            if later == earlier:  # what both releases hold alike is independent of the difference
                value *= (1 + (2 * np.pi * m * later) ** 2) ** -float(count)
                widest = max(widest, abs(later))
        if not widest:
            return math.inf
        # With M the last term and c = 2π·widest, φ(m) ≤ φ(M)·(1 + (cM)^-2)·(M/m)² for m > M, and Σ M²/m³ ≤ 1/2.
        rest = float(value[-1]) * (1 + (2 * math.pi * widest * _TERMS) ** -2) / 2
        return 2 / math.pi * (float((value / m).sum()) + rest)

    def transform(self, a: RealArray, b: RealArray) -> tuple[RealArray, RealArray]:
        value, slope = np.ones(np.broadcast_shapes(a.shape, b.shape)), np.zeros(np.broadcast_shapes(a.shape, b.shape))
        for (later, earlier), count in zip(self.weights, self.counts, strict=True):
            inner = a * later + b * earlier
            factor = 1 + inner**2
            value = value * factor**-count
            slope = slope - 2 * count * inner * (later - earlier) / factor
        return value, slope * value

    def _sum(self, weights: list[float]) -> LaplaceNoise:
        return laplace_noise((w for w, n in zip(weights, self.counts, strict=True) if w for _ in range(n)), 1.0)


def change_between(mechanism: Mechanism, scale: float, t: int, s: int) -> ChangeNoise:
    """Return the law of the noise of release t and of an earlier release s ≥ 1 together."""
    if mechanism.noise == "gaussian":
        norms = mechanism.squared_row_norm(t), mechanism.squared_row_norm(s), mechanism.squared_window_norm(t, s)
        return GaussianChange(*(scale**2 * norm for norm in norms))
    found = Multiset((scale * later, scale * earlier) for later, earlier in mechanism.window_weights(t, s))
    pairs = tuple(sorted(found))
    return LaplaceChange(pairs, tuple(found[pair] for pair in pairs))


# -- intervals --------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def change_half_width(noise: ChangeNoise, confidence: float) -> int:
    """Return the least whole h for which P(|round(G_t) - round(G_s)| ≤ h) ≥ confidence is proven (module's text).

    Examples
    --------
    >>> change_half_width(GaussianChange(400.0, 400.0, 100.0), 0.95)  # 1.96 standard deviations are 19.6
    20
    >>> change_half_width(GaussianChange(0.01, 0.01, 0.005), 0.95)
    0
    """
    miss, difference = 1 - confidence, noise.difference
    # The half width of one rounding is never more than one off that of two.
    low, high = -1, max(1, math.ceil(math.sqrt(difference.variance)))
    while _beyond(noise, high) > miss:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if _beyond(noise, middle) > miss:
            low = middle
        else:
            high = middle
    return high


def _beyond(noise: ChangeNoise, h: int) -> float:
    """At least P(|round(G_t) - round(G_s)| > h)."""
    tail = noise.difference.beyond(np.linspace(h, h + 1, _PANELS + 1))
    bounds = [float(tail[0])]
    if noise.unevenness < math.inf:
        mean = (float(tail.sum()) - float(tail[0] + tail[-1]) / 2) / _PANELS
        bounds.append(mean + noise.unevenness * float(tail[0] - tail[-1]))
    if h == 0:
        bounds.append(float(noise.later.beyond(0.5)) + float(noise.earlier.beyond(0.5)))
    return min(bounds)


def beside_variance(later: RealArray, earlier: RealArray, difference: RealArray) -> RealArray:
    """Return the variance of G_s given W, Gaussian noise, less what the three variances may be wrong by."""
    shared = (later - earlier - difference) / 2
    beside = earlier - shared**2 / difference
    return np.asarray(np.maximum(beside - _NORM_ERROR * (later + earlier + difference), 0.0))


def gaussian_unevenness(later: RealArray, earlier: RealArray, difference: RealArray) -> RealArray:
    """Return `ChangeNoise.unevenness` of Gaussian noise, for many pairs of releases at once."""
    beside = beside_variance(later, earlier, difference)[..., None]
    m = np.arange(1.0, 17.0)
    total = (np.exp(-2 * (np.pi * m) ** 2 * beside) / m).sum(axis=-1)
    return np.asarray(np.where(beside[..., 0] >= 0.01, 2 / np.pi * total * (1 + 1e-9), np.inf))


# -- variances --------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def change_variance(noise: ChangeNoise) -> float:
    """Return the variance of round(G_t) - round(G_s): that of the difference and 1/6, up to what rounding correlates.

    With r(x) = x - (nearest integer) = Σ_m (-1)^(m+1) sin(2πmx)/(πm) it is E(W - r(G_t) + r(G_s))², and needs no more
    than the joint characteristic function at multiples of 2π.

    Examples
    --------
    >>> change_variance(GaussianChange(400.0, 400.0, 100.0))
    100.16666666666667
    >>> change_variance(GaussianChange(0.01, 0.01, 0.005)) < 1e-5
    True
    """
    alone = noise.difference.variance
    if noise.wide:
        return alone + 1 / 6
    m = np.arange(1.0, _TERMS + 1.0)
    sign = np.where(m % 2, -1.0, 1.0)
    turns, still = 2 * np.pi * m, np.zeros_like(m)
    total = alone + 1 / 6
    for a, b, of_difference in ((turns, still, 1.0), (still, turns, -1.0)):
        value, slope = noise.transform(a, b)
        total += float((sign * value / (np.pi * m) ** 2).sum())  # E r², but for 1/12
        total += -2 * of_difference * float((sign * slope / (np.pi * m)).sum())  # ∓2 E[W r]
    apart = noise.transform(turns[:, None], -turns[None, :])[0] - noise.transform(turns[:, None], turns[None, :])[0]
    total -= float((np.outer(sign / m, sign / m) * apart).sum()) / np.pi**2  # -2 E[r r']
    rounded = [math.sqrt(rounded_variance(law)) for law in (noise.later, noise.earlier)]
    return float(np.clip(total, (rounded[0] - rounded[1]) ** 2, (rounded[0] + rounded[1]) ** 2))
