"""The sensitivity of the mechanism: √k for its nodes, and less for its releases."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dpstream.charts import curve, new_figure
from dpstream.mechanisms import SmoothBinary
from dpstream.paper.claims.small_trees import node_matrices, squared_sensitivities_of_releases
from dpstream.paper.claims.wording import listed, number, steps
from dpstream.paper.model import Claim, ClaimMaker, Row, column, judge

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["SENSITIVITY_OF_RELEASES"]


def _released(horizon: int, zeros: int, ones: int) -> SmoothBinary:
    return SmoothBinary(horizon, padded=True, sensitivity_of="releases", zeros=zeros, ones=ones)


def _sensitivity_of_releases(quick: bool, build: Callable[[int, int, int], SmoothBinary] = _released) -> Claim:
    exact = {
        T: _exact_squared_sensitivity(SmoothBinary.paper(T))
        for T in ((5, 19, 69, 250) if quick else (5, 19, 69, 250, 400))
    }
    rows: list[Row] = []
    for T in sorted({*exact, 1023, 4096, 2**16, 2**20, 10**7, 10**9, 10**12}):
        paper = SmoothBinary.paper(T)
        same = build(T, paper.zeros, paper.ones)
        best = SmoothBinary(T)
        rows.append(
            {
                "T": T,
                "V, paper": round(paper.max_variance(), 6),
                "V, same tree": same.max_variance(),
                "V, best tree": best.max_variance(),
                "zeros": best.zeros,
                "ones": best.ones,
                "Δ², same tree": same.sensitivity() ** 2,
                "in exact fractions": "yes" if T in exact else "no",
            }
        )
    law = _same_noise(250, build)
    stated = [build(T, SmoothBinary.paper(T).zeros, SmoothBinary.paper(T).ones).sensitivity() ** 2 for T in exact]
    # Stated from above: never less than the exact fraction, and no more than rounding allows.
    gaps = [Fraction(own) / squared - 1 for own, squared in zip(stated, exact.values(), strict=True)]
    covered = all(0 <= gap < 1e-9 for gap in gaps)
    paper_covers = all(squared <= SmoothBinary.paper(T).zeros for T, squared in exact.items())
    falls = all(b < a for a, b in zip(column(rows, "V, paper"), column(rows, "V, same tree"), strict=True))
    at = {int(row["T"]): row for row in rows}
    fraction = exact[19]
    sharper = (
        "A release shows a sum of nodes and of padding, never a node by itself, and the releases together read only a "
        "part of what the nodes would tell. What is published is N(A x, σ²·L Lᵀ), whose exact squared sensitivity is "
        "max δᵀ(L Lᵀ)⁻¹δ over the columns δ of A. At T = 250 that is "
        f"{number(float(exact[250]))} instead of {SmoothBinary.paper(250).zeros}: V = "
        f"{number(float(at[250]['V, same tree']))} instead of {number(float(at[250]['V, paper']))}, for the same "
        "noise and the same guarantee. With zeros and ones chosen for this sensitivity, V is "
        + listed(
            f"{number(float(at[T]['V, best tree']))} instead of {number(float(at[T]['V, paper']))} at T = {steps(T)}"
            for T in (1023, 2**16, 2**20, 10**12)
        )
        + "."
        if covered and law and falls
        else ""
    )
    return Claim(
        SENSITIVITY_OF_RELEASES.key,
        SENSITIVITY_OF_RELEASES.title,
        "The smooth binary mechanism is ρ-zCDP if every node gets Gaussian noise of variance k/(2ρ), because changing "
        "one element changes k nodes.",
        f"Exact fractions from the covariance of the releases, at T = {listed(steps(T) for T in exact)}: Δ² is at most "
        f"{listed(number(float(squared)) for squared in exact.values())} ({fraction} at T = 19), where k is "
        f"{listed(str(SmoothBinary.paper(T).zeros) for T in exact)}. The fast recursion over subtrees agrees to "
        f"{number(float(max(abs(gap) for gap in gaps)))} of it"
        + (
            ", and the noise has the same covariance, entry by entry."
            if law
            else "; but the noise has another covariance."
        ),
        judge(paper_covers and covered and law, sharper),
        sharper,
        rows,
    )


def _exact_squared_sensitivity(tree: SmoothBinary) -> Fraction:
    L, _ = node_matrices(tree)
    return max(squared_sensitivities_of_releases(L @ L.T))


def _same_noise(horizon: int, build: Callable[[int, int, int], SmoothBinary]) -> bool:
    """Whether the tree with the sensitivity of its releases makes noise of the paper's covariance."""
    paper = SmoothBinary.paper(horizon)
    nodes, _ = node_matrices(paper)
    L, _ = build(horizon, paper.zeros, paper.ones).factors()
    return bool(np.allclose(L @ L.T, nodes @ nodes.T, rtol=0, atol=1e-9))


def _draw(claim: Claim) -> Figure:
    figure = new_figure()
    axes = figure.subplots()
    T = np.array(column(claim.rows, "T"))
    scale = np.log2(T) ** 2
    for name, label, look in (
        ("V, paper", "the paper's tree, sensitivity of its nodes", "SmoothBinary.paper"),
        ("V, same tree", "the same tree and noise, sensitivity of its releases", "Binary"),
        ("V, best tree", "the best zeros and ones for this sensitivity", "SmoothBinary"),
    ):
        axes.plot(T, np.array(column(claim.rows, name)) / scale, **curve(look, markers=True), label=label)
    axes.axhline(0.25, color="0.5", linewidth=0.8)
    axes.set(xscale="log", xlabel="horizon T", ylabel="V / log2(T)²", ylim=(0, None))
    axes.grid(alpha=0.3)
    axes.legend()
    return figure


SENSITIVITY_OF_RELEASES = ClaimMaker(
    "sensitivity-of-releases", "Section 3.2, the sensitivity", _sensitivity_of_releases, _draw
)
