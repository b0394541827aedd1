"""Algorithm 2 and the choice of k: sensitivity √k, h - k nodes a release, and which k is best. Section 3.2."""

from __future__ import annotations

from collections.abc import Callable
from math import comb
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import entr

from dpstream.charts import curve, new_figure
from dpstream.mechanisms import SmoothBinary
from dpstream.mechanisms.labels import least_ones_for
from dpstream.paper.claims.small_trees import node_matrices
from dpstream.paper.claims.wording import listed, number, steps
from dpstream.paper.model import Claim, ClaimMaker, Row, column, judge

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ALGORITHM_2", "CHOICE_OF_K"]


def _tree(horizon: int, zeros: int, ones: int) -> SmoothBinary:
    return SmoothBinary(horizon, padded=True, sensitivity_of="nodes", zeros=zeros, ones=ones)


def _algorithm_2(quick: bool, build: Callable[[int, int, int], SmoothBinary] = _tree) -> Claim:
    shapes = [(1, 3), (2, 2), (3, 2), (3, 3), (2, 6), (4, 4)] + ([] if quick else [(5, 5), (4, 7), (7, 4)])
    rows: list[Row] = []
    sound = 0
    for zeros, ones in shapes:
        for horizon in (comb(zeros + ones, zeros) - 1, comb(zeros + ones - 1, ones)):
            tree = build(horizon, zeros, ones)
            L, R = node_matrices(tree)
            sums, read = L.sum(axis=1), int((R**2).sum(axis=0).max())
            stated = round(tree.sensitivity() ** 2, 6)
            exact = bool((np.tri(horizon, dtype=np.int64) == L @ R).all())
            sound += exact and bool((sums == ones).all()) and read <= stated == zeros
            rows.append({"zeros": zeros, "ones": ones, "T": horizon, "stated Δ²": stated, "nodes read Δ²": read})
    full = [row for row in rows if row["T"] == comb(int(row["zeros"]) + int(row["ones"]), int(row["zeros"])) - 1]
    attained = sum(row["nodes read Δ²"] == row["zeros"] for row in full)
    figure_2 = build(5, 2, 2).nodes(5)
    holds = sound == len(rows) and attained == len(full) and figure_2 == [(1, 8), (9, 12)]
    trees = [SmoothBinary.paper(T) for T in (250, 1023, 2**12, 2**16, 2**20)]
    wasted = [(tree, unread) for tree in trees if (unread := tree.zeros - least_ones_for(tree.ones, tree.horizon + 1))]
    sharper = (
        "A tree may have zeros that its horizon does not need: they lead every label, and their nodes hold everything "
        "and are never read. So it is for the paper's trees at T = "
        + listed(f"{steps(tree.horizon)} ({unread} of {tree.zeros} zeros)" for tree, unread in wasted)
        + ": left out of the sensitivity, V is "
        + listed(f"{(tree.zeros - unread) * tree.ones} instead of {tree.zeros * tree.ones}" for tree, unread in wasted)
        + ", without any change to the noise."
        if wasted
        else ""
    )
    return Claim(
        ALGORITHM_2.key,
        ALGORITHM_2.title,
        "If the leaves in use are those with k zeros among the h bits of their label, Algorithm 2 releases the running "
        "sums, the ℓ2-sensitivity is √k, and every release adds h - k nodes.",
        f"In whole numbers, for {len(shapes)} pairs of zeros and ones, each with a full tree and with one cut short: "
        f"in {sound} of {len(rows)} trees L R = A, every row of L has as many ones as the labels, and no column of R "
        f"has more ones than the labels have zeros, the squared sensitivity stated; in {attained} of {len(full)} "
        "full trees "
        f"some column has as many. Figure 2's release 5 adds the leaves {listed(f'{a} to {b}' for a, b in figure_2)}.",
        judge(holds, sharper),
        sharper,
        rows,
    )


