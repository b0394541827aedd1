"""What stands in the report, and in which order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dpstream.paper import table_1
from dpstream.paper.document import Block, Data, Heading, Judgement, Paragraph, Picture, Points, Quote, Table
from dpstream.paper.model import Claim, Grid, Measured, Verdict
from dpstream.paper.parts import PARTS

__all__ = ["VERDICTS", "Outcome", "blocks"]

#: Verdict: (mark, what it says).
VERDICTS: dict[Verdict, tuple[str, str]] = {
    "agrees": ("✔", "agrees"),
    "sharpened": ("▲", "holds, and more can be said"),
    "differs": ("✘", "differs"),
}
PAPER = (
    "Joel Daniel Andersson and Rasmus Pagh, “A Smooth Binary Mechanism for Efficient Private Continual Observation”,"
    " NeurIPS 2023, arXiv:2306.09666"
)


@dataclass(frozen=True)
class Outcome:
    """All that was computed.

    Attributes
    ----------
    parts
        Figures and tables by key.
    claims
        In the paper's order.
    drawn
        The keys of everything that has a picture.
    circumstances
        Where and how it was measured, in a sentence.
    """

    parts: Mapping[str, Measured]
    claims: Sequence[Claim]
    drawn: frozenset[str]
    circumstances: str


def blocks(outcome: Outcome) -> list[Block]:
    """The whole report."""
    return [*_opening(outcome), *_table(outcome), *_figures(outcome), *_claims(outcome)]


def _opening(outcome: Outcome) -> list[Block]:
    return [
        Heading("The smooth binary mechanism, measured again", 1, "top"),
        Paragraph(
            f"Every table, figure and claim of the paper, computed with this library: {PAPER}. Its words are quoted or"
            " retold; everything else was computed by the command that made this page."
        ),
        Paragraph(outcome.circumstances),
        Heading("Summary", 2, "summary"),
        *_count(outcome.claims),
        Points(
            [
                *(f"{claim.title} differs. {claim.sharper}" for claim in outcome.claims if claim.verdict == "differs"),
                outcome.parts["figure-4b"].findings[0],
                outcome.parts["figure-5a"].findings[1],
                *outcome.parts["table-1-variance"].findings[1:3],
            ]
        ),
    ]


def _count(claims: Sequence[Claim]) -> list[Block]:
    if not claims:
        return []
    counts = Counter(claim.verdict for claim in claims)
    listed = ", ".join(f"{counts[verdict]} {mark} {words}" for verdict, (mark, words) in VERDICTS.items())
    lines = [[claim.title, " ".join(VERDICTS[claim.verdict])] for claim in claims]
    return [Paragraph(f"{len(claims)} claims: {listed}."), Table("Claims", Grid(["claim", "verdict"], lines))]


def _table(outcome: Outcome) -> list[Block]:
    return [
        Heading("Table 1: comparison of mechanisms", 2, "table-1"),
        Table("As published", table_1.PAPER),
        Paragraph(table_1.FOOTNOTE),
        Table("As measured", table_1.summary(outcome.parts)),
        *(block for part in PARTS if part.key.startswith("table") for block in _part(outcome, part.key)),
    ]


def _figures(outcome: Outcome) -> list[Block]:
    keys = [part.key for part in PARTS if part.key.startswith("figure")]
    return [Heading("Figures", 2, "figures"), *(block for key in keys for block in _part(outcome, key))]


def _part(outcome: Outcome, key: str) -> list[Block]:
    part = next(part for part in PARTS if part.key == key)
    data = outcome.parts[key]
    found: list[Block] = [Heading(part.title, 3, key), Quote(part.paper)]
    if key in outcome.drawn:
        found.append(Picture(key, part.caption))
    if data.table is not None:
        found.append(Table("", data.table))
    return [*found, Points(data.findings), Data(key)]


def _claims(outcome: Outcome) -> list[Block]:
    if not outcome.claims:
        return []
    found: list[Block] = [Heading("Claims", 2, "claims")]
    for claim in outcome.claims:
        key = f"claim-{claim.key}"
        found += [Heading(claim.title, 3, key), Judgement(claim.verdict), Quote(claim.statement)]
        found += [Paragraph(claim.computed)]
        if claim.sharper:
            found.append(Paragraph(f"More: {claim.sharper}" if claim.verdict == "sharpened" else claim.sharper))
        if key in outcome.drawn:
            found.append(Picture(key, claim.title))
        if claim.rows:
            found.append(Data(key))
    return found
