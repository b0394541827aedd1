"""Figure 2: the smooth binary mechanism's tree for T = 5, and how release 5 is read off it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpstream.charts import new_figure
from dpstream.mechanisms import SmoothBinary
from dpstream.paper.model import Measured, Part, Progress
from dpstream.paper.tree_picture import LEGEND, draw_tree, tree_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PART", "compute", "draw"]

#: The nodes that the paper adds up.
PUBLISHED = [(1, 8), (9, 12)]
HORIZON, RELEASE = 5, 5


def compute(quick: bool, report: Progress) -> Measured:
    """Every node of the tree, as release 5 sees it."""
    del quick  # it is quick enough
    mechanism = SmoothBinary.paper(HORIZON)
    height = mechanism.zeros + mechanism.ones
    leaves = {mechanism.label(t) + 1: t for t in range(1, HORIZON + 1)}
    read = {node for t in range(1, HORIZON + 1) for node in mechanism.nodes(t)}
    added = mechanism.nodes(RELEASE)
    following = mechanism.label(RELEASE + 1)
    rows = tree_rows(height, lambda i: f"x{leaves[i]}" if i in leaves else "0", read, added, following + 1)
    report(1.0)
    text = " + ".join(f"Σ[{first},{last}]" for first, last in added)
    empty = [node for node in read if not any(node[0] <= leaf <= node[1] for leaf in leaves)]
    findings = [
        f"M({RELEASE}) = {text}, from the label {following:0{height}b} of leaf m({RELEASE + 1}); the paper has"
        f" {'the same nodes' if added == PUBLISHED else PUBLISHED}.",
        f"{len(read)} nodes are ever read, {len(empty)} of them ("
        + ", ".join(f"[{first},{last}]" for first, last in sorted(empty))
        + ") without an element: they carry noise and no data, are read by one release each, and make all errors"
        " alike.",
    ]
    return Measured(rows, findings)


def draw(data: Measured) -> Figure:
    """The tree with its labels."""
    figure = new_figure(10.0, 4.2)
    axes = figure.subplots()
    draw_tree(axes, data.rows, labels=True)
    axes.set_title(f"T = {HORIZON}: computing M({RELEASE})", fontsize="medium")
    return figure


PART = Part(
    "figure-2",
    "Figure 2: the smooth binary mechanism's tree",
    "Computation of M(5) where T = 5: the sum of the nodes [1, 8] and [9, 12], found on the path given by the binary"
    " form of m(6), 1100. Each query adds two noisy nodes, so the error has the same distribution at every step.",
    f"A tree with sixteen leaves, of which five hold an element. {LEGEND}",
    compute,
    draw,
)
