"""Streams a tree: a stack of cumulative noise, narrow in compiled blocks, wide in fused chunks."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstream import kernel
from dpstream.mechanisms.base import Mechanism
from dpstream.mechanisms.stack import Move, Moves, StackMechanism
from dpstream.noise.draws import NARROW, Draws
from dpstream.noise.engine import DRAW_ERROR, PURE_STEP, UNIT, Chunks, Engine, largest_draw, word_buffer

__all__ = ["StackEngine"]

#: The weight of n padding nodes merged into one draw.
_ROOTS = np.sqrt(np.arange(256.0))


class StackEngine(Engine, streams=StackMechanism):
    """See `dpstream.mechanisms.stack` for what a step does."""

    mechanism: StackMechanism

    def __init__(self, mechanism: StackMechanism, draws: Draws, chunks: Chunks, gain: float = 1.0) -> None:
        super().__init__(mechanism, draws, chunks, gain)
        self._local = threading.local()
        self.reset()

    @classmethod
    def nanoseconds(cls, mechanism: Mechanism, steps: int, coordinates: int, *, exact: bool) -> float:
        total = super().nanoseconds(mechanism, steps, coordinates, exact=exact)
        # Trees that push several nodes a step have no compiled loop over steps.
        pure = coordinates < NARROW and isinstance(mechanism, StackMechanism) and mechanism.moves(1, 1) is None
        return total + (PURE_STEP if pure else 0.0)

    def reset(self) -> None:
        self.t = 0
        self._cursor: Any = self.mechanism.cursor_after(0)
        self._stack: list[NDArray[Any]] = []
        self._spare: list[NDArray[Any]] = []

    def seek(self, t: int) -> None:
        entries = self.mechanism.entries(t)
        if entries is None:
            self.replay(t)
            return
        self.reset()
        for entry in entries:
            self._push(entry.step, entry.slot, entry.weight, None, None)
        self.t, self._cursor = t, self.mechanism.cursor_after(t)

    def _error(self, t: int) -> float:
        # Every release is a sum of at most `depth` nodes and some padding. Each term brings the error of its draw and
        # of its product with the weight, and each of the additions rounds a partial sum once.
        worst, additions = self._largest_row(t)
        return worst * (DRAW_ERROR + (additions + 2) * UNIT * largest_draw(self.draws.law))

    def _largest_row(self, t: int) -> tuple[float, int]:
        """A bound on Σ|L_tj| over releases up to t, and on the number of roundings that any term passes through."""
        norm = self.mechanism.max_squared_row_norm(t)
        if self.mechanism.entries(1) is None:
            # An estimate that mixes popped entries: all t draws may take part (Cauchy-Schwarz), through at most one
            # merge a level of at most one popped entry a level, three roundings each, of values as large as the stack.
            levels = t.bit_length() + 1
            return math.sqrt(t * norm), 4 * levels * levels
        # Nodes of weight 1 are counted by the norm itself; where weights differ, the stack is never deeper than this.
        terms = max(math.ceil(norm), self.mechanism.memory)
        return math.sqrt(terms * norm), terms

    # -- narrow ---------------------------------------------------------------------------------------------------

    def rows(self, count: int) -> NDArray[np.float64]:
        moves = self._moves(self.t + 1, count)
        if moves is None:
            return self._rows_by_pure_steps(count)
        room = self.workspace.array
        nodes = self.draws.rows(self.t + 1, count, 0, room)
        padding = self.draws.rows(self.t + 1, count, 1, room) if moves.padding.any() else None
        depth = len(self._stack)
        stack = np.empty((self._room(moves, depth), self.draws.coordinates))
        for i, entry in enumerate(self._stack):
            stack[i] = entry
        out = room("rows", (count, self.draws.coordinates))
        depth = kernel.stack_block_f64(
            moves.pops, moves.push, moves.padding, moves.mix, nodes, padding, stack, depth, out
        )
        self._stack = [stack[i].copy() for i in range(depth)]
        self.t += count
        return out

    def _room(self, moves: Moves, depth: int) -> int:
        """How deep the stack may get."""
        if self.mechanism.horizon is not None:
            return self.mechanism.memory
        depths = depth + np.arange(1, moves.pops.size + 1) - np.cumsum(moves.pops, dtype=np.int64)
        return max(int(depths.max()), depth)

    def _moves(self, first: int, count: int) -> Moves | None:
        mechanism = self.mechanism
        label = mechanism.label_before(first)
        if label is None:
            return mechanism.moves(first, count)
        room = self.workspace.array
        pops, padded = room("pops", count, np.uint8), room("padded", count, np.uint8)
        kernel.smooth_moves(label, pops, padded)
        push, weights = room("push", count), room("padding", count)
        push.fill(1.0)
        if mechanism.unit_weights:
            weights.fill(0.0)
        else:
            _ROOTS.take(padded, out=weights, mode="clip")
        return Moves(pops, push, weights)

    def _rows_by_pure_steps(self, count: int) -> NDArray[np.float64]:
        """For trees that push several nodes a step: the mechanism's own step, with the block's draws made ahead."""
        made: dict[int, NDArray[Any]] = {}
        state = self.mechanism.state_at(self.t, self._stack)
        out = np.zeros((count, self.draws.coordinates))
        for i in range(count):
            needed = self.mechanism.draws_at(self.t + 1 + i)
            for slot in range(len(made), needed):
                made[slot] = self.draws.rows(self.t + 1, count, slot)
            noise, state = self.mechanism.advance(state, [made[slot][i] for slot in range(needed)])
            out[i] = noise
        self._stack = list(state.stack)
        self.t += count
        return out

    # -- wide -----------------------------------------------------------------------------------------------------

    def step(self, out: NDArray[Any]) -> None:
        self._step(self.mechanism.next_move(self._cursor), out)

    def add_difference(self, last: NDArray[Any], to: NDArray[Any]) -> None:
        move, cursor = self.mechanism.next_move(self._cursor)
        if move.pushes and len(move.padding) <= 1:
            self._step((move, cursor), to, last)
        else:  # not made in one pass
            super().add_difference(last, to)

    def _step(self, following: tuple[Move, Any], out: NDArray[Any], last: NDArray[Any] | None = None) -> None:
        """Make a step; write its noise to `out`, or with `last` (Gaussian noise only) do as `add_difference`."""
        step = self.t + 1
        move, cursor = following
        mixed = self._mixed(move)
        for _ in range(move.pops):
            self._spare.append(self._stack.pop())
        fused = len(move.padding) == 1 and self.draws.law == "gaussian"
        for slot, weight in enumerate(move.pushes):
            top = slot == len(move.pushes) - 1
            padding = (slot + 1, move.padding[0]) if top and fused else None
            self._push(step, slot, weight, padding, out if top else None, mixed, last)
        if not move.pushes:
            out[...] = self._stack[-1] if self._stack else 0
        if not fused:
            for slot, weight in enumerate(move.padding, start=len(move.pushes)):
                out += self.draws.rows(step, 1, slot)[0] * weight
        self.t, self._cursor = step, cursor

    def _mixed(self, move: Move) -> NDArray[Any] | None:
        """What the new node is pushed on, if that is more than the entry left on top."""
        if not move.mix:
            return None
        kept = self._stack[len(self._stack) - move.pops - 1] if len(self._stack) > move.pops else None
        total = np.zeros(self.draws.coordinates, self.draws.dtype) if kept is None else kept.copy()
        for weight, popped in zip(move.mix, reversed(self._stack), strict=False):
            total += (popped if kept is None else popped - kept) * self.draws.dtype.type(weight)
        return total

    def _push(
        self,
        step: int,
        slot: int,
        weight: float,
        padding: tuple[int, float] | None,
        out: NDArray[Any] | None,
        mixed: NDArray[Any] | None = None,
        last: NDArray[Any] | None = None,
    ) -> None:
        """Push ``base + weight · draw``; with `out`, write it there too, plus the padding draw. `last`: see `_step`."""
        draws = self.draws
        base = mixed if mixed is not None else self._stack[-1] if self._stack else None
        top = self._spare.pop() if self._spare else np.empty(draws.coordinates, dtype=draws.dtype)
        if draws.narrow or draws.law == "laplace":
            node = draws.rows(step, 1, slot)[0] * weight
            top[...] = node if base is None else base + node
            if out is not None:
                out[...] = top
        else:
            weight *= self.gain
            extra = 0.0 if padding is None else padding[1] * self.gain
            single = draws.dtype == np.float32
            fused = kernel.stack_step_f32 if single else kernel.stack_step_f64
            add = kernel.stack_increment_f32 if single else kernel.stack_increment_f64

            def work(low: int, high: int) -> None:
                first, second = self._buffers()
                words = draws.words(step, slot, low, high, first)
                more = None if padding is None else draws.words(step, padding[0], low, high, second)
                below, part = _part(base, low, high), top if high - low == len(top) else top[low:high]
                if out is not None and last is not None:
                    add(words, weight, more, extra, below, part, last[low:high], out[low:high])
                    return
                fused(words, weight, more, extra, below, part, _part(out, low, high))
                if draws.exact:
                    self._mend(step, slot, weight, padding, low, words, more, base, top, out)

            self.chunks.run(work)
        self._stack.append(top)

    def _mend(
        self,
        step: int,
        slot: int,
        weight: float,
        padding: tuple[int, float] | None,
        low: int,
        words: NDArray[np.uint8],
        more: NDArray[np.uint8] | None,
        base: NDArray[Any] | None,
        top: NDArray[Any],
        out: NDArray[Any] | None,
    ) -> None:
        """Redo the few coordinates that rest on a draw the kernel cannot vouch for."""
        draws = self.draws
        doubtful = set(draws.unsafe(low, words))
        if padding is not None and more is not None:
            doubtful |= set(draws.unsafe(low, more))
        for i in doubtful:
            top[i] = (0.0 if base is None else base[i]) + draws.double(step, slot, i) * weight
            if out is not None:
                extra = 0.0 if padding is None else draws.double(step, padding[0], i) * padding[1]
                out[i] = top[i] + extra

    def _buffers(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """The calling thread's room for keystream."""
        try:
            buffers: tuple[NDArray[np.uint8], NDArray[np.uint8]] = self._local.buffers
        except AttributeError:
            buffers = self._local.buffers = (word_buffer(self.draws), word_buffer(self.draws))
        return buffers


def _part(array: NDArray[Any] | None, low: int, high: int) -> NDArray[Any] | None:
    """Return coordinates low..high; the array itself if that is all of them, which takes less time than slicing."""
    return array if array is None or len(array) == high - low else array[low:high]
