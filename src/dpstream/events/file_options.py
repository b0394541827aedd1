"""How files of events are written: format, separator, encoding, sheet. What is not said is recognised."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from dpstream.errors import InvalidArgument

__all__ = ["FORMATS", "STDIN", "FileOptions", "Format", "separator_in", "separator_in_words"]

Format = Literal["csv", "tsv", "jsonl", "parquet", "xlsx"]
FORMATS: tuple[Format, ...] = ("csv", "tsv", "jsonl", "parquet", "xlsx")
STDIN = "-"
_SUFFIXES: dict[str, Format] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".xlsx": "xlsx",
}
#: What may stand between fields and is recognised, the most usual first.
_RECOGNISED = (",", ";", "\t", "|")
_SPELLINGS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|", "space": " ", "\\t": "\t"}
#: Records that are looked at to recognise a separator.
_RECORDS = 100


@dataclass(frozen=True)
class FileOptions:
    """How files of events are written.

    Attributes
    ----------
    file_format
        One of `FORMATS`; None: as the file's ending says.
    delimiter
        What stands between the fields of a CSV file: one character, or a word such as "tab"; None: recognised.
    encoding
        How characters are written as bytes: utf-8, utf-16, cp1252, latin-1, ...; None: UTF-8, or UTF-16 where the first
        two bytes say so.
    sheet
        The name of the sheet of an Excel file, or its number from 1 on; None: the first.
    """

    file_format: str | None = None
    delimiter: str | None = None
    encoding: str | None = None
    sheet: str | None = None

    def __post_init__(self) -> None:
        if self.file_format not in (None, *FORMATS):
            raise InvalidArgument("file_format", self.file_format, f"one of {', '.join(FORMATS)}")
        mark = self.separator
        if mark is not None and (len(mark) != 1 or not mark.isascii() or mark.isalnum() or mark in '"\r\n\0'):
            raise InvalidArgument("delimiter", self.delimiter, "one character such as ; or | or the word tab")
        if self.encoding is not None:
            try:
                known = codecs.lookup(self.encoding)._is_text_encoding
                decoder = codecs.getincrementaldecoder(self.encoding)()
                known &= decoder.decode("a;1\n".encode(self.encoding), final=True) == "a;1\n"
            except (LookupError, ValueError):
                known = False
            if not known:
                raise InvalidArgument("encoding", self.encoding, "an encoding such as utf-8, cp1252, latin-1 or utf-16")

    @property
    def separator(self) -> str | None:
        """The character between fields; None if it is to be recognised."""
        return None if self.delimiter is None else _SPELLINGS.get(self.delimiter.lower(), self.delimiter)

    @property
    def codec(self) -> str | None:
        """The Python name of the encoding; None if it is to be recognised, or UTF-8."""
        if self.encoding is None or codecs.lookup(self.encoding).name in ("utf-8", "utf-8-sig"):
            return None
        return codecs.lookup(self.encoding).name

    def format_of(self, source: str) -> Format:
        """Return the format of a source: as given, or by its ending.

        >>> FileOptions().format_of("events.csv.gz")
        'csv'
        """
        given = next((name for name in FORMATS if name == self.file_format), None)
        if given is not None:
            return given
        if source == STDIN:
            return "csv"
        path = Path(source)
        suffix = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
        if suffix.lower() not in _SUFFIXES:
            raise InvalidArgument(
                source, suffix, f"a file ending in {', '.join(_SUFFIXES)}, or `file_format` must be given"
            )
        return _SUFFIXES[suffix.lower()]


def separator_in(beginning: str, columns: Sequence[str]) -> str:
    r"""Return what stands between the fields of a CSV file.

    The first of comma, semicolon, tab and vertical bar with which the header names all the columns that are needed;
    if there is none, the one that cuts all records into the same number of fields, and into the most.

    Parameters
    ----------
    beginning
        The header and some records.
    columns
        The columns that are needed.

    Examples
    --------
    >>> separator_in('no;"when; and";amount,EUR\n1;2026-01-01;12,50\n', ["amount,EUR"])
    ';'
    """
    fields: dict[str, int] = {}
    for mark in _RECOGNISED:
        try:
            records = list(islice(csv.reader(io.StringIO(beginning, newline=""), delimiter=mark), _RECORDS))
        except csv.Error:
            continue
        header = records[0] if records else []
        if columns and set(columns) <= set(header):
            return mark
        if all(len(record) == len(header) for record in records[1:]):
            fields[mark] = len(header)
    best = max(fields, key=fields.__getitem__, default=",")
    return best if fields.get(best, 0) > 1 else ","


def separator_in_words(mark: str) -> str:
    """Return the word for a separator.

    >>> separator_in_words(";")
    'semicolon'
    """
    return next((word for word, character in _SPELLINGS.items() if character == mark), mark)
