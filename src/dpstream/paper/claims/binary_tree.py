"""Propositions 3.1 and 3.2, Theorem 3.3, and the costs of the binary mechanism: the tree before it is smoothed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpstream.mechanisms import Binary
from dpstream.paper.claims.wording import listed, number, steps
from dpstream.paper.model import Claim, ClaimMaker, Row, column, judge

__all__ = ["BINARY_COSTS", "PROPOSITION_3_1", "PROPOSITION_3_2", "THEOREM_3_3"]

Build = Callable[[int], Binary]
_FULL, _CUT = (7, 63, 1023), (5, 100, 250)


def _proposition_3_1(quick: bool, build: Build = Binary) -> Claim:
    rows: list[Row] = []
    for T in _FULL + _CUT[: 2 if quick else 3]:
        _, R = build(T).factors()
        found = (R**2).sum(axis=0).round().astype(np.int64)
        zeros = T.bit_length() - np.bitwise_count(np.arange(T))
        rows.append(
            {
                "T": T,
                "equal": int((found == zeros).sum()),
                "less": int((found < zeros).sum()),
                "more": int((found > zeros).sum()),
                "Δ²": int(found.max()),
                "most zeros": int(zeros.max()),
            }
        )
    holds = all(row["more"] == 0 and row["Δ²"] == row["most zeros"] for row in rows)
    holds = holds and not any(row["less"] for row in rows if row["T"] in _FULL)
    cut = [row for row in rows if row["less"]]
    full = [row for row in rows if row["T"] in _FULL]
    computed = (
        f"Squared columns of R, from explicit matrices: in full trees, T = {listed(steps(T) for T in _FULL)}, equal "
        f"to the number of zeros for {number(sum(column(full, 'equal')))} of {number(sum(column(full, 'T')))} "
        f"elements; at any T looked at, more for {number(sum(column(rows, 'more')))}. The largest are "
        f"{listed(number(most) for most in column(rows, 'Δ²'))}."
    )
    sharper = (
        "If T + 1 is not a power of 2, the last elements lie under left children that are never finished and never "
        "read, and cost less than the proposition says: "
        + listed(f"{row['less']} of {row['T']}" for row in cut)
        + ". The largest sensitivity does not change."
        if cut
        else ""
    )
    return Claim(
        PROPOSITION_3_1.key,
        PROPOSITION_3_1.title,
        "With only left children stored, changing x_t by 1 changes as many stored sums as bin(t - 1) has zeros: that "
        "is the squared ℓ2-sensitivity of x_t.",
        computed,
        judge(holds, sharper),
        sharper,
        rows,
    )


def _proposition_3_2(quick: bool, build: Build = Binary) -> Claim:
    rows: list[Row] = []
    for T in (7, 250, 1023) if quick else (7, 250, 1023, 4096):
        L, _ = build(T).factors()
        norms, ones = (L**2).sum(axis=1), np.bitwise_count(np.arange(1, T + 1))
        unequal = int((norms != ones).sum())
        rows.append({"T": T, "unequal": unequal, "least": float(norms.min()), "most": float(norms.max())})
    counted = listed(steps(int(T)) for T in column(rows, "T"))
    return Claim(
        PROPOSITION_3_2.key,
        PROPOSITION_3_2.title,
        "The variance of release t is proportional to the number of ones in bin(t).",
        f"Squared rows of L against the number of ones of t, for every t at T = {counted}: "
        f"{number(sum(column(rows, 'unequal')))} differ. Within one run some are "
        f"{number(max(column(rows, 'most')))} times as large as others.",
        judge(not any(column(rows, "unequal"))),
        "",
        rows,
    )


def _theorem_3_3(quick: bool, build: Build = Binary) -> Claim:
    rows: list[Row] = []
    for T in (2, 7, 8, 250, 1023, 10**5) if quick else (2, 7, 8, 250, 1023, 10**5, 10**7):
        height = T.bit_length()  # ⌈log2(T + 1)⌉, without rounding
        stated = height * np.bitwise_count(np.arange(1, T + 1)).astype(np.float64)
        gap = float(np.abs(build(T).variance() / stated - 1).max())
        rows.append({"T": T, "height": height, "max V": float(stated.max()), "largest relative gap": gap})
    exact = _squared_sensitivity_of_releases(build(250))
    gap = max(column(rows, "largest relative gap"))
    checked = listed(steps(int(T)) for T in column(rows, "T"))
    return Claim(
        THEOREM_3_3.key,
        THEOREM_3_3.title,
        "The ρ-zCDP binary mechanism has variance ⌈log2(T + 1)⌉·(number of ones in bin(t))/(2ρ) at every t ≤ T.",
        f"V_t = Var·2ρ of every release for T = {checked}: the largest relative gap to the formula is {number(gap)} "
        "(sensitivities are rounded up by 10^-12, so that floating-point error never costs privacy). Here nothing "
        "can be "
        f"gained by the sensitivity of the releases: at T = 250 its square is {number(exact)}, from explicit "
        f"matrices, and ⌈log2 251⌉ is {(250).bit_length()}.",
        judge(gap < 1e-10 and abs(exact - (250).bit_length()) < 1e-9),
        "",
        rows,
    )


def _binary_costs(quick: bool, build: Build = Binary) -> Claim:
    rows: list[Row] = []
    holds = True
    for T in (250, 2**12, 10**5) if quick else (250, 2**12, 10**5, 2**20, 10**7):
        pops, depth = _walk(build(T))
        moves = float(((np.cumsum(pops) + np.arange(1, T + 1)) / np.arange(1, T + 1)).max())
        height, V = T.bit_length(), round(build(T).max_variance(), 6)
        holds = holds and moves < 2 and depth <= height and height**2 >= V
        rows.append({"T": T, "moves a step": moves, "stored": depth, "height": height, "max V": V})
    last = rows[-1]
    return Claim(
        BINARY_COSTS.key,
        BINARY_COSTS.title,
        "The ρ-zCDP binary mechanism has variance O(log(T)²), and releasing the first t sums takes O(log T) space and "
        "O(t) time.",
        f"Counted over whole runs: after any t, at most {max(column(rows, 'moves a step')):.6f}·t values were stored "
        f"or dropped, one draw a step. At T = {steps(int(last['T']))} at most {last['stored']} values are held at "
        f"once, in a tree of height {last['height']}, and the largest V is {number(float(last['max V']))}, at most "
        "the height squared.",
        judge(holds),
        "",
        rows,
    )


def _walk(tree: Binary) -> tuple[NDArray[np.int64], int]:
    """Entries dropped at each step, and how deep the stack of stored values gets."""
    moves = tree.moves(1, tree.horizon)
    if moves is None:
        return np.full(tree.horizon, tree.horizon), tree.horizon
    pops = moves.pops.astype(np.int64)
    return pops, int((np.arange(1, tree.horizon + 1) - np.cumsum(pops)).max())


def _squared_sensitivity_of_releases(tree: Binary) -> float:
    """Δ² of publishing the releases alone, from explicit matrices."""
    L, _ = tree.factors()
    moved = np.linalg.solve(L, np.tri(tree.horizon))
    return float((moved**2).sum(axis=0).max())


BINARY_COSTS = ClaimMaker("binary-costs", "Section 2.3, binary mechanism", _binary_costs)
PROPOSITION_3_1 = ClaimMaker("proposition-3.1", "Proposition 3.1", _proposition_3_1)
PROPOSITION_3_2 = ClaimMaker("proposition-3.2", "Proposition 3.2", _proposition_3_2)
THEOREM_3_3 = ClaimMaker("theorem-3.3", "Theorem 3.3", _theorem_3_3)
