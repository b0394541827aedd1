"""What the report is made of: parts (tables and figures) and claims, how each is computed, and what it then holds.

A `Part` or a `ClaimMaker` says how; a `Measured` or a `Claim` is the outcome. No verdict on a claim is written by hand:
`judge` derives it from a comparison of numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "Cell",
    "Claim",
    "ClaimMaker",
    "Grid",
    "Measured",
    "Part",
    "Progress",
    "Row",
    "Verdict",
    "column",
    "judge",
]

Cell = str | int | float
Row = dict[str, Cell]
Verdict = Literal["agrees", "differs", "sharpened"]

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


@dataclass(frozen=True)
class Claim:
    """A statement of the paper and what the code makes of it.

    Attributes
    ----------
    key, title
        Its name for machines ("theorem-1.1") and for readers ("Theorem 1.1").
    statement
        The paper's statement in other words.
    computed
        What was computed, with the numbers.
    verdict
        "agrees"; "sharpened": it holds, and more than it says does; "differs": it does not hold as it stands.
    sharper
        Where more can be said, or what is true instead, with the numbers; empty if nothing.
    rows
        The data behind it, all with the same columns.
    """

    key: str
    title: str
    statement: str
    computed: str
    verdict: Verdict
    sharper: str
    rows: list[Row]


@dataclass(frozen=True)
class ClaimMaker:
    """How a claim is computed (the argument: only what is quick), and drawn, from its rows alone."""

    key: str
    title: str
    compute: Callable[[bool], Claim]
    draw: Callable[[Claim], Figure] | None = None


def judge(holds: bool, sharper: str = "") -> Verdict:
    """Return the verdict on a statement that holds or does not, and of which more (`sharper`) may be known.

    >>> judge(True), judge(True, "half of it is enough"), judge(False, "twice as much is needed")
    ('agrees', 'sharpened', 'differs')
    """
    if not holds:
        return "differs"
    return "sharpened" if sharper else "agrees"


def column(rows: Iterable[Row], name: str) -> list[float]:
    """Return one column of numbers.

    >>> column([{"T": 5, "V": 4.0}, {"T": 19, "V": 9.0}], "V")
    [4.0, 9.0]
    """
    return [float(row[name]) for row in rows]
