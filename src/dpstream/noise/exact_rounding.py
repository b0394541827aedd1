"""Rounds a stream's noise to the integers nearest to the ideal noise: the exact lane.

Floating point computes scale · (L z)_t to within a proven bound. Where that bound leaves two integers possible, ball
arithmetic with more bits of the keystream decides (docs/exact-rounding.md, "The guard band").
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstream import kernel
from dpstream.noise.draws import Draws
from dpstream.noise.engine import UNIT, Engine
from dpstream.noise.exact import nearest_integer

__all__ = ["ExactRounding"]


class ExactRounding:
    """The rounding of one stream: its engine's releases, times `scale`, to the nearest integers.

    Guarantee
    ---------
    Each integer is the one nearest to scale · (L z)_t, with z the ideal draws and L the real matrix that the
    mechanism's doubles denote: post-processing of ideal noise, with no extra δ.
    """

    def __init__(self, engine: Engine, draws: Draws, scale: float) -> None:
        self._engine = engine
        self._draws = draws
        self._scale = scale

    def round(self, unit: NDArray[np.float64], first: int, out: NDArray[np.int64], low: int = 0) -> None:
        """Write the integers nearest to scale · unit to `out`; `unit` is overwritten.

        Rows are steps from `first` on, columns are coordinates from `low` on.
        """
        scaled = np.multiply(unit, self._scale, out=unit)
        largest = float(max(scaled.max(initial=0.0), -scaled.min(initial=0.0)))
        guard = self.guard(first + unit.shape[0] - 1, largest)
        flat = out.reshape(-1)
        for index in kernel.round_guarded(scaled.reshape(-1), guard, flat):
            row, column = divmod(int(index), unit.shape[1])
            flat[index] = self.integer(first + row, low + column)

    def step(self, out: NDArray[np.int64]) -> None:
        """Make the engine's next step of a wide stream and round it, in place and chunk by chunk: no second vector."""
        unit = out.view(np.float64)
        self._engine.step(unit)
        t = self._engine.t

        def work(low: int, high: int) -> None:
            self.round(unit[low:high].reshape(1, -1).copy(), t, out[low:high].reshape(1, -1), low)

        self._engine.chunks.run(work)

    def guard(self, t: int, largest: float) -> float:
        """Bound |scale · unit - ideal noise| for releases up to t: the engine's bound, and the product's rounding."""
        return (self._scale * self._engine.error(t) + 2 * UNIT * largest) * 1.01

    def integer(self, t: int, coordinate: int) -> int:
        """Return the integer nearest to the ideal noise of one coordinate of release t, by ball arithmetic."""

        def ideal_noise(bits: int) -> Any:
            return self._scale * self._engine.mechanism.noise_of_release(
                t, lambda step, slot: self._draws.ideal(step, slot, coordinate, bits)
            )

        return nearest_integer(ideal_noise)
