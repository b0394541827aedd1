"""Figure 3: what one step does to a label, and so how many nodes are replaced."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from dpstream.charts import new_figure
from dpstream.mechanisms import SmoothBinary
from dpstream.mechanisms.labels import lowest_run_of_ones
from dpstream.paper.model import Measured, Part, Progress, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

__all__ = ["PART", "compute", "draw"]

#: A tree of height 12, and the block of ones to look for in it: long enough to show a pattern.
HORIZON, BLOCK, ZEROS = 923, 3, 2
_FILLS = {"same": "white", "carried": "#E69F00", "ones": "#D55E00", "zeros": "#BFE0F5"}


def compute(quick: bool, report: Progress) -> Measured:
    """The bits of a label and of the next one; and whether the pattern holds at every step of the tree."""
    del quick  # it is quick enough
    mechanism = SmoothBinary.paper(HORIZON)
    height = mechanism.zeros + mechanism.ones
    labels = [mechanism.label(t) for t in range(1, HORIZON + 2)]
    t = next(
        i
        for i, label in enumerate(labels)
        if lowest_run_of_ones(label) == BLOCK and label & -label == 1 << ZEROS and label > 1 << (height - 2)
    )
    rows: list[Row] = []
    for which, label, low in (("m(t+1)", labels[t], ZEROS), ("m(t+2)", labels[t + 1], 0)):
        roles = ["carried" if bit == ZEROS + BLOCK else "same" for bit in range(height)]
        ones = range(low, low + (BLOCK if low else BLOCK - 1))
        roles[: ZEROS + BLOCK] = ["ones" if bit in ones else "zeros" for bit in range(ZEROS + BLOCK)]
        rows += [
            {"label": which, "t": t, "bit": bit, "value": label >> bit & 1, "role": roles[bit]}
            for bit in reversed(range(height))
        ]
    held = [set(mechanism.nodes(step)) for step in range(1, HORIZON + 1)]
    as_stated = sum(
        len(after - before) == len(before - after) == lowest_run_of_ones(labels[step])
        for step, (before, after) in enumerate(pairwise(held), start=1)
    )
    report(1.0)
    findings = [
        f"The step from release {t} to {t + 1} in the tree for T = {HORIZON}: {labels[t]:0{height}b} becomes"
        f" {labels[t + 1]:0{height}b}.",
        f"In {as_stated} of the {HORIZON - 1} steps of that tree as many nodes leave, and as many come, as the lowest"
        " block of ones is long, counted on the sets of nodes themselves.",
        f"Of the {BLOCK} nodes that come, {BLOCK - 1} end in trailing ones and cover no element: for Gaussian noise"
        " one draw serves them all, so that a step never takes more than two draws.",
    ]
    return Measured(rows, findings)


def draw(data: Measured) -> Figure:
    """Both labels as rows of boxes, one above the other."""
    figure = new_figure(8.0, 2.9)
    axes = figure.subplots()
    for y, which in ((1.6, "m(t+1)"), (0.0, "m(t+2)")):
        rows = [row for row in data.rows if row["label"] == which]
        axes.text(-0.3, y + 0.4, which, ha="right", va="center", fontsize="medium")
        for i, row in enumerate(rows):
            dark = row["role"] == "ones"
            axes.add_patch(_box(i, y, _FILLS[str(row["role"])]))
            ink = "white" if dark else "black"
            axes.text(i + 0.45, y + 0.4, str(row["value"]), ha="center", va="center", color=ink, family="monospace")
        ones = [i for i, row in enumerate(rows) if row["role"] == "ones"]
        _brace(axes, ones[0], ones[-1] + 0.9, y - 0.08, "n ones" if which == "m(t+1)" else "n − 1 ones")
    carried = next(i for i, row in enumerate(data.rows) if row["role"] == "carried")
    axes.annotate(
        "0 becomes 1", (carried + 0.45, 2.42), (carried + 0.45, 2.75), ha="center", fontsize="small",
        arrowprops={"arrowstyle": "-", "color": "0.4"},
    )  # fmt: skip
    axes.set(xlim=(-2.2, len(data.rows) / 2 + 0.2), ylim=(-0.75, 3.0), aspect="equal")
    axes.axis("off")
    return figure


def _box(i: float, y: float, fill: str) -> Rectangle:
    from matplotlib.patches import Rectangle

    return Rectangle((i, y), 0.9, 0.8, facecolor=fill, edgecolor="0.3")


def _brace(axes: Axes, left: float, right: float, y: float, text: str) -> None:
    axes.plot([left, left, right, right], [y, y - 0.12, y - 0.12, y], color="0.3", linewidth=1)
    axes.text((left + right) / 2, y - 0.2, text, ha="center", va="top", fontsize="small")


PART = Part(
    "figure-3",
    "Figure 3: a step of the label",
    "If the first cluster of ones in bin(m(t+1)), counted from the least significant bit, has n ones, then n nodes in"
    " total will be replaced from t to t + 1.",
    "Two labels as rows of bits. The lowest block of n ones (dark) with the zeros after it (light blue) becomes a one"
    " in the next higher place (orange), zeros, and n − 1 ones at the end; higher bits stay.",
    compute,
    draw,
)
