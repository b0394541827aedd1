"""Streams the doubling reduction: an engine of its own for the inner mechanism of every epoch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstream.mechanisms.unbounded import TOTALS_SLOT, Unbounded, epoch_of
from dpstream.noise.draws import Draws
from dpstream.noise.engine import DRAW_ERROR, UNIT, Chunks, Engine, largest_draw, make_engine

__all__ = ["EpochEngine"]


class EpochEngine(Engine, streams=Unbounded):
    """The inner draws of an epoch are those of its steps; the total of the epoch before has a slot to itself."""

    mechanism: Unbounded

    def __init__(self, mechanism: Unbounded, draws: Draws, chunks: Chunks, gain: float = 1.0) -> None:
        super().__init__(mechanism, draws, chunks, gain)
        self.reset()

    def reset(self) -> None:
        self.t = 0
        self._finished = np.zeros(self.draws.coordinates, dtype=self.draws.dtype)
        self._measured, self._largest_inner_error = False, 0.0
        self._open(0)

    def _open(self, j: int) -> None:
        self._epoch = j
        self._inner = make_engine(self.mechanism.epoch(j), self.draws.shifted(2**j - 1), self.chunks)
        self._inner_scale = self.mechanism.scales(j)[1]

    def _note_error(self) -> None:
        """Keep the bound of the epoch at hand: a pure-step engine knows it only for releases that it made."""
        inner = self._inner
        if self.draws.exact and inner.t:
            self._measured |= inner.error_is_measured
            error = self._inner_scale * inner.error(2**self._epoch)
            self._largest_inner_error = max(self._largest_inner_error, error)

    def _finish_epoch(self) -> None:
        """At a power of two: the epoch before is over, and its total takes its one draw."""
        total = self.draws.rows(self.t + 1, 1, TOTALS_SLOT)[0]
        self._note_error()
        self._finished = self._finished + total * self.draws.dtype.type(self.mechanism.scales(self._epoch)[0])
        self._open(self._epoch + 1)

    def rows(self, count: int) -> NDArray[np.float64]:
        out = np.empty((count, self.draws.coordinates))
        done = 0
        while done < count:
            if self.t + 1 == 2 ** (self._epoch + 1):
                self._finish_epoch()
            run = min(count - done, 2 ** (self._epoch + 1) - 1 - self.t)
            out[done : done + run] = self._inner.rows(run) * self._inner_scale + self._finished
            done += run
            self.t += run
        return out

    def step(self, out: NDArray[Any]) -> None:
        if self.t + 1 == 2 ** (self._epoch + 1):
            self._finish_epoch()
        self._inner.step(out)
        out *= out.dtype.type(self._inner_scale)
        out += self._finished
        if self.gain != 1.0:
            out *= out.dtype.type(self.gain)
        self.t += 1

    def seek(self, t: int) -> None:
        self.reset()
        if t == 0:
            return
        last, within = epoch_of(t)
        for j in range(last):
            self.t = 2 ** (j + 1) - 1
            self._finish_epoch()
        self._inner.seek(within)
        self.t = t

    def arrays(self) -> list[NDArray[Any]]:
        return [self._finished, *self._inner.arrays()]

    def restore(self, t: int, arrays: list[NDArray[Any]]) -> None:
        self.reset()
        if t == 0:
            return
        last, within = epoch_of(t)
        self._open(last)
        self._finished = arrays[0].copy()
        self._inner.restore(within, arrays[1:])
        self.t = t

    def error(self, t: int) -> float:
        self._note_error()
        return self._bound(t, self._largest_inner_error) if self._measured else super().error(t)

    def _error(self, t: int) -> float:
        # All of it grows with the epoch, so that the last one bounds the others.
        last, _ = epoch_of(t)
        inner = make_engine(self.mechanism.epoch(last), self.draws, self.chunks).error(2**last)
        return self._bound(t, self.mechanism.scales(last)[1] * inner)

    def _bound(self, t: int, inner: float) -> float:
        """The totals' draws, the inner engines' own bound, and four roundings of what they add up to."""
        last, _ = epoch_of(t)
        largest = largest_draw(self.draws.law)
        totals = last * self.mechanism.scales(last)[0] * (DRAW_ERROR + (last + 3) * UNIT * largest)
        return totals + inner + 4 * UNIT * largest * math.sqrt(t * self.mechanism.max_squared_row_norm(t))
