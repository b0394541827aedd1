"""HistogramSums: the sums of a histogram and their releases, one pure function of inputs and noise after the other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpstream.noise.stream import NoiseStream

__all__ = ["HistogramSums"]


class HistogramSums:
    """The running sums of a histogram. `Counter` checks inputs, takes turns, and calls this.

    Attributes
    ----------
    t
        How many releases have been made.
    sums
        The true sums, int64.
    last
        The last release; None before the first, and after an interrupt took it away.
    """

    __slots__ = ("last", "sums", "t")

    def __init__(self, t: int, sums: NDArray[np.int64], last: NDArray[np.int64] | None) -> None:
        self.t = t
        self.sums = sums
        self.last = last

    def take(self, row: NDArray[np.int64], noise: NoiseStream) -> NDArray[np.int64]:
        """Add one step's input and return its release; `noise` stands after step t."""
        t, sums = self.t, self.sums
        # The last release's own array becomes this one's: one array less while the noise is made.
        release, self.last = self.last, None
        if release is None:
            release = np.empty(sums.shape, dtype=np.int64)
        noise.step(release)
        # No call stands between here and the last assignment, so an interrupt cannot come between them either.
        sums += row
        release += sums
        self.last = release
        self.t = t + 1
        return np.array(release)

    def take_many(self, rows: NDArray[np.int64], noise: NoiseStream) -> NDArray[np.int64]:
        """Add many steps' inputs and return one release each; `noise` stands after step t."""
        out: NDArray[np.int64] = noise.block(len(rows))
        if not len(rows):
            return out
        total = self.sums.copy()
        for made, row in zip(out, rows, strict=True):
            total += row
            made += total
        last, t = out[-1].copy(), self.t + len(rows)
        self.sums, self.last, self.t = total, last, t
        return out
