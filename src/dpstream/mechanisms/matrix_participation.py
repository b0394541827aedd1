"""The sensitivity to one person in several steps, for a mechanism of which only the matrix R is known.

A person is in at most k steps, each two of them s apart, with a vector of norm at most 1 in each. With G = RᵀR the
noise hides ‖Σ_i R e_i ⊗ x_i‖² = Σ_ij G_ij ⟨x_i, x_j⟩ ≤ Σ_ij |G_ij| over the steps P of the person, with equality if
G ≥ 0 on P (all x_i equal). So what is wanted is the largest Σ_{i,j∈P} |G_ij| over patterns P:

* k = 1: the largest G_ii.  k = 2: the largest G_ii + G_jj + 2|G_ij|, attained with x_j = ±x_i. Both exact.
* If G is nonnegative and falls, G(i, j+1) ≤ G(i, j) and G(i+1, j+1) ≤ G(i, j) for i ≤ j, then no pattern is worse than
  0, s, 2s, …: moving any pattern to it raises every entry. Exact.
* Otherwise a bound: b_i, the largest Σ_{j∈P} |G_ij| over patterns P that contain i, and the largest Σ_{i∈P} b_i over
  patterns. Each is a walk over the steps that takes or leaves each step.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpstream.mechanisms.toeplitz_participation import lag_bound
from dpstream.participation import Participation

__all__ = ["ColumnGram", "best_patterns"]

#: Entries of G times participations up to which the walk over patterns is made: about ten seconds.
WALK_LIMIT = 2**31
#: Entries of G that are walked at a time: 32 MB each for a few arrays.
ENTRIES_AT_ONCE = 2**22
#: Unit roundoff of float64.
UNIT = 2.0**-53


class ColumnGram:
    """Scalar products of the columns of a computed R.

    Parameters
    ----------
    right
        R, with as many columns as steps.
    column_error
        At least the distance of any computed column from the true one.
    """

    def __init__(self, right: NDArray[np.float64], column_error: float = 0.0) -> None:
        self._products: NDArray[np.float64] = right.T @ right
        self._column_error = column_error

    @property
    def steps(self) -> int:
        """How many columns there are."""
        return int(self._products.shape[0])

    def sensitivity(self, participation: Participation) -> tuple[float, bool]:
        """Return the sensitivity, rounded up, and whether it is attained (up to that rounding).

        `participation.times` must already be what fits into the steps.
        """
        k, s = participation.times, participation.separation
        squared, exact = self._squared(k, s)
        # Each entry of G is off by at most (steps + 2) units of the product of two norms, and k² of them are added.
        largest = float(self._products.diagonal().max(initial=0.0))
        squared += (k * k) * (self.steps + k * k + 4) * UNIT * 1.01 * largest
        return float(squared**0.5 * (1 + 4 * UNIT) + k * self._column_error), exact

    def _squared(self, k: int, s: int) -> tuple[float, bool]:
        G = self._products
        squares = G.diagonal()
        largest = float(squares.max())
        if k == 1:
            return largest, True
        if k == 2:
            return self._largest_pair(s), True
        if self._falls:
            pattern = np.arange(k) * s
            return float(G[np.ix_(pattern, pattern)].sum()), True
        bound = min(k * k * largest, lag_bound(lambda lag: float(self._by_lag[lag]), k, s))
        if G.size * k <= WALK_LIMIT:
            bound = min(bound, self._walked(k, s))
        return bound, False

    def _largest_pair(self, s: int) -> float:
        """Return the largest of one step, and of two steps s or more apart."""
        G = self._products
        squares = G.diagonal()
        largest = float(squares.max())
        for i in range(self.steps - s):
            pairs = squares[i] + squares[i + s :] + 2 * np.abs(G[i, i + s :])
            largest = max(largest, float(pairs.max()))
        return largest

    @cached_property
    def _falls(self) -> bool:
        """Whether G is nonnegative and falls along rows and diagonals, from the main diagonal on."""
        G = self._products
        upper = np.triu(np.ones(G.shape, dtype=bool))
        along_rows = (G[:, 1:] <= G[:, :-1]) | ~upper[:, :-1]
        along_diagonals = (G[1:, 1:] <= G[:-1, :-1]) | ~upper[:-1, :-1]
        return bool((G >= 0).all() and along_rows.all() and along_diagonals.all())

    @cached_property
    def _by_lag(self) -> NDArray[np.float64]:
        """Largest |G_ij| at distance d or more, for d = 0 .. steps - 1."""
        at_lag = np.array([np.abs(self._products.diagonal(d)).max() for d in range(self.steps)])
        return np.maximum.accumulate(at_lag[::-1])[::-1]

    def _walked(self, k: int, s: int) -> float:
        """Return the bound of the walk over patterns; see the module's text."""
        n = self.steps
        of_row = np.empty(n)
        rows = max(1, ENTRIES_AT_ONCE // n)
        columns = np.arange(n)
        for low in range(0, n, rows):
            part = np.abs(self._products[low : low + rows])
            own = np.arange(low, low + part.shape[0])
            squares = part[np.arange(part.shape[0]), own]
            part[np.abs(columns[None, :] - own[:, None]) < s] = 0.0
            of_row[low : low + rows] = squares + best_patterns(part, k - 1, s)
        return float(best_patterns(of_row[None, :], k, s)[0])


def best_patterns(values: NDArray[np.float64], times: int, separation: int) -> NDArray[np.float64]:
    """Return for each row of nonnegative `values` the largest sum of `times` entries or fewer, each two s apart.

    >>> best_patterns(np.array([[3.0, 4.0, 3.0, 0.0]]), times=2, separation=2).tolist()
    [6.0]
    """
    n = values.shape[1]
    best = np.zeros_like(values)  # up to each column, with one entry less
    for _ in range(min(times, -(-n // separation))):
        taken = values.copy()
        taken[:, separation:] += best[:, : n - separation] if separation < n else 0.0
        best = np.maximum.accumulate(taken, axis=1)
    return np.asarray(best[:, -1], dtype=np.float64)
