"""Timing: whether the time of a call tells something about its noise.

Whoever can measure the time of `Counter.add` learns something about the noise if the two are correlated. Noise is made
many steps ahead and rounded by the same instructions whatever its size, so it should not tell more than the rare
release that ball arithmetic must decide (one in 10^8), and what the interpreter adds: CPython keeps the integers from
-5 to 256 ready and makes all others anew, which takes a little longer. This measures; it proves nothing.

Both noise and times drift: noise because releases share it, times because a machine does other things too. So calls
are compared in pairs, each with the next: the rank correlation is that of the two differences. And a large count is
added first, because the time may well depend on the number that is *released*, which is no secret.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
import scipy
from scipy.special import ndtri

from dpstream.arguments import check_whole
from dpstream.audit.certificate import check_confidence
from dpstream.budget import Budget
from dpstream.release import Counter

__all__ = ["Timing", "time_counter"]

#: What is counted before the clock starts.
COUNT = 10**6


@dataclass(frozen=True)
class Timing:
    """Rank correlations with the time of a call, and how far off 0 the true ones are at most.

    Attributes
    ----------
    size, sign
        That of |noise|, and that of noise.
    bound
        Both true ones are at most this in size.
    """

    calls: int
    size: float
    sign: float
    bound: float
    confidence: float

    def __str__(self) -> str:
        return (
            f"Counter.add, {self.calls:,} calls: the rank correlation with time is {self.size:+.4f} for |noise| and"
            f" {self.sign:+.4f} for noise, in truth at most {self.bound:.4f} in size (confidence"
            f" {self.confidence:.6g})."
        )


def time_counter(budget: Budget, calls: int = 40_000, confidence: float = 1 - 1e-6, key: bytes | None = None) -> Timing:
    """Time single calls of `add`, and correlate.

    >>> from dpstream import zcdp
    >>> time_counter(zcdp(0.5), calls=4_000).bound < 0.5
    True
    """
    calls, confidence = check_whole("calls", calls, least=100), check_confidence(confidence)
    pairs = calls // 2
    counter = Counter(2 * pairs + 1, budget, key=key)
    counter.add(COUNT)
    noise, times = np.empty(2 * pairs), np.empty(2 * pairs)
    clock, add = time.perf_counter_ns, counter.add
    for i in range(2 * pairs):
        start = clock()
        released = add(0)
        times[i] = clock() - start
        noise[i] = released - COUNT
    apart = times[1::2] - times[::2]
    size = rank_correlation(np.abs(noise[1::2]) - np.abs(noise[::2]), apart)
    sign = rank_correlation(noise[1::2] - noise[::2], apart)
    # Fisher's transformation: artanh of a rank correlation near 0 has a standard deviation of at most 1.03/√(n - 3).
    spread = 1.03 * float(-ndtri((1 - confidence) / 4)) / math.sqrt(pairs - 3)
    return Timing(calls, size, sign, math.tanh(math.atanh(max(abs(size), abs(sign))) + spread), confidence)


def rank_correlation(
    a: np.ndarray[tuple[int], np.dtype[np.float64]], b: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> float:
    """Spearman's; 0 if one of them never changes."""
    ranks_a, ranks_b = scipy.stats.rankdata(a), scipy.stats.rankdata(b)
    if np.ptp(ranks_a) == 0 or np.ptp(ranks_b) == 0:
        return 0.0
    return float(np.corrcoef(ranks_a, ranks_b)[0, 1])
