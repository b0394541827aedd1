"""How far a release may be from the truth: standard deviations, half widths and estimates.

A release of the exact lane is the true sum plus the integer nearest to an ideal noise G, so it is off by at most h
exactly if |G| < h + 1/2; the law of G is known (`noise_law`). A release of the float lane is off by Gaussian noise and
at most half a grid step.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpstream.arguments import check_probability
from dpstream.budget import Budget, noise_scale
from dpstream.errors import HorizonExceeded
from dpstream.mechanisms.base import Mechanism
from dpstream.participation import Participation
from dpstream.release.change_law import change_between, change_half_width, change_variance
from dpstream.release.lane import Lane
from dpstream.release.noise_law import WIDE, GaussianNoise, RealNoise, noise_at, rounded_stddev
from dpstream.release.settings import StreamSettings

__all__ = [
    "Estimate",
    "ExactSettings",
    "change_error",
    "error_bars",
    "estimate_from_releases",
    "float_change",
    "gaussian_half_widths",
    "gaussian_quantile",
    "half_width",
    "release_stddev",
    "widest_window",
    "window_half_width",
]

Value = TypeVar("Value")

#: For this many steps or fewer, norms are asked for one by one; a mechanism gives longer stretches from step 1 on only.
_SINGLE_STEPS = 8


class Estimate(NamedTuple, Generic[Value]):
    """A released value and how far it may be from the number without noise.

    Attributes
    ----------
    value
        What was released: a number, or an array.
    stddev
        Its standard deviation, rounding included; of each entry for an array.
    low, high
        The number without noise is between these two with the confidence asked for: that of the rows that were
        counted. For an array each entry's interval holds on its own, not all of them at once.
    """

    value: Value
    stddev: float
    low: Value
    high: Value


class ExactSettings(Protocol):
    """What error bars of the exact lane follow from: the settings of a counter, or of an open counter."""

    @property
    def mechanism(self) -> Mechanism:
        """How noise is shared over time."""

    @property
    def scale(self) -> float:
        """The scale of the draws."""

    @property
    def budget(self) -> Budget:
        """What decides whether they are Gaussian."""

    @property
    def lane(self) -> Lane:
        """Exact."""

    @property
    def last(self) -> int:
        """The last step that can ever be made."""

    def noise_at(self, t: int) -> RealNoise:
        """Return the law of the noise of release t, before it is rounded."""


def error_bars(
    settings: ExactSettings, first: int, count: int, confidence: float = 0.95
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
        return _rounded_gaussian_stddevs(sigma), gaussian_half_widths(sigma, confidence)
    laws = [settings.noise_at(t) for t in range(first, last + 1)]
    stddev = np.array([rounded_stddev(law) for law in laws])
    return stddev, np.array([half_width(law, confidence) for law in laws], dtype=np.int64)


def release_stddev(settings: StreamSettings, t: int) -> float:
    """Return the standard deviation of release t, rounding included; of each coordinate."""
    noise = settings.noise_at(t)
    if settings.lane == "exact":
        return rounded_stddev(noise)
    return math.sqrt(noise.variance + settings.grid**2 / 12)


def change_error(settings: StreamSettings, t: int, since: int, confidence: float) -> tuple[float, int]:
    """Return the standard deviation and the half width of the change from release `since` ≥ 1 to t, in the exact lane.

    The true change is within release t - release `since` ± half width with at least this confidence.
    """
    noise = settings.change_between(t, since)
    return math.sqrt(change_variance(noise)), change_half_width(noise, confidence)


def float_change(
    settings: StreamSettings, earlier: NDArray[Any], later: NDArray[Any], noise: RealNoise, confidence: float
) -> Estimate[NDArray[Any]]:
    """Return the change between two releases of the float lane, whose noise differs by `noise`.

    Each was rounded to its grid, or to what its dtype can tell where that is coarser.
    """
    value = later - earlier
    rounding = np.maximum(settings.grid, np.spacing(np.maximum(abs(earlier), abs(later))).astype(np.float64))
    off = (gaussian_quantile(confidence) * math.sqrt(noise.variance) + rounding).astype(value.dtype)
    return Estimate(value, math.sqrt(noise.variance + settings.grid**2 / 6), value - off, value + off)


def estimate_from_releases(
    settings: StreamSettings, t: int, release: Any, confidence: float, since: int = 0, earlier: Any = None
) -> Estimate[Any]:
    """Return the estimate of release t, or of its change since an earlier release: what the streams themselves say."""
    confidence = check_probability("confidence", confidence)
    if settings.lane == "float":
        if since:
            return float_change(settings, earlier, release, settings.change_between(t, since).difference, confidence)
        stddev = release_stddev(settings, t)
        off = release.dtype.type(gaussian_quantile(confidence) * stddev + settings.grid / 2)
        return Estimate(release, stddev, release - off, release + off)
    if since:
        stddev, h = change_error(settings, t, since, confidence)
        release = release - earlier
    else:
        law = settings.noise_at(t)
        stddev, h = rounded_stddev(law), half_width(law, confidence)
    return Estimate(release, stddev, release - h, release + h)


def window_half_width(
    mechanism: Mechanism,
    budget: Budget,
    participation: Participation,
    lane: Lane,
    window: int,
    confidence: float,
    per_person: float = 1.0,
) -> float:
    """Return how far the sum of `window` steps is from the truth at most, where it is least exact."""
    confidence, steps = check_probability("confidence", confidence), mechanism.horizon or window
    scale = noise_scale(mechanism, budget, per_person=per_person, participation=participation)
    if lane == "float":
        norm = float(mechanism.squared_window_norms(window, steps).max())
        return gaussian_quantile(confidence) * scale * math.sqrt(norm)
    return widest_window(mechanism, scale, window, steps, confidence)


def widest_window(mechanism: Mechanism, scale: float, window: int, steps: int, confidence: float) -> int:
    """Return the half width of a sum of `window` steps, up to the one of the first `steps` where it is widest."""
    t = int(mechanism.squared_window_norms(window, steps).argmax()) + 1
    if t <= window:
        return half_width(noise_at(mechanism, scale, t), confidence)
    return change_half_width(change_between(mechanism, scale, t, t - window), confidence)


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
        return int(gaussian_half_widths(np.array([noise.stddev]), confidence)[0])
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


def gaussian_half_widths(sigma: NDArray[np.float64], confidence: float) -> NDArray[np.int64]:
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
    for i in np.flatnonzero(sigma < WIDE):
        stddev[i] = rounded_stddev(GaussianNoise(float(sigma[i])))
    return stddev
