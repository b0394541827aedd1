"""Figure 4a: the variance of every release for T = 250."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpstream.charts import curve, legend_below, new_figure
from dpstream.paper.contenders import CONTENDERS
from dpstream.paper.model import Grid, Measured, Part, Progress, Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PART", "compute", "draw"]

HORIZON = 250
#: Those of the paper's figure, then what else there is.
PAPER = ("Binary", "SquareRoot", "SmoothBinary.paper")


def compute(quick: bool, report: Progress) -> Measured:
    """V_t of every contender at every t."""
    del quick  # it is quick enough
    rows: list[Row] = []
    lines = []
    for i, contender in enumerate(CONTENDERS):
        variances = contender.make(HORIZON).variance()
        rows += [{"mechanism": contender.title, "t": t, "V": float(v)} for t, v in enumerate(variances, start=1)]
        numbers = (variances.min(), variances.mean(), variances.max())
        lines.append([contender.title, *(f"{number:.2f}" for number in numbers)])
        report((i + 1) / len(CONTENDERS))
    smooth = _of(rows, "Smooth binary (the paper's)")
    lean = _of(rows, "Leaner smooth tree (ours)")
    findings = [
        f"The smooth binary mechanism has V = {smooth.max():.2f} at every release (its largest and smallest differ by"
        f" {smooth.max() - smooth.min():.1g}); the binary mechanism moves between"
        f" {_of(rows, 'Binary mechanism').min():.0f} and {_of(rows, 'Binary mechanism').max():.0f}.",
        f"With the sensitivity of its releases a smooth tree has {lean.max():.2f} at every release:"
        f" {lean.max() / smooth.max():.2f} of the paper's.",
    ]
    return Measured(rows, findings, Grid(["mechanism", "least V", "mean V", "largest V"], lines))


def _of(rows: list[Row], title: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([float(row["V"]) for row in rows if row["mechanism"] == title])


def draw(data: Measured) -> Figure:
    """V_t over t; the paper's three curves heavier than the others."""
    figure = new_figure(7.0, 4.8)
    axes = figure.subplots()
    for contender in CONTENDERS:
        if contender.look == "Honaker":  # jumps as the binary mechanism does, at half its height, and would hide others
            continue
        values = _of(data.rows, contender.title)
        look = curve(contender.look) | {"linewidth": 1.8 if contender.look in PAPER else 1.1}
        if contender.look == "Binary":
            look |= {"linestyle": "-", "linewidth": 0.9}
        axes.plot(range(1, HORIZON + 1), values, label=contender.title, **look)
    axes.set(xlabel="release t", ylabel="V = 2ρ · variance of release t", xlim=(0, HORIZON), ylim=(0, None))
    legend_below(figure)
    return figure


PART = Part(
    "figure-4a",
    "Figure 4a: variance over time",
    "Var[M(t)] for 1 ≤ t ≤ T for T = 250. The volatility of the error in the regular binary mechanism is contrasted by"
    " the stable noise distribution of the smooth binary mechanism; Henzinger et al. is superior, as expected.",
    "Normalised variance of each release for a horizon of 250. The binary mechanism jumps at every step, both smooth"
    " trees are level lines, the Toeplitz mechanisms rise slowly and stay lowest. (Honaker Online, which jumps too, is"
    " in the table only.)",
    compute,
    draw,
)
