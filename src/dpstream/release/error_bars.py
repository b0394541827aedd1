"""How far a release may be from the truth: standard deviations, half widths and estimates.

A release of the exact lane is the true sum plus the integer nearest to an ideal noise G, so it is off by at most h
exactly if |G| < h + 1/2; the law of G is known (`noise_law`). A release of the float lane is off by Gaussian noise and
at most half a grid step.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpstream.arguments import check_probability
from dpstream.errors import HorizonExceeded
from dpstream.release.noise_law import GaussianNoise, RealNoise
from dpstream.release.settings import StreamSettings

__all__ = [
    "Estimate",
    "error_bars",
    "gaussian_quantile",
    "half_width",
    "release_stddev",
    "rounded_stddev",
    "rounded_variance",
]

Value = TypeVar("Value")

#: From this standard deviation on, the variance of rounded Gaussian noise is σ² + 1/12 to all digits of a float64;
#: below it the variance of rounded noise is summed term by term.
_WIDE = 2.0
#: For this many steps or fewer, norms are asked for one by one; a mechanism gives longer stretches from step 1 on only.
_SINGLE_STEPS = 8


class Estimate(NamedTuple, Generic[Value]):
    """A released value and how far it may be from the truth.

    Attributes
    ----------
    value
        What was released: a number, or an array.
    stddev
        Its standard deviation, rounding included; of each entry for an array.
    low, high
        The truth is between these two with the confidence asked for. For an array each entry's interval holds on its
        own, not all of them at once.
    """

    value: Value
    stddev: float
    low: Value
    high: Value


def error_bars(
    settings: StreamSettings, first: int, count: int, confidence: float = 0.95
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Compute the standard deviation and the half width of `count` releases of a counter, from step `first` on.

    The true count is within release ± half width with at least this confidence, for each release on its own; the same
    numbers as `Counter.stddev` and `Counter.estimate`.

    Examples
    --------
    >>> import dpstream as dp
    >>> counter = dp.Counter(100, dp.zcdp(0.005), mechanism=dp.mechanisms.SmoothBinary(100))
    >>> stddev, off = error_bars(counter.settings, 99, 2)
    >>> off.tolist(), round(float(stddev[1]), 3) == round(counter.stddev(100), 3)
    ([69, 69], True)
    """
    confidence = check_probability("confidence", confidence)
    last = first + count - 1
    if last > settings.last:
        raise HorizonExceeded(horizon=settings.last, step=last)
    if settings.budget.noise == "gaussian":
        mechanism = settings.mechanism
        if count <= _SINGLE_STEPS:
            norms = np.array([mechanism.squared_row_norm(t) for t in range(first, last + 1)])
        else:
            norms = mechanism.squared_row_norms(last)[first - 1 :]
        sigma = settings.scale * np.sqrt(norms)
        return _rounded_gaussian_stddevs(sigma), _gaussian_half_widths(sigma, confidence)
    laws = [settings.noise_at(t) for t in range(first, last + 1)]
    stddev = np.array([rounded_stddev(law) for law in laws])
    return stddev, np.array([half_width(law, confidence) for law in laws], dtype=np.int64)


def release_stddev(settings: StreamSettings, t: int) -> float:
    """Return the standard deviation of release t, rounding included; of each coordinate."""
    noise = settings.noise_at(t)
    if settings.lane == "exact":
        return rounded_stddev(noise)
    return math.sqrt(noise.variance + settings.grid**2 / 12)


@lru_cache(maxsize=4096)
def half_width(noise: RealNoise, confidence: float) -> int:
    """Return the least whole h with P(|nearest integer to the noise| ≤ h) ≥ confidence.

    Examples
    --------
    >>> half_width(GaussianNoise(10.0), 0.95)  # 1.96 standard deviations are 19.6
    20
    >>> half_width(GaussianNoise(0.1), 0.95)
    0
    """
    if isinstance(noise, GaussianNoise):
        return int(_gaussian_half_widths(np.array([noise.stddev]), confidence)[0])
    miss = 1 - confidence
    low, high = -1, 0  # low is too small, high may be
    while noise.beyond(high + 0.5) > miss:
        low, high = high, 2 * high + 1
    while high - low > 1:
        middle = (low + high) // 2
        if noise.beyond(middle + 0.5) > miss:
            low = middle
        else:
            high = middle
    return high


def gaussian_quantile(confidence: float) -> float:
    """Return z with P(|standard normal| ≤ z) = confidence."""
    from scipy.special import ndtri  # here, because importing SciPy takes longer than all the rest

    return float(-ndtri((1 - confidence) / 2))


def _gaussian_half_widths(sigma: NDArray[np.float64], confidence: float) -> NDArray[np.int64]:
    """Return `half_width` of Gaussian noise, for many standard deviations at once."""
    from scipy.special import erfc

    miss = 1 - confidence
    # The least whole h with P(|noise| < h + 1/2) large enough: near z·σ - 1/2, and then looked at from both sides.
    h = np.maximum(np.ceil(gaussian_quantile(confidence) * sigma - 0.5), 0.0)
    with np.errstate(divide="ignore"):

        def beyond(h: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.asarray(erfc((h + 0.5) / (sigma * np.sqrt(2.0))))

        h += beyond(h) > miss
        h -= (h > 0) & (beyond(h - 1) <= miss)
    return h.astype(np.int64)


def _rounded_gaussian_stddevs(sigma: NDArray[np.float64]) -> NDArray[np.float64]:
    stddev = np.sqrt(sigma**2 + 1 / 12)
    for i in np.flatnonzero(sigma < _WIDE):
        stddev[i] = rounded_stddev(GaussianNoise(float(sigma[i])))
    return stddev


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
    if spread < _WIDE:
        k = np.arange(1, 64 + math.ceil(64 * spread))
        return float(((2 * k - 1) * noise.beyond(k - 0.5)).sum())
    m = np.arange(1.0, 1001.0)
    sign = np.where(m % 2, -1.0, 1.0)
    value, slope = noise.transform(2 * np.pi * m)
    return noise.variance + 1 / 12 + float((sign * (value / (np.pi * m) ** 2 - 2 * slope / (np.pi * m))).sum())
