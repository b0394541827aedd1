"""Event logs as small Polars tables, one after the other: CSV, JSON lines, Parquet and Excel, files and standard input.

Text columns arrive as text and are read by whoever knows what they should be, so that a bad value can be shown as it
stands in the file.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl

from dpstream.errors import SourceDamaged, SourceMissing
from dpstream.events.excel import sheet_of
from dpstream.events.file_options import STDIN, FileOptions
from dpstream.events.table import Table, check_columns
from dpstream.events.text_chunks import Chunk, chunks
from dpstream.events.waiting_reader import interruptible

__all__ = ["STDIN", "Table", "records", "tables"]

#: Rows of a table that comes from Parquet.
PARQUET_ROWS = 1 << 20


def tables(
    sources: Sequence[str],
    columns: Sequence[str],
    *,
    files: FileOptions = FileOptions(),  # noqa: B008 - it never changes
    report: Callable[[int], object] = lambda _: None,
    note: Callable[[str], object] = lambda _: None,
) -> Iterator[Table]:
    """These columns of these sources, in order, a bounded number of rows at a time.

    Parameters
    ----------
    sources
        Paths, or "-" for standard input.
    columns
        What is needed; none at all still gives tables with the right number of rows.
    files
        How the sources are written.
    report
        Called with the number of bytes read so far, of all sources together.
    note
        Called with a sentence for each thing that was recognised and is not the usual: a semicolon between fields.

    Raises
    ------
    SourceMissing, SourceDamaged, ColumnMissing
        If a source is not there, cannot be read, or lacks a column.
    MissingExtra
        If what reads Excel files is not installed.
    """
    columns = list(dict.fromkeys(columns))  # one column may serve two purposes
    for source in sources:
        files.format_of(source)
    done = 0
    for source in sources:
        kind = files.format_of(source)
        before = done

        def so_far(count: int, before: int = before) -> None:
            nonlocal done
            done = before + count
            report(done)

        with ExitStack() as stack:
            stream = stack.enter_context(_open(source))
            name = "standard input" if source == STDIN else source
            if kind in ("parquet", "xlsx"):
                # Its end says what is in it: a pipe is kept, in memory, so that nothing is written in the clear.
                content = io.BytesIO(stream.read()) if source == STDIN else source
                if kind == "parquet":
                    yield from _parquet(content, name, columns, so_far)
                else:
                    yield sheet_of(content, name, columns, files.sheet, note)
            else:
                pieces = chunks(
                    stream,
                    name,
                    header=kind != "jsonl",
                    report=so_far,
                    separator=files.separator or ("\t" if kind == "tsv" else None),
                    codec=files.codec,
                    columns=columns,
                    note=note,
                )
                yield from _lines(pieces, name, columns) if kind == "jsonl" else records(pieces, name, columns, note)


def _open(source: str) -> BinaryIO:
    if source == STDIN:
        # A reader of our own: closing it must not close the program's standard input.
        if _has_fileno():
            return interruptible(sys.stdin.fileno())
        return io.BufferedReader(io.BytesIO(sys.stdin.buffer.read()))
    try:
        if Path(source).is_dir():
            raise SourceMissing(source=source, reason="is a folder, not a file")
        return interruptible(source)
    except OSError as error:
        raise SourceMissing(source=source, reason=(error.strerror or str(error)).lower()) from None


def _has_fileno() -> bool:
    try:
        sys.stdin.fileno()
    except (OSError, io.UnsupportedOperation):
        return False
    return True


def records(
    pieces: Iterator[Chunk], name: str, columns: Sequence[str], note: Callable[[str], object] = lambda _: None
) -> Iterator[Table]:
    """Yield the tables of text with a header: of a CSV or TSV file, or of what was sent as such."""
    names: list[str] = []
    told = False
    for chunk in pieces:
        stray = chunk.stray_quote()
        if stray is not None:
            raise stray
        lines, line = chunk.longest_cell
        if lines > 1 and not told:
            told = True
            note(
                f"{name}, line {line}: a quoted cell has {lines} lines, which count as one row. If the quote is stray,"
                " rows are missing. Not for publication."
            )
        options: dict[str, Any] = {"separator": chunk.separator, "infer_schema": False}
        if not names:
            names = _names(chunk, options)
            check_columns(name, columns, names)
            _check_once(name, columns, chunk.repeated_names())
        if chunk.text == chunk.header:
            continue
        uneven = chunk.uneven(len(names))
        # Polars sees too many fields only if it reads all columns, and takes fields that are not there for empty ones.
        frame = _parsed(chunk, pl.read_csv, columns=None if uneven else list(columns) or [0], **options)
        odd = uneven and frame[names[-1]].null_count()
        damage = chunk.damage(empty_lines=bool(columns)) if odd else None
        if damage is not None:
            raise damage
        yield Table(frame.select(columns or names[:1]), chunk.where)
    if not names:
        raise SourceMissing(source=name, reason="is empty, without even a header")


def _names(chunk: Chunk, options: dict[str, Any]) -> list[str]:
    damage = Chunk(chunk.source, chunk.header, chunk.header, chunk.first_line, chunk.separator).damage()
    if damage is not None:
        raise damage
    return _parsed(chunk, pl.read_csv, n_rows=0, **options).columns


def _lines(pieces: Iterator[Chunk], name: str, columns: Sequence[str]) -> Iterator[Table]:
    """The tables of a JSON lines file."""
    empty = True
    for chunk in pieces:
        frame = _parsed(chunk, pl.read_ndjson, schema=dict.fromkeys(columns, pl.String) or None)
        _check_keys_once(chunk, frame.height, columns)
        if empty:
            check_columns(name, columns, _keys(chunk, frame, columns))
        empty = False
        yield Table(frame, chunk.where)


def _parsed(chunk: Chunk, parse: Callable[..., pl.DataFrame], **options: object) -> pl.DataFrame:
    try:
        return parse(chunk.text, **options)
    except pl.exceptions.PolarsError as error:
        reason = str(error).splitlines()[0]
        found = chunk.damage() or _bad_json(chunk)
        raise found or SourceDamaged(where=f"{chunk.source}, from line {chunk.first_line}", what=reason) from None


def _keys(chunk: Chunk, frame: pl.DataFrame, columns: Sequence[str]) -> list[str]:
    """The names that a JSON lines file uses: those of its first line, and those found further down."""
    try:
        first = json.loads(chunk.data.lstrip().split(b"\n", 1)[0])
    except (ValueError, RecursionError):
        first = {}
    return [*first, *(column for column in columns if frame[column].null_count() < frame.height)]


def _bad_json(chunk: Chunk) -> SourceDamaged | None:
    if chunk.header:
        return None
    for number, line in enumerate(chunk.data.split(b"\n"), start=chunk.first_line):
        try:
            if line.strip() and not isinstance(json.loads(line), dict):
                raise ValueError("not a JSON object")
        except (ValueError, RecursionError) as error:
            return SourceDamaged(where=f"{chunk.source}, line {number}", what=f"not a line of JSON ({error})")
    return None


def _parquet(
    content: str | io.BytesIO, name: str, columns: Sequence[str], report: Callable[[int], object]
) -> Iterator[Table]:
    size = Path(content).stat().st_size if isinstance(content, str) else content.getbuffer().nbytes
    if size == 0:
        raise SourceMissing(source=name, reason="is empty")
    try:
        schema = pl.read_parquet_schema(content)
        check_columns(name, columns, list(schema))
        lazy = pl.scan_parquet(content)
        total = lazy.select(pl.len()).collect().item()
        first = 0
        batches = lazy.select(list(columns) or list(schema)[:1]).collect_batches(chunk_size=PARQUET_ROWS)
        for frame in batches:
            yield Table(frame, lambda row, first=first: f"{name}, row {first + row + 1}")  # type: ignore[misc]
            first += frame.height
            report(size * first // max(total, 1))
    except (pl.exceptions.PolarsError, OSError) as error:
        raise SourceDamaged(where=name, what=f"not a Parquet file ({str(error).splitlines()[0]})") from None


def _check_once(name: str, columns: Sequence[str], repeated: Sequence[str]) -> None:
    for column in columns:
        if column in repeated:
            raise SourceDamaged(where=name, what=f"the header names the column {column!r} more than once")


def _check_keys_once(chunk: Chunk, rows: int, columns: Sequence[str]) -> None:
    """Refuse lines that give one of these columns twice: which of the two is meant cannot be known."""
    text = chunk.text
    # A look at the bytes, no parsing: as many keys as rows, and none that is spelled in another way.
    if b"\\u" not in text and all(text.count(json.dumps(column).encode()) <= rows for column in columns):
        return

    def keys_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in pairs]
        twice = next((column for column in columns if keys.count(column) > 1), None)
        if twice is not None:
            raise KeyError(twice)
        return dict(pairs)

    for number, line in enumerate(chunk.data.split(b"\n"), start=chunk.first_line):
        if line.strip():
            try:
                json.loads(line, object_pairs_hook=keys_once)
            except KeyError as error:
                raise SourceDamaged(
                    where=f"{chunk.source}, line {number}", what=f"gives {error.args[0]!r} more than once"
                ) from None
            except (ValueError, RecursionError):
                continue
