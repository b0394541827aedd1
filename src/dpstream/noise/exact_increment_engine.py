"""Streams mechanisms whose releases add up increments in the exact lane, in doubles with a proven error bound.

Parts of a release cancel here: increments are differences, weights have signs and pairs turn. So an error is not
compared with the release, but followed to it: every rounding enters the stream at one place, and from there on it goes
the way of a draw, or of what a buffer holds. docs/exact-rounding.md, "Increments", has the argument.

(Real interlacing families without normalised columns have no parts that cancel: `ExactFittedEngine` makes recurrences
of them, whose bound does not grow with the number of steps.)
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, cast

import numpy as np
import scipy  # its parts are loaded when they are first used
from numpy.typing import NDArray

from dpstream import kernel
from dpstream.mechanisms.banded import Banded
from dpstream.mechanisms.banded_inverse import BandedInverse
from dpstream.mechanisms.base import Mechanism
from dpstream.mechanisms.fitted_toeplitz import FittedToeplitz
from dpstream.mechanisms.increments import IncrementMechanism
from dpstream.mechanisms.independent import Independent
from dpstream.mechanisms.recurrence import RecurrenceMechanism
from dpstream.noise.draws import Draws
from dpstream.noise.engine import DRAW_ERROR, UNIT, Chunks, Engine, largest_draw
from dpstream.noise.recurrence_engine import SCALES_AHEAD, RecurrenceEngine

__all__ = ["ExactBandedEngine", "ExactBandedInverseEngine", "ExactFittedEngine", "ExactIncrementEngine"]

RealArray = NDArray[np.float64]

#: Mechanisms whose own roundings amount to more than this share of what they round are left to their pure step.
LARGEST_SHARE = 2.0**-20
#: Covers products of errors, and the rounding of the bounds themselves.
ROOM = 1.01


class _Recurrence:
    """A fitted mechanism as `RecurrenceEngine` sees a mechanism: L by its own gaps and weights."""

    def __init__(self, mechanism: FittedToeplitz) -> None:
        recurrence = mechanism.as_recurrence
        assert recurrence is not None  # noqa: S101  (`can_stream` has looked)
        self.gaps, self.weights = recurrence
        self._fitted = mechanism
        self.squared_row_norm_bound = mechanism.squared_row_norm  # rows only grow

    def input_scale(self, first: int, count: int) -> RealArray:
        return np.ones(count)

    output_scale = input_scale

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fitted, name)


class ExactFittedEngine(RecurrenceEngine, streams=FittedToeplitz):
    """Streams a real interlacing family in the exact lane: weights of L are positive, the running total is a buffer.

    docs/exact-rounding.md, "Recurrences", holds as it is: a buffer that does not decay is not rounded by its decay.
    """

    def __init__(self, mechanism: FittedToeplitz, draws: Draws, chunks: Chunks, gain: float = 1.0) -> None:
        super().__init__(cast("RecurrenceMechanism", _Recurrence(mechanism)), draws, chunks, gain)

    @classmethod
    def can_stream(cls, mechanism: Mechanism, *, exact: bool) -> bool:
        """Whether L has positive weights and no scales."""
        return exact and isinstance(mechanism, FittedToeplitz) and mechanism.as_recurrence is not None

    @classmethod
    def vectors(cls, mechanism: Mechanism, *, exact: bool, narrow: bool) -> int:
        """Return all buffers twice: high and low halves."""
        del exact, narrow
        return 2 * mechanism.memory


class ExactIncrementEngine(Engine):
    """What the engines below share: y = G z in doubles, scaled and added up, chunk by chunk."""

    mechanism: IncrementMechanism

    def __init__(self, mechanism: IncrementMechanism, draws: Draws, chunks: Chunks, gain: float = 1.0) -> None:
        super().__init__(mechanism, draws, chunks, gain)
        self._table = np.empty((0, 4))
        self._scales_ahead: tuple[int, RealArray] = (0, np.empty(0))
        self.reset()

    @classmethod
    @abstractmethod
    def _share(cls, mechanism: Any) -> float:
        """How much of what it rounds a step may lose, all later steps considered."""

    @abstractmethod
    def _filter_error(self, t: int, largest: float) -> tuple[float, float, float]:
        """Bounds for releases up to t and draws up to `largest`.

        What acts as an error of draws, errors of the increments themselves, and the size of increments.
        """

    def _filtered(self, first: int, z: RealArray, chunk: int) -> RealArray:
        """What the kernel scales and adds up, from the draws of the steps from `first` on; by default themselves."""
        del first, chunk
        return z

    def _buffer_rows(self) -> int:
        """How many rows of what is remembered a chunk has."""
        return 0

    @classmethod
    def can_stream(cls, mechanism: Mechanism, *, exact: bool) -> bool:
        """Whether this is the exact lane and the bound is of use."""
        return exact and cls._share(mechanism) < LARGEST_SHARE

    @classmethod
    def _nanoseconds_kept(cls, mechanism: Mechanism, steps: int, *, exact: bool) -> float:
        del steps, exact
        return 1.0 * mechanism.memory

    # -- streaming ------------------------------------------------------------------------------------------------

    def reset(self) -> None:
        self.t = 0
        widths = [self.draws.coordinates] if self.draws.narrow else [high - low for low, high in self.chunks.bounds]
        rows = self._buffer_rows()
        self._state = [(np.zeros(width), np.zeros((rows, width))) for width in widths]

    def _add_up(self, first: int, z: RealArray, chunk: int, out: RealArray) -> None:
        """Write the running totals of the steps from `first` on to the rows of `out`."""
        total, buffers = self._state[chunk]
        scales = self._scales(first, len(z))
        y = np.ascontiguousarray(self._filtered(first, z, chunk))
        own = buffers if len(self._table) else np.empty((0, total.size))
        kernel.increment_block_f64(y, scales, self._table, own, total, out)

    def rows(self, count: int) -> RealArray:
        out: RealArray = self.workspace.array("rows", (count, self.draws.coordinates))
        draws = np.ascontiguousarray(self.draws.rows(self.t + 1, count, 0, self.workspace.array))
        self._add_up(self.t + 1, draws, 0, out)
        self.t += count
        return out

    def step(self, out: NDArray[Any]) -> None:
        step, width = self.t + 1, self.chunks.bounds[0][1]
        self._scales(step, 1)  # here, and not by several threads at once

        def work(low: int, high: int) -> None:
            draws = self.draws.columns(step, 1, 0, low, high)
            self._add_up(step, draws, low // width, out[low:high].reshape(1, -1))

        self.chunks.run(work)
        self.t = step

    def seek(self, t: int) -> None:
        self.replay(t)  # even from t itself: an interrupted step leaves some buffers ahead of others

    def arrays(self) -> list[NDArray[Any]]:
        return [part for pair in self._state for part in pair]

    def restore(self, t: int, arrays: list[NDArray[Any]]) -> None:
        copies = [array.copy() for array in arrays]
        self._state, self.t = list(zip(copies[::2], copies[1::2], strict=True)), t

    def _scales(self, first: int, count: int) -> RealArray:
        """D of some steps, computed for many steps at a time."""
        start, scales = self._scales_ahead
        if not start <= first <= first + count <= start + len(scales):
            ahead = min(max(count, SCALES_AHEAD), self.mechanism.horizon - first + 1)
            start, scales = first, self.mechanism.increment_scale(first, ahead)
            self._scales_ahead = (start, scales)
        return scales[first - start : first - start + count]

    # -- the error bound ------------------------------------------------------------------------------------------

    def _error(self, t: int) -> float:
        largest = largest_draw(self.draws.law)
        D = self._scale_bound(t)
        # Σ_j |(A G)_tj| ≤ √t ‖(A G)_t‖, and by Abel's summation D at most multiplies sums of increments.
        row = D * math.sqrt(t) * self.mechanism.plain_row_norm(t)
        as_draws, own, size = self._filter_error(t, largest)
        scaled = t * D * (own + UNIT * size)
        added = t * UNIT * row * largest
        return ROOM * (row * (DRAW_ERROR + as_draws) + scaled + added)

    def _scale_bound(self, t: int) -> float:
        """|Σ_u D_u a_u| is at most this times the largest |Σ_{v ≤ u} a_v|, and no D_u is larger."""
        if self.mechanism.even_steps >= t:
            return float(self.mechanism.increment_scale(1, 1)[0])
        D = self.mechanism.increment_scale(1, t)
        return float(D[0] + 2.0 * np.maximum(np.diff(D), 0.0).sum())


class ExactBufferEngine(ExactIncrementEngine, streams=FittedToeplitz):
    """Real buffers and complex pairs: an error of a buffer decays and turns as the buffer does."""

    mechanism: FittedToeplitz

    def __init__(self, mechanism: FittedToeplitz, draws: Draws, chunks: Chunks, gain: float = 1.0) -> None:
        super().__init__(mechanism, draws, chunks, gain)
        self._table = np.array(mechanism.buffer_steps, dtype=np.float64).reshape(-1, 4)

    def _buffer_rows(self) -> int:
        return self.mechanism.increment_memory

    @classmethod
    def _share(cls, mechanism: FittedToeplitz) -> float:
        _, _, lost, roundings = _buffers(mechanism)
        return float((UNIT * roundings / lost).max())

    def _filter_error(self, t: int, largest: float) -> tuple[float, float, float]:
        weight, apart, lost, roundings = _buffers(self.mechanism)
        held = largest * np.minimum(float(t), 1.0 / (lost - UNIT * roundings))
        # What enters buffer i by rounding at one step is weight_i Σ_m ζ_i^m in all later increments together; `own`
        # counts it as if it stood in one of them.
        entering = UNIT * (roundings * held + 2.0 * largest)
        later = (weight * entering * np.minimum(float(t), 2.0 / apart)).sum()
        size = largest + math.sqrt(2.0) * float((weight * held).sum())
        summing = UNIT * (2 * self.mechanism.increment_memory + 1) * size
        return 0.0, float(later) + summing, size


def _buffers(mechanism: FittedToeplitz) -> tuple[RealArray, RealArray, RealArray, RealArray]:
    """|weight|, |1 - ζ|, 1 - |ζ| and roundings of a step (in units of ε |s|) of each buffer or pair."""
    gap, turn, weight, turned = np.array(mechanism.buffer_steps, dtype=np.float64).reshape(-1, 4).T
    size = np.hypot(1.0 - gap, turn)
    lost = gap * (2.0 - gap) - turn**2  # 1 - |ζ|²
    roundings = math.sqrt(2.0) * (np.abs(gap) + np.abs(1.0 - gap) + np.abs(turn) + 2.0 * size + 1.0)
    return np.hypot(weight, turned), np.hypot(gap, turn), lost / (1.0 + size), roundings


class ExactIndependentEngine(ExactIncrementEngine, streams=Independent):
    """No buffers: an increment is a draw."""

    @classmethod
    def _share(cls, mechanism: Mechanism) -> float:
        del mechanism
        return 0.0

    def _filter_error(self, t: int, largest: float) -> tuple[float, float, float]:
        del t
        return 0.0, 0.0, largest


class ExactBandedEngine(ExactIncrementEngine, streams=Banded):
    """A direct filter: what an increment loses by rounding is as if the draw had been another one."""

    mechanism: Banded

    def _buffer_rows(self) -> int:
        return len(self.mechanism.coefficients) - 1

    def _filtered(self, first: int, z: RealArray, chunk: int) -> RealArray:
        del first
        total, held = self._state[chunk]
        if not len(held):
            return z
        y, left = scipy.signal.lfilter([1.0], self.mechanism.coefficients, z, axis=0, zi=held)
        self._state[chunk] = (total, left)
        return y

    @classmethod
    def _share(cls, mechanism: Banded) -> float:
        c = np.abs(mechanism.coefficients)
        return float(ROOM * UNIT * (c.size + 1) * c.sum() * np.abs(mechanism.increments(mechanism.horizon)).sum())

    def _filter_error(self, t: int, largest: float) -> tuple[float, float, float]:
        c = np.abs(self.mechanism.coefficients)
        share = UNIT * (c.size + 1) * float(c.sum())
        size = largest * float(np.abs(self.mechanism.increments(t)).sum())
        return share * max(size, largest), 0.0, size


class ExactBandedInverseEngine(ExactIncrementEngine, streams=BandedInverse):
    """A sum of the last draws, which are made again."""

    mechanism: BandedInverse

    def _filtered(self, first: int, z: RealArray, chunk: int) -> RealArray:
        c = self.mechanism.coefficients
        reach = len(c) - 1
        before = min(first - 1, reach)
        low, high = (0, z.shape[1]) if self.draws.narrow else self.chunks.bounds[chunk]
        earlier = self.draws.columns(first - before, before, 0, low, high) if before else z[:0]
        drawn = np.concatenate([np.zeros((reach - before, high - low)), earlier, z])
        y = z * c[0]
        for j, coefficient in enumerate(c[1:], start=1):
            y += drawn[reach - j : reach - j + len(z)] * coefficient
        return y

    @classmethod
    def _share(cls, mechanism: BandedInverse) -> float:
        return float(UNIT * (len(mechanism.coefficients) + 1) * np.abs(mechanism.coefficients).sum())

    def _filter_error(self, t: int, largest: float) -> tuple[float, float, float]:
        del t
        size = largest * float(np.abs(self.mechanism.coefficients).sum())
        return 0.0, UNIT * (len(self.mechanism.coefficients) + 1) * size, size
