"""How far the sum of several entries of a release may be from the truth: a grand total beside categories.

Each of k entries has noise of its own and of the same law, and each is rounded. With G the sum of the ideal noise and r
roundings (k, or 2k for a change between two releases), the sum S of the releases is off by G and the rounding errors:

* these are at most r/2 together, so that |S| ≤ h + ⌈(r - 1)/2⌉ wherever |G| < h + 1/2;
* they are independent over entries, symmetric around 0, and in [-1/2, 1/2] (a change: [-1, 1]) for each entry, so that
  by Hoeffding's inequality they are beyond c with a chance of at most 2 exp(-2c²/k) (a change: 2 exp(-c²/(2k))).

Both are proven, and the less of the two is taken.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpstream.arguments import check_probability, check_whole
from dpstream.release.change_errors import change_errors, change_norms
from dpstream.release.error_bars import gaussian_half_widths, half_width
from dpstream.release.noise_law import GaussianNoise, LaplaceNoise, RealNoise
from dpstream.release.settings import StreamSettings

__all__ = ["sum_errors"]

#: The share of the misses that is left to the roundings in the second bound.
SHARE = 0.02


def sum_errors(
    settings: StreamSettings, entries: int, t: ArrayLike, since: ArrayLike, confidence: float = 0.95
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Compute the standard deviation and the half width of the sum of so many entries of the changes.

    The change from release since[i] to release t[i], of 0 that of the release itself; see `change_errors`.

    Examples
    --------
    >>> import dpstream as dp
    >>> settings = dp.Counter(100, dp.zcdp(0.005), shape=4, mechanism=dp.mechanisms.SmoothBinary(100)).settings
    >>> sum_errors(settings, 4, [50], [0])[1].tolist(), change_errors(settings, [50], [0])[1].tolist()
    ([139], [69])
    """
    confidence, entries = check_probability("confidence", confidence), check_whole("entries", entries)
    later, earlier = np.asarray(t, dtype=np.int64), np.asarray(since, dtype=np.int64)
    stddev, _ = change_errors(settings, later, earlier, confidence)
    left = SHARE * (1 - confidence)
    if settings.budget.noise == "gaussian":
        sigma = settings.scale * np.sqrt(entries * _norms(settings, later, earlier))
        narrow, wide = gaussian_half_widths(sigma, confidence), gaussian_half_widths(sigma, confidence + left)
        return math.sqrt(entries) * stddev, _least(narrow, wide, entries, earlier > 0, left)
    pairs = list(zip(later.tolist(), earlier.tolist(), strict=True))
    laws = [_times(settings.change_between(*pair).difference if pair[1] else settings.noise_at(pair[0]), entries)
            for pair in pairs]  # fmt: skip
    narrow = np.array([half_width(law, confidence) for law in laws], dtype=np.int64)
    wide = np.array([half_width(law, confidence + left) for law in laws], dtype=np.int64)
    return math.sqrt(entries) * stddev, _least(narrow, wide, entries, earlier > 0, left)


def _least(
    narrow: NDArray[np.int64], wide: NDArray[np.int64], entries: int, change: NDArray[np.bool_], left: float
) -> NDArray[np.int64]:
    """Return the less of the two bounds, from half widths of the noise that leave all misses, or all but `left`."""
    roundings = np.where(change, 2 * entries, entries)
    together = narrow + np.ceil((roundings - 1) / 2)
    beyond = np.sqrt(math.log(2 / left) * entries * np.where(change, 2.0, 0.5))
    return np.asarray(np.minimum(together, np.floor(wide + 0.5 + beyond)).astype(np.int64))


def _norms(settings: StreamSettings, later: NDArray[np.int64], earlier: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return ‖L_t - L_s‖² of each change, and ‖L_t‖² where it is the release itself."""
    norms, whole = np.zeros(later.size), earlier == 0
    if whole.any():
        norms[whole] = settings.mechanism.squared_row_norms(int(later[whole].max()))[later[whole] - 1]
    if not whole.all():
        norms[~whole] = change_norms(settings.mechanism, later[~whole], earlier[~whole])[2]
    return norms


def _times(one: RealNoise, entries: int) -> RealNoise:
    """Return the law of the sum of so many independent noises of one law."""
    if isinstance(one, GaussianNoise):
        return GaussianNoise(math.sqrt(entries) * one.stddev)
    assert isinstance(one, LaplaceNoise)  # noqa: S101
    return LaplaceNoise(one.scales, tuple(entries * count for count in one.counts))
