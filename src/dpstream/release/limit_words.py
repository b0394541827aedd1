"""Says how many rows, or names, of one person count, and what follows for the figures: one sentence for every text."""

from __future__ import annotations

__all__ = ["names_limit_in_words", "row_limit_in_words"]

#: People who come again use up their limit early, so the counted rows show a decline that all rows do not have.
_FALLS_BEHIND = "so figures fall behind as people use up their limit."


def row_limit_in_words(rows: int) -> str:
    """Return the sentence on a limit of rows that holds for the whole stream.

    >>> row_limit_in_words(1)
    'At most 1 row of each person in the whole stream is counted, so figures fall behind as people use up their limit.'
    """
    return f"At most {_counted(rows, 'row')} counted, {_FALLS_BEHIND}"


def names_limit_in_words(names: int, rows: int) -> str:
    """Return the sentence on a limit of names, and of rows of each name, that holds for the whole stream."""
    each = f"{rows:,} {'row' if rows == 1 else 'rows'}"
    return f"At most {_counted(names, 'name')} counted, and at most {each} of each, {_FALLS_BEHIND}"


def _counted(count: int, noun: str) -> str:
    of = "of each person in the whole stream"
    return f"1 {noun} {of} is" if count == 1 else f"{count:,} {noun}s {of} are"
