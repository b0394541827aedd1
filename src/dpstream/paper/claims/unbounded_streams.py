"""Streams without a horizon: the general reduction that the introduction relies on."""

from __future__ import annotations

from collections.abc import Callable
from math import log2
from typing import TYPE_CHECKING

import numpy as np

from dpstream.charts import curve, new_figure
from dpstream.mechanisms import AnytimeToeplitz, Binary, GrowingSmooth, SmoothBinary, Unbounded
from dpstream.paper.claims.wording import listed, number, steps
from dpstream.paper.model import Claim, ClaimMaker, Row, column, judge

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["UNBOUNDED"]


def _smooth_inside() -> Unbounded:
    return Unbounded(SmoothBinary)


def _unbounded(quick: bool, build: Callable[[], Unbounded] = _smooth_inside) -> Claim:
    mechanism, binary, growing = build(), Unbounded(Binary), GrowingSmooth()
    longest = 24 if quick else 40
    anytime = AnytimeToeplitz(2**longest)
    rows: list[Row] = []
    for i in range(4, longest + 1, 4 if quick else 2):
        T = 2**i
        rows.append(
            {
                "steps": T,
                "known horizon": SmoothBinary(T).max_variance(),
                "reduction": mechanism.max_variance(T),
                "reduction, binary inside": binary.max_variance(T),
                "growing tree": growing.max_variance(T),
                "anytime Toeplitz": anytime.variance(T),
            }
        )
    squares = np.log2(column(rows, "steps")) ** 2
    reduction = np.array(column(rows, "reduction"))
    ratios = reduction / squares
    squared, sums = _dense(mechanism, 60 if quick else 250)
    bounded = bool(ratios.max() < 2) and bool((np.diff(ratios[len(ratios) // 2 :]) <= 0.02).all())
    holds = sums < 1e-9 and squared <= mechanism.sensitivity() ** 2 * (1 + 1e-9) and bounded
    million = next(row for row in rows if row["steps"] == 2**20)
    cost = reduction / np.array(column(rows, "known horizon"))
    sharper = (
        f"The reduction costs a factor of {number(float(cost.min()))} to {number(float(cost.max()))} in variance over "
        f"a known horizon. A Toeplitz matrix made for all lengths at once, up to {steps(anytime.limit)} steps, does "
        f"better with {anytime.memory} buffers: at 2^20 steps V is {number(float(million['anytime Toeplitz']))} "
        f"against {number(float(million['reduction']))}, and {number(float(million['known horizon']))} for the smooth "
        "tree that knows its horizon."
        if float(million["anytime Toeplitz"]) < float(million["known horizon"]) < float(million["reduction"])
        else ""
    )
    marks = [i for i, row in enumerate(rows) if log2(float(row["steps"])) % 8 == 0]
    return Claim(
        UNBOUNDED.key,
        UNBOUNDED.title,
        "A known bound T on the number of releases is no restriction: unbounded streams follow by a general reduction "
        "(Chan, Shi, Song 2011).",
        f"Explicit matrices: L R is A to {number(sums)}, and the squared sensitivity of the releases is "
        f"{number(squared)}, where "
        f"{number(mechanism.sensitivity() ** 2)} is stated. The largest V up to t, over log2(t)², is "
        + listed(f"{number(float(ratios[i]))} at 2^{log2(float(rows[i]['steps'])):.0f}" for i in marks)
        + ".",
        judge(holds, sharper),
        sharper,
        rows,
    )


def _dense(mechanism: Unbounded, count: int) -> tuple[float, float]:
    """Return the exact squared sensitivity of the first releases, and the largest error of L R."""
    L, R = mechanism.factors(count)
    A = np.tri(count)
    squared = (A * np.linalg.solve(L @ L.T, A)).sum(axis=0).max()
    return float(squared), float(np.abs(L @ R - A).max())


def _draw(claim: Claim) -> Figure:
    figure = new_figure()
    axes = figure.subplots()
    T = np.array(column(claim.rows, "steps"))
    for name, look in (
        ("reduction", "Unbounded"),
        ("reduction, binary inside", "Binary"),
        ("growing tree", "GrowingSmooth"),
        ("anytime Toeplitz", "AnytimeToeplitz"),
        ("known horizon", "SmoothBinary"),
    ):
        axes.plot(T, np.array(column(claim.rows, name)) / np.log2(T) ** 2, **curve(look), label=name)
    axes.set(xscale="log", xlabel="steps t", ylabel="largest V up to t / log2(t)²", ylim=(0, None))
    axes.grid(alpha=0.3)
    axes.legend()
    return figure


UNBOUNDED = ClaimMaker("unbounded", "Section 1, streams without a bound", _unbounded, _draw)
