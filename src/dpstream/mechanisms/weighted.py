"""Weighted tree: a balanced binary tree with a noise scale of its own at every node.

Guarantee: rho-zCDP for streams that differ in one element by at most `per_person`,
all releases together, adaptive inputs.
Error: max V = v(horizon + 1), 123.2 at 2^20, from a recursion on sizes.   Cost: one draw a step, log2 of the
horizon vectors.
Ours (docs/mathematics.md, "Weighted tree"): of all scales on the left children of this tree, those with the least
largest variance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from math import sqrt
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpstream.arguments import check_horizon
from dpstream.mechanisms.base import NoiseLaw, check_noise_law
from dpstream.mechanisms.one_node_trees import OneNodeTree
from dpstream.mechanisms.stack import Entry, Move
from dpstream.participation import Participation

__all__ = ["WeightedTree"]

_T = TypeVar("_T", bound=np.generic)


@dataclass(frozen=True)
class WeightedTree(OneNodeTree):
    """A balanced binary tree over horizon + 1 leaves, with the best noise variance at each left child.

    A subtree of n leaves is split into ⌈n/2⌉ and ⌊n/2⌋ with values v1 and v2, and its own value is
    v = ((v1 + v2 + 1) + √((v1 - v2)² + 2 (v1 + v2) + 1)) / 2, the root of (v - v1)(v - v2) = v.
    Given what it may add to a column (α) and to a row (β), αβ = v, its left child has noise variance
    β (v - v2)/v; so the left child is left with (α v1/v, β), the right one with (α, β v2/v), and both are
    tight again. The root has α = β = √v.

    Parameters
    ----------
    horizon
        The number of releases.
    noise
        "gaussian".

    Examples
    --------
    >>> round(WeightedTree(2**20).max_variance(), 1)
    123.2
    """

    reference: ClassVar[str] = "dpstream, docs/mathematics.md"

    horizon: int
    noise: NoiseLaw = field(default="gaussian", kw_only=True, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "horizon", check_horizon(self.horizon))
        check_noise_law("WeightedTree", self.noise, ("gaussian",))

    @property
    def memory(self) -> int:
        """The height of the tree."""
        return self.horizon.bit_length()

    @property
    def _root(self) -> float:
        """√v: the largest squared row norm, and the largest squared column norm."""
        return sqrt(_value(self.horizon + 1))

    def _path(self, leaf: int) -> Iterator[tuple[bool, int, int]]:
        """From the root to a leaf (from 0): whether to turn right, leaves before the right child, size."""
        before, size = 0, self.horizon + 1
        while size > 1:
            middle = before + (size + 1) // 2
            yield leaf >= middle, middle, size
            before, size = (middle, size // 2) if leaf >= middle else (before, (size + 1) // 2)

    def cursor_after(self, t: int) -> int:
        return t

    def next_move(self, cursor: int) -> tuple[Move, int]:
        # A walk from the root: log2 T short steps, as many as copying the stack takes at worst.
        pops = 0
        for right, _, _ in self._path(cursor):
            pops = pops + 1 if right else 0
        return Move(pops, (self.entries(cursor + 1)[-1].weight,)), cursor + 1

    def entries(self, t: int) -> tuple[Entry, ...]:
        """One entry for each right turn on the path to leaf t, pushed when that right child was entered."""
        entries, budget = [], self._root
        for right, middle, size in self._path(t):
            if right:
                entries.append(Entry(middle, 0, sqrt(budget * _gain(size))))
                budget *= _share(size)
        return tuple(entries)

    def _depths(self, first: int, count: int) -> NDArray[np.int64]:
        return self._expand(first, count)[0]

    def _push_weights(self, first: int, count: int) -> NDArray[np.float64]:
        return np.sqrt(self._expand(first, count)[2])

    def _expand(self, first: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
        """For leaves ``first .. first + count - 1``: right turns, row budget left, variance of the last node.

        All subtrees of a level at once, from the root down, and no more of them than reach into the range.
        The products are those of `entries`, factor by factor, so that the weights are the same to the last
        bit.
        """
        start, size = np.array([0]), np.array([self.horizon + 1])
        depth, budget, pushed = np.array([0]), np.array([self._root]), np.array([0.0])
        for level in range(self.horizon.bit_length()):
            least = self.horizon + 1 >> level  # all subtrees of a level have this size or one more
            larger = size > least
            share = np.where(larger, _share(least + 1), _share(least))
            gain = np.where(larger, _gain(least + 1), _gain(least))
            left = (size + 1) >> 1
            start, size = _pairwise(start, start + left), _pairwise(left, size >> 1)
            depth = _pairwise(depth, depth + 1)
            pushed, budget = _pairwise(pushed, budget * gain), _pairwise(budget, budget * share)
            reached = (size > 0) & (start + size > first) & (start < first + count)
            start, size, depth, budget, pushed = (x[reached] for x in (start, size, depth, budget, pushed))
        return depth, budget, pushed

    def _sensitivity(self, participation: Participation) -> tuple[float, bool]:
        if participation.times == 1:
            return sqrt(self._root), True
        # A node that meets c of one person's steps moves by c, and c² ≤ c · crowd: so the squared sensitivity
        # is at most `times` times the largest Σ weight · crowd over the nodes of one element.
        crowded = self._root * _crowded(self.horizon + 1, participation)
        return sqrt(participation.times * crowded), False

    def squared_row_norm(self, t: int) -> float:
        return float(sum(entry.weight**2 for entry in self.entries(t)))

    def squared_row_norms(self, steps: int) -> NDArray[np.float64]:
        return self._root - self._expand(1, steps)[1]

    def max_squared_row_norm(self, steps: int) -> float:
        return self._root  # the first release has it already

    def mean_squared_row_norm(self, steps: int) -> float:
        kept, factor = 0.0, 1.0  # Σ over the leaves 0 .. steps of the share of the row budget that is left
        for right, _, size in self._path(steps):
            if right:
                kept += factor * _kept((size + 1) // 2)
                factor *= _share(size)
        kept += factor
        return self._root * (steps + 1 - kept) / steps


@lru_cache(maxsize=4096)
def _value(size: int) -> float:
    """v: the least max V of a tree with `size` leaves."""
    if size == 1:
        return 0.0
    v1, v2 = _value((size + 1) // 2), _value(size // 2)
    return ((v1 + v2 + 1) + sqrt((v1 - v2) ** 2 + 2 * (v1 + v2) + 1)) / 2


def _share(size: int) -> float:
    """Return the share of the row budget that a subtree leaves to its right child."""
    return _value(size // 2) / _value(size) if size > 1 else 1.0


def _gain(size: int) -> float:
    """Return the share of the row budget that a subtree spends on its left child's noise."""
    return (_value(size) - _value(size // 2)) / _value(size) if size > 1 else 0.0


def _pairwise(left: NDArray[_T], right: NDArray[_T]) -> NDArray[_T]:
    """Return left and right children in turn."""
    return np.stack([left, right], axis=1).reshape(-1)


@lru_cache(maxsize=4096)
def _kept(size: int) -> float:
    """Σ over the leaves of a whole subtree of the share of its row budget that is left."""
    if size == 1:
        return 1.0
    return _kept((size + 1) // 2) + _share(size) * _kept(size // 2)


@lru_cache(maxsize=4096)
def _crowded(size: int, participation: Participation) -> float:
    """Largest Σ weight · crowd over the nodes of one element, as a share of the subtree's column budget."""
    if size == 1:
        return 0.0
    left = (size + 1) // 2
    share = _value(left) / _value(size)
    through_left = (1 - share) * participation.reach(left) + share * _crowded(left, participation)
    return max(through_left, _crowded(size // 2, participation))
