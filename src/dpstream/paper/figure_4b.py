"""Figure 4b: the largest variance against the horizon, up to ten million releases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpstream.charts import legend_below, new_figure
from dpstream.paper.contenders import CONTENDERS, lines_by_contender
from dpstream.paper.model import Grid, Measured, Part, Progress, Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["LAST", "PART", "compute", "draw", "horizons"]

LAST = 10**7
#: What the paper states for the last horizon.
FACTOR = 3.27


def horizons(quick: bool) -> list[int]:
    """Horizons from 10 to ten million, evenly spread on a logarithmic scale.

    >>> horizons(True)[:3], horizons(True)[-1]
    ([10, 100, 1000], 10000000)
    """
    return sorted({round(T) for T in np.geomspace(10, LAST, 7 if quick else 97)})


def compute(quick: bool, report: Progress) -> Measured:
    """Max V of every contender at every horizon that it reaches."""
    chosen = horizons(quick)
    reach = {"Optimal": 100 if quick else 1024}
    rows: list[Row] = []
    for i, T in enumerate(chosen):
        for contender in CONTENDERS:
            if reach.get(contender.look, contender.longest) >= T:
                rows.append({"mechanism": contender.title, "T": T, "V": contender.make(T).max_variance()})
        report((i + 1) / len(chosen))
    last = {str(row["mechanism"]): float(row["V"]) for row in rows if row["T"] == LAST}
    binary, smooth = last["Binary mechanism"], last["Smooth binary (the paper's)"]
    factor = round(binary / smooth, 2)
    findings = [
        f"At T = 10^7 the binary mechanism has V = {binary:.0f} and the smooth binary mechanism {smooth:.0f}: a factor"
        f" of {factor:.2f}. The paper states {FACTOR}: {'the same' if factor == FACTOR else 'not the same'}.",
        f"The leaner smooth tree has {last['Leaner smooth tree (ours)']:.1f}, a factor of"
        f" {binary / last['Leaner smooth tree (ours)']:.2f} below the binary mechanism; Henzinger et al."
        f" {last['Henzinger et al.']:.1f}, normalised buffered Toeplitz"
        f" {last['Normalised buffered Toeplitz (ours)']:.1f} with {_buffers()} vectors of memory.",
    ]
    lines = [[title, f"{V:.2f}", f"{binary / V:.2f}"] for title, V in last.items()]
    return Measured(rows, findings, Grid(["mechanism", "V at T = 10^7", "times below binary"], lines))


def _buffers() -> int:
    return next(contender for contender in CONTENDERS if contender.look == "BufferedToeplitz").make(LAST).memory


def draw(data: Measured) -> Figure:
    """Max V over T, linear upwards as in the paper."""
    figure = new_figure(7.0, 4.8)
    axes = figure.subplots()
    lines_by_contender(axes, data.rows, "T", "V", markers=False)
    axes.set_xscale("log")
    axes.set(xlabel="horizon T (releases)", ylabel="largest V = 2ρ · variance", xlim=(10, LAST), ylim=(0, None))
    legend_below(figure)
    return figure


PART = Part(
    "figure-4b",
    "Figure 4b: largest variance against the horizon",
    "The maximum variance that each mechanism would attain for a given upper bound on time. At the last time step the"
    " smooth binary mechanism reduces the variance by a factor of 3.27 versus the binary mechanism.",
    "Largest normalised variance against the horizon, from ten to ten million releases. The binary mechanism rises"
    " fastest, then Honaker Online, the paper's tree and the leaner tree; the Toeplitz mechanisms stay lowest.",
    compute,
    draw,
)
