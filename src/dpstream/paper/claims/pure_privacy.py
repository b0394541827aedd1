"""The remark on pure ε-DP: with Laplace noise the best fraction of ones is no longer a half. Section 5."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpstream.charts import ACCENT, GREY, curve, new_figure
from dpstream.mechanisms import SmoothBinary
from dpstream.paper.claims.smooth_tree import best_fraction, leading_constant
from dpstream.paper.claims.wording import number, steps
from dpstream.paper.model import Claim, ClaimMaker, Row, column, judge

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PURE_DP"]


def _pure_dp(_: bool, zeros_cost: float = 2.0) -> Claim:
    fraction, leading = best_fraction(zeros_cost)
    half = leading_constant(0.5, zeros_cost)
    rows: list[Row] = []
    for T in (250, 1023, 4096, 2**16, 2**20, 10**9, 10**12, 2**50):
        best, paper = SmoothBinary(T, noise="laplace"), SmoothBinary.paper(T)
        a, b = best.zeros, best.ones
        rows.append(
            {"T": T, "zeros": a, "ones": b, "fraction of ones": b / (a + b), "V": a**2 * b, "V, half": paper.ones**3}
        )
    stated = [SmoothBinary(int(row["T"]), noise="laplace").sensitivity() for row in rows]
    # The ℓ1 sensitivity is the number of zeros, as dense columns of R say too.
    R = SmoothBinary(250, noise="laplace").factors()[1]
    sensitive = np.allclose(stated, column(rows, "zeros")) and round(float(R.sum(axis=0).max()), 6) == rows[0]["zeros"]
    away = all(found > 0.5 for found in column(rows, "fraction of ones"))
    small, large = rows[1], rows[-2]
    sharper = (
        "The ℓ1-sensitivity is the number of zeros a, so that V = a²b is to be minimised: the best fraction of ones "
        f"tends to {fraction:.4f}, where V is {number(leading)}·log2(T)³ against {number(half)} at one half, a factor "
        f"{number(half / leading)}. At T = {steps(int(small['T']))} the best tree has {small['zeros']} zeros and "
        f"{small['ones']} ones, V = {small['V']} instead of {small['V, half']}; at T = {steps(int(large['T']))} "
        f"{large['zeros']} and {large['ones']}, V = {large['V']:,} instead of {large['V, half']:,}."
        if fraction > 0.51
        else ""
    )
    return Claim(
        PURE_DP.key,
        PURE_DP.title,
        "The smooth binary mechanism extends to pure ε-DP; the best fraction of ones in the leaves is then not 1/2.",
        f"(1 - p)²p/H(p)³, H the binary entropy, is least at p = {fraction:.4f}. The best trees of "
        f"{len(rows)} horizons from 250 to 2^50 have a fraction of ones from "
        f"{number(min(column(rows, 'fraction of ones')))} to {number(max(column(rows, 'fraction of ones')))}.",
        judge(abs(fraction - 0.5) > 0.01 and away and sensitive, sharper),
        sharper,
        rows,
    )


def _draw(claim: Claim) -> Figure:
    figure = new_figure(9.0, 4.0)
    left, right = figure.subplots(1, 2)
    p = np.linspace(0.3, 0.98, 300)
    for cost, label, colour in ((1.0, "Gaussian: p(1 - p)/H²", GREY), (2.0, "Laplace: p(1 - p)²/H³", ACCENT)):
        values = np.array([leading_constant(x, cost) for x in p])
        best, least = best_fraction(cost)
        left.plot(p, values / least, color=colour, label=label)
        left.plot([best], [1.0], "o", color=colour)
        left.annotate(f"{best:.4g}", (best, 1.0), (0, -14), textcoords="offset points", ha="center", color=colour)
    left.set(xlabel="fraction p of ones", ylabel="V over its least, long streams", ylim=(0.85, 2.5))
    left.legend()
    T = column(claim.rows, "T")
    right.plot(T, column(claim.rows, "fraction of ones"), **curve("SmoothBinary", markers=True), label="best tree")
    right.axhline(best_fraction(2.0)[0], color="0.5", linewidth=0.8, label="limit")
    right.set(xscale="log", xlabel="horizon T", ylabel="best fraction of ones, Laplace", ylim=(0.5, 1))
    right.legend()
    for axes in (left, right):
        axes.grid(alpha=0.3)
    return figure


PURE_DP = ClaimMaker("pure-dp", "Section 5, pure ε-DP", _pure_dp, _draw)
