"""The mechanisms of the paper's Table 1, and two that are ours, in its order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpstream.charts import curve
from dpstream.mechanisms import Binary, BufferedToeplitz, Honaker, Optimal, SmoothBinary, SquareRoot
from dpstream.mechanisms.base import Mechanism
from dpstream.paper.model import Row, column

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["CONTENDERS", "Contender", "lines_by_contender", "look_of"]

#: (ln 2/π)²: what V/log2(T)² of the square root tends to, 0.0487.
SQUARE_ROOT_LIMIT = (math.log(2) / math.pi) ** 2


@dataclass(frozen=True)
class Contender:
    """One row of the table.

    Attributes
    ----------
    look
        Its entry in `dpstream.charts`.
    title
        What the report calls it.
    make
        Builds it for a horizon.
    limit
        What V/log2(T)² tends to, or None where nobody has proved one.
    published
        The paper's row: variance, time, space, matrix type; empty for ours.
    longest
        The longest horizon at which its variance is computed here.
    reason
        Why not longer.
    """

    look: str
    title: str
    make: Callable[[int], Mechanism]
    limit: float | None
    published: tuple[str, str, str, str] | tuple[()]
    longest: int = 2**50
    reason: str = ""


CONTENDERS = (
    Contender("Binary", "Binary mechanism", Binary, 1.0, ("1", "O(T)", "O(log T)", "sparse")),
    Contender("Honaker", "Honaker Online", Honaker, 27 / 64, ("0.5 + o(1)", "O(T log T)", "O(log T)", "sparse")),
    Contender(
        "Optimal",
        "Denisov et al.",
        Optimal,
        SQUARE_ROOT_LIMIT,
        ("0.0487… + o(1) *", "O(T²)", "O(T²)", "dense"),
        2**11,
        "a dense solver: time of order T³ and T² numbers; 2^12 takes minutes, and 2^13 is refused",
    ),
    Contender(
        "SquareRoot",
        "Henzinger et al.",
        SquareRoot,
        SQUARE_ROOT_LIMIT,
        ("0.0487… + o(1)", "O(T log T) **", "O(T)", "Toeplitz"),
        2**26,
        "T coefficients in memory: 2^27 of them are 1 GB, and horizons above 2^28 are refused",
    ),
    Contender(
        "SmoothBinary.paper",
        "Smooth binary (the paper's)",
        SmoothBinary.paper,
        0.25,
        ("0.25 + o(1)", "O(T)", "O(log T)", "sparse"),
    ),
    Contender("SmoothBinary", "Leaner smooth tree (ours)", SmoothBinary, None, ()),
    Contender("BufferedToeplitz", "Normalised buffered Toeplitz (ours)", BufferedToeplitz, None, ()),
)


def look_of(title: str) -> str:
    """The entry in `dpstream.charts` of the contender with this title."""
    return next(contender.look for contender in CONTENDERS if contender.title == title)


def lines_by_contender(axes: Axes, rows: Sequence[Row], x: str, y: str, *, markers: bool = True) -> None:
    """Draw column `y` over column `x`, a line for each contender in its own look."""
    for contender in CONTENDERS:
        own = [row for row in rows if row["mechanism"] == contender.title]
        axes.plot(column(own, x), column(own, y), label=contender.title, **curve(contender.look, markers=markers))
