"""Text in pieces of whole records, with their line numbers: files, gzip and pipes alike, in bounded memory."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import itertools
import os
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, BinaryIO

import numpy as np

from dpstream.errors import SourceDamaged
from dpstream.events.encodings import as_utf8, not_utf8
from dpstream.events.file_options import separator_in, separator_in_words

__all__ = ["Chunk", "chunks"]

#: Enough to keep all cores of a parser busy, little enough to hold several.
CHUNK_BYTES = 1 << 24
#: A separator is recognised by so many bytes at most.
LOOKED_AT = 1 << 16
#: A record longer than this is no record: a quote was opened and never closed.
LONGEST_RECORD = 1 << 28
#: A quoted cell of more lines than this is taken for a stray quote, which makes one cell of all rows up to the next.
MOST_CELL_LINES = 20
#: Bytes that are counted at a time stay in cache.
COUNTED_BYTES = 1 << 18
_GZIP = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NUL = "a NUL byte: this is not text, or it is UTF-16, which encoding='utf-16' reads"
_NO_END = "a quote that is opened here never ends"


@dataclass(frozen=True)
class Chunk:
    """Whole records of one source.

    Attributes
    ----------
    header
        The first record of the source, if it names the columns.
    text
        The header once more, and the records after it: what a parser needs, in one piece.
    first_line
        The number of the line where the records begin.
    separator
        What stands between the fields of a record.
    """

    source: str
    header: bytes
    text: bytes
    first_line: int
    separator: str = ","

    @property
    def data(self) -> bytes:
        """The records without the header."""
        return self.text[len(self.header) :]

    @cached_property
    def lines(self) -> int:
        """How many lines the records have."""
        return _count(self.text, b"\n") - self.header.count(b"\n")

    def line(self, row: int) -> int:
        """The number of the line where a row of the data ends; a row may go over several."""
        if not self.header:
            filled = (number for number, line in enumerate(self.data.split(b"\n"), self.first_line) if line.strip())
            return next(itertools.islice(filled, row, None), self.first_line)
        records = self._records(self.data.decode("utf-8", "replace"))
        with contextlib.suppress(csv.Error), _fields_of_any_length():  # damaged: as far as it got
            for _ in range(row + 1):
                next(records, None)
        return self.first_line + int(records.line_num) - 1

    def where(self, row: int) -> str:
        """The place of a row, in words."""
        return f"{self.source}, line {self.line(row)}"

    def damage(self, *, empty_lines: bool = True) -> SourceDamaged | None:
        """Why this cannot be parsed, if that can be found out.

        Parameters
        ----------
        empty_lines
            Whether an empty line is a record whose cells are empty: of use only if somebody looks at a cell.
        """
        text = self.text
        before = self.first_line - self.header.count(b"\n")
        try:
            decoded = text.decode("utf-8")
        except UnicodeDecodeError as error:
            line = before + text.count(b"\n", 0, error.start)
            return self._damaged(line, not_utf8(text, error.start))
        if b"\0" in text:
            return self._damaged(before + text.count(b"\n", 0, text.find(b"\0")), _NUL)
        if not self.header:
            return None
        if b"\r" in self.header.rstrip(b"\r\n") and b'"' not in self.header:
            return self._damaged(before, "lines end in a carriage return alone; convert it first")
        return self._ragged(decoded, before, empty_lines)

    def uneven(self, width: int) -> bool:
        """Whether records may differ from the header in their number of fields: a look at the bytes, no parsing."""
        separator = self.separator.encode()
        if b'"' in self.text or _count(self.text, separator) != (self.lines + 1) * (width - 1):
            return True
        return width == 1 and (b"\n\n" in self.text or b"\n\r\n" in self.text)

    @cached_property
    def longest_cell(self) -> tuple[int, int]:
        """How many lines the longest quoted cell has, and the number of the line where it begins; 1 if none."""
        if not self.header or b'"' not in self.text:
            return 1, self.first_line
        whole = np.frombuffer(self.text, dtype=np.uint8)
        quotes, breaks = (np.flatnonzero(whole == ord(mark)) for mark in '"\n')
        # A line break is inside quotes if and only if there is an odd number of them before.
        inside = np.flatnonzero(np.searchsorted(quotes, breaks) % 2)
        if not inside.size:
            return 1, self.first_line
        begins = np.flatnonzero(np.diff(inside, prepend=-2) > 1)  # of runs of such line breaks
        lengths = np.diff(begins, append=inside.size)
        longest = int(lengths.argmax())
        line = self.first_line - self.header.count(b"\n") + int(inside[begins[longest]])
        return int(lengths[longest]) + 1, line

    def stray_quote(self) -> SourceDamaged | None:
        """Why a quoted cell is too long to be one, if there is such a cell: its rows would vanish without a word."""
        lines, line = self.longest_cell
        if lines <= MOST_CELL_LINES:
            return None
        return self._damaged(
            line,
            f"a quoted cell begins here and has {lines:,} lines, but a cell has at most {MOST_CELL_LINES}: a stray"
            " quote takes the rows after it into one cell. Close the quote, or write it twice",
        )

    def _ragged(self, text: str, before: int, empty_lines: bool) -> SourceDamaged | None:
        records = self._records(text)
        try:
            with _fields_of_any_length():
                width = len(next(records))
                for record in records:
                    if len(record) != width and (record or not empty_lines):
                        what = f"{len(record)} fields, but the header names {width}" if record else "an empty line"
                        return self._damaged(before + records.line_num - 1, what)
        except csv.Error as error:
            return self._damaged(before + records.line_num - 1, f"not a CSV record ({error})")
        return None

    def repeated_names(self) -> list[str]:
        """The columns that the header names more than once."""
        try:
            found = Counter(next(self._records(self.header.decode("utf-8", "replace")), []))
        except csv.Error as error:
            raise self._damaged(1, f"not a CSV record: {error}") from None
        return [name for name, times in found.items() if times > 1]

    def _records(self, text: str) -> Any:
        return csv.reader(io.StringIO(text, newline=""), delimiter=self.separator)

    def _damaged(self, line: int, what: str) -> SourceDamaged:
        return SourceDamaged(where=f"{self.source}, line {line}", what=what)


@contextlib.contextmanager
def _fields_of_any_length() -> Iterator[None]:
    """Let Python's reader of CSV, which takes fields up to 128 KB, take what Polars takes."""
    usual = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(usual)


