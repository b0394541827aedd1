"""The exact sensitivity of the releases of a padded smooth tree under Gaussian noise.

With Gaussian noise only N(A x, L Lᵀ) is published, so the squared sensitivity is Δ² = max_j δᵀ(L Lᵀ)⁻¹δ with δ = A e_j:
never more than that of the nodes, and less here, since the padding also hides the nodes. It follows from a
recursion over subtree types (a zeros, b ones left), in docs/mathematics.md under "The sensitivity of what is released":

* the precision π(a, b) of a common offset of all releases read in the subtree: π(a, 0) = ∞, π(0, b) = 1/b,
  π(a, b) = π(a - 1, b) + G(a, b - 1) with G = π/(1 + π);
* for each element a pair (q, x) = (δᵀC⁻¹δ, 1ᵀC⁻¹δ) within the subtree, (0, 0) at its own leaf; seen from the
  parent a left child's pair gains G of its sibling in both places, a right child's becomes
  (q - x²/(1 + π), x/(1 + π)) with its own π.

Both maps keep the order "larger q and smaller x is no worse", so dominated pairs are dropped; q at the root
is Δ².
A horizon below the tree's capacity cuts the tree along the path to its last leaf;
the recursion follows that path.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import comb, inf

import numpy as np
from numpy.typing import NDArray

from dpstream.mechanisms.labels import least_ones_for

__all__ = ["best_tree_shape", "squared_sensitivity_of_releases"]

Pairs = NDArray[np.float64]


@lru_cache(maxsize=1024)
def squared_sensitivity_of_releases(zeros: int, ones: int, leaves: int) -> float:
    """Δ² of the releases that read the first `leaves` leaves but one, exactly.

    >>> round(squared_sensitivity_of_releases(5, 8, 1287), 4)  # that of the nodes is 5
    3.185
    >>> round(squared_sensitivity_of_releases(5, 8, 1024), 4)  # the same tree, cut after 1023 releases
    3.1819
    """
    return _SubtreeTable().squared_sensitivity(zeros, ones, leaves)


@lru_cache(maxsize=1024)
def best_tree_shape(leaves: int, least_ones: int = 1) -> tuple[int, int]:
    """Return the (zeros, ones) with `leaves` labels or more whose releases vary least, by ``ones · Δ²``.

    Only pairs with `least_ones` or more ones, and as few zeros as will do: further zeros would stay unused.
    Nor more ones than steps (unless `least_ones` is): with one zero that would be a random walk plus fresh
    noise, better below some 200 steps, but a stack as deep as the stream is long. Ties go to fewer zeros.

    >>> best_tree_shape(1024)
    (5, 8)
    """
    table = _SubtreeTable()
    slack = 1 + 1e-12
    candidates = sorted((table.quick_bound(*shape), shape) for shape in _shapes(leaves, least_ones))
    best, chosen = inf, (0, 0)
    for optimistic, (zeros, ones) in candidates:
        if optimistic > best * slack:
            break
        if ones * table.squared_sensitivity_of_first(zeros, ones, leaves) > best * slack:
            continue
        variance = ones * table.squared_sensitivity(zeros, ones, leaves)
        if variance * slack < best or (variance <= best * slack and zeros < chosen[0]):
            best, chosen = min(best, variance), (zeros, ones)
    return chosen


def _shapes(leaves: int, least_ones: int) -> list[tuple[int, int]]:
    """Return the pairs worth looking at.

    The best variance is at most the least zeros · ones, with the sensitivity of nodes. A pair's is at least zeros - 1
    (its first element) and at least ones/2 (a step that replaces one node, seen in the two releases around
    it); so pairs in which one of them is larger need not be looked at.
    """
    shapes = []
    ones = least_ones
    zeros = least_ones_for(ones, leaves)
    best = zeros * ones
    while True:
        best = min(best, zeros * ones)
        shapes.append((zeros, ones))
        ones += 1
        if ones >= leaves or ones > 2 * best:
            break
        zeros = least_ones_for(ones, leaves) if zeros > 64 else zeros
        while comb(zeros - 1 + ones, ones) >= leaves:
            zeros -= 1
    return [(zeros, ones) for zeros, ones in shapes if zeros <= best + 1]


class _SubtreeTable:
    """Precisions and undominated pairs of whole subtrees by type, in columns of equal `ones`."""

    def __init__(self) -> None:
        self._precision: list[list[float]] = []
        self._pairs: list[list[Pairs]] = []

    def precision(self, zeros: int, ones: int) -> float:
        """π(zeros, ones)."""
        columns = self._precision
        while len(columns) <= ones:
            columns.append([1 / len(columns) if columns else inf])
        for b in _short(columns, zeros, ones):
            for a in range(len(columns[b]), zeros + 1):
                columns[b].append(columns[b][-1] + _gain(columns[b - 1][a]) if b else inf)
        return columns[ones][zeros]

    def pairs(self, zeros: int, ones: int) -> Pairs:
        """Return the undominated (q, x) of the elements of a whole subtree, as an array of two rows."""
        columns = self._pairs
        while len(columns) <= ones:
            columns.append([np.zeros((2, 1))])
        for b in _short(columns, zeros, ones):
            for a in range(len(columns[b]), zeros + 1):
                if b == 0:
                    columns[b].append(np.zeros((2, 1)))
                else:
                    columns[b].append(_join(columns[b][-1], columns[b - 1][a], self.precision(a, b - 1)))
        return columns[ones][zeros]

    def squared_sensitivity(self, zeros: int, ones: int, leaves: int) -> float:
        """Return the largest q at the root of the tree cut after `leaves` leaves."""
        path, (zeros, ones) = _cut(zeros, ones, leaves)
        pairs, precision = self.pairs(zeros, ones), self.precision(zeros, ones)
        for a, b in reversed(path):
            pairs = _join(self.pairs(a - 1, b), pairs, precision)
            precision = self.precision(a - 1, b) + _gain(precision)
        return float(pairs[0].max())

    def squared_sensitivity_of_first(self, zeros: int, ones: int, leaves: int) -> float:
        """Return q of the first element, which all releases contain: a lower bound of `squared_sensitivity`."""
        path, (a, b) = _cut(zeros, ones, leaves)
        if not path:
            return self._first(a, b)
        precision = self.precision(a, b)
        for a, b in reversed(path[1:]):
            precision = self.precision(a - 1, b) + _gain(precision)
        a, b = path[0]
        return _gain(precision) + self._first(a - 1, b)

    def quick_bound(self, zeros: int, ones: int) -> float:
        """Bound ``ones · squared_sensitivity`` from below, however short the tree is cut, if all its zeros are used."""
        return max(ones / 2, ones * self._first(zeros - 1, ones))

    def _first(self, zeros: int, ones: int) -> float:
        return sum(_gain(self.precision(i, ones - 1)) for i in range(1, zeros + 1))


def _short(columns: Sequence[Sequence[object]], zeros: int, ones: int) -> range:
    """Columns up to `ones` that do not reach `zeros` yet; none is higher than the one before it."""
    first = ones
    while first >= 0 and len(columns[first]) <= zeros:
        first -= 1
    return range(first + 1, ones + 1)


def _gain(precision: float) -> float:
    """G: the precision that is left after adding a node's unit variance."""
    return 1.0 if precision == inf else precision / (1 + precision)


def _cut(zeros: int, ones: int, leaves: int) -> tuple[list[tuple[int, int]], tuple[int, int]]:
    """Nodes where the path to the last leaf turns right, top first, and the whole subtree at its end.

    Where the path turns left the right child has no leaves and the node is never used.
    """
    path = []
    while leaves < comb(zeros + ones, zeros):
        left = comb(zeros - 1 + ones, ones)
        if leaves <= left:
            zeros -= 1
        else:
            path.append((zeros, ones))
            ones, leaves = ones - 1, leaves - left
    return path, (zeros, ones)


def _join(left: Pairs, right: Pairs, precision: float) -> Pairs:
    """Return the undominated pairs of a node, given those of its children and the right child's precision."""
    if precision != inf:
        q, x = right
        right = np.stack([q - x**2 / (1 + precision), x / (1 + precision)])
    pairs = np.concatenate([left + _gain(precision), right], axis=1)
    pairs = pairs[:, np.lexsort((pairs[1], -pairs[0]))]
    least = np.minimum.accumulate(pairs[1])
    keep = np.ones(least.size, dtype=bool)
    keep[1:] = pairs[1, 1:] < least[:-1]
    return pairs[:, keep]
