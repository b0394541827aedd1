"""Growing smooth tree: no horizon, and a sensitivity that never grows.

Guarantee: rho-zCDP (Gaussian) or pure epsilon-DP (Laplace) for streams that differ in one element by at most
`per_person`, all releases together, adaptive inputs; for as many releases as you like.
Error: V is at most zeros · (i + b_i) in epoch i, Laplace zeros² · (i + b_i), which holds
C(zeros - 1 + b_i, b_i) steps.
Cost: one draw a step, i + b_i vectors.
Ours, from the smooth tree of Andersson and Pagh 2023, arXiv:2306.09666; see docs/mathematics.md, "Growing smooth tree".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from math import comb
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpstream.arguments import check_whole
from dpstream.mechanisms.base import NoiseLaw, check_noise_law
from dpstream.mechanisms.labels import (
    label_at,
    lowest_run_of_ones,
    next_label,
    push_steps,
    sum_over_leaves,
    trailing_ones,
)
from dpstream.mechanisms.one_node_trees import OneNodeTree, level_sensitivity
from dpstream.mechanisms.stack import Entry, Move
from dpstream.participation import Participation

__all__ = ["GrowingSmooth"]

# Found by search over zeros and linear schedules b_i = first + more · i: the smallest V relative to that of
# the best smooth tree with known horizon (sensitivity of nodes), at worst over T = 2^10, 2^11, ..., 2^30: 1.72 for
# Gaussian noise (among those with V at most 60, 204, 396 at 2^10, 2^20, 2^30; also the best on average) and
# 2.0 for Laplace.
_BEST_ZEROS = {"gaussian": 12, "laplace": 6}
_FIRST = {"gaussian": 5, "laplace": 8}
_MORE = {"gaussian": 3, "laplace": 2}


@dataclass(frozen=True, init=False)
class GrowingSmooth(OneNodeTree):
    """Smooth trees of growing size along an endless right spine: a stream without a last step.

    Epoch i is a smooth tree with zeros - 1 zeros and b_i ones in its labels, b_i = 5 + 3 i for Gaussian noise
    and 8 + 2 i for Laplace noise, hung as a left child on the spine. A release sums one node for each
    finished epoch and those of its own epoch. Not padded: every step pushes one node, L is square, and so the
    sensitivity of nodes and releases is the same.

    Parameters
    ----------
    zeros
        The number of nodes that cover an element, at least 2. Left out, 12 for Gaussian and 6 for Laplace
        noise: the best over horizons from 2^10 to 2^30, relative to a smooth tree that knows the horizon.
    noise
        "gaussian" or "laplace".

    Examples
    --------
    >>> m = GrowingSmooth()
    >>> [round(m.max_variance(steps), 6) for steps in (2**10, 2**20, 2**30)]
    [60.0, 204.0, 396.0]
    """

    reference: ClassVar[str] = "dpstream, after Andersson, Pagh 2023, arXiv:2306.09666"
    horizon: ClassVar[None] = None  # type: ignore[misc]

    zeros: int
    noise: NoiseLaw

    # Written out, since None ("choose") is an argument but never the value of a field.
    def __init__(self, zeros: int | None = None, *, noise: NoiseLaw = "gaussian") -> None:
        noise = check_noise_law("GrowingSmooth", noise)
        zeros = _BEST_ZEROS[noise] if zeros is None else check_whole("zeros", zeros, least=2)
        for field, value in zip(fields(self), (zeros, noise), strict=True):
            object.__setattr__(self, field.name, value)

    @property
    def unit_weights(self) -> bool:
        """True."""
        return True

    @property
    def memory(self) -> int:
        """The deepest that the stack gets in a million steps."""
        return round(self.max_squared_row_norm(10**6))

    def _ones(self, epoch: int) -> int:
        return _FIRST[self.noise] + _MORE[self.noise] * epoch

    def _epochs(self, first: int, last: int) -> Iterator[tuple[int, int, int, int]]:
        """Epochs of the leaves first..last (from 0), as (epoch, leaves before it, own first, own last)."""
        before = epoch = 0
        while before <= last:
            size = comb(self.zeros - 1 + self._ones(epoch), self.zeros - 1)
            if before + size > first:
                yield epoch, before, max(first - before, 0), min(last - before, size - 1)
            before, epoch = before + size, epoch + 1

    def cursor_after(self, t: int) -> tuple[int, int]:
        ((epoch, _, leaf, _),) = self._epochs(t, t)
        return epoch, label_at(self.zeros - 1, self._ones(epoch), leaf)

    def next_move(self, cursor: tuple[int, int]) -> tuple[Move, tuple[int, int]]:
        epoch, label = cursor
        replaced = lowest_run_of_ones(label)
        # Trailing ones name nodes without elements, which are left out.
        move = Move(0 if label & 1 else replaced, (1.0,))
        if label == (1 << self._ones(epoch)) - 1 << self.zeros - 1:
            # The last leaf of its epoch: one node on the spine replaces all that it holds.
            return move, (epoch + 1, (1 << self._ones(epoch + 1)) - 1)
        return move, (epoch, next_label(label))

    def entries(self, t: int) -> tuple[Entry, ...]:
        """One entry for each finished epoch, then those of the smooth tree of this epoch."""
        epochs = list(self._epochs(0, t))
        epoch, before, _, leaf = epochs[-1]
        own = push_steps(self.zeros - 1, self._ones(epoch), leaf)
        steps = [*(start for _, start, _, _ in epochs[1:]), *(before + step for step in own)]
        return tuple(Entry(step, 0, 1.0) for step in steps)

    def _depths(self, first: int, count: int) -> NDArray[np.int64]:
        parts = [np.empty(0, dtype=np.int64)]
        for epoch, _, start, end in self._epochs(first, first + count - 1):
            ones = self._ones(epoch)
            parts.append(epoch + ones - trailing_ones(self.zeros - 1, ones, start, end - start + 1))
        return np.concatenate(parts)

    def _sensitivity(self, participation: Participation) -> tuple[float, bool]:
        # The lowest node of an element holds nothing else; the others outgrow any number of steps apart, and
        # in a late epoch the elements labelled 0..0 1..1 0 1..1 share all of those. So the bound is attained.
        levels = [(1, None), *[(None, None)] * (self.zeros - 1)]
        return level_sensitivity(self.noise, participation, levels), True

    def squared_row_norm(self, t: int) -> float:
        return float(self._depths(t, 1)[0])

    def squared_row_norms(self, steps: int) -> NDArray[np.float64]:
        return self._depths(1, steps).astype(np.float64)

    def max_squared_row_norm(self, steps: int) -> float:
        return float(max(epoch + min(self._ones(epoch), end) for epoch, _, _, end in self._epochs(0, steps)))

    def mean_squared_row_norm(self, steps: int) -> float:
        total = 0
        for epoch, _, _, end in self._epochs(0, steps):
            ones, leaves = self._ones(epoch), end + 1
            total += (epoch + ones) * leaves
            total -= sum_over_leaves(self.zeros - 1, ones, leaves, lambda z, o: comb(z + o, z + 1))
        return total / steps