def chunks(
    stream: BinaryIO,
    source: str,
    *,
    header: bool,
    report: Callable[[int], object] = lambda _: None,
    separator: str | None = ",",
    codec: str | None = None,
    columns: Sequence[str] = (),
    note: Callable[[str], object] = lambda _: None,
) -> Iterator[Chunk]:
    """Cut a stream of bytes into chunks of whole records, in UTF-8.

    Parameters
    ----------
    header
        Whether the first record names the columns, and quotes may hold line breaks (CSV).
    report
        Called with the number of bytes read so far, as they are on the disk.
    separator
        What stands between the fields of a record; None: recognised by the header and the first records.
    codec
        The encoding, if it is not UTF-8; see `as_utf8`.
    columns
        The columns that are needed, by which a separator is recognised.
    note
        Called with a sentence for each thing that was recognised and is not the usual.

    Raises
    ------
    SourceDamaged
        If gzip ends early, a quote never ends, or bytes are not of the encoding.
    """
    names = b""
    rest = b""
    line = start = 1
    begun = False

    def recognised(beginning: bytes) -> str:
        mark = separator_in(beginning.decode("utf-8", "replace"), columns)
        if mark != ",":
            name = separator_in_words(mark)
            note(f"{source}: fields are separated by {name}s (delimiter={name!r}).")
        return mark

    for block in as_utf8(_blocks(stream, source, report), source, codec, note):
        data = rest + block if rest else block
        if not begun:
            begun = len(data) >= len(_BYTE_ORDER_MARK)
            data = data.removeprefix(_BYTE_ORDER_MARK)
        end = _end_of_records(data, quotes=header)
        if end == 0:
            if len(data) > LONGEST_RECORD:
                what = _NO_END if header and b'"' in data else f"a line of more than {LONGEST_RECORD >> 20} MiB"
                raise SourceDamaged(where=f"{source}, line {line}", what=what)
            rest = data
            continue
        first = 0
        if header and not names:
            while data[first] in b"\r\n":
                first += 1
            names = _first_record(data[first:end])
            line += names.count(b"\n") + data.count(b"\n", 0, first)
            start = line
            if separator is None:
                separator = recognised(data[first : min(end, first + LOOKED_AT)])
            first += len(names)
        if first < end:
            chunk = Chunk(source, names, b"".join((names, memoryview(data)[first:end])), line, separator or ",")
            yield chunk
            line += chunk.lines
        rest = data[end:]
    if not rest.strip(b"\r\n"):
        rest = b""  # empty lines at the end
    elif header and rest.count(b'"') % 2:
        raise SourceDamaged(where=f"{source}, line {line}", what=_NO_END)
    if header and rest and not names:
        names, rest = rest.lstrip(b"\r\n") + b"\n", b""
        separator = separator or recognised(names)
        line = start = line + 1
    if rest or (names and line == start):
        # A header and nothing else is still worth checking its columns.
        yield Chunk(source, names, names + (rest + b"\n" if rest else b""), line, separator or ",")


