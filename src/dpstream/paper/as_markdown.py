"""The report as Markdown, with pictures beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dpstream.paper.content import VERDICTS
from dpstream.paper.document import Block, Data, Heading, Judgement, Paragraph, Picture, Points, Quote, Table

__all__ = ["as_markdown"]


def as_markdown(blocks: Sequence[Block], *, pictures: str = "", data: bool = True) -> str:
    """One page.

    Parameters
    ----------
    blocks
        The report.
    pictures
        The folder of the pictures, with a slash at its end, as seen from the page.
    data
        Whether the CSV files lie beside the page and are linked.
    """
    texts = [_block(block, pictures) for block in blocks if data or not isinstance(block, Data)]
    return "\n\n".join(texts) + "\n"


def _plain(text: str) -> str:
    """Text with everything escaped that Markdown would read as markup."""
    return re.sub(r"([\\`*_<>|\[\]])", r"\\\1", text)


def _block(block: Block, pictures: str) -> str:
    match block:
        case Heading(text, level, _):
            return "#" * level + " " + _plain(text)
        case Paragraph(text):
            return _plain(text)
        case Quote(text):
            return f"> **The paper.** {_plain(text)}"
        case Points(texts):
            return "\n".join(f"- {_plain(text)}" for text in texts)
        case Table(title, grid):
            rule = ["---:" if grid.of_numbers(column) else "---" for column in range(len(grid.headings))]
            lines = [[_plain(text) for text in line] for line in (grid.headings, *grid.lines)]
            rows = ["| " + " | ".join(line) + " |" for line in (lines[0], rule, *lines[1:])]
            return (f"**{_plain(title)}**\n\n" if title else "") + "\n".join(rows)
        case Picture(key, caption):
            return f"![{_plain(caption)}]({pictures}{key}.svg)"
        case Data(key):
            return f"Data: [{key}.csv]({key}.csv)"
        case Judgement(verdict):
            mark, words = VERDICTS[verdict]
            return f"**{mark} {words}**"
