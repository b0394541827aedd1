"""Table 1, its variance column: V/log2(T)² as the horizon grows, and the limit it tends to."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpstream.charts import curve, legend_below, new_figure
from dpstream.paper.contenders import CONTENDERS, look_of
from dpstream.paper.model import Grid, Measured, Part, Progress, Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PART", "compute", "draw", "limit_from_slope"]

#: The logarithms of the horizons that are printed, and those of a quick run.
PRINTED = (10, 15, 20, 25, 30)
QUICK = (6, 10, 16, 20, 30)
#: A quick run stops earlier where one horizon takes seconds.
QUICK_LONGEST = {"Optimal": 2**6, "SquareRoot": 2**20}
#: The slope is taken from here on; trees grow in steps, and a few short ones would tilt it.
LONG = 16


def limit_from_slope(exponents: list[int], variances: list[float]) -> float:
    """The c of V ≈ c (log2 T + a)², whatever a: the squared slope of √V over log2 T.

    V/log2(T)² itself comes down to c only like a/log2 T, too slowly to be seen at any horizon in use.

    >>> round(limit_from_slope([10, 20, 30], [0.25 * (e + 3) ** 2 for e in (10, 20, 30)]), 6)
    0.25
    """
    return float(np.polyfit(exponents, np.sqrt(variances), 1)[0]) ** 2


def compute(quick: bool, report: Progress) -> Measured:
    """V of every contender at T = 2^10 .. 2^30, as far as it can be computed."""
    printed = QUICK if quick else PRINTED
    exponents = QUICK if quick else range(10, 31)
    rows: list[Row] = []
    lines, missing = [], []
    for i, contender in enumerate(CONTENDERS):
        longest = QUICK_LONGEST.get(contender.look, contender.longest) if quick else contender.longest
        found: dict[int, float] = {}
        for done, e in enumerate(exponents):
            if 2**e <= longest:
                found[e] = contender.make(2**e).max_variance()
                rows.append(
                    {
                        "mechanism": contender.title,
                        "log2_T": e,
                        "T": 2**e,
                        "V": found[e],
                        "V_over_log2T2": found[e] / e**2,
                    }
                )
            report((i + (done + 1) / len(exponents)) / len(CONTENDERS))
        long = [e for e in found if e >= LONG]
        slope = f"{limit_from_slope(long, [found[e] for e in long]):.4f}" if len(long) > 1 else "–"
        limit = "not known" if contender.limit is None else f"{contender.limit:.4f}"
        texts = [f"{found[e] / e**2:.4f}" if e in found else "–" for e in printed]
        lines.append([contender.title, *texts, slope, limit])
        if contender.reason:
            reason = "a quick run goes no further" if quick else contender.reason
            missing.append(f"{contender.title} stops at T = 2^{max(found)}: {reason}.")
    findings = [
        "V is the variance of a release times 2ρ, at its largest over all releases.",
        *_honaker(rows),
        *_ours(rows),
        "The measured limit is the squared slope of √V over log2 T, from T = 2^16 on: the o(1) terms of the paper fall"
        " like 1/log T and are still large at any horizon in use.",
        *missing,
    ]
    headings = ["mechanism", *(f"T = 2^{e}" for e in printed), "limit, measured", "limit, theory"]
    return Measured(rows, findings, Grid(headings, lines))


def _of(rows: list[Row], look: str, e: int) -> float:
    return next(float(row["V"]) for row in rows if row["log2_T"] == e and look_of(str(row["mechanism"])) == look)


def _honaker(rows: list[Row]) -> list[str]:
    """Say what the sensitivity of the releases saves over that of the tree's nodes."""
    honaker = next(contender for contender in CONTENDERS if contender.look == "Honaker")
    mechanism = honaker.make(2**30)
    published = 31 * mechanism.max_variance() / mechanism.sensitivity() ** 2
    return [
        "Honaker Online has here the sensitivity of its releases, which show less than all nodes of its tree would:"
        f" at T = 2^30 that lowers V from {published:.1f} to {_of(rows, 'Honaker', 30):.1f}, and the limit from 1/2 to"
        " 27/64."
    ]


def _ours(rows: list[Row]) -> list[str]:
    paper, lean, buffered = (_of(rows, look, 30) for look in ("SmoothBinary.paper", "SmoothBinary", "BufferedToeplitz"))
    return [
        f"At T = 2^30 the paper's tree has V = {paper:.0f}, the leaner tree {lean:.1f} ({lean / paper:.2f} of it), and"
        f" the normalised buffered Toeplitz mechanism {buffered:.1f} ({buffered / paper:.2f} of it)."
    ]


def draw(data: Measured) -> Figure:
    """V/log2(T)² over T, on a logarithmic scale, with the limits of the paper."""
    figure = new_figure(7.0, 4.6)
    axes = figure.subplots()
    exponents = [int(row["log2_T"]) for row in data.rows]
    for contender in CONTENDERS:
        rows = [row for row in data.rows if row["mechanism"] == contender.title]
        axes.plot(
            [2.0 ** float(row["log2_T"]) for row in rows],
            [float(row["V_over_log2T2"]) for row in rows],
            label=contender.title,
            **curve(contender.look, markers=True),
        )
    for limit, text in ((1.0, "1"), (0.5, "1/2"), (0.25, "1/4"), ((math.log(2) / math.pi) ** 2, "0.0487")):
        axes.axhline(limit, color="0.75", linewidth=0.8, zorder=0)
        axes.text(2**31.4, limit, text, va="bottom", fontsize="small", color="0.4")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_yticks([0.05, 0.1, 0.2, 0.5, 1], ["0.05", "0.1", "0.2", "0.5", "1"])
    axes.minorticks_off()
    axes.set(
        xlabel="horizon T (releases)",
        ylabel="V / log2(T)²",
        xlim=(2 ** (min(exponents) - 0.5), 2**33),
        ylim=(0.042, 1.4),
    )
    legend_below(figure)
    return figure


PART = Part(
    "table-1-variance",
    "Table 1: variance",
    "Var[M(t)] · 2ρ / log2(T)² is 1 for the binary mechanism, 0.5 + o(1) for Honaker Online, 0.0487… + o(1) for Denisov"
    " et al. and Henzinger et al., 0.25 + o(1) for the smooth binary mechanism.",
    "V/log2(T)² against the horizon for seven mechanisms; grey lines are the limits that the paper states.",
    compute,
    draw,
)
