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

import math
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpstream import portable
from dpstream.mechanisms.toeplitz_participation import lag_bound
from dpstream.participation import Participation

__all__ = ["LARGEST_GRAM", "ColumnGram", "best_patterns", "walked_sensitivity"]

#: Entries of G times participations up to which the walk over patterns is made: about ten seconds.
WALK_LIMIT = 2**31
#: The same for Toeplitz matrices, which have bounds that need no walk and are nearly as good: half a second.
TOEPLITZ_WALK_LIMIT = 2**26
#: Beyond this many steps G, of 128 MB here, is not formed.
LARGEST_GRAM = 4096
#: Entries of G that are walked at a time: 8 MB for each of a few arrays.
ENTRIES_AT_ONCE = 2**20
#: Unit roundoff of float64.
UNIT = 2.0**-53


class ColumnGram:
    """Scalar products of the columns of a computed R.

    Parameters
    ----------
    products
        RᵀR, each entry off by no more than (steps + 2) units of the product of two columns' norms.
    column_error
        At least the distance of any computed column from the true one.
    """

    def __init__(self, products: NDArray[np.float64], column_error: float = 0.0) -> None:
        self._products = products
        self._column_error = column_error

    @classmethod
    def of(cls, right: NDArray[np.float64], column_error: float = 0.0) -> ColumnGram:
        """Return the products of the columns of R, which has as many columns as steps."""
        return cls(right.T @ right, column_error)

    @classmethod
    def of_toeplitz(
        cls, r: NDArray[np.float64], scale: NDArray[np.float64] | None = None, column_error: float = 0.0
    ) -> ColumnGram:
        """Return the products of the columns of Toeplitz(r) · diag(1/scale), each added up in the same order.

        Columns l apart, of which the later has M entries, have the product Σ_{j<M} r_j r_{j+l}.
        """
        T = r.size
        reverse = r[::-1].copy()
        products = np.empty((T, T))
        products[-1] = reverse * r[0]
        products[:, -1] = products[-1]
        for i in range(T - 2, -1, -1):  # columns i and j have one row more than columns i + 1 and j + 1
            np.multiply(reverse[:-1], reverse[i], out=products[i, :-1])
            products[i, :-1] += products[i + 1, 1:]
        if scale is not None:
            products /= scale[None, :]
            products /= scale[:, None]
        return cls(products, column_error)

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
        return math.sqrt(squared) * (1 + 4 * UNIT) + k * self._column_error, exact

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
            return portable.total(G[np.ix_(pattern, pattern)]), True
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
        width = max(1, ENTRIES_AT_ONCE // n)
        for low in range(0, n, width):
            part = np.abs(self._products[:, low : low + width])  # G is symmetric: its columns are its rows
            own = np.arange(low, low + part.shape[1])
            squares = part[own, own - low]
            for row, i in enumerate(own.tolist()):
                part[max(i - s + 1, 0) : i + s, row] = 0.0
            of_row[own] = squares + best_patterns(part, k - 1, s)
        return float(best_patterns(of_row[:, None], k, s)[0])


def walked_sensitivity(
    r: NDArray[np.float64], scale: NDArray[np.float64] | None, participation: Participation
) -> tuple[float, bool] | None:
    """Return the sensitivity of Toeplitz(r) · diag(1/scale), and whether it is exact; None where that takes too long.

    What is returned is an upper bound up to the rounding of `r` and `scale`, never above jax_privacy's: its walk
    (`get_min_sep_sensitivity_upper_bound`) is this one, but lets the pattern of row i leave out step i.
    """
    T, k = r.size, participation.times
    if T > LARGEST_GRAM or (k > 2 and T * T * k > TOEPLITZ_WALK_LIMIT):
        return None
    return ColumnGram.of_toeplitz(r, scale).sensitivity(participation)


def best_patterns(values: NDArray[np.float64], times: int, separation: int) -> NDArray[np.float64]:
    """Return for each column of nonnegative `values` the largest sum of `times` entries or fewer, each two s apart.

    >>> best_patterns(np.array([[3.0], [4.0], [3.0], [0.0]]), times=2, separation=2).tolist()
    [6.0]
    """
    n, s = values.shape[0], separation
    best = np.maximum.accumulate(values, axis=0)  # up to each row, with as many entries as there were rounds
    better = np.empty_like(best)
    for entries in range(1, min(times, -(-n // s))):
        first = entries * s  # no more than `entries` of them fit before it
        better[:first] = best[:first]
        for t in range(first, n):
            np.add(values[t], best[t - s], out=better[t])
            np.maximum(better[t], better[t - 1], out=better[t])
        best, better = better, best
    return np.asarray(best[-1], dtype=np.float64) if times else np.zeros(values.shape[1])
