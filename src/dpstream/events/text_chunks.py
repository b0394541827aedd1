"""Text in pieces of whole records, with their line numbers: files, gzip and pipes alike, in bounded memory."""

from __future__ import annotations

import csv
import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from dpstream.errors import SourceDamaged

__all__ = ["Chunk", "chunks"]

#: Enough to keep all cores of a parser busy, little enough to hold several.
CHUNK_BYTES = 1 << 24
#: A record longer than this is no record: a quote was opened and never closed.
LONGEST_RECORD = 1 << 28
_GZIP = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Chunk:
    """Whole records of one source.

    Attributes
    ----------
    header
        The first record of the source, if it names the columns.
    first_line
        The number of the line where the data begins.
    """

    source: str
    header: bytes
    data: bytes
    first_line: int

    def line(self, row: int) -> int:
        """The number of the line where a row of the data ends; a row may go over several."""
        if not self.header:
            return self.first_line + row
        records = csv.reader(io.StringIO(self.data.decode("utf-8", "replace"), newline=""))
        for _ in range(row + 1):
            next(records, None)
        return self.first_line + records.line_num - 1

    def where(self, row: int) -> str:
        """The place of a row, in words."""
        return f"{self.source}, line {self.line(row)}"

    def damage(self) -> SourceDamaged | None:
        """Why this cannot be parsed, if that can be found out."""
        text = self.header + self.data
        before = self.first_line - self.header.count(b"\n")
        try:
            decoded = text.decode("utf-8")
        except UnicodeDecodeError as error:
            line = before + text.count(b"\n", 0, error.start)
            return SourceDamaged(
                where=f"{self.source}, line {line}", what=f"not UTF-8: byte {text[error.start]:#04x}; convert it first"
            )
        if self.header:
            return self._ragged(decoded, before)
        return None

    def _ragged(self, text: str, before: int) -> SourceDamaged | None:
        records = csv.reader(io.StringIO(text, newline=""))
        width = len(next(records))
        for record in records:
            if len(record) > width:
                return SourceDamaged(
                    where=f"{self.source}, line {before + records.line_num - 1}",
                    what=f"{len(record)} fields, but the header names {width}",
                )
        return None


def chunks(
    stream: BinaryIO,
    source: str,
    *,
    header: bool,
    report: Callable[[int], object] = lambda _: None,
    at_once: bool = False,
) -> Iterator[Chunk]:
    """Cut a stream of bytes into chunks of whole records.

    Parameters
    ----------
    header
        Whether the first record names the columns, and quotes may hold line breaks (CSV).
    report
        Called with the number of bytes read so far, as they are on the disk.
    at_once
        Give what has arrived, without waiting for more.

    Raises
    ------
    SourceDamaged
        If gzip ends early, or a quote never ends.
    """
    names = b""
    rest = b""
    line = 1
    for block in _blocks(stream, source, at_once, report):
        data = rest + block if rest else block
        end = _end_of_records(data, quotes=header)
        if end == 0:
            if len(data) > LONGEST_RECORD:
                raise SourceDamaged(where=f"{source}, line {line}", what="a quote that is opened here never ends")
            rest = data
            continue
        whole, rest = data[:end], data[end:]
        if header and not names:
            whole = whole.removeprefix(_BYTE_ORDER_MARK)
            names, whole = _first_record(whole)
            line += names.count(b"\n")
        if whole.strip(b"\r\n"):
            yield Chunk(source, names, whole, line)
        line += whole.count(b"\n")
    if rest.strip(b"\r\n"):
        last = rest if rest.endswith(b"\n") else rest + b"\n"
        if header and not names:
            names, last = _first_record(last.removeprefix(_BYTE_ORDER_MARK))
        if last.strip(b"\r\n"):
            yield Chunk(source, names, last, line)
            return
    if names and line == 1 + names.count(b"\n"):
        yield Chunk(source, names, b"", line)  # a header and nothing else: still worth checking its columns


def _blocks(stream: BinaryIO, source: str, at_once: bool, report: Callable[[int], object]) -> Iterator[bytes]:
    raw = io.BufferedReader(stream, CHUNK_BYTES) if isinstance(stream, io.RawIOBase) else stream
    beginning = raw.peek(2)[:2] if isinstance(raw, io.BufferedReader) else b""
    packed = beginning == _GZIP
    opened: Any = gzip.GzipFile(fileobj=raw) if packed else raw
    read = getattr(opened, "read1", opened.read) if at_once else opened.read
    total = 0
    try:
        while block := read(CHUNK_BYTES):
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
    """Where the last whole record ends: after the last line break that is not inside quotes."""
    end = data.rfind(b"\n") + 1
    if not quotes or b'"' not in data:
        return end
    # Inside quotes if and only if there is an odd number of them before.
    odd = data.count(b'"', 0, end) % 2
    while end and odd:
        before = data.rfind(b"\n", 0, end - 1) + 1
        odd ^= data.count(b'"', before, end) % 2
        end = before
    return end


def _first_record(data: bytes) -> tuple[bytes, bytes]:
    end = data.find(b"\n") + 1
    while data.count(b'"', 0, end) % 2 and b"\n" in data[end:]:
        end = data.find(b"\n", end) + 1
    return data[:end], data[end:]
