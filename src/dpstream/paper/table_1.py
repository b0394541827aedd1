"""Table 1 as a whole: the paper's rows, and beside each entry what was measured."""

from __future__ import annotations

from collections.abc import Mapping

from dpstream.paper.contenders import CONTENDERS
from dpstream.paper.model import Grid, Measured

__all__ = ["FOOTNOTE", "PAPER", "summary"]

PAPER = Grid(
    ["mechanism", "Var[M(t)] · 2ρ / log2(T)²", "time to produce all T outputs", "space", "matrix type"],
    [[contender.title, *contender.published] for contender in CONTENDERS if contender.published],
)

FOOTNOTE = (
    "* no explicit bound, but the method finds an optimal factorisation. ** the matrix-vector product by FFT. In the"
    " paper the last row is called “Our mechanism”."
)


def summary(parts: Mapping[str, Measured]) -> Grid:
    """One line for each contender, from the tables of the four parts."""
    lines = []
    for contender in CONTENDERS:
        variance, time, memory, matrices = (
            _line(parts[f"table-1-{column}"], contender.title) for column in ("variance", "time", "memory", "matrices")
        )
        longest = [row for row in parts["table-1-variance"].rows if row["mechanism"] == contender.title][-1]
        kinds = {matrices["L"], matrices["R"]}
        lines.append(
            [
                contender.title,
                f"{longest['V_over_log2T2']:.4f} at T = 2^{longest['log2_T']}",
                variance["limit, measured"],
                f"T^{time['exponent, measured']}",
                f"{memory['vectors at longest']} at T = {memory['longest T']}",
                f"T^{memory['exponent at the end']}",
                kinds.pop() if len(kinds) == 1 else f"L {matrices['L']}, R {matrices['R']}",
            ]
        )
    headings = ["mechanism", "V / log2(T)²", "its limit", "time", "vectors held", "growth of that", "matrix type"]
    return Grid(headings, lines)


def _line(part: Measured, title: str) -> dict[str, str]:
    table = part.table
    if table is None:
        raise ValueError("a part of Table 1 has a table")
    line = next(line for line in table.lines if line[0] == title)
    return dict(zip(table.headings, line, strict=True))