def _blocks(stream: BinaryIO, source: str, report: Callable[[int], object]) -> Iterator[bytes]:
    raw = io.BufferedReader(stream, CHUNK_BYTES) if isinstance(stream, io.RawIOBase) else stream
    beginning = raw.peek(2)[:2] if isinstance(raw, io.BufferedReader) else b""
    packed = beginning == _GZIP
    opened: Any = gzip.GzipFile(fileobj=raw) if packed else raw
    total = 0
    try:
        while block := opened.read(CHUNK_BYTES):
            total += len(block)
            yield block
            report(_position(raw, total))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise SourceDamaged(where=source, what=f"gzip ends early or is damaged ({error})") from None
    except OSError as error:
        raise SourceDamaged(where=source, what=os.strerror(error.errno) if error.errno else str(error)) from None


def _position(raw: BinaryIO, total: int) -> int:
    try:
        return raw.tell()
    except OSError:  # a pipe
        return total


def _end_of_records(data: bytes, *, quotes: bool) -> int:
    """Where the last whole record ends: after a line break that is not inside quotes. Empty lines may be the end's."""
    end = data.rfind(b"\n") + 1
    if quotes and b'"' in data:
        # Inside quotes if and only if there is an odd number of them before.
        odd = data.count(b'"', 0, end) % 2
        while end and odd:
            before = data.rfind(b"\n", 0, end - 1) + 1
            odd ^= data.count(b'"', before, end) % 2
            end = before
    filled = end
    while filled and data[filled - 1] in b"\r\n":
        filled -= 1
    return data.find(b"\n", filled) + 1 if filled else 0


def _first_record(data: bytes) -> bytes:
    end = data.find(b"\n") + 1
    while data.count(b'"', 0, end) % 2 and data.find(b"\n", end) >= 0:
        end = data.find(b"\n", end) + 1
    return data[:end]


def _count(data: bytes, byte: bytes) -> int:
    """How often a frequent byte occurs: bytes.count stops at each."""
    whole = np.frombuffer(data, dtype=np.uint8)
    pieces = (whole[first : first + COUNTED_BYTES] for first in range(0, whole.size, COUNTED_BYTES))
    return sum(int(np.count_nonzero(piece == ord(byte))) for piece in pieces)
