"""Small trees in whole numbers and fractions, straight from the paper's Algorithm 2.

The nodes of a release are taken from `SmoothBinary.nodes`, which follows the algorithm line by line, and not from the
matrices that the library streams by: a claim that is checked here is checked against another route to the same thing.
"""

from __future__ import annotations

from fractions import Fraction

import flint
import numpy as np
from numpy.typing import NDArray

from dpstream.mechanisms import SmoothBinary

__all__ = ["node_matrices", "squared_sensitivities_of_releases"]

Whole = NDArray[np.int64]


def node_matrices(tree: SmoothBinary) -> tuple[Whole, Whole]:
    """Return L and R in whole numbers: which nodes a release sums, and which elements a node holds.

    >>> L, R = node_matrices(SmoothBinary.paper(5))
    >>> L.sum(axis=1).tolist(), bool((L @ R == np.tri(5)).all())
    ([2, 2, 2, 2, 2], True)
    """
    read = [tree.nodes(t) for t in range(1, tree.horizon + 1)]
    columns = {node: i for i, node in enumerate(dict.fromkeys(node for nodes in read for node in nodes))}
    L = np.zeros((tree.horizon, len(columns)), dtype=np.int64)
    for row, nodes in zip(L, read, strict=True):
        row[[columns[node] for node in nodes]] = 1
    leaves = np.array([tree.label(t) + 1 for t in range(1, tree.horizon + 1)])
    first, last = np.array(list(columns)).T[:, :, None]
    return L, ((first <= leaves) & (leaves <= last)).astype(np.int64)


def squared_sensitivities_of_releases(covariance: Whole) -> list[Fraction]:
    """Return δᵀ C⁻¹ δ for each element j, δ = A e_j: what N(A x, C) gives away about it, as exact fractions.

    >>> squared_sensitivities_of_releases(np.array([[1, 1], [1, 2]]))  # a random walk
    [Fraction(1, 1), Fraction(1, 1)]
    """
    T = len(covariance)
    C, A = flint.fmpz_mat(covariance.tolist()), flint.fmpz_mat(np.tri(T, dtype=np.int64).tolist())
    solved = C.solve(A)
    found = []
    for j in range(T):
        total = sum((solved[i, j] for i in range(j, T)), flint.fmpq(0))
        found.append(Fraction(int(total.p), int(total.q)))
    return found
