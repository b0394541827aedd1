"""Mechanisms given by a dense, square, lower-triangular L: every release is a row of L times all draws so far."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy  # its parts are loaded when they are first used
from numpy.typing import NDArray

from dpstream.mechanisms.base import DrawsPerStep, Mechanism, State, Value
from dpstream.mechanisms.matrix_participation import ColumnGram
from dpstream.mechanisms.toeplitz import SENSITIVITY_MARGIN
from dpstream.participation import Participation

__all__ = ["DenseMechanism", "DenseState"]


@dataclass(frozen=True)
class DenseState(State):
    """All draws so far."""

    t: int
    draws: tuple[Value, ...]


class DenseMechanism(Mechanism):
    """A mechanism of which nothing is known but its matrix. R = L⁻¹A; a stream keeps every draw."""

    horizon: int

    @property
    @abstractmethod
    def left(self) -> NDArray[np.float64]:
        """L, read-only."""

    @cached_property
    def right(self) -> NDArray[np.float64]:
        """R = L⁻¹A as computed in doubles, read-only."""
        R: NDArray[np.float64] = scipy.linalg.solve_triangular(
            self.left, np.tri(self.horizon), lower=True, overwrite_b=True, check_finite=False
        )
        R.flags.writeable = False
        return R

    @cached_property
    def _gram(self) -> ColumnGram:
        return ColumnGram.of(self.right)

    @property
    def draws_per_step(self) -> DrawsPerStep:
        """One draw a step."""
        return DrawsPerStep(1, 1.0)

    @property
    def memory(self) -> int:
        """All draws."""
        return self.horizon

    @property
    def table_bytes(self) -> int:
        """L."""
        return 8 * self.horizon**2

    def start(self) -> DenseState:
        """No draws yet."""
        return DenseState(0, ())

    def draws_at(self, t: int) -> int:
        """One."""
        return 1

    def advance(self, state: DenseState, draws: Sequence[Value]) -> tuple[Value, DenseState]:
        """Row t of L times the draws so far."""
        t = self._next_step(state)
        history = (*state.draws, *draws)
        row = self.left[t - 1, :t].tolist()
        noise = history[0] * row[0]
        for draw, entry in zip(history[1:], row[1:], strict=True):
            noise = noise + draw * entry
        return noise, DenseState(t, history)

    def computed_numbers(self) -> Iterator[NDArray[np.float64]]:
        """Return L."""
        yield self.left

    def noise_of_release(self, t: int, draw: Callable[[int, int], Value]) -> Value:
        """Return row t of L times the draws, without replaying earlier releases."""
        return self.advance(DenseState(t - 1, tuple(draw(j, 0) for j in range(1, t))), [draw(t, 0)])[0]

    def _factors(self, steps: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return self.left[:steps, :steps].copy(), self.right[:steps, :steps].copy()

    def _sensitivity(self, participation: Participation) -> tuple[float, bool]:
        value, exact = self._gram.sensitivity(participation)
        return SENSITIVITY_MARGIN * value, exact

    def squared_row_norm(self, t: int) -> float:
        row = self.left[t - 1, :t]
        return float(row @ row)

    def squared_row_norms(self, steps: int) -> NDArray[np.float64]:
        norms: NDArray[np.float64] = (self.left[:steps] ** 2).sum(axis=1)
        return norms

    def squared_window_norm(self, t: int, s: int) -> float:
        row = self.left[t - 1, :t].copy()
        if s:
            row[:s] -= self.left[s - 1, :s]
        return float(row @ row)

    def squared_window_norms(self, window: int, steps: int) -> NDArray[np.float64]:
        rows = self.left[:steps].copy()
        rows[window:] -= self.left[: max(steps - window, 0)]
        norms: NDArray[np.float64] = (rows**2).sum(axis=1)
        return norms
