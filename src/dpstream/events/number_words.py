"""Numbers in sentences."""

from __future__ import annotations

__all__ = ["number"]


def number(count: int, noun: str) -> str:
    """Return a number with its noun, in the plural where that is due.

    >>> number(1, "step"), number(2000, "step")
    ('1 step', '2,000 steps')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
