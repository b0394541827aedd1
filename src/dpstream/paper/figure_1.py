"""Figure 1: the binary mechanism's tree for T = 7, and how release 6 is read off it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpstream.charts import new_figure
from dpstream.mechanisms import Binary
from dpstream.paper.model import Measured, Part, Progress, Row
from dpstream.paper.tree_picture import LEGEND, draw_tree, tree_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PART", "compute", "draw", "nodes"]

#: The nodes that the paper adds up.
PUBLISHED = [(1, 4), (5, 6)]
HORIZON, RELEASE = 7, 6


def nodes(mechanism: Binary, t: int) -> list[tuple[int, int]]:
    """The (first, last) elements of the nodes that release t adds up, from the mechanism's own stack.

    >>> nodes(Binary(7), 6)
    [(1, 4), (5, 6)]
    """
    ends = [entry.step for entry in mechanism.entries(t)]
    return [(before + 1, end) for before, end in zip([0, *ends], ends, strict=False)]


def compute(quick: bool, report: Progress) -> Measured:
    """Every node of the tree, twice: as it is, and as release 6 sees it."""
    del quick  # it is quick enough
    mechanism = Binary(HORIZON)
    read = {node for t in range(1, HORIZON + 1) for node in nodes(mechanism, t)}
    added = nodes(mechanism, RELEASE)

    def leaf(i: int) -> str:
        return f"x{i}" if i <= HORIZON else "0"

    height = HORIZON.bit_length()
    rows: list[Row] = []
    for pane, chosen, path_to in (("a", [], None), ("b", added, RELEASE + 1)):
        rows += [row | {"pane": pane} for row in tree_rows(height, leaf, read, chosen, path_to)]
    report(1.0)
    text = " + ".join(f"Σ[{first},{last}]" for first, last in added)
    findings = [
        f"M({RELEASE}) = {text}, from the binary form {RELEASE:0{height}b} of {RELEASE};"
        f" the paper has {'the same nodes' if added == PUBLISHED else PUBLISHED}.",
        f"{len(read)} of the {len(rows) // 2} nodes are ever read: the left children, as many as there are releases.",
    ]
    return Measured(rows, findings)


def draw(data: Measured) -> Figure:
    """The two trees side by side."""
    figure = new_figure(9.0, 3.6)
    for pane, axes, title in zip(
        "ab", figure.subplots(1, 2), (f"(a) T = {HORIZON}", f"(b) computing M({RELEASE})"), strict=True
    ):
        draw_tree(axes, [row for row in data.rows if row["pane"] == pane], labels=pane == "b")
        axes.set_title(title, fontsize="medium")
    return figure


PART = Part(
    "figure-1",
    "Figure 1: the binary mechanism's tree",
    "Binary trees for a sequence of length T = 7: M(6) is the sum of the nodes [1, 4] and [5, 6], found on the path"
    " given by the binary form of 6.",
    f"Two trees with eight leaves. {LEGEND}",
    compute,
    draw,
)
