"""Timestamps as text, dates, moments or numbers: all become moments in one time zone, or are named as unreadable."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import polars as pl

from dpstream.errors import InvalidArgument, RowRefused
from dpstream.events.tables import Table

__all__ = ["Timestamps"]

#: Tried in this order on the first rows. Days and months are never guessed: 03/04 is March in one country.
_FORMATS = (
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%dT%H:%M:%S",
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y-%m-%dT%H:%M:%S%.f%#z",
    "%Y-%m-%d %H:%M:%S%.f%#z",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%dT%H:%M",
    "%Y-%m-%dT%H:%M%#z",
    "%Y-%m-%d %H:%M%#z",
    "%Y-%m-%d",
)
#: Numbers since 1970, and how many microseconds each is.
_EPOCHS = {"s": 10**6, "ms": 10**3, "us": 1}
_ROWS_TO_GUESS_BY = 1000
#: Moments from the year 2 to the year 9998: whatever the zone, Python can show them.
_FIRST, _LAST = (int(dt.datetime(year, 1, 1, tzinfo=dt.UTC).timestamp()) * 10**6 for year in (2, 9999))


class Timestamps:
    """Reads one column.

    Parameters
    ----------
    column
        Its name.
    time_format
        A strptime format, or "s", "ms" or "us" for numbers since 1970; None: one of the ISO 8601 forms, found from the
        first rows and then kept.
    zone
        Where the calendar is. Timestamps with an offset are converted to it; those without are taken to be in it. None:
        as they stand, or UTC for those with an offset.

    Attributes
    ----------
    offsets
        Whether any timestamp so far came with an offset.
    ambiguous
        How many timestamps so far fall into an hour that the zone's clock shows twice and name no offset: they are
        taken to be in the first of the two.

    Notes
    -----
    A leap second (23:59:60) is counted with the second before it, so that it stays on its day. An hour that the clock
    skipped does not exist, and is refused.
    """

    def __init__(self, column: str, time_format: str | None = None, zone: str | None = None) -> None:
        self.column = column
        self._format = time_format
        self.zone = None if zone is None else _check_zone(zone)
        self.offsets = False
        self.ambiguous = 0

    def read(self, table: Table) -> pl.Series:
        """The moments of these rows, in the zone.

        Raises
        ------
        RowRefused
            If one cannot be read: with its line, the value and what was expected.
        """
        column = table.frame[self.column]
        moments = self._parsed(column, table)
        if moments.null_count():
            row = int(moments.is_null().arg_max() or 0)
            raise RowRefused(
                where=table.where(row), column=self.column, given=column[row], allowed=self._expected(column.dtype)
            )
        return moments

    def _parsed(self, column: pl.Series, table: Table) -> pl.Series:
        if column.dtype == pl.String:
            column = self._from_text(column, table)
        elif column.dtype.is_integer():
            column = self._from_numbers(column, table)
        elif not column.dtype.is_temporal() or column.dtype in (pl.Time, pl.Duration):
            raise RowRefused(where=table.where(0), column=self.column, given=column[0], allowed="a timestamp")
        moments = column.cast(pl.Datetime("us", getattr(column.dtype, "time_zone", None)), strict=False)
        number = moments.to_physical()
        least, most = number.min(), number.max()
        if least is not None and not _FIRST <= least <= most <= _LAST:  # type: ignore[operator]
            moments = pl.select(pl.when(number.is_between(_FIRST, _LAST)).then(moments)).to_series()
        return self._placed(moments)

    def _from_text(self, column: pl.Series, table: Table) -> pl.Series:
        if self._format in _EPOCHS:
            return self._from_numbers(column.cast(pl.Int64, strict=False), table)
        if self._format is None:
            self._format = self._guessed(column, table)
        # Without the cache: timestamps seldom repeat, and the cache is slower than reading them.
        moments = column.str.to_datetime(self._format, time_unit="us", strict=False, cache=False)
        leap = column.str.contains(":60", literal=True).fill_null(False)
        if leap.any():  # read as the first second of the next minute
            moments = pl.select(pl.when(leap).then(moments.dt.offset_by("-1s")).otherwise(moments)).to_series()
        return moments

    def _from_numbers(self, column: pl.Series, table: Table) -> pl.Series:
        if self._format not in _EPOCHS:
            raise RowRefused(
                where=table.where(0),
                column=self.column,
                given=column[0],
                allowed=f"a timestamp (numbers since 1970: time_format='s', 'ms' or 'us'{_likely(column)})",
            )
        factor = _EPOCHS[self._format]
        near = column.is_between(_FIRST // factor, _LAST // factor).fill_null(False)
        whole = pl.select(pl.when(near).then(column.cast(pl.Int64, strict=False))).to_series()
        return (whole * factor).cast(pl.Datetime("us", "UTC"))

    def _guessed(self, column: pl.Series, table: Table) -> str:
        """The format that reads most of the first rows; bad rows are then bad rows, not a bad format."""
        first = column.head(_ROWS_TO_GUESS_BY)
        unread = {
            form: first.str.to_datetime(form, time_unit="us", strict=False, cache=False).null_count()
            for form in _FORMATS
        }
        best = min(_FORMATS, key=unread.__getitem__)
        if unread[best] == first.len():
            raise RowRefused(
                where=table.where(0),
                column=self.column,
                given=first[0],
                allowed="a timestamp such as 2026-01-31 or 2026-01-31T14:30:00+01:00 (time_format='%d/%m/%Y' reads"
                " other forms)",
            )
        return best

    def _placed(self, moments: pl.Series) -> pl.Series:
        aware = moments.dtype.time_zone is not None  # type: ignore[attr-defined]
        self.offsets |= aware
        if self.zone is None:
            return moments.dt.convert_time_zone("UTC") if aware else moments
        if aware:
            return moments.dt.convert_time_zone(self.zone)
        try:
            return moments.dt.replace_time_zone(self.zone, ambiguous="raise", non_existent="null")
        except pl.exceptions.ComputeError:
            first = moments.dt.replace_time_zone(self.zone, ambiguous="earliest", non_existent="null")
            second = moments.dt.replace_time_zone(self.zone, ambiguous="latest", non_existent="null")
            self.ambiguous += int((first != second).sum())
            return first

    def _expected(self, dtype: pl.DataType) -> str:
        zone = f" that exists in {self.zone}" if self.zone else ""
        if self._format in _EPOCHS:
            return f"a number of {self._format} since 1970"
        return f"a timestamp of the form {self._format}{zone}" if dtype == pl.String else f"a timestamp{zone}"


def _likely(column: pl.Series) -> str:
    """Say which unit of numbers since 1970 would be a date of our time."""
    first = column[0] if column.len() else None
    for unit, factor in _EPOCHS.items():
        if first is not None and 10**15 // 2 < abs(int(first)) * factor < 4 * 10**15:
            return f"; {first} looks like {unit}"
    return ""


def _check_zone(zone: str) -> str:
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidArgument("time_zone", zone, "a name such as Europe/Vienna or UTC") from None
    return zone
