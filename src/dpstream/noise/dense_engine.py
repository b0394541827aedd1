"""Streams a dense factor: every release is a row of L times all draws so far."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstream import portable
from dpstream.mechanisms.base import Mechanism
from dpstream.mechanisms.dense import DenseMechanism
from dpstream.noise.draws import Draws
from dpstream.noise.engine import DRAW_ERROR, UNIT, Chunks, Engine, largest_draw

__all__ = ["DenseEngine"]


class DenseEngine(Engine, streams=DenseMechanism):
    """Streams a dense L; keeps every draw, since any row may use all of them."""

    mechanism: DenseMechanism

    def __init__(self, mechanism: DenseMechanism, draws: Draws, chunks: Chunks, gain: float = 1.0) -> None:
        super().__init__(mechanism, draws, chunks, gain)
        self._factor = mechanism.left
        self.reset()

    @classmethod
    def _nanoseconds_kept(cls, mechanism: Mechanism, steps: int, *, exact: bool) -> float:
        del mechanism
        return (0.6 if exact else 0.5) * steps / 2

    def reset(self) -> None:
        self.t = 0
        self._history = np.empty((0, self.draws.coordinates), dtype=self.draws.dtype)

    def seek(self, t: int) -> None:
        self._history = self.draws.rows(1, t, slot=0)
        self.t = t

    def _error(self, t: int) -> float:
        worst = math.sqrt(t * self.mechanism.max_squared_row_norm(t))
        return worst * (DRAW_ERROR + (t + 2) * UNIT * largest_draw(self.draws.law))

    def rows(self, count: int) -> NDArray[np.float64]:
        t = self.t + count
        self._history = np.concatenate([self._history, self.draws.rows(self.t + 1, count, slot=0)])
        out = np.empty((count, self.draws.coordinates))
        for i in range(self.t, t):
            portable.weighted_sum(self._factor[i, : i + 1], self._history[: i + 1], out[i - self.t])
        self.t = t
        return out

    def step(self, out: NDArray[Any]) -> None:
        if self._history.shape[0] == self.t:  # doubling, so that growing costs nothing on average
            grown = np.empty(
                (min(max(64, 2 * self.t), self._factor.shape[0]), self.draws.coordinates), self.draws.dtype
            )
            grown[: self.t] = self._history[: self.t]
            self._history = grown
        self._history[self.t] = self.draws.rows(self.t + 1, 1, slot=0)[0]
        self.t += 1
        row = (self._factor[self.t - 1, : self.t] * self.gain).astype(self.draws.dtype)
        portable.weighted_sum(row, self._history[: self.t], out)
