"""Table 1, its space column: the numbers that a live stream holds between two releases, and how they grow."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dpstream.charts import legend_below, new_figure
from dpstream.paper.contenders import CONTENDERS, lines_by_contender
from dpstream.paper.measuring import exponent, most_held, two_digits
from dpstream.paper.model import Grid, Measured, Part, Progress, Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PART", "compute", "draw"]


def compute(quick: bool, report: Progress) -> Measured:
    """The most that is held, for each contender and horizon."""
    lasts = {"Optimal": 7 if quick else 11, "SquareRoot": 10 if quick else 13}
    rows: list[Row] = []
    lines = []
    for i, contender in enumerate(CONTENDERS):
        last = lasts.get(contender.look, 10 if quick else 15)
        exponents = [*range(6, last + 1)]
        totals, held = [], []
        for done, e in enumerate(exponents):
            mechanism = contender.make(2**e)
            found = most_held(mechanism, 2**e)
            rows.append(
                {
                    "mechanism": contender.title,
                    "T": 2**e,
                    "vectors": found.vectors,
                    "constants": found.constants,
                    "stated_vectors": mechanism.memory,
                }
            )
            held.append(found)
            totals.append(found.vectors)
            report((i + (done + 1) / len(exponents)) / len(CONTENDERS))
        horizons = [2.0**e for e in exponents]
        lines.append(
            [
                contender.title,
                contender.published[2] if contender.published else "–",
                f"{held[0].vectors:.0f}",
                f"{held[-1].vectors:.0f}",
                f"2^{last}",
                two_digits(exponent(horizons[-4:], totals[-4:])),
                f"{totals[-1] / last:.2f}",
                f"{held[-1].constants:,}",
            ]
        )
    findings = [
        "Counted in the memory of running streams, after every release: arrays the size of a release (vectors), and all"
        " other numbers (constants), which do not grow with the size of a release.",
        "Denisov et al.: every draw is kept, T vectors, and the factors, of order T² numbers; the paper's O(T²) is the"
        " latter. Henzinger et al.: past draws are not kept but made again from the key, and the sums kept for coming"
        " releases take half the horizon at most; the T coefficients, shared by all streams, are not counted.",
        "The exponent is the slope of log vectors over log T for the four longest horizons. A logarithm shows as one"
        " near 0.1, and as a level number of vectors for each log2 T.",
    ]
    headings = [
        "mechanism",
        "paper",
        "vectors at 2^6",
        "vectors at longest",
        "longest T",
        "exponent at the end",
        "vectors / log2 T",
        "constants",
    ]
    return Measured(rows, findings, Grid(headings, lines))


def draw(data: Measured) -> Figure:
    """Vectors held over T."""
    figure = new_figure(7.0, 4.6)
    axes = figure.subplots()
    lines_by_contender(axes, data.rows, "T", "vectors")
    horizons = [float(row["T"]) for row in data.rows]
    scale = [min(horizons), max(horizons)]
    axes.plot(scale, [math.log2(T) for T in scale], color="0.6", linewidth=0.8, zorder=0, label="log2 T")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set(xlabel="horizon T (releases)", ylabel="vectors held between two releases")
    legend_below(figure)
    return figure


PART = Part(
    "table-1-memory",
    "Table 1: space",
    "Space: O(log T) for the binary mechanism, Honaker Online and the smooth binary mechanism, O(T) for Henzinger et"
    " al., O(T²) for Denisov et al.",
    "Vectors that a running stream holds between two releases, against the horizon.",
    compute,
    draw,
)
