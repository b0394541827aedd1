"""Appendix B: a mechanism for numbers is one for vectors, with the same sensitivity."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from dpstream.mechanisms import Binary, SmoothBinary, SquareRoot
from dpstream.mechanisms.base import Mechanism
from dpstream.paper.claims.small_trees import node_matrices
from dpstream.paper.claims.wording import number
from dpstream.paper.model import Claim, ClaimMaker, Row, column, judge

__all__ = ["APPENDIX_B"]

Matrix = NDArray[np.float64]
Widen = Callable[[Matrix, int], Matrix]


def kronecker(matrix: Matrix, d: int) -> Matrix:
    """The matrix that acts on each of d coordinates by itself."""
    wide: Matrix = np.kron(matrix, np.eye(d)).astype(np.float64)
    return wide


def _appendix_b(quick: bool, widen: Widen = kronecker) -> Claim:
    whole = _in_whole_numbers(19 if quick else 69)
    rows: list[Row] = []
    horizon = 19 if quick else 40
    mechanisms: list[Mechanism] = [
        SmoothBinary.paper(horizon),
        SmoothBinary(horizon),
        Binary(horizon),
        SquareRoot(horizon),
    ]
    for mechanism in mechanisms:
        for d in (2, 3) if quick else (2, 3, 5):
            rows.append(_one(mechanism, horizon, d, widen))
    factor = max(column(rows, "largest gap of L R"))
    nodes, releases = (
        max(column(rows, "gap of the nodes' sensitivity")),
        max(column(rows, "gap of the releases' sensitivity")),
    )
    holds = whole == 0 and max(factor, nodes, releases) < 1e-9
    sharper = (
        "The same holds for the exact sensitivity of the releases, which is lower: the loss of two adjacent vector "
        "streams "
        f"is that of the one-dimensional ones times ‖x_t - x'_t‖², to {number(releases)}."
        if releases < 1e-9
        else ""
    )
    return Claim(
        APPENDIX_B.key,
        APPENDIX_B.title,
        "Run along each coordinate with noise of its own, a ρ-zCDP factorisation mechanism for numbers is ρ-zCDP for "
        "vectors whose streams differ in one step by at most 1 in ℓ2: ‖(R⊗I)(x - x')‖ = ‖R e_t‖·‖x_t - x'_t‖.",
        f"In whole numbers, for the paper's tree and every step: {whole} of the squared norms differ from ‖R "
        f"e_t‖²·‖v‖². Dense, for {len(mechanisms)} mechanisms at T = {horizon}, d up to {int(max(column(rows, 'd')))} "
        f"and random unit vectors at every step: (L⊗I)(R⊗I) is A⊗I to {number(factor)}, and the largest squared "
        "sensitivity is that "
        f"of one dimension to {number(nodes)}.",
        judge(holds, sharper),
        sharper,
        rows,
    )


def _one(mechanism: Mechanism, horizon: int, d: int, widen: Widen) -> Row:
    L, R = mechanism.factors()
    A = np.tri(horizon)
    wide_L, wide_R, wide_A = widen(L, d), widen(R, d), widen(A, d)
    unit = np.random.default_rng(d).standard_normal((horizon, d))
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    # Column t: the difference of two streams that differ by a unit vector in step t.
    differences = np.zeros((horizon * d, horizon))
    for t in range(horizon):
        differences[t * d : (t + 1) * d, t] = unit[t]
    nodes = np.abs(((wide_R @ differences) ** 2).sum(axis=0) - (R**2).sum(axis=0)).max()
    released = _loss(wide_L, wide_A @ differences)
    releases = np.abs(released - _loss(L, A)).max()
    return {
        "mechanism": type(mechanism).__name__,
        "sensitivity of": mechanism.sensitivity_of,
        "T": horizon,
        "d": d,
        "largest gap of L R": float(np.abs(wide_L @ wide_R - wide_A).max()),
        "gap of the nodes' sensitivity": float(nodes),
        "gap of the releases' sensitivity": float(releases),
        "Δ in one dimension": mechanism.sensitivity(),
        "Δ of the releases in d": sqrt(float(released.max())),
    }


def _loss(L: Matrix, shifts: Matrix) -> Matrix:
    """δᵀ(L Lᵀ)⁻¹δ for each column δ."""
    found: Matrix = (shifts * np.linalg.solve(L @ L.T, shifts)).sum(axis=0)
    return found


def _in_whole_numbers(horizon: int) -> int:
    """How many steps break ‖(R⊗I)(x - x')‖² = ‖R e_t‖²·‖v‖² for the paper's tree and v = (3, -4, 12)."""
    _, R = node_matrices(SmoothBinary.paper(horizon))
    v = np.array([3, -4, 12])
    wide = np.kron(R, np.eye(3, dtype=np.int64))
    broken = 0
    for t in range(horizon):
        difference = np.zeros(3 * horizon, dtype=np.int64)
        difference[3 * t : 3 * t + 3] = v
        broken += int(((wide @ difference) ** 2).sum()) != int((R[:, t] ** 2).sum() * (v**2).sum())
    return broken


APPENDIX_B = ClaimMaker("appendix-b", "Appendix B, vectors", _appendix_b)
