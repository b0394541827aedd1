"""person_id: one spelling for each person, whatever kind of column their id came from."""

from __future__ import annotations

import math
import re
import unicodedata

from dpstream.errors import InvalidArgument

__all__ = ["WHITE_SPACE", "person_id"]

#: What is taken off the ends of an id: the characters for which str.isspace is true. Spelled out, since other
#: libraries that must agree count a few characters less.
WHITE_SPACE = (
    "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)


#: A whole number with a fraction of zeros, as spreadsheets write a column of numbers that has gaps.
_WHOLE_WITH_FRACTION = re.compile(r"(-?[0-9]+)\.0+")


def person_id(person: object, *, fold_case: bool = False) -> str:
    """Return the id under which a person is counted.

    Ids that mean the same person are the same text: whole floats are whole numbers (7, 7.0, "7" and "7.0"), bytes are
    UTF-8 text, white space at the ends is no part of an id, and Unicode is brought into its normal form NFC.

    Parameters
    ----------
    person
        Text, bytes, a number or a bool.
    fold_case
        Whether "Ann" and "ann" are one person. By default they are two.

    Raises
    ------
    InvalidArgument
        If it is none of these, not finite, or empty.

    Examples
    --------
    >>> [person_id(person) for person in (7, 7.0, " 7.00 ", b"7", "Ann ", True)]
    ['7', '7', '7', '7', 'Ann', 'true']
    >>> person_id("Ann", fold_case=True)
    'ann'
    """
    if type(person) is str and person.isascii() and person.isalnum() and not fold_case:
        return person  # nothing below would change it; a million ids take a third of the time
    if type(person) is int:
        return str(person)  # likewise
    if isinstance(person, bool):
        text = str(person).lower()
    elif isinstance(person, int):
        text = str(person)
    elif isinstance(person, float):
        if not math.isfinite(person):
            raise InvalidArgument("person", person, "a finite number, text or bytes")
        text = str(int(person)) if person == math.floor(person) else repr(person)
    elif isinstance(person, (bytes, bytearray, memoryview)):
        text = _decoded(bytes(person))
    elif isinstance(person, str):
        text = person
    elif hasattr(person, "item") and getattr(person, "ndim", None) == 0:  # a NumPy scalar
        return person_id(person.item(), fold_case=fold_case)
    else:
        raise InvalidArgument("person", type(person).__name__, "text, bytes or a number")
    text = unicodedata.normalize("NFC", text).strip(WHITE_SPACE)
    if not text:
        raise InvalidArgument("person", person, "an id that is not empty")
    whole = _WHOLE_WITH_FRACTION.fullmatch(text)
    if whole:
        text = str(int(whole[1])) if len(whole[1]) < 100 else whole[1]
    # Folding may undo the normal form.
    return unicodedata.normalize("NFC", text.casefold()) if fold_case else text


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return f"0x{data.hex()}"
