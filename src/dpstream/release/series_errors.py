"""How far the figures of a series of streams may be from the truth, where each stream goes on with the one before.

A successor begins with the total that was released last, noise and all. So a total of the series is off by the noise of
its own release and by that of the last release of every stream before; a change that reaches back over an end, by the
noise of the change in the earlier stream, too. Streams have noise of their own, so these are independent.

Of one law their sum G has a known law, and r rounded releases are off by at most r/2 more: a whole number that is less
than h + 1/2 + r/2 away is at most h + ⌈(r - 1)/2⌉ away, if |G| < h + 1/2. Of two laws, or where that is less (tiny
noise), the half widths of the parts are added, each at a confidence that leaves its share of the misses.
"""

from __future__ import annotations

from collections import Counter as Multiset
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpstream.errors import InvalidArgument
from dpstream.release.change_errors import change_errors
from dpstream.release.error_bars import gaussian_half_widths, half_width
from dpstream.release.noise_law import GaussianNoise, LaplaceNoise, RealNoise
from dpstream.release.settings import StreamSettings

__all__ = ["ErrorBars", "SeriesErrors"]

RealArray = NDArray[np.float64]
WholeArray = NDArray[np.int64]

#: Computes the standard deviation and the half width of the changes from release since[i] to release t[i], at a
#: confidence: `change_errors` of one stream, `SeriesErrors` of several.
ErrorBars = Callable[[ArrayLike, ArrayLike, float], tuple[RealArray, WholeArray]]


@dataclass(frozen=True)
class SeriesErrors:
    """Computes error bars of a series as `change_errors` does of one stream; steps are counted through.

    Parameters
    ----------
    settings
        Those of the streams, in order; all of the exact lane.
    steps
        How many releases each stream has made before the next one went on with it; that of the last does not matter.

    Examples
    --------
    >>> import dpstream as dp
    >>> year = dp.Counter(365, dp.zcdp(0.005), mechanism=dp.mechanisms.SmoothBinary(365)).settings
    >>> series = SeriesErrors((year, year), (365, 0))
    >>> off = series([365, 372, 372], [0, 0, 358], 0.95)[1]  # the last total, the next week's, and a fortnight
    >>> off.tolist()
    [86, 123, 115]
    """

    settings: tuple[StreamSettings, ...]
    steps: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.settings or len(self.settings) != len(self.steps):
            raise InvalidArgument("steps", self.steps, "one number for each of the settings")

    @cached_property
    def _starts(self) -> WholeArray:
        """How many steps are before each stream."""
        return np.cumsum([0, *self.steps[:-1]])

    def __call__(self, t: ArrayLike, since: ArrayLike, confidence: float = 0.95) -> tuple[RealArray, WholeArray]:
        """Return standard deviations and half widths; see `change_errors`."""
        later, earlier = np.asarray(t, dtype=np.int64), np.asarray(since, dtype=np.int64)
        last = np.searchsorted(self._starts, later, side="left") - 1
        first = np.searchsorted(self._starts, earlier, side="right") - 1
        stddev, off = np.zeros(later.size), np.zeros(later.size, dtype=np.int64)
        for k in np.unique(last).tolist():
            start = int(self._starts[k])
            inside = (last == k) & (first >= k)
            if inside.any():
                found = change_errors(self.settings[k], later[inside] - start, earlier[inside] - start, confidence)
                stddev[inside], off[inside] = found
            for since_step in np.unique(earlier[(last == k) & (first < k)]).tolist():
                of = (last == k) & (earlier == since_step)
                stddev[of], off[of] = self._across(k, later[of] - start, since_step, confidence)
        return stddev, off

    def _across(self, k: int, t: WholeArray, since: int, confidence: float) -> tuple[RealArray, WholeArray]:
        """Return the errors of changes from step `since` of the series to the steps t of stream k, a later one."""
        j = int(np.searchsorted(self._starts, since, side="right")) - 1
        spans = [(j, since - int(self._starts[j]))] + [(i, 0) for i in range(j + 1, k)]
        spans = [(i, s) for i, s in spans if self.steps[i]]
        share = 1 - (1 - confidence) / (len(spans) + 1)
        own, own_off = change_errors(self.settings[k], t, np.zeros_like(t), share)
        before = [change_errors(self.settings[i], [self.steps[i]], [s], share) for i, s in spans]
        variance = own**2 + sum(float(one[0][0]) ** 2 for one in before)
        added = own_off + sum(int(one[1][0]) for one in before)
        rounded = 1 + sum(2 if s else 1 for _, s in spans)
        together = self._half_widths(k, t, [self._law(i, s) for i, s in spans], confidence)
        return np.sqrt(variance), added if together is None else np.minimum(added, together + rounded // 2)

    def _half_widths(self, k: int, t: WholeArray, earlier: Sequence[RealNoise], confidence: float) -> WholeArray | None:
        """Return half widths of the noise of stream k at the steps t and of `earlier` together; None if laws differ."""
        settings = self.settings[k]
        kind = GaussianNoise if settings.budget.noise == "gaussian" else LaplaceNoise
        if not all(isinstance(law, kind) for law in earlier):
            return None
        if settings.budget.noise == "gaussian":
            norms = settings.mechanism.squared_row_norms(int(t.max()))[t - 1]
            variances = settings.scale**2 * norms + sum(law.variance for law in earlier)
            return gaussian_half_widths(np.sqrt(variances), confidence)
        laws = [_sum([settings.noise_at(int(step)), *earlier]) for step in t]
        return np.array([half_width(law, confidence) for law in laws], dtype=np.int64)

    def _law(self, i: int, s: int) -> RealNoise:
        """Return the law of the noise of stream i's last release, or of its change since release s."""
        settings, t = self.settings[i], self.steps[i]
        return settings.change_between(t, s).difference if s else settings.noise_at(t)


def _sum(laws: Sequence[RealNoise]) -> LaplaceNoise:
    """Return the law of a sum of independent sums of Laplace draws."""
    draws: Multiset[float] = Multiset()
    for law in laws:
        assert isinstance(law, LaplaceNoise)  # noqa: S101
        draws.update(dict(zip(law.scales, law.counts, strict=True)))
    scales = tuple(sorted(draws))
    return LaplaceNoise(scales, tuple(draws[scale] for scale in scales))
