"""How far the changes over many windows may be from the truth, all at once: `change_error` for arrays.

The bounds are those of `change_law`, in the same numbers. Of Gaussian noise the least half width h is ⌈zσ⌉ or one less,
with z the quantile and σ the standard deviation of the difference: P(|W| > h) is small enough from ⌈zσ⌉ on, and what
the roundings add to it is at least P(|W| > h + 1); and h = 0 where neither release is rounded away from 0.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpstream.arguments import check_probability
from dpstream.errors import DenseTooLarge, HorizonExceeded, InvalidArgument
from dpstream.mechanisms.base import Mechanism
from dpstream.mechanisms.one_node_trees import OneNodeTree
from dpstream.release.change_law import (
    ChangeNoise,
    GaussianChange,
    LaplaceChange,
    beside_variance,
    change_between,
    change_half_width,
    change_variance,
    gaussian_unevenness,
)
from dpstream.release.error_bars import ExactSettings, error_bars, gaussian_quantile

__all__ = ["change_errors", "change_norms"]

RealArray = NDArray[np.float64]
WholeArray = NDArray[np.int64]

#: For so few windows of one length, norms are asked for one by one; a mechanism gives all of them from step 1 on only.
_SINGLE_STEPS = 8
#: The mean of P(|W| > x) over an interval of length 1 is taken from this many trapezoids, as in `change_law`.
_PANELS = 64
#: Half widths are computed for so many windows at once: 64 numbers each.
_AT_ONCE = 1 << 13
#: From these variances on the rounding of a change adds 1/6 to its variance (see `change_law`).
_WIDE = 2.0
#: With variances of at least `_FEW_TERMS_FROM` in every direction, so many terms of the Fourier series are enough: the
#: next one is below exp(-2π²·9²/10).
_FEW_TERMS, _FEW_TERMS_FROM = 8, 0.1


def change_errors(
    settings: ExactSettings, t: ArrayLike, since: ArrayLike, confidence: float = 0.95
) -> tuple[RealArray, WholeArray]:
    """Compute the standard deviation and the half width of the change from release since[i] to release t[i].

    The true change is within the released one ± half width with at least this confidence, for each window on its own;
    the same numbers as `Counter.estimate(since=)`. Where since[i] is 0 the change is the release itself.

    Parameters
    ----------
    settings
        Those of a stream of the exact lane, or of an open counter.
    t, since
        The steps of the later releases, and for each of them the step of the earlier one.

    Raises
    ------
    InvalidArgument
        If an earlier release is not earlier.
    HorizonExceeded
        If there is no such release.

    Examples
    --------
    >>> import dpstream as dp
    >>> counter = dp.Counter(100, dp.zcdp(0.005), mechanism=dp.mechanisms.SmoothBinary(100))
    >>> stddev, off = change_errors(counter.settings, [6, 7, 8, 9], [0, 0, 1, 2])  # the last seven steps
    >>> off.tolist()
    [69, 69, 97, 97]
    """
    confidence = check_probability("confidence", confidence)
    later, earlier = np.asarray(t, dtype=np.int64), np.asarray(since, dtype=np.int64)
    if settings.lane != "exact":
        raise InvalidArgument("settings", settings, "those of a stream of whole numbers")
    wrong = (earlier < 0) | (earlier >= later)
    if wrong.any():
        at = int(wrong.argmax())
        raise InvalidArgument("since", int(earlier[at]), f"an earlier release than {int(later[at])}")
    if later.size and int(later.max()) > settings.last:
        raise HorizonExceeded(horizon=settings.last, step=int(later.max()))
    stddev, off = np.zeros(later.size), np.zeros(later.size, dtype=np.int64)
    whole = earlier == 0
    if whole.any():
        first, last = int(later[whole].min()), int(later[whole].max())
        own = error_bars(settings, first, last - first + 1, confidence)
        stddev[whole], off[whole] = own[0][later[whole] - first], own[1][later[whole] - first]
    if not whole.all():
        of = _gaussian_errors if settings.budget.noise == "gaussian" else _laplace_errors
        pairs = later[~whole], earlier[~whole]
        stddev[~whole], off[~whole] = of(settings.mechanism, settings.scale, *pairs, confidence)
    return stddev, off


# -- Gaussian noise ---------------------------------------------------------------------------------------------------


def _gaussian_errors(
    mechanism: Mechanism, scale: float, t: WholeArray, s: WholeArray, confidence: float
) -> tuple[RealArray, WholeArray]:
    later, earlier, difference = (scale**2 * norms for norms in change_norms(mechanism, t, s))
    off = np.zeros(t.size, dtype=np.int64)
    for begin in range(0, t.size, _AT_ONCE):
        part = slice(begin, begin + _AT_ONCE)
        off[part] = _half_widths(later[part], earlier[part], difference[part], confidence)
    return np.sqrt(_variances(later, earlier, difference)), off


def _half_widths(later: RealArray, earlier: RealArray, difference: RealArray, confidence: float) -> WholeArray:
    """Return `change_half_width` of Gaussian noise; see the module's text."""
    from scipy.special import erfc  # here, because importing SciPy takes longer than all the rest

    miss, sigma = 1 - confidence, np.sqrt(difference)

    def beyond(x: RealArray, spread: RealArray) -> RealArray:
        return np.asarray(erfc(x / (spread * math.sqrt(2))))

    with np.errstate(divide="ignore"):
        h = np.ceil(gaussian_quantile(confidence) * sigma)
        h += beyond(h, sigma) > miss
        h -= (h > 0) & (beyond(h - 1, sigma) <= miss)
        one_less = np.maximum(h - 1, 0.0)
        tail = beyond(one_less[:, None] + np.arange(_PANELS + 1) / _PANELS, sigma[:, None])
        uneven = gaussian_unevenness(later, earlier, difference)
        mean = (tail.sum(axis=1) - (tail[:, 0] + tail[:, -1]) / 2) / _PANELS
        with np.errstate(invalid="ignore"):
            bound = np.where(uneven < np.inf, mean + uneven * (tail[:, 0] - tail[:, -1]), np.inf)
        h = np.where(bound <= miss, one_less, h)
        half = np.full(h.size, 0.5)
        h[beyond(half, np.sqrt(later)) + beyond(half, np.sqrt(earlier)) <= miss] = 0.0
    return h.astype(np.int64)


