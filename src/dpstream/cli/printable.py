"""Text that does nothing to a terminal: names and cells come from whoever brings rows."""

from __future__ import annotations

import re

__all__ = ["printable"]

#: What a terminal acts on, or hides: control characters but for the line feed, and marks that turn the direction.
_UNPRINTABLE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    r"""Return text in which each such character is spelled out.

    >>> print(printable("a\x1b[31mb"))
    a\x1b[31mb
    """
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
