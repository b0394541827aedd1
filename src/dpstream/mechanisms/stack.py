"""Streaming a tree: a stack of cumulative noise.

A tree's release is a sum of nodes, and from one release to the next only the lowest nodes change. So a stream keeps a
stack whose entry i is the sum of the noise of the first i + 1 nodes of the current release: dropping nodes is popping,
and a new node is one draw and one addition, ``top + weight · draw``. Nothing is ever recomputed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstream.mechanisms.base import Mechanism, State, Value, check_window_steps, sampled_steps

__all__ = ["Entry", "Move", "Moves", "StackMechanism", "StackState"]


@dataclass(frozen=True)
class Move:
    """What one step does to the stack. The draws of the step are those of `pushes`, then those of `padding`.

    Attributes
    ----------
    pops
        How many entries leave.
    pushes
        One weight per new node: push ``top + weight · draw``.
    padding
        Weights of draws that are added to this release only and never stored.
    mix
        Weights of the popped entries, the former top first: the new node is pushed on
        ``base + Σ mix_l · (popped_l - base)`` instead of on ``base``, the entry left on top (Honaker's estimate).
    """

    pops: int
    pushes: tuple[float, ...]
    padding: tuple[float, ...] = ()
    mix: tuple[float, ...] = ()


@dataclass(frozen=True)
class Moves:
    """The moves of consecutive steps as arrays, for compiled loops; exactly one push and at most one padding draw each.

    `mix`, if given, is a table whose row k holds the `Move.mix` of a step that pops k entries.
    """

    pops: NDArray[np.uint8]
    push: NDArray[np.float64]
    padding: NDArray[np.float64]
    mix: NDArray[np.float64] | None = None


@dataclass(frozen=True)
class Entry:
    """A stack entry by its origin: ``weight ·`` draw number `slot` of step `step`, on top of the entry below."""

    step: int
    slot: int
    weight: float


@dataclass(frozen=True)
class StackState(State):
    """`cursor` says where the walk over the tree stands; `stack` holds the cumulative noise, bottom first."""

    t: int
    cursor: Any
    stack: tuple[Value, ...]


#: Windows of trees with weights are looked at one by one, in Python.
SLOW_WINDOW_STEPS = 2**15


class StackMechanism(Mechanism):
    """A mechanism that streams with a stack of cumulative noise."""

    @property
    def unit_weights(self) -> bool:
        """Whether every draw of every release has weight 1 or -1, so that a row's squared norm counts its draws."""
        return False

    @abstractmethod
    def cursor_after(self, t: int) -> Any:
        """Where the walk stands after t releases, in O(log T): an int or a tuple of ints."""

    @abstractmethod
    def next_move(self, cursor: Any) -> tuple[Move, Any]:
        """The next step's move and the cursor after it, in constant time (amortised)."""

    @abstractmethod
    def entries(self, t: int) -> tuple[Entry, ...] | None:
        """The origins of the stack after release t, bottom first: what `seek` needs instead of history.

        None if an entry is more than one draw on top of the one below it (Honaker).
        """

    def moves(self, first: int, count: int) -> Moves | None:
        """The moves of steps ``first .. first + count - 1`` as arrays, vectorised.

        None if a step may push several nodes or take several padding draws: then only the pure step streams it.
        """
        return None

    def label_before(self, step: int) -> int | None:
        """Return the smooth-tree label that step `step` starts from, if the moves are those of the next label.

        The compiled walk over labels then makes the moves. None for other trees.
        """
        return None

    def noise_of_release(self, t: int, draw: Callable[[int, int], Value]) -> Value:
        """Return (L z)_t from the O(log T) draws on the stack, if the tree knows their origins."""
        entries = self.entries(t - 1)
        if entries is None:
            return super().noise_of_release(t, draw)
        stack: list[Value] = []
        for entry in entries:
            node = draw(entry.step, entry.slot) * entry.weight
            stack.append(stack[-1] + node if stack else node)
        return self.advance(self.state_at(t - 1, stack), [draw(t, slot) for slot in range(self.draws_at(t))])[0]

    def computed_numbers(self) -> Iterator[NDArray[np.float64]]:
        """Return the moves of sampled steps: what each pops, pushes, adds and mixes."""
        for first, count in sampled_steps(self.horizon):
            cursor = self.cursor_after(first - 1)
            for _ in range(count):
                move, cursor = self.next_move(cursor)
                sizes = (move.pops, len(move.pushes), len(move.padding))
                yield np.array([*sizes, *move.pushes, *move.padding, *move.mix], dtype=np.float64)

    def row_weights(self, t: int) -> list[float]:
        """Return the weights of the stack's entries and of the padding."""
        entries = self.entries(t)
        if entries is None:
            return super().row_weights(t)
        move, _ = self.next_move(self.cursor_after(t - 1))
        return [entry.weight for entry in entries] + list(move.padding)

    def window_weights(self, t: int, s: int) -> list[tuple[float, float]]:
        """Return those of the stacks' entries; padding is never shared."""
        later, earlier = self.entries(t), self.entries(s)
        if later is None or earlier is None:
            return super().window_weights(t, s)
        pairs = {(entry.step, entry.slot): (entry.weight, 0.0) for entry in later}
        for entry in earlier:
            node = (entry.step, entry.slot)
            pairs[node] = (pairs[node][0] if node in pairs else 0.0, entry.weight)
        padding = [(weight, 0.0) for weight in self.next_move(self.cursor_after(t - 1))[0].padding]
        padding += [(0.0, weight) for weight in self.next_move(self.cursor_after(s - 1))[0].padding]
        return [*pairs.values(), *padding]

    def squared_window_norm(self, t: int, s: int) -> float:
        """Return the squared weights of what is in one of the two releases and not in the other."""
        later, earlier = self.entries(t), self.entries(s)
        if later is None or earlier is None:
            return super().squared_window_norm(t, s)
        weights = {(entry.step, entry.slot): entry.weight for entry in later}
        for entry in earlier:
            node = (entry.step, entry.slot)
            weights[node] = weights.get(node, 0.0) - entry.weight
        padding = [*self.next_move(self.cursor_after(t - 1))[0].padding]
        padding += self.next_move(self.cursor_after(s - 1))[0].padding if s else ()
        return sum(weight**2 for weight in weights.values()) + sum(weight**2 for weight in padding)

    def squared_window_norms(self, window: int, steps: int) -> NDArray[np.float64]:
        if self.entries(1) is None:
            return super().squared_window_norms(window, steps)
        check_window_steps(steps, SLOW_WINDOW_STEPS)
        late = [self.squared_window_norm(t, t - window) for t in range(window + 1, steps + 1)]
        return np.append(self.squared_row_norms(min(window, steps)), late)

    def widest_row_weights(self, steps: int) -> list[float]:
        """Return as many ones as the largest squared norm, if all weights are 1."""
        return (
            [1.0] * round(self.max_squared_row_norm(steps)) if self.unit_weights else super().widest_row_weights(steps)
        )

    def start(self) -> StackState:
        return StackState(0, self.cursor_after(0), ())

    def state_at(self, t: int, stack: Sequence[Value]) -> StackState:
        """The state after release t, given the cumulative noise of its `entries`."""
        return StackState(t, self.cursor_after(t), tuple(stack))

    def draws_at(self, t: int) -> int:
        move, _ = self.next_move(self.cursor_after(t - 1))
        return len(move.pushes) + len(move.padding)

    def advance(self, state: StackState, draws: Sequence[Value]) -> tuple[Value, StackState]:
        t = self._next_step(state)
        move, cursor = self.next_move(state.cursor)
        kept = state.stack[: len(state.stack) - move.pops]
        top = kept[-1] if kept else None
        for weight, popped in zip(move.mix, reversed(state.stack), strict=False):
            difference = popped if not kept else popped - kept[-1]
            top = difference * weight if top is None else top + difference * weight
        nodes, padding = draws[: len(move.pushes)], draws[len(move.pushes) :]
        pushed = []
        for weight, draw in zip(move.pushes, nodes, strict=True):
            top = draw * weight if top is None else top + draw * weight
            pushed.append(top)
        noise = top
        for weight, draw in zip(move.padding, padding, strict=True):
            noise = draw * weight if noise is None else noise + draw * weight
        return noise, StackState(t, cursor, kept + tuple(pushed))
