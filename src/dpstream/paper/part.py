"""What the report is made of: parts that are computed, kept and drawn one by one.

A part's data is plain: rows for a CSV file, sentences with the numbers in them, and perhaps a table to print. So it can
be kept as JSON when it is finished, and drawn again later without being computed again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Cell", "Grid", "Measured", "Part", "Progress", "Row"]

Cell = str | int | float
Row = dict[str, Cell]

#: Told how much of a part is done, from 0 to 1.
Progress = Callable[[float], None]


@dataclass(frozen=True)
class Grid:
    """A table to print: headings, and lines of as many texts."""

    headings: list[str]
    lines: list[list[str]]

    def of_numbers(self, column: int) -> bool:
        """Whether a column holds numbers, which are set to the right.

        >>> grid = Grid(["name", "V", "kind"], [["a", "1.5", "sparse"], ["b", "–", "dense"]])
        >>> [grid.of_numbers(column) for column in range(3)]
        [False, True, False]
        """
        return all(line[column][:1] in "0123456789–" for line in self.lines)


@dataclass(frozen=True)
class Measured:
    """What computing a part gave.

    Attributes
    ----------
    rows
        The data behind, for the CSV file and the picture.
    findings
        What it says, in sentences.
    table
        What to print of it, if more than a picture.
    """

    rows: list[Row]
    findings: list[str]
    table: Grid | None = None


@dataclass(frozen=True)
class Part:
    """A figure or a table of the paper, measured again.

    Attributes
    ----------
    key
        The name of its files.
    title
        Its heading in the report.
    paper
        What the paper says or shows there.
    caption
        What its picture shows; also read out where the picture cannot be seen. "" if it has none.
    compute
        ``compute(quick, report)``; pure except for clocks.
    draw
        The picture of what was computed, or None.
    """

    key: str
    title: str
    paper: str
    caption: str
    compute: Callable[[bool, Progress], Measured]
    draw: Callable[[Measured], Figure] | None