def _choice_of_k(quick: bool, zeros_cost: float = 1.0) -> Claim:
    fraction, leading = best_fraction(zeros_cost)
    rows: list[Row] = []
    spread = np.geomspace(5, 10**12, 40 if quick else 400).round().astype(np.int64).tolist()
    for T in sorted({*spread, 250, 1023}):
        paper, best = SmoothBinary.paper(T), SmoothBinary(T, padded=True, sensitivity_of="nodes")
        rows.append(
            {
                "T": T,
                "zeros, paper": paper.zeros,
                "V, paper": paper.zeros * paper.ones,
                "zeros": best.zeros,
                "ones": best.ones,
                "V": best.zeros * best.ones,
            }
        )
    holds = abs(fraction - 0.5) < 1e-6 and abs(leading - 0.25) < 1e-9
    better = [row for row in rows if float(row["V"]) < float(row["V, paper"])]
    example = next(row for row in rows if row["T"] == 1023)
    gains = [1 - float(row["V"]) / float(row["V, paper"]) for row in rows]
    sharper = (
        "Half is best only in the limit. Zeros and ones chosen freely give a smaller V, also with the sensitivity of "
        "nodes, "
        f"at {len(better)} of {len(rows)} horizons from 5 to 10^12: {100 * float(np.mean(gains)):.0f} % less on "
        f"average and {100 * max(gains):.0f} % at best; at T = 1,023 V is {example['V']} ({example['zeros']} zeros, "
        f"{example['ones']} ones) instead of {example['V, paper']}. No horizon is worse off."
        if better and min(gains) >= 0
        else ""
    )
    return Claim(
        CHOICE_OF_K.key,
        CHOICE_OF_K.title,
        "The variance is k·(h - k)/(2ρ); k = h/2 leaves a leading constant of 1/4 of the binary mechanism's largest "
        "variance, and gives the most leaves.",
        "A tree of height h with a fraction p of ones has about 2^(h·H(p)) leaves, H the binary entropy, so that V is "
        f"about p(1 - p)/H(p)²·log2(T)². Minimised numerically: p = {number(fraction)}, V = "
        f"{number(leading)}·log2(T)².",
        judge(holds, sharper),
        sharper,
        rows,
    )


def best_fraction(zeros_cost: float) -> tuple[float, float]:
    """Return the fraction p of ones with the least (1 - p)^zeros_cost · p / H(p)^(zeros_cost + 1), and that least.

    A tree pays zeros^zeros_cost · ones, with zeros_cost 1 for Gaussian noise and 2 for Laplace noise.

    >>> p, leading = best_fraction(1.0)
    >>> round(p, 6), round(leading, 6)
    (0.5, 0.25)
    """
    found = minimize_scalar(
        lambda p: leading_constant(p, zeros_cost), bounds=(1e-3, 1 - 1e-3), method="bounded", options={"xatol": 1e-10}
    )
    return float(found.x), float(found.fun)


def leading_constant(p: float, zeros_cost: float) -> float:
    """V over log2(T)^(zeros_cost + 1) for a fraction p of ones, in the limit."""
    entropy = float(entr(p) + entr(1 - p)) / float(np.log(2.0))
    return float((1 - p) ** zeros_cost * p / entropy ** (zeros_cost + 1))


def _draw_choice(claim: Claim) -> Figure:
    figure = new_figure()
    axes = figure.subplots()
    T = column(claim.rows, "T")
    paper = np.array(column(claim.rows, "V, paper"))
    axes.plot(T, paper / np.log2(T) ** 2, **curve("SmoothBinary.paper"), label="zeros equal to ones (the paper)")
    axes.plot(T, column(claim.rows, "V") / np.log2(T) ** 2, **curve("SmoothBinary"), label="the best zeros and ones")
    axes.axhline(0.25, color="0.5", linewidth=0.8)
    axes.set(xscale="log", xlabel="horizon T", ylabel="V / log2(T)²  (sensitivity of nodes)")
    axes.grid(alpha=0.3)
    axes.legend()
    return figure


ALGORITHM_2 = ClaimMaker("algorithm-2", "Algorithm 2", _algorithm_2)
CHOICE_OF_K = ClaimMaker("choice-of-k", "Section 3.2, choosing k", _choice_of_k, _draw_choice)
