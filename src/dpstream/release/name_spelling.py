"""One spelling for each name: Unicode normal form NFC, and nothing else is changed."""

from __future__ import annotations

import unicodedata

from dpstream.errors import InputTypeError

__all__ = ["LONGEST_NAME", "check_name"]

#: Longer names are refused: a page title, an address or an error message fits.
LONGEST_NAME = 4096


def check_name(name: object) -> str:
    r"""Return a name in Unicode normal form NFC; refuse what is no text, empty, too long or no valid Unicode.

    "é" as one character and as an e with an accent are one name; upper and lower case, and white space, tell names
    apart.

    Examples
    --------
    >>> check_name("e\u0301") == "\u00e9"
    True
    """
    if not isinstance(name, str):
        raise InputTypeError(given=f"a name of type {type(name).__name__}", allowed="names that are text")
    if not name:
        raise InputTypeError(given="an empty name", allowed="names of at least one character")
    if len(name) > LONGEST_NAME:
        raise InputTypeError(
            given=f"a name of {len(name):,} characters that begins with {name[:20]!r}",
            allowed=f"names of at most {LONGEST_NAME:,} characters",
        )
    if name.isascii():
        return str(name)
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InputTypeError(given=f"{name[:40]!r}", allowed="names without lone surrogates") from None
    return unicodedata.normalize("NFC", name)
