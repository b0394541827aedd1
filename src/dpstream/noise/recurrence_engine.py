"""Streams a buffered Toeplitz factor: one-pole buffers, slow ones in more precision than they are released in.

A buffer that decays by 2^-20 a step loses its decay in float32, where 1 - 2^-20 has no room for error. So a wide
float32 stream keeps its slowest buffers in float64. An exact stream keeps them in double-double: a narrow one all of
its buffers, which it moves by many steps at once; a wide one as few as its error bound allows.
"""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstream import kernel
from dpstream.mechanisms.base import Mechanism
from dpstream.mechanisms.recurrence import RecurrenceMechanism
from dpstream.noise.draws import Draws
from dpstream.noise.engine import DRAW_ERROR, UNIT, Chunks, Engine, largest_draw, word_buffer
from dpstream.noise.recurrence_tables import LeapTables, leap_tables, repeated_rounding, slow_buffers

__all__ = ["SLOW_GAP", "RecurrenceEngine"]

#: Buffers that decay by less than this a step are kept in float64 by a float32 stream. A float32 buffer rounds each
#: step to 2^-24 of itself, so its decay is then right to 2^-24 / 2^-12 in the worst case, and far better on average.
SLOW_GAP = 2.0**-12
#: Scalings are computed for so many steps at a time.
SCALES_AHEAD = 1024


