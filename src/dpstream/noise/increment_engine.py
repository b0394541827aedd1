"""Streams mechanisms whose releases add up increments, in the float lane: fitted, banded, banded inverse, independent.

`step` keeps the running total of the noise in float64; `increment`, what training adds to gradients, keeps none.
Whoever asks for totals after increments pays for all steps again. `exact_increment_engine` streams them in the exact
lane.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstream import kernel
from dpstream.mechanisms.banded import Banded
from dpstream.mechanisms.banded_inverse import BandedInverse
from dpstream.mechanisms.base import Mechanism
from dpstream.mechanisms.fitted_toeplitz import FittedToeplitz
from dpstream.mechanisms.increments import IncrementMechanism
from dpstream.mechanisms.independent import Independent
from dpstream.noise.draws import Draws
from dpstream.noise.engine import Chunks, Engine, word_buffer
from dpstream.noise.pure_step_engine import PureStepEngine
from dpstream.noise.recurrence_engine import SCALES_AHEAD, SLOW_GAP

__all__ = ["BandedEngine", "BandedInverseEngine", "FittedEngine", "IncrementEngine"]


class IncrementEngine(Engine):
    """What the engines below share: the running total, the scales of increments and room for keystream."""

    mechanism: IncrementMechanism
    has_increments = True

    def __init__(self, mechanism: IncrementMechanism, draws: Draws, chunks: Chunks, gain: float = 1.0) -> None:
        super().__init__(mechanism, draws, chunks, gain)
        self._local = threading.local()
        self._scales_ahead: tuple[int, list[float]] = (0, [])
        # A narrow stream is stepped in Python, unless its engine knows better.
        self._pure = PureStepEngine(mechanism, draws, chunks, gain) if draws.narrow else None
        self.reset()

    @classmethod
    def can_stream(cls, mechanism: Mechanism, *, exact: bool) -> bool:
        """Whether this is the float lane: increments cancel, and their rounding errors carry no proof here."""
        del mechanism
        return not exact

    @abstractmethod
    def _make(self, step: int, total: NDArray[np.float64] | None, out: NDArray[Any], *, add: bool = False) -> None:
        """Make step `step` of a wide stream: its increment, or with `total` the sum of all of them.

        It is written to `out`, or with `add` added to it.
        """

    @abstractmethod
    def _forget(self) -> None:
        """Empty the buffers."""

    def _buffers(self) -> list[NDArray[Any]]:
        """What increments remember."""
        return []

    def _remember(self, arrays: list[NDArray[Any]]) -> None:
        """Take `_buffers` back."""

    def reset(self) -> None:
        self.t = 0
        self._total: NDArray[np.float64] | None = np.zeros(self.draws.coordinates)
        if self._pure is not None:
            self._pure.reset()
        else:
            self._forget()

    def rows(self, count: int) -> NDArray[np.float64]:
        assert self._pure is not None  # noqa: S101  (narrow streams only)
        rows = self._pure.rows(count)
        self.t = self._pure.t
        return rows

    def step(self, out: NDArray[Any]) -> None:
        if self._total is None:
            self.replay(self.t)
        self._make(self.t + 1, self._total, out)
        self.t += 1

    def increment(self, out: NDArray[Any]) -> None:
        """Write the next increment of a wide stream to `out`; the running total is given up."""
        self._total = None
        self._make(self.t + 1, None, out)
        self.t += 1

    def add_increment(self, to: NDArray[Any]) -> None:
        self._total = None
        self._make(self.t + 1, None, to, add=True)
        self.t += 1

    def seek(self, t: int) -> None:
        self.replay(t)  # even from t itself: an interrupted step leaves some buffers ahead of others

    def arrays(self) -> list[NDArray[Any]]:
        if self._pure is not None:
            return []
        return [np.empty(0) if self._total is None else self._total, *self._buffers()]

    def restore(self, t: int, arrays: list[NDArray[Any]]) -> None:
        if self._pure is not None:
            self.seek(t)
            return
        total, *buffers = (array.copy() for array in arrays)
        self._total = total if total.size else None
        self._remember(buffers)
        self.t = t

    def _error(self, t: int) -> float:
        raise NotImplementedError("increments carry no error bound: the exact lane has its own engine")

    def _scale(self, step: int) -> float:
        """What increment `step` is multiplied by, computed for many steps at a time."""
        first, scales = self._scales_ahead
        if not first <= step < first + len(scales):
            count = min(SCALES_AHEAD, self.mechanism.horizon - step + 1)
            first, scales = step, self.mechanism.increment_scale(step, count).tolist()
            self._scales_ahead = (first, scales)
        return scales[step - first]

    def _words(self, step: int, low: int, high: int) -> NDArray[Any]:
        """The keystream of a chunk, in the calling thread's room for it."""
        held = self._local.__dict__
        if "buffer" not in held:
            held["buffer"] = word_buffer(self.draws)
        return self.draws.words(step, 0, low, high, held["buffer"])

    def _single(self) -> bool:
        """Whether this is a stream of float32."""
        return bool(self.draws.dtype == np.float32)

    @classmethod
    def _nanoseconds_kept(cls, mechanism: Mechanism, steps: int, *, exact: bool) -> float:
        del steps, exact
        return 0.26 * mechanism.memory


