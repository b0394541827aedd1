"""Trees whose every step pushes one node: what they have in common.

The node pushed at step t covers the elements since the stack entry below it, an interval that ends at t. So
the depths of the stack say everything: ``pops_t = depth_{t-1} + 1 - depth_t``. Binary, smooth, growing and
weighted trees are of this kind; they differ in the depths, and the weighted tree in the scale of its draws.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable

import numpy as np
import scipy  # its parts are loaded when they are first used
from numpy.typing import NDArray

from dpstream.arguments import check_whole
from dpstream.mechanisms.base import DrawsPerStep, NoiseLaw, check_window_steps
from dpstream.mechanisms.stack import Moves, StackMechanism
from dpstream.participation import Participation

__all__ = ["OneNodeTree", "level_sensitivity"]


class OneNodeTree(StackMechanism):
    """A tree in which each step pushes exactly one node, and may add padding that is not stored."""

    @abstractmethod
    def _depths(self, first: int, count: int) -> NDArray[np.int64]:
        """How many entries the stack holds after releases ``first .. first + count - 1``; none after 0."""

    def _push_weights(self, first: int, count: int) -> NDArray[np.float64]:
        return np.ones(count)

    def _padding_weights(self, first: int, count: int) -> NDArray[np.float64]:
        return np.zeros(count)

    @property
    def draws_per_step(self) -> DrawsPerStep:
        """One, always: the padding, if any, is the sub-class's to count."""
        return DrawsPerStep(1, 1.0)

    def moves(self, first: int, count: int) -> Moves | None:
        """As arrays, from the depths of the stack; None if a step pops more than a byte can say."""
        first, count = check_whole("first", first), check_whole("count", count, least=0)
        if count:
            self._steps(first + count - 1, "moves")
        depths = self._depths(first - 1, count + 1)
        pops = depths[:-1] + 1 - depths[1:]
        if pops.size and pops.max() > 255:
            return None
        return Moves(pops.astype(np.uint8), self._push_weights(first, count), self._padding_weights(first, count))

    def squared_window_norms(self, window: int, steps: int) -> NDArray[np.float64]:
        """Return how many nodes are in one of two releases and not in the other, if all have the weight 1.

        Release t shares with release s = t - window the nodes that no step in between has popped: as many as the lowest
        the stack has been, before the push of each step.
        """
        check_window_steps(steps)
        if not (self._push_weights(1, steps) == 1.0).all():
            return super().squared_window_norms(window, steps)
        norms = self.squared_row_norms(steps).copy()
        earlier = steps - window
        if earlier <= 0:
            return norms
        depths = self._depths(1, steps)
        # Position t of `lowest` looks at the steps s + 1 .. t.
        lowest = scipy.ndimage.minimum_filter1d(depths - 1, window, origin=(window - 1) // 2)[window:]
        return np.append(norms[:window], norms[window:] + norms[:earlier] - 2.0 * lowest)

    def _factors(self, steps: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        rows: list[list[tuple[int, float]]] = []  # of L: (column, weight)
        columns: list[tuple[int, int, float]] = []  # rows of R: (elements before, elements up to, value)
        stack: list[tuple[int, int, float]] = []  # (column, step, weight)
        cursor = self.cursor_after(0)
        for t in range(1, steps + 1):
            move, cursor = self.next_move(cursor)
            del stack[len(stack) - move.pops :]
            (weight,) = move.pushes
            below = stack[-1][1] if stack else 0
            stack.append((len(columns), t, weight))
            columns.append((below, t, 1 / weight))
            row = [(column, scale) for column, _, scale in stack]
            for scale in move.padding:
                row.append((len(columns), scale))
                columns.append((t, t, 0.0))
            rows.append(row)
        L, R = np.zeros((steps, len(columns))), np.zeros((len(columns), steps))
        for i, row in enumerate(rows):
            for column, scale in row:
                L[i, column] = scale
        for i, (below, upto, value) in enumerate(columns):
            R[i, below:upto] = value
        return L, R


def level_sensitivity(
    noise: NoiseLaw, participation: Participation, levels: Iterable[tuple[int | None, int | None]]
) -> float:
    """Return a safe sensitivity of a tree of 0/1 nodes, exact for one participation.

    The nodes fall into levels of disjoint intervals: one ``(longest, number)`` per level, None for no limit.
    If a node meets c of one person's steps it moves by c; at most ``participation.reach(longest)`` of them fit
    into it, so at each level the sum of c (Laplace) or of c² (Gaussian) is largest if the steps crowd into
    as few nodes as can be.
    (Tighter than docs/mathematics.md's Σ g(|i-j|s), which counts all pairs that are close, also those on both
    sides of a node's end.)
    """
    total = 0
    for longest, number in levels:
        crowd = participation.reach(longest)
        met = participation.times if number is None else min(participation.times, number * crowd)
        full, rest = divmod(met, crowd)
        total += met if noise == "laplace" else full * crowd**2 + rest**2
    return float(total) if noise == "laplace" else float(total) ** 0.5