class RecurrenceEngine(Engine, streams=RecurrenceMechanism):
    """See `dpstream.mechanisms.recurrence` for what a step does."""

    mechanism: RecurrenceMechanism

    def __init__(self, mechanism: RecurrenceMechanism, draws: Draws, chunks: Chunks, gain: float = 1.0) -> None:
        super().__init__(mechanism, draws, chunks, gain)
        self._local = threading.local()
        self._gaps = np.ascontiguousarray(mechanism.gaps, dtype=np.float64)
        self._weights = np.ascontiguousarray(mechanism.weights, dtype=np.float64)
        if draws.exact:
            self._slow = len(self._gaps) if draws.narrow else slow_buffers(mechanism, largest_draw(draws.law), UNIT)
        else:
            self._slow = int((self._gaps < SLOW_GAP).sum()) if draws.dtype == np.float32 else 0
        self._scales_ahead: tuple[int, list[float], list[float]] = (0, [], [])
        self.reset()

    @property
    def slow_buffers(self) -> int:
        """How many buffers, the slowest, are kept in more precision than the others."""
        return self._slow

    @classmethod
    def can_stream(cls, mechanism: Mechanism, *, exact: bool) -> bool:
        """Whether no parts of a release cancel, which the exact lane's error bound rests on."""
        if not exact or not isinstance(mechanism, RecurrenceMechanism):
            return True
        gaps, weights = mechanism.gaps, mechanism.weights
        return bool((weights > 0).all() and (gaps >= 0).all() and (gaps < 1).all())

    @classmethod
    def vectors(cls, mechanism: Mechanism, *, exact: bool, narrow: bool) -> int:
        """Return all buffers, and in the exact lane the low halves of those kept in double-double."""
        if not exact or not isinstance(mechanism, RecurrenceMechanism):
            return mechanism.memory
        buffers = len(mechanism.gaps)
        return buffers + (buffers if narrow else slow_buffers(mechanism, largest_draw(mechanism.noise), UNIT))

    @classmethod
    def _nanoseconds_kept(cls, mechanism: Mechanism, steps: int, *, exact: bool) -> float:
        del steps
        return (1.0 if exact else 0.26) * mechanism.memory

    def reset(self) -> None:
        self.t = 0
        d, buffers = self.draws.coordinates, len(self._gaps)
        if self.draws.exact:  # all buffers, and the low halves of the slow ones: a pair for every chunk
            widths = [d] if self.draws.narrow else [high - low for low, high in self.chunks.bounds]
            pairs = [(np.zeros((buffers, width)), np.zeros((self._slow, width))) for width in widths]
        else:  # slow buffers in float64, the others in the stream's dtype
            pairs = [(np.zeros((self._slow, d)), np.zeros((buffers - self._slow, d), dtype=self.draws.dtype))]
        self._state: list[tuple[NDArray[Any], NDArray[Any]]] = pairs

    def seek(self, t: int) -> None:
        self.replay(t)  # even from t itself: an interrupted step leaves some buffers ahead of others

    def arrays(self) -> list[NDArray[Any]]:
        return [half for pair in self._state for half in pair]

    def restore(self, t: int, arrays: list[NDArray[Any]]) -> None:
        copies = [array.copy() for array in arrays]
        self._state, self.t = list(zip(copies[::2], copies[1::2], strict=True)), t

    def _error(self, t: int) -> float:
        # docs/exact-rounding.md counts the roundings. Σ_j |L_tj| ≤ √t · ‖L_t‖, and all weights are positive, so that no
        # part of a release is larger than that. (A tenth to spare, where the largest row was found by a search.)
        row = math.sqrt(1.1 * self.mechanism.squared_row_norm_bound(t))
        buffers = len(self._gaps)
        if self.draws.narrow:
            rounding = (15 + -(-buffers // 4)) * UNIT + t * 2.0**-102
            repeated = 0.0
        else:
            rounding = (buffers + 8) * UNIT + t * 2.0**-102
            repeated = row * UNIT * repeated_rounding(self._gaps, self._weights, self._slow, t)
        largest = largest_draw(self.draws.law)
        return math.sqrt(t) * row * (DRAW_ERROR + rounding * largest) + repeated * largest

    def rows(self, count: int) -> NDArray[np.float64]:
        first = self.t + 1
        out: NDArray[np.float64] = self.workspace.array("rows", (count, self.draws.coordinates))
        draws = np.ascontiguousarray(self.draws.rows(first, count, 0, self.workspace.array))
        entering, leaving = self.mechanism.input_scale(first, count), self.mechanism.output_scale(first, count)
        high, low = self._state[0]
        if self.draws.exact:
            kernel.recurrence_leap_f64(draws, entering, leaving, *self._tables(), high, low, out)
        else:
            kernel.recurrence_block_f64(draws, entering, leaving, self._gaps, self._weights, low, out)
        self.t += count
        return out

    def _tables(self) -> LeapTables:
        return leap_tables(tuple(self._gaps.tolist()), tuple(self._weights.tolist()))

    def step(self, out: NDArray[Any]) -> None:
        self._step(out)

    def add_difference(self, last: NDArray[Any], to: NDArray[Any]) -> None:
        self._step(to, last)

    def _step(self, out: NDArray[Any], last: NDArray[Any] | None = None) -> None:
        """Make a step; write its noise to `out`, or with `last` (float lane only) do as `add_difference`."""
        step = self.t + 1
        entering, leaving = self._scales(step)
        if self.draws.exact:

            def work(low: int, high: int) -> None:
                draws = self.draws.columns(step, 1, 0, low, high)[0]
                pair = self._state[low // (self.chunks.bounds[0][1])]
                kernel.recurrence_mixed_f64(draws, entering, leaving, self._gaps, self._weights, *pair, out[low:high])
        else:
            slow, fast = self._state[0]
            fused = kernel.recurrence_step_f32 if self.draws.dtype == np.float32 else kernel.recurrence_step_f64

            def work(low: int, high: int) -> None:
                words = self.draws.words(step, 0, low, high, self._word_buffer())
                entered, part = entering * self.gain, out[low:high]
                noise = part if last is None else self._chunk_room(high - low)
                fused(words, entered, leaving, self._gaps, self._weights, slow, fast, low, high, noise)
                if last is not None:
                    self._add_difference(noise, last[low:high], part)

        self.chunks.run(work)
        self.t = step

    def _word_buffer(self) -> NDArray[np.uint8]:
        """The calling thread's room for keystream."""
        held = self._local.__dict__
        if "buffer" not in held:
            held["buffer"] = word_buffer(self.draws)
        buffer: NDArray[np.uint8] = held["buffer"]
        return buffer

    def _scales(self, step: int) -> tuple[float, float]:
        """Both scalings of one step, computed for many steps at a time."""
        first, entering, leaving = self._scales_ahead
        if not first <= step < first + len(entering):
            count = min(SCALES_AHEAD, (self.mechanism.horizon or step + SCALES_AHEAD) - step + 1)
            entering = self.mechanism.input_scale(step, count).tolist()
            leaving = self.mechanism.output_scale(step, count).tolist()
            first = step
            self._scales_ahead = (first, entering, leaving)
        return entering[step - first], leaving[step - first]