class FittedEngine(IncrementEngine, streams=FittedToeplitz):
    """Real buffers and complex pairs, fused with the transform; see `kernel.increment_step_f32`."""

    def __init__(
        self, mechanism: FittedToeplitz | Independent, draws: Draws, chunks: Chunks, gain: float = 1.0
    ) -> None:
        steps = mechanism.buffer_steps if isinstance(mechanism, FittedToeplitz) else ()
        table = np.array(steps, dtype=np.float64).reshape(len(steps), 4)
        # 1 - |ζ|: how much of a buffer, or of a pair, is lost in a step.
        lost = 1.0 - np.hypot(1.0 - table[:, 0], table[:, 1])
        slow = (lost < SLOW_GAP) & (draws.dtype == np.float32)
        self._table = np.ascontiguousarray(np.concatenate([table[slow], table[~slow]]))
        self._slow = int(slow.sum())
        super().__init__(mechanism, draws, chunks, gain)
        self._pure = None

    def _forget(self) -> None:
        halves = np.where(self._table[:, 1] == 0.0, 1, 2)
        slow, fast = int(halves[: self._slow].sum()), int(halves[self._slow :].sum())
        self._slow_state = np.zeros((slow, self.draws.coordinates))
        self._fast_state = np.zeros((fast, self.draws.coordinates), dtype=self.draws.dtype)

    def reset(self) -> None:
        super().reset()
        self._forget()

    def _buffers(self) -> list[NDArray[Any]]:
        return [self._slow_state, self._fast_state]

    def _remember(self, arrays: list[NDArray[Any]]) -> None:
        self._slow_state, self._fast_state = arrays

    def rows(self, count: int) -> NDArray[np.float64]:
        out: NDArray[np.float64] = self.workspace.array("rows", (count, self.draws.coordinates))
        draws = np.ascontiguousarray(self.draws.rows(self.t + 1, count, 0, self.workspace.array), dtype=np.float64)
        scale = self.mechanism.increment_scale(self.t + 1, count)
        kernel.increment_block_f64(draws, scale, self._table, self._fast_state, self._total, out)
        self.t += count
        return out

    def _make(self, step: int, total: NDArray[np.float64] | None, out: NDArray[Any], *, add: bool = False) -> None:
        fused = kernel.increment_step_f32 if self._single() else kernel.increment_step_f64
        scale = self._scale(step)

        def work(low: int, high: int) -> None:
            fused(
                self._words(step, low, high),
                self.gain,
                scale,
                self._table,
                self._slow,
                self._slow_state,
                self._fast_state,
                total,
                low,
                high,
                out[low:high],
                add,
            )

        self.chunks.run(work)


class IndependentEngine(FittedEngine, streams=Independent):
    """No buffers at all."""


class BandedEngine(IncrementEngine, streams=Banded):
    """A ring of the last bands - 1 increments; see `kernel.banded_step_f32`."""

    mechanism: Banded

    def _forget(self) -> None:
        self._coefficients = np.array(self.mechanism.coefficients[1:], dtype=np.float64)
        self._ring = np.zeros((self._coefficients.size, self.draws.coordinates), dtype=self.draws.dtype)

    def _buffers(self) -> list[NDArray[Any]]:
        return [self._ring]

    def _remember(self, arrays: list[NDArray[Any]]) -> None:
        self._forget()
        (self._ring,) = arrays

    def _make(self, step: int, total: NDArray[np.float64] | None, out: NDArray[Any], *, add: bool = False) -> None:
        fused = kernel.banded_step_f32 if self._single() else kernel.banded_step_f64
        scale, position = self._scale(step), (step - 1) % max(1, self._coefficients.size)

        def work(low: int, high: int) -> None:
            words, part = self._words(step, low, high), out[low:high]
            fused(words, self.gain, scale, self._coefficients, self._ring, position, total, low, high, part, add)

        self.chunks.run(work)


class BandedInverseEngine(IncrementEngine, streams=BandedInverse):
    """No buffers: the draws of earlier steps are made again."""

    mechanism: BandedInverse

    def _forget(self) -> None:
        pass

    def seek(self, t: int) -> None:
        """Stand after step t at once; the running total is made when it is asked for."""
        if self._pure is not None:
            self.replay(t)
            return
        self.t = t
        self._total = None if t else np.zeros(self.draws.coordinates)

    def _make(self, step: int, total: NDArray[np.float64] | None, out: NDArray[Any], *, add: bool = False) -> None:
        push = kernel.stack_step_f32 if self._single() else kernel.stack_step_f64
        weights = [self.gain * c for c in self.mechanism.coefficients[:step]]

        def work(low: int, high: int) -> None:
            part = self._chunk_room(high - low) if add else out[low:high]
            for j, weight in enumerate(weights):
                push(self._words(step - j, low, high), weight, None, 0.0, part if j else None, part, None)
            if total is not None:
                total[low:high] += part
                part[...] = total[low:high]
            if add:
                np.add(out[low:high], part, out=out[low:high])

        self.chunks.run(work)
