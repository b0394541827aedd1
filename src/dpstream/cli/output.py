"""What commands print and write: tables for people, rows for files, sentences that stay whole when piped."""

from __future__ import annotations

import io
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from dpstream.cli.printable import printable
from dpstream.cli.targets import NotWritten, Target, check_target
from dpstream.errors import InvalidArgument
from dpstream.events.number_words import number

if TYPE_CHECKING:
    import polars as pl

    from dpstream.store.tables import Release

__all__ = [
    "FORMS",
    "Form",
    "check_apart",
    "check_output",
    "form_of",
    "frame_of",
    "narrow_table",
    "number",
    "print_rows",
    "progress_bar",
    "reading_progress",
    "say",
    "show_table",
    "shown_cell",
    "write_rows",
]

Form = Literal["csv", "json", "jsonl", "parquet", "table"]
FORMS: dict[str, Form] = {"csv": "csv", "json": "json", "jsonl": "jsonl", "parquet": "parquet", "table": "table"}
_SUFFIXES: dict[str, Form] = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}


# -- sentences and tables --------------------------------------------------------------------------------------------


def say(console: Console, text: str, style: str = "") -> None:
    """Print a sentence: wrapped between words on a terminal, in one line where another program reads it."""
    console.print(Text(printable(text), style), soft_wrap=not console.is_terminal, highlight=False)


def narrow_table(headings: Sequence[str], *, title: str | None = None, words: Sequence[str] = ()) -> Table:
    """An empty table with no more lines than needed: the first column and those in `words` are text, others numbers."""
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
        title=title,
        title_justify="left",
        title_style="bold",
    )
    for i, heading in enumerate(headings):
        text = i == 0 or heading in words
        table.add_column(heading, justify="left" if text else "right", no_wrap=True)
    return table


def show_table(console: Console, table: Table) -> None:
    """Print a table with whole cells: in a terminal that is too narrow lines run over, but no digit is lost.

    Cells are text: a name such as [red] is no instruction.
    """
    needed = Console(width=1000, markup=False).measure(table).maximum
    wide = console if needed <= console.width else Console(file=console.file, width=needed, soft_wrap=True)
    wide.print(table, markup=False)


def progress_bar() -> Progress:
    """Return a progress bar on standard error that vanishes when done; disabled unless that is a terminal."""
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:.0f} %"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


