"""Releases as rows of a table, and where they go: CSV, JSON lines, Parquet, or a table to look at."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import polars as pl
from rich.console import Console
from rich.table import Table as RichTable

from dpstream.cli.targets import NotWritten, Target, check_target
from dpstream.errors import InvalidArgument

__all__ = ["FORMS", "Form", "check_apart", "check_output", "form_of", "print_table", "write_rows"]

Form = Literal["csv", "jsonl", "parquet", "table"]
FORMS: dict[str, Form] = {"csv": "csv", "jsonl": "jsonl", "parquet": "parquet", "table": "table"}
_SUFFIXES: dict[str, Form] = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}


def check_output(output: Path) -> Form:
    """The form that a file's suffix asks for; refused unless the file can be written, before any work is done."""
    if output.suffix.lower() not in _SUFFIXES:
        raise InvalidArgument("--output", str(output), f"a file ending in {', '.join(_SUFFIXES)}")
    check_target("--output", output)
    return _SUFFIXES[output.suffix.lower()]


def check_apart(written: dict[str, Path | None], read: Sequence[str]) -> None:
    """Refuse to write two things to one file, or to write over what is read."""
    taken = {Path(source).resolve() for source in read}
    for option, path in written.items():
        if path is None:
            continue
        if path.resolve() in taken:
            raise InvalidArgument(option, str(path), "a file of its own")
        taken.add(path.resolve())


def form_of(given: str | None, *, as_json: bool) -> Form:
    """How standard output should look: as asked, or a table for people and CSV for pipes."""
    if as_json:
        return "jsonl"
    if given is None:
        return "table" if sys.stdout.isatty() else "csv"
    if given not in FORMS:
        raise InvalidArgument("--as", given, f"one of {', '.join(FORMS)}")
    if given == "parquet" and sys.stdout.isatty():
        raise InvalidArgument("--as", given, "csv, jsonl or table on a terminal; or give --output")
    return FORMS[given]


def write_rows(frames: Iterable[pl.DataFrame], form: Form, target: Target | None, *, header: bool = True) -> None:
    """Write all rows: to standard output, or to a file, which the caller finishes.

    Raises
    ------
    NotWritten
        If the disk or whatever else is behind it does not take them.
    """
    try:
        if target is not None:
            _write(frames, form, target.file, header)
            target.file.flush()
            return
        _write(frames, form, sys.stdout.buffer, header)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise  # the reader has seen enough
    except OSError as error:
        if target is not None:
            raise NotWritten(f"{target.option} {target.path}", error.strerror or str(error)) from None
        # Point standard output at /dev/null, so that Python's flush at exit does not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise NotWritten("standard output", error.strerror or str(error)) from None


def _write(frames: Iterable[pl.DataFrame], form: Form, file: Any, header: bool) -> None:
    if form == "parquet":
        packed = io.BytesIO()
        pl.concat(frames).write_parquet(packed)
        file.write(packed.getbuffer())
        return
    for frame in frames:
        text = as_text(frame)
        if form == "csv":
            file.write(text.write_csv(include_header=header).encode())
            header = False
        else:
            file.write(text.write_ndjson().encode())


def as_text(frame: pl.DataFrame) -> pl.DataFrame:
    """Moments as ISO 8601 text."""
    moments = [name for name, dtype in frame.schema.items() if isinstance(dtype, pl.Datetime)]
    for name in moments:
        column = frame[name]
        zone = "%:z" if column.dtype.time_zone else ""  # type: ignore[attr-defined]
        text = column.dt.strftime(f"%Y-%m-%dT%H:%M:%S%.f{zone}")
        frame = frame.with_columns(text.alias(name))
    return frame


def print_table(frame: pl.DataFrame, title: str, console: Console) -> None:
    """Print rows for people to read; a narrow terminal gets fewer columns, but whole numbers."""
    text = as_text(frame)
    rows = {name: [_shown(cell) for cell in text[name]] for name in text.columns}
    widths = {name: max(map(len, [name, *cells])) for name, cells in rows.items()}
    for dropped in (("stddev",), ("step",), ("low", "high")):
        if sum(widths.values()) + 3 * len(widths) + 1 > console.width:
            widths = {name: width for name, width in widths.items() if name not in dropped}
    table = RichTable(title=title, title_justify="left", title_style="bold")
    for name, width in widths.items():
        side: Literal["left", "right"] = "right" if text.schema[name].is_numeric() else "left"
        table.add_column(name, justify=side, no_wrap=True, min_width=width)
    for row in zip(*(rows[name] for name in widths), strict=True):
        table.add_row(*row)
    console.print(table)


def _shown(cell: object) -> str:
    if isinstance(cell, float):
        return f"{cell:,.1f}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)
