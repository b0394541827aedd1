"""Streaming a tree: a stack of cumulative noise.

A tree's release is a sum of nodes, and from one release to the next only the lowest nodes change. So a stream keeps a
stack whose entry i is the sum of the noise of the first i + 1 nodes of the current release: dropping nodes is popping,
and a new node is one draw and one addition, ``top + weight · draw``. Nothing is ever recomputed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstream.mechanisms.base import Mechanism, State, Value

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


class StackMechanism(Mechanism):
    """A mechanism that streams with a stack of cumulative noise."""

    @abstractmethod
    def _cursor(self, t: int) -> Any:
        """Where the walk stands after t releases, in O(log T): an int or a tuple of ints."""

    @abstractmethod
    def _next_move(self, cursor: Any) -> tuple[Move, Any]:
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

    def start(self) -> StackState:
        return StackState(0, self._cursor(0), ())

    def state_at(self, t: int, stack: Sequence[Value]) -> StackState:
        """The state after release t, given the cumulative noise of its `entries`."""
        return StackState(t, self._cursor(t), tuple(stack))

    def draws_at(self, t: int) -> int:
        move, _ = self._next_move(self._cursor(t - 1))
        return len(move.pushes) + len(move.padding)

    def advance(self, state: StackState, draws: Sequence[Value]) -> tuple[Value, StackState]:
        t = self._next_step(state)
        move, cursor = self._next_move(state.cursor)
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
