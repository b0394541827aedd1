"""How exact each of many releases is: standard deviations and error bars for whole stretches of steps at once."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfc, ndtri

from dpstream.errors import HorizonExceeded
from dpstream.release.counter import Counter
from dpstream.release.interval import GaussianNoise, RealNoise, check_confidence, half_width, rounded_variance

__all__ = ["accuracy"]

#: Standard deviations are those of rounded noise; above this the rounding adds 1/12 to the variance, to all digits.
_WIDE = 2.0
#: So few steps are looked at one by one; for more, a mechanism has all norms from the first step on at once.
FEW = 8


def accuracy(
    counter: Counter, first: int, count: int, confidence: float = 0.95
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The standard deviation of each release from step `first` on, and by how much it may be off at most.

    The same numbers as `Counter.stddev` and `Counter.interval`: the true count is within release ± the second number
    with at least this confidence, for each release on its own.

    Examples
    --------
    >>> import dpstream as dp
    >>> counter = dp.Counter(100, dp.zcdp(0.005), mechanism=dp.mechanisms.SmoothBinary(100))
    >>> stddev, off = accuracy(counter, 99, 2)
    >>> off.tolist(), round(float(stddev[1]), 3) == round(counter.stddev(100), 3)
    ([69, 69], True)
    """
    check_confidence(confidence)
    terms, scale = counter._terms, counter._scale
    last = first + count - 1
    if last > terms.last:
        raise HorizonExceeded(horizon=terms.last, step=last)
    if terms.budget.noise == "gaussian":
        mechanism = terms.mechanism
        if count <= FEW:
            norms = np.array([mechanism.squared_row_norm(t) for t in range(first, last + 1)])
        else:
            norms = mechanism.squared_row_norms(last)[first - 1 :]
        return _gaussian(scale * np.sqrt(norms), confidence)
    laws = [terms.noise(t, scale) for t in range(first, last + 1)]
    stddev = np.array([_stddev(law) for law in laws])
    return stddev, np.array([half_width(law, confidence) for law in laws], dtype=np.int64)


@lru_cache(maxsize=4096)
def _stddev(law: RealNoise) -> float:
    return float(np.sqrt(rounded_variance(law)))


def _gaussian(sigma: NDArray[np.float64], confidence: float) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    stddev = np.sqrt(sigma**2 + 1 / 12)
    for i in np.flatnonzero(sigma < _WIDE):
        stddev[i] = _stddev(GaussianNoise(float(sigma[i])))
    miss = 1 - confidence
    # The least whole h with P(|noise| < h + 1/2) large enough: near z·σ - 1/2, and then looked at from both sides.
    h = np.maximum(np.ceil(ndtri(1 - miss / 2) * sigma - 0.5), 0.0)
    with np.errstate(divide="ignore"):

        def beyond(h: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.asarray(erfc((h + 0.5) / (sigma * np.sqrt(2.0))))

        h += beyond(h) > miss
        h -= (h > 0) & (beyond(h - 1) <= miss)
    return stddev, h.astype(np.int64)
