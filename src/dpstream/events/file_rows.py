"""What a choice of settings means for the rows of a file: true numbers, for its owner and never for publication."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import polars as pl

from dpstream.events.calendar import Calendar
from dpstream.events.file_options import FileOptions
from dpstream.events.people import person_ids
from dpstream.events.tables import tables
from dpstream.events.timestamps import Timestamps

__all__ = ["left_out", "read_rows", "rows_each"]

#: Up to so many months are told one by one; longer files by quarters.
MOST_MONTHS = 18


def read_rows(
    path: str, timestamps: Timestamps, columns: Sequence[str], files: FileOptions, *, first: bool = False
) -> pl.DataFrame:
    """Return these columns of a file, as text, beside the moment of each row (column 0, named "").

    `first`: only its first rows, as many as are read at once.

    Raises
    ------
    SourceError
        If a row cannot be read.
    """
    read = tables([path], [timestamps.column, *columns], files=files)
    pieces = [
        pl.DataFrame({"": timestamps.read(table)} | {name: table.frame[name].cast(pl.String) for name in columns})
        for table in islice(read, 1 if first else None)
    ]
    return pl.concat(pieces)


def left_out(rows: pl.DataFrame, user: str, limit: int) -> pl.DataFrame:
    """Return, for each month or quarter, how many rows there are and how many a limit for the whole stream leaves out.

    Of each person the first `limit` rows count, in the order of the file.

    Examples
    --------
    >>> import datetime as dt
    >>> days = [dt.datetime(2026, month, 1) for month in (1, 1, 2, 2)]
    >>> left_out(pl.DataFrame({"": days, "who": ["a", "b", "a", "c"]}), "who", 1).rows()
    [('2026-01', 2, 0), ('2026-02', 2, 1)]
    """
    moment = pl.col("")
    months = rows.select((moment.max().dt.year() - moment.min().dt.year()) * 12).item()
    quarter = pl.format("{} Q{}", moment.dt.year(), moment.dt.quarter())
    period = moment.dt.strftime("%Y-%m") if months < MOST_MONTHS else quarter
    nth = pl.int_range(pl.len()).over(person_ids(rows[user]))
    dropped = rows.select(period.alias("period"), dropped=nth >= limit)
    return dropped.group_by("period").agg(rows=pl.len(), left_out=pl.col("dropped").sum()).sort("period")


def rows_each(rows: pl.DataFrame, by: str | None, every: str) -> dict[str, float]:
    """Return about how many rows a step has, by category ("" without categories); steps are those that the file spans.

    Examples
    --------
    >>> import datetime as dt
    >>> rows = pl.DataFrame({"": [dt.datetime(2026, 1, day) for day in (1, 1, 4)], "ward": ["a", "b", "a"]})
    >>> rows_each(rows, "ward", "1d"), rows_each(rows, None, "1d")
    ({'a': 0.5, 'b': 0.25}, {'': 0.75})
    """
    moments = rows[""].sort()
    steps = Calendar(every, moments.head(1)).reach(moments.tail(1))
    if by is None:
        return {"": rows.height / steps}
    found = rows.drop_nulls(by).group_by(by).len().sort(by)
    return {str(name): count / steps for name, count in found.iter_rows()}
