"""A claim of the paper, held against what this library computes.

A `Claim` is a finished check: the paper's statement in other words, what was computed, and whether the two agree. A
`ClaimMaker` makes it. No verdict is written by hand: `judge` derives it from a comparison of numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Claim", "ClaimMaker", "Row", "Verdict", "column", "judge"]

Verdict = Literal["agrees", "differs", "sharpened"]
Row = dict[str, str | int | float]


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
