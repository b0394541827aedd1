"""Lemma 2.5, the Gaussian mechanism under zCDP, and what zCDP means as (ε, δ): Section 2.2."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, inf, log, pi, sqrt
from typing import TYPE_CHECKING

import numpy as np
from scipy.integrate import quad
from scipy.optimize import minimize_scalar

from dpstream.audit.exact_laws import renyi_divergence, rounded_law
from dpstream.budget import zcdp
from dpstream.charts import ACCENT, GREY, new_figure
from dpstream.gaussian_curve import gaussian_delta, gaussian_epsilon
from dpstream.mechanisms import Binary
from dpstream.paper.claims.wording import number
from dpstream.paper.model import Claim, ClaimMaker, Row, column, judge

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["CONVERSION", "LEMMA_2_5"]

_ORDERS = (1.01, 1.5, 2.0, 5.0, 20.0)


def _lemma_2_5(quick: bool, scale: Callable[[float, float], float] = lambda rho, move: zcdp(rho).scale(move)) -> Claim:
    rows: list[Row] = []
    for rho in (0.05, 0.5) if quick else (0.01, 0.05, 0.5, 2.0):
        for move in (1.0, sqrt(5.0)):
            sigma = scale(rho, move)
            for order in _ORDERS:
                found = _divergence(order, move, sigma)
                rows.append({"ρ": rho, "Δ": move, "α": order, "divergence": found, "ρα": rho * order})
    excess = max(d / bound - 1 for d, bound in zip(column(rows, "divergence"), column(rows, "ρα"), strict=True))
    short = max(1 - d / bound for d, bound in zip(column(rows, "divergence"), column(rows, "ρα"), strict=True))
    rounded = _rounded_share(scale(0.5, 1.0))
    return Claim(
        LEMMA_2_5.key,
        LEMMA_2_5.title,
        "Adding independent Gaussian noise of variance Δ²/(2ρ) to each coordinate of a function of ℓ2-sensitivity Δ is "
        "ρ-zCDP.",
        f"Rényi divergences of the two noisy answers by numerical integration, at {len(rows)} triples (ρ, Δ, α): none "
        f"exceeds ρα by more than {number(max(excess, 0.0))} of it, and none falls short by more than "
        f"{number(max(short, 0.0))}. Answers rounded to integers spend {number(rounded)} of it at ρ = 1/2, Δ = 1 and "
        "α = 2.",
        judge(excess < 1e-7 and rounded <= 1 + 1e-9),
        "",
        rows,
    )


def _divergence(order: float, move: float, sigma: float) -> float:
    """D_order(N(0, σ²) ‖ N(move, σ²)) by quadrature of the definition."""
    # p^α q^(1-α) is a bell around (1 - α)·move, too far out for quad to find by itself; its height is taken out.
    centre = (1 - order) * move
    height = (-order * centre**2 - (1 - order) * (centre - move) ** 2) / (2 * sigma**2)

    def bell(x: float) -> float:
        exponent = (-order * x**2 - (1 - order) * (x - move) ** 2) / (2 * sigma**2)
        return exp(exponent - height) / (sigma * sqrt(2 * pi))

    area, _ = quad(bell, centre - 12 * sigma, centre + 12 * sigma, epsabs=1e-13, epsrel=1e-13)
    return (log(area) + height) / (order - 1)


def _rounded_share(sigma: float) -> float:
    """The part of ρα = 1 that one release rounded to an integer spends at order 2."""
    law = rounded_law(Binary(1), sigma, 1, (30,))
    return renyi_divergence(law, (1,), 2.0) / 1.0


def _conversion(quick: bool, stated: Callable[[float, float], float] | None = None) -> Claim:
    stated = stated or _stated
    rows: list[Row] = []
    for rho in np.geomspace(1e-3, 10, 5 if quick else 13).tolist():
        for delta in (1e-3, 1e-6, 1e-9):
            rows.append(
                {
                    "ρ": rho,
                    "δ": delta,
                    "stated ε": stated(rho, delta),
                    "any zCDP ε": _any_zcdp(rho, delta),
                    "Gaussian ε": gaussian_epsilon(sqrt(2 * rho), delta),
                    "δ spent": gaussian_delta(sqrt(2 * rho), stated(rho, delta)),
                }
            )
    holds = all(
        spent <= delta and general <= epsilon
        for spent, delta, general, epsilon in zip(
            *(column(rows, name) for name in ("δ spent", "δ", "any zCDP ε", "stated ε")), strict=True
        )
    )
    rho, delta = 0.5, 1e-6
    exact, general = gaussian_epsilon(sqrt(2 * rho), delta), _any_zcdp(rho, delta)
    least = min(column(rows, "Gaussian ε")[i] / column(rows, "stated ε")[i] for i in range(len(rows)))
    sharper = (
        "Every mechanism here with Gaussian noise is, all releases together, one Gaussian mechanism, whose curve is "
        f"known exactly (Balle and Wang 2018). At ρ = {rho} and δ = {delta:g}: ε = {number(exact)} instead of "
        f"{number(stated(rho, delta))}, down to {100 * least:.0f} % of it over the grid. For an arbitrary "
        f"zCDP mechanism the best order α gives {number(general)}."
        if exact < general < stated(rho, delta)
        else ""
    )
    return Claim(
        CONVERSION.key,
        CONVERSION.title,
        "ρ-zCDP implies (ρ + 2√(ρ ln(1/δ)), δ)-differential privacy for every δ > 0.",
        f"At {len(rows)} pairs (ρ, δ): the Gaussian mechanism with this ρ spends at most "
        f"{number(max(s / d for s, d in zip(column(rows, 'δ spent'), column(rows, 'δ'), strict=True)))} of δ "
        "at the stated ε, and the best bound from the Rényi divergences is at most "
        f"{number(max(g / s for g, s in zip(column(rows, 'any zCDP ε'), column(rows, 'stated ε'), strict=True)))} of "
        "it.",
        judge(holds, sharper),
        sharper,
        rows,
    )


def _stated(rho: float, delta: float) -> float:
    return rho + 2 * sqrt(rho * log(1 / delta))


def _any_zcdp(rho: float, delta: float) -> float:
    """The least ε that D_α ≤ ρα for all α implies (Canonne, Kamath, Steinke 2020, arXiv:2004.00010, Section 2.3)."""

    def epsilon(log_excess: float) -> float:
        a = 1 + exp(log_excess)
        return rho * a + log(1 / (a * delta)) / (a - 1) + log(1 - 1 / a) if a < inf else inf

    found = minimize_scalar(epsilon, bounds=(-7.0, 9.0), method="bounded", options={"xatol": 1e-9})
    return max(float(found.fun), 0.0)


def _draw_conversion(claim: Claim) -> Figure:
    figure = new_figure()
    axes = figure.subplots()
    rows = [row for row in claim.rows if row["δ"] == 1e-6]
    rho = column(rows, "ρ")
    stated = np.array(column(rows, "stated ε"))
    axes.axhline(1.0, color=GREY, linestyle="--", label="ρ + 2√(ρ ln(1/δ)), as stated")
    axes.plot(rho, column(rows, "any zCDP ε") / stated, color=GREY, label="best for any zCDP mechanism")
    axes.plot(rho, column(rows, "Gaussian ε") / stated, color=ACCENT, label="exact for Gaussian noise")
    axes.set(xscale="log", xlabel="ρ", ylabel="ε over the stated ε, at δ = 10⁻⁶", ylim=(0, 1.1))
    axes.grid(alpha=0.3)
    axes.legend()
    return figure


LEMMA_2_5 = ClaimMaker("lemma-2.5", "Lemma 2.5", _lemma_2_5)
CONVERSION = ClaimMaker("zcdp-to-approx-dp", "Section 2.2, from zCDP to (ε, δ)", _conversion, _draw_conversion)