def _variances(later: RealArray, earlier: RealArray, difference: RealArray) -> RealArray:
    """Return `change_variance` of Gaussian noise."""
    total = difference + 1 / 6
    beside = beside_variance(later, earlier, difference)
    narrow = np.flatnonzero(np.minimum.reduce([later, earlier, difference, beside]) < _WIDE)
    if not narrow.size:
        return total
    t, s, w = later[narrow], earlier[narrow], difference[narrow]
    shared = (t + s - w) / 2
    least = (t + s) / 2 - np.sqrt(((t - s) / 2) ** 2 + shared**2)  # of any direction: the smaller eigenvalue
    few = least >= _FEW_TERMS_FROM
    total[narrow[few]] += _correlation_of_roundings(t[few], s[few], shared[few])
    for i in narrow[~few]:
        total[i] = change_variance(GaussianChange(float(later[i]), float(earlier[i]), float(difference[i])))
    return np.maximum(total, 0.0)


def _correlation_of_roundings(t: RealArray, s: RealArray, shared: RealArray) -> RealArray:
    """Return what `change_variance` adds to the difference's variance and 1/6, by the first terms of its series."""
    m = np.arange(1.0, _FEW_TERMS + 1.0)
    sign = np.where(m % 2, -1.0, 1.0)
    turns = 2 * np.pi * m
    added = np.zeros(t.size)
    for own in (t, s):
        value = np.exp(-0.5 * turns**2 * own[:, None])
        slope = turns * (own - shared)[:, None] * value  # of the change, towards what is rounded
        added += (sign * value / (np.pi * m) ** 2).sum(axis=1) + 2 * (sign * slope / (np.pi * m)).sum(axis=1)
    squares = m[:, None] ** 2 * t[:, None, None] + m**2 * s[:, None, None]
    products = 2 * np.outer(m, m) * shared[:, None, None]
    quarter = -2 * np.pi**2
    apart = np.exp(quarter * (squares - products)) - np.exp(quarter * (squares + products))
    return np.asarray(added - (np.outer(sign / m, sign / m) * apart).sum(axis=(1, 2)) / np.pi**2)


# -- Laplace noise ----------------------------------------------------------------------------------------------------


def _laplace_errors(
    mechanism: Mechanism, scale: float, t: WholeArray, s: WholeArray, confidence: float
) -> tuple[RealArray, WholeArray]:
    """Look at each law once: of a tree's draws of weight 1 there are few, told by how many draws are shared."""
    if isinstance(mechanism, OneNodeTree) and mechanism.unit_weights:
        later, earlier, difference = (np.rint(norms).astype(np.int64) for norms in change_norms(mechanism, t, s))
        both = (later + earlier - difference) // 2
        kinds, which = np.unique(np.stack([earlier - both, later - both, both], axis=1), axis=0, return_inverse=True)
        laws: list[ChangeNoise] = [_unit_law(scale, *kind) for kind in kinds.tolist()]
    else:
        laws = [change_between(mechanism, scale, int(a), int(b)) for a, b in zip(t, s, strict=True)]
        which = np.arange(t.size)
    stddev = np.array([math.sqrt(change_variance(law)) for law in laws])
    off = np.array([change_half_width(law, confidence) for law in laws], dtype=np.int64)
    return stddev[which.reshape(-1)], off[which.reshape(-1)]


def _unit_law(scale: float, earlier: int, later: int, both: int) -> LaplaceChange:
    """Return the law of so many draws that are in the earlier release only, in the later only, and in both."""
    counts = {(0.0, scale): earlier, (scale, 0.0): later, (scale, scale): both}
    return LaplaceChange(*zip(*((pair, count) for pair, count in counts.items() if count), strict=True))


# -- norms ------------------------------------------------------------------------------------------------------------


def change_norms(mechanism: Mechanism, t: WholeArray, s: WholeArray) -> tuple[RealArray, RealArray, RealArray]:
    """Return ‖L_t‖², ‖L_s‖² and ‖L_t - L_s‖² for each pair."""
    if t.size <= _SINGLE_STEPS:
        later, earlier = (np.array([mechanism.squared_row_norm(int(step)) for step in steps]) for steps in (t, s))
    else:
        rows = mechanism.squared_row_norms(int(t.max()))
        later, earlier = rows[t - 1], rows[s - 1]
    difference, lengths = np.zeros(t.size), t - s
    for length in np.unique(lengths).tolist():
        of = np.flatnonzero(lengths == length)
        difference[of] = _window_norms(mechanism, t[of], length)
    return later, earlier, difference


def _window_norms(mechanism: Mechanism, t: WholeArray, length: int) -> RealArray:
    if t.size > _SINGLE_STEPS:
        try:
            return mechanism.squared_window_norms(length, int(t.max()))[t - 1]
        except (DenseTooLarge, InvalidArgument):  # longer streams than this mechanism looks at as a whole
            pass
    return np.array([mechanism.squared_window_norm(int(step), int(step) - length) for step in t])
