"""Theorem 1.1: variance, time, space, one law and privacy of the smooth binary mechanism, all at once."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from math import comb, log2

import numpy as np

from dpstream.mechanisms import SmoothBinary
from dpstream.paper.claims.small_trees import node_matrices, squared_sensitivities_of_releases
from dpstream.paper.claims.wording import listed, number, steps
from dpstream.paper.model import Claim, ClaimMaker, Row, column, judge

__all__ = ["THEOREM_1_1"]

Build = Callable[[int], SmoothBinary]
#: Full trees of this half height: far beyond any horizon, where the leading term must show.
_HALVES = (2**4, 2**7, 2**10, 2**13)


def _theorem_1_1(quick: bool, build: Build = SmoothBinary.paper) -> Claim:
    horizons = [250, 1023, 10**5] if quick else [250, 1023, 10**5, 10**6, 10**7]
    rows = [_row(build(T)) for T in [*horizons, 10**9, 10**12]]
    spread = max(float(np.ptp(build(T).variance())) for T in horizons)
    work = {T: _work(build(T)) for T in horizons}
    limits = [4 * half**2 / log2(comb(2 * half, half) - 1) ** 2 for half in _HALVES]
    settles = all(b < a for a, b in pairwise(limits)) and 1 < limits[-1] < 1.01
    squares = [(height / 2) ** 2 for height in column(rows, "height")]
    off = max(abs(V - square) for V, square in zip(column(rows, "V"), squares, strict=True))
    sums = {T: set(node_matrices(build(T))[0].sum(axis=1).tolist()) for T in (5, 19, 69)}
    private = {T: _spent(build(T)) for T in sums}
    space = max(held / log2(T) for held, T in zip(column(rows, "vectors"), column(rows, "T"), strict=True))
    holds = (
        max(spread, off) < 1e-6
        and settles
        and max(work.values()) <= 4
        and space <= 1
        and all(spent <= 1 for spent in private.values())
        and all(len(found) == 1 for found in sums.values())
    )
    ours = SmoothBinary(1023)
    computed = (
        f"V = Var·2ρ at T = {listed(steps(T) for T in horizons)}: all releases are within {number(spread)} of each "
        f"other, and within {number(off)} of (h/2)². V over log²T/4 goes from {number(limits[0])} to "
        f"{number(limits[-1])} in full trees of height {2 * _HALVES[0]} to {steps(2 * _HALVES[-1])}. "
        f"A whole run takes at most {number(max(work.values()))} draws and stack moves a step, and at most "
        f"{number(space)}·log2 T stored values. "
        f"In exact fractions at T = {listed(str(T) for T in private)} all releases together spend "
        f"{listed(number(float(spent)) for spent in private.values())} of ρ, and a release sums "
        f"{listed(' or '.join(map(str, sorted(found))) for found in sums.values())} nodes."
    )
    sharper = (
        f"At T = 1,023 the paper's tree has V = {number(build(1023).max_variance())}; with the sensitivity of its "
        "releases and "
        f"its own numbers of zeros and ones, the same kind of tree has V = {number(ours.max_variance())}, with at "
        f"most {ours.draws_per_step.worst} draws in any step."
        if ours.max_variance() < build(1023).max_variance()
        else ""
    )
    return Claim(
        THEOREM_1_1.key,
        THEOREM_1_1.title,
        "For every ρ > 0 and T > 1 there is a ρ-zCDP mechanism for running counts of T bits with variance "
        "(1 + o(1))·log2(T)²/(8ρ) at every step, O(log T) space, O(T) time for all releases together, and an error "
        "that has the same law at every step.",
        computed,
        judge(holds, sharper),
        sharper,
        rows,
    )


def _row(tree: SmoothBinary) -> Row:
    T, V = tree.horizon, tree.max_variance()
    return {
        "T": T,
        "height": tree.zeros + tree.ones,
        "V": V,
        "log²T/4": log2(T) ** 2 / 4,
        "ratio": V / (log2(T) ** 2 / 4),
        "draws a step": tree.draws_per_step.average,
        "vectors": tree.memory,
    }


def _work(tree: SmoothBinary) -> float:
    """Draws and removals a step, counted over the whole run."""
    moves = tree.moves(1, tree.horizon)
    if moves is None:
        return float("inf")
    return (2 * tree.horizon + int(np.count_nonzero(moves.padding)) + int(moves.pops.sum())) / tree.horizon


def _spent(tree: SmoothBinary) -> Fraction:
    """The part of ρ that the releases spend on the element that moves them most, in exact fractions; 1 is all."""
    L, _ = node_matrices(tree)
    stated = Fraction(tree.sensitivity()) ** 2
    return max(squared_sensitivities_of_releases(L @ L.T)) / stated


THEOREM_1_1 = ClaimMaker("theorem-1.1", "Theorem 1.1", _theorem_1_1)