@contextmanager
def reading_progress(sources: Sequence[str], *, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Show how many bytes and rows were read; nothing at all when output is piped."""
    if quiet or not (sys.stdout.isatty() and sys.stderr.isatty()):
        yield lambda *_: None  # a disabled bar of rich 14 would still end its line
        return
    sizes = [Path(source).stat().st_size if source != "-" and Path(source).is_file() else None for source in sources]
    total = None if None in sizes else sum(size for size in sizes if size is not None)
    columns = (
        TextColumn("reading"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f} %" if total else ""),
        TextColumn("{task.fields[rows]:,} rows, {task.fields[rate]:,.0f} a second"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("reading", total=total, rows=0, rate=0.0)

        def show(read: int, rows: int) -> None:
            elapsed = progress.tasks[task].elapsed or 0.0
            progress.update(task, completed=read, rows=rows, rate=rows / elapsed if elapsed else 0.0)

        yield show


# -- rows for files --------------------------------------------------------------------------------------------------


def check_output(output: Path) -> Form:
    """The form that a file's suffix asks for; refused unless the file can be written, before any work is done."""
    if output.suffix.lower() not in _SUFFIXES:
        raise InvalidArgument("--output", str(output), f"a file ending in {', '.join(_SUFFIXES)}")
    check_target("--output", output)
    return _SUFFIXES[output.suffix.lower()]


def check_apart(written: dict[str, Path | None], read: Sequence[str]) -> None:
    """Refuse to write two things to one file, or to write over what is read."""
    taken = {os.path.realpath(source) for source in read}
    for option, path in written.items():
        if path is None:
            continue
        if os.path.realpath(path) in taken:
            raise InvalidArgument(option, str(path), "a file of its own")
        taken.add(os.path.realpath(path))


def form_of(given: str | None, *, as_json: bool) -> Form:
    """How standard output should look: as asked, or a table for people and CSV for pipes."""
    if as_json:
        return "jsonl"
    if given is None:
        return "table" if sys.stdout.isatty() else "csv"
    if given not in FORMS:
        raise InvalidArgument("--as", given, f"one of {', '.join(FORMS)}")
    if given == "parquet" and sys.stdout.isatty():
        raise InvalidArgument("--as", given, "csv, json, jsonl or table on a terminal; or give --output")
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
    import polars as pl
    import polars.selectors as cs

    if form == "parquet":
        packed = io.BytesIO()
        pl.concat(frames).write_parquet(packed)
        file.write(packed.getbuffer())
        return
    if form == "json":
        whole = as_text(pl.concat(frames)).with_columns(cs.decimal().cast(pl.Float64))
        file.write(whole.write_json().encode() + b"\n")
        return
    for frame in frames:
        text = as_text(frame)
        if form == "csv":
            file.write(text.write_csv(include_header=header).encode())
            header = False
        else:
            # Amounts as numbers: Polars would write decimal numbers as text.
            file.write(text.with_columns(cs.decimal().cast(pl.Float64)).write_ndjson().encode())


def as_text(frame: pl.DataFrame) -> pl.DataFrame:
    """Moments as ISO 8601 text."""
    import polars as pl

    moments = [name for name, dtype in frame.schema.items() if isinstance(dtype, pl.Datetime)]
    for name in moments:
        column = frame[name]
        zone = "%:z" if column.dtype.time_zone else ""  # type: ignore[attr-defined]
        text = column.dt.strftime(f"%Y-%m-%dT%H:%M:%S%.f{zone}")
        frame = frame.with_columns(text.alias(name))
    return frame


def print_rows(frame: pl.DataFrame, title: str, console: Console) -> None:
    """Print rows for people to read; a narrow terminal gets fewer columns, but whole numbers.

    A window is one column with its error bar: 244 ±19. In a terminal that is still too narrow lines run over.
    """
    text = _windows_in_one_column(as_text(frame))
    rows = {name: [shown_cell(cell) for cell in text[name]] for name in text.columns}
    widths = {name: max(map(len, [name, *cells])) for name, cells in rows.items()}
    views = tuple(name for name in widths if name.endswith("_non_negative"))
    for dropped in (views, ("stddev",), ("step",), ("low", "high")):
        if sum(widths.values()) + 3 * len(widths) + 1 > console.width:
            widths = {name: width for name, width in widths.items() if name not in dropped}
    table = Table(title=title, title_justify="left", title_style="bold")
    for name, width in widths.items():
        right = text.schema[name].is_numeric() or name not in frame.columns or frame.schema[name].is_numeric()
        side: Literal["left", "right"] = "right" if right else "left"
        table.add_column(name, justify=side, no_wrap=True, min_width=width)
    for row in zip(*(rows[name] for name in widths), strict=True):
        table.add_row(*row)
    show_table(console, table)


def _windows_in_one_column(frame: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    for name in [name for name in frame.columns if f"{name}_low" in frame.columns]:
        pairs = zip(frame[name], frame[f"{name}_high"], strict=True)
        cells = ["" if value is None else f"{shown_cell(value)} ±{shown_cell(high - value)}" for value, high in pairs]
        frame = frame.with_columns(pl.Series(name, cells, dtype=pl.String)).drop(
            f"{name}_stddev", f"{name}_low", f"{name}_high"
        )
    return frame


def shown_cell(cell: object) -> str:
    """Return a cell the way people write it, in one line: 1,234; nothing where there is none."""
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{cell:,.1f}"
    return f"{cell:,}" if isinstance(cell, (int, Decimal)) else printable(str(cell)).replace("\n", "\\n")


def frame_of(releases: list[Release], shape: tuple[int, ...], dtype: str, *, flat: bool) -> pl.DataFrame:
    """The releases as a data frame: step, position, value; a histogram's value is a list or, flat, a column each."""
    import numpy as np
    import polars as pl

    frame = pl.DataFrame(
        {"step": [release.step for release in releases], "position": [release.position for release in releases]},
        schema={"step": pl.Int64, "position": pl.Int64},
    )
    values = np.array([release.value for release in releases], dtype=dtype).reshape(len(releases), math.prod(shape))
    if not shape:
        return frame.with_columns(pl.Series("value", values[:, 0]))
    if flat:
        return frame.with_columns(pl.Series(f"value_{i}", column) for i, column in enumerate(values.T))
    return frame.with_columns(pl.Series("value", values).arr.to_list())
