"""Bytes of any encoding as UTF-8, block by block, and what to type where bytes are not what they are taken for."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator

from dpstream.errors import SourceDamaged

__all__ = ["as_utf8", "not_utf8"]

_BYTE_ORDER_MARKS = {codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32"} | dict.fromkeys(
    (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE), "utf-16"
)
#: Bytes that make up a word in ASCII and in the encodings of Western Europe.
_WORD = re.compile(rb"[0-9A-Za-z\x80-\xff]+")


def as_utf8(blocks: Iterator[bytes], source: str, codec: str | None, note: Callable[[str], object]) -> Iterator[bytes]:
    """Pass UTF-8 on as it is, and convert other encodings to it.

    Parameters
    ----------
    codec
        The encoding's name in Python; None: UTF-8, or what a byte order mark at the beginning says.
    note
        Called with a sentence if an encoding was recognised.

    Raises
    ------
    SourceDamaged
        If the bytes are not of this encoding: with the line.
    """
    first = next(blocks, b"")
    if codec is None:
        codec = next((name for mark, name in _BYTE_ORDER_MARKS.items() if first.startswith(mark)), None)
        if codec is not None:
            note(f"{source} is read as {codec.upper()}, as its first bytes say (encoding={codec!r}).")
    if codec is None:
        if first:
            yield first
        yield from blocks
        return
    decoder = codecs.getincrementaldecoder(codec)()
    line = 1
    for block, last in _with_last(first, blocks):
        try:
            text = decoder.decode(block, final=last)
        except UnicodeDecodeError as error:
            line += error.object[: error.start].decode(codec, "replace").count("\n")
            raise SourceDamaged(where=f"{source}, line {line}", what=_not_of(codec, error)) from None
        except UnicodeError as error:  # some of Python's rarer codecs say no more
            raise SourceDamaged(where=f"{source}, from line {line}", what=f"not {codec} ({error})") from None
        line += text.count("\n")
        if text:
            yield text.encode("utf-8", "surrogatepass")


def _with_last(first: bytes, blocks: Iterator[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Each block, and at the end an empty one that is said to be the last."""
    yield first, False
    for block in blocks:
        yield block, False
    yield b"", True


def _not_of(codec: str, error: UnicodeDecodeError) -> str:
    byte = f"byte {error.object[error.start]:#04x}" if error.start < len(error.object) else "an early end"
    other = "latin-1" if codec == "cp1252" else "utf-8"
    return f"not {codec}: {byte}; encoding={other!r} may be right"


def not_utf8(text: bytes, start: int) -> str:
    """Say which byte is not UTF-8, how it would read in Western Europe, and what to type then."""
    word = next((found[0] for found in _WORD.finditer(text, max(start - 40, 0)) if found.end() > start), b"")
    reading = word.decode("cp1252", "replace")
    shown = f" ({reading!r} in a file from Windows)" if "\ufffd" not in reading and len(reading) <= 40 else ""
    return f"not UTF-8: byte {text[start]:#04x}{shown}; encoding='cp1252' reads files of Windows and Western Europe"
