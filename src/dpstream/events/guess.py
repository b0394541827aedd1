"""What a file of events seems to hold, and settings for counting it: guesses, for its owner to confirm."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from dpstream.budget import Budget
from dpstream.errors import ColumnMissing, RowRefused, SourceMissing
from dpstream.events.count_settings import SETTINGS
from dpstream.events.file_options import FileOptions
from dpstream.events.table import Table
from dpstream.events.tables import tables
from dpstream.events.time_formats import Undecided, recognise
from dpstream.events.timestamps import Timestamps
from dpstream.release.change_errors import change_errors
from dpstream.release.settings import StreamSettings

__all__ = ["Guess", "as_toml", "errors_of", "guess", "likely_dates"]

#: Rows that are looked at.
ROWS = 20_000
#: A column with more different values than this is no list of categories.
MOST_CATEGORIES = 30
#: Words in the names of columns, the likeliest first.
_TIMES = ("timestamp", "datetime", "when", "time", "date", "day", "datum", "zeit", "_at")
_USERS = ("user", "patient", "person", "customer", "client", "member", "visitor", "account", "kunde")


@dataclass(frozen=True)
class Guess:
    """What the first rows of a file look like.

    Attributes
    ----------
    columns, rows
        The columns, and how many rows were looked at.
    times
        Columns that hold timestamps, the likeliest first.
    time_format, offsets
        Of the first of them: the form to give, if it is none that is recognised in every file; and whether timestamps
        have offsets, so that somebody must say whose days are meant.
    undecided
        Columns of `times` whose rows can be read with the day or with the month first.
    first, last
        The days of the first and of the last row that was looked at, by that column; None without one.
    categories
        Columns with few different values, and these.
    users
        Columns that may say whom a row is about, the likeliest first.
    recognised
        Sentences about how the file is written.
    """

    columns: list[str]
    rows: int
    times: list[str] = field(default_factory=list)
    time_format: str | None = None
    offsets: bool = False
    first: dt.date | None = None
    last: dt.date | None = None
    undecided: dict[str, Undecided] = field(default_factory=dict)
    categories: dict[str, list[str]] = field(default_factory=dict)
    users: list[str] = field(default_factory=list)
    recognised: list[str] = field(default_factory=list)


def guess(path: str, files: FileOptions = FileOptions()) -> Guess:  # noqa: B008 - it never changes
    """Look at the first rows of a file.

    Raises
    ------
    SourceError
        If it cannot be read.
    """
    recognised: list[str] = []
    columns = _columns(path, files, recognised)
    table = next(tables([path], columns, files=files), None)
    if table is None or not table.frame.height:
        raise SourceMissing(source=path, reason="holds no rows to look at")
    head = Table(table.frame.head(ROWS), table.where)
    read, undecided = {found.column: found for found in _times(head)}, dict(_undecided(head))
    taken = sorted([*read, *undecided], key=lambda name: _rank(name, _TIMES, columns))
    first, last, likeliest = None, None, read.get(taken[0]) if taken else None
    if likeliest is not None:
        moments = likeliest.read(head)
        first, last = (moment.date() for moment in (moments.min(), moments.max()))  # type: ignore[union-attr]
        recognised += [likeliest.recognised] if likeliest.recognised else []
    return Guess(
        columns,
        head.frame.height,
        taken,
        likeliest.time_format if likeliest is not None else None,
        likeliest is not None and likeliest.offsets,
        first,
        last,
        undecided,
        dict(_categories(head.frame.drop(taken))),
        sorted(_users(head.frame.drop(taken)), key=lambda name: _rank(name, _USERS, columns)),
        recognised,
    )


def _columns(path: str, files: FileOptions, recognised: list[str]) -> list[str]:
    """The columns of a file: asked for one that there is not, the reader names those that there are."""
    try:
        next(tables([path], ["\0 no such column"], files=files, note=recognised.append), None)
    except ColumnMissing as error:
        return list(dict.fromkeys(error.columns))
    return []


def _rank(name: str, words: tuple[str, ...], columns: list[str]) -> tuple[int, int]:
    lower = name.lower()
    found = next((i for i, word in enumerate(words) if word in lower), len(words))
    return found, columns.index(name)


def _times(table: Table) -> Iterator[Timestamps]:
    """What reads each column of timestamps."""
    for name in table.frame.columns:
        named = _rank(name, _TIMES, table.frame.columns)[0] < len(_TIMES)
        column = table.frame[name]
        if column.dtype.is_numeric() and not named:
            continue
        # In a text file numbers are text: only by its name can a column of them be one of times.
        if column.dtype == pl.String and not named and column.head(100).str.contains(r"^-?\d+$").all():
            continue
        timestamps = Timestamps(name)
        try:
            timestamps.read(table)
        except RowRefused:
            continue
        yield timestamps


def _undecided(table: Table) -> Iterator[tuple[str, Undecided]]:
    """Columns of dates whose day and month cannot be told apart, as in a file of the first twelve days of a month."""
    for name in table.frame.columns:
        if table.frame[name].dtype == pl.String and isinstance(found := recognise(table.frame[name]), Undecided):
            yield name, found


def _categories(frame: pl.DataFrame) -> Iterator[tuple[str, list[str]]]:
    for name in frame.columns:
        if frame[name].dtype.is_float():
            continue
        values = frame[name].cast(pl.String, strict=False).drop_nulls().unique().sort().to_list()
        if 2 <= len(values) <= MOST_CATEGORIES and 4 * len(values) <= frame.height:
            yield name, values


def _users(frame: pl.DataFrame) -> Iterator[str]:
    for name in frame.columns:
        if any(word in name.lower() for word in _USERS):
            yield name


def likely_dates(found: Guess, today: dt.date) -> tuple[str, str]:
    """Return whole years, as dates of the first and of the last step: those of the file and of today."""
    year = min(found.first.year if found.first else today.year, today.year)
    last = max(found.last.year if found.last else today.year, today.year)
    return f"{year}-01-01", f"{last}-12-31"


def errors_of(budget: Budget, steps: int, per_person: int, windows: Sequence[int]) -> list[int]:
    """Return by how much a running total, and the figure of each window, is off at most, with 95 % confidence.

    The noise is fitted to the windows, as `dpstream count` does with these settings.
    """
    settings = StreamSettings.for_counter(steps, budget, per_person=per_person, windows=windows)
    t = np.arange(1, steps + 1)
    offs = [change_errors(settings, t, np.maximum(t - window, 0))[1] for window in (steps, *windows)]
    return [int(off.max()) for off in offs]


def as_toml(settings: Mapping[str, Any], comments: Mapping[str, str]) -> str:
    """Return settings, by their names, as a TOML file that `read_settings` reads.

    Parameters
    ----------
    comments
        What to write above settings. Settings without a value are left out.

    Examples
    --------
    >>> settings = {"time": "when", "start": "2026-01-01", "epsilon": 1.0}
    >>> print(as_toml(settings, {"time": "When a row happened."}), end="")
    # When a row happened.
    time = "when"
    from = "2026-01-01"
    epsilon = 1
    """
    lines = []
    for name, value in settings.items():
        if value is None:
            continue
        if name in comments:
            lines += [f"# {line}" for line in comments[name].splitlines()]
        # JSON's texts, numbers and lists of texts are TOML's as well.
        shown = f"{value:g}" if isinstance(value, float) else json.dumps(value, ensure_ascii=False)
        lines.append(f"{SETTINGS[name].option or name} = {shown}")
    return "\n".join(lines) + "\n"
