"""A tree of partial sums as rows and as a picture: which node covers which leaves, which are read, which are added."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dpstream.paper.model import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["LEGEND", "draw_tree", "tree_rows"]

#: How a node looks by its role: fill, edge, text.
_LOOKS = {
    "added": ("#D55E00", "#7a3500", "white"),
    "path": ("#BFE0F5", "#0072B2", "black"),
    "": ("white", "0.35", "black"),
}
#: What the looks mean, for a caption.
LEGEND = (
    "Dark nodes are added up, light blue ones are the path to the leaf of the next element, and dashed ones are never"
    " read by any release."
)


def tree_rows(
    height: int,
    leaf: Callable[[int], str],
    read: set[tuple[int, int]],
    added: Sequence[tuple[int, int]],
    path_to: int | None,
) -> list[Row]:
    """One row for each node of a full binary tree.

    Parameters
    ----------
    height
        There are 2^height leaves, numbered from 1.
    leaf
        What a leaf holds.
    read
        The (first, last) leaves of every node that some release reads.
    added
        The same of the nodes that this release adds up.
    path_to
        The leaf that the path leads to, or None for no path.
    """
    rows: list[Row] = []
    for level in range(height + 1):
        size = 2 ** (height - level)
        for first in range(1, 2**height + 1, size):
            last = first + size - 1
            role = "path" if path_to is not None and first <= path_to <= last else ""
            role = "added" if (first, last) in added else role
            rows.append(
                {
                    "level": level,
                    "first": first,
                    "last": last,
                    "holds": leaf(first) if size == 1 else f"Σ[{first},{last}]",
                    "role": role,
                    "read": "yes" if (first, last) in read else "no",
                    "label": format(first - 1, f"0{height}b") if size == 1 else "",
                }
            )
    return rows


def draw_tree(axes: Axes, rows: list[Row], *, labels: bool, size: float = 8.0) -> None:
    """Draw the nodes where they stand above their leaves; with `labels`, the leaves' labels below them."""
    height = max(int(row["level"]) for row in rows)

    def place(row: Row) -> tuple[float, float]:
        return (float(row["first"]) + float(row["last"])) / 2, -float(row["level"])

    at = {(row["level"], row["first"]): place(row) for row in rows}
    for row in rows:
        x, y = place(row)
        if row["level"]:
            wide = 2 ** (height - int(row["level"]) + 1)
            above = at[int(row["level"]) - 1, (int(row["first"]) - 1) // wide * wide + 1]
            axes.plot([x, above[0]], [y, above[1]], color="0.6", linewidth=1, zorder=1)
        fill, edge, ink = _LOOKS[str(row["role"])]
        box = {
            "boxstyle": "round,pad=0.35",
            "facecolor": fill,
            "edgecolor": edge,
            "linestyle": "-" if row["read"] == "yes" else "--",
            "linewidth": 1.2 if row["read"] == "yes" or row["role"] else 0.7,
        }
        axes.text(x, y, str(row["holds"]), ha="center", va="center", fontsize=size, color=ink, bbox=box, zorder=2)
        if labels and row["label"]:
            weight = "bold" if row["role"] == "path" else "normal"
            below = axes.text(x, y - 0.35, str(row["label"]), ha="center", va="top", rotation=90, fontsize=size - 1)
            below.set(family="monospace", weight=weight)
    axes.set(xlim=(0.4, 2**height + 0.6), ylim=(-height - 0.95, 0.4))
    axes.axis("off")
