"""The report as a list of blocks, whatever it is then written as."""

from __future__ import annotations

from dataclasses import dataclass

from dpstream.paper.model import Grid, Verdict

__all__ = ["Block", "Data", "Heading", "Judgement", "Paragraph", "Picture", "Points", "Quote", "Table"]


@dataclass(frozen=True)
class Heading:
    """A heading; `level` 1 is the report's own. `key` is what a link leads to."""

    text: str
    level: int
    key: str


@dataclass(frozen=True)
class Paragraph:
    """Running text."""

    text: str


@dataclass(frozen=True)
class Quote:
    """What the paper says."""

    text: str


@dataclass(frozen=True)
class Points:
    """Sentences that stand each for itself."""

    texts: list[str]


@dataclass(frozen=True)
class Table:
    """A table with a title."""

    title: str
    grid: Grid


@dataclass(frozen=True)
class Picture:
    """The picture of a part, by the name of its files, and what it shows."""

    key: str
    caption: str


@dataclass(frozen=True)
class Data:
    """Where the numbers behind a part are, by the name of its files."""

    key: str


@dataclass(frozen=True)
class Judgement:
    """Whether a claim holds."""

    verdict: Verdict


Block = Heading | Paragraph | Quote | Points | Table | Picture | Data | Judgement
