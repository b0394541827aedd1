"""Timestamps as text, dates, moments or numbers: all become moments in one time zone, or are named as unreadable."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import polars as pl

from dpstream.errors import InvalidArgument, RowRefused
from dpstream.events.cells import EMPTY_REMEDY, is_empty
from dpstream.events.tables import Table
from dpstream.events.time_formats import (
    EPOCHS,
    Form,
    Undecided,
    check_time_format,
    form_in_words,
    of_our_time,
    read_text,
    recognise,
)

__all__ = ["Timestamps"]

#: Moments from the year 1000, as the year 25 is a year of two digits, to 9998: whatever the zone, Python can show them.
_FIRST, _LAST = (int(dt.datetime(year, 1, 1, tzinfo=dt.UTC).timestamp()) * 10**6 for year in (1000, 9999))


class Timestamps:
    """Reads one column.

    Parameters
    ----------
    column
        Its name.
    time_format
        A form such as "dd/mm/yyyy hh:mm", a strptime format, or "s", "ms" or "us" for numbers since 1970; None: it is
        recognised by the first rows, and then all rows must be of it.
    zone
        Where the calendar is. Timestamps with an offset are converted to it; those without are taken to be in it. None:
        as they stand, or UTC for those with an offset.

    Attributes
    ----------
    recognised
        A sentence about the form in which timestamps are written, if it was recognised and is not ISO 8601.
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
        self._form = None if time_format is None else Form(check_time_format(time_format))
        self._given = time_format
        self.recognised: str | None = None
        self.zone = None if zone is None else _check_zone(zone)
        self.offsets = False
        self.ambiguous = 0

    @property
    def time_format(self) -> str | None:
        """The form to keep for other files of this kind: the one that was given, or that told the day from the month.

        A file of a single day, tomorrow's, may not tell them apart.
        """
        if self._given is not None or self._form is None or self._form.usual or self._form.text in EPOCHS:
            return self._given
        return form_in_words(self._form.text)

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
                where=table.where(row),
                column=self.column,
                given=column[row],
                allowed=self._expected(column.dtype),
                remedy=self._remedy(column[row]),
            )
        return moments

    def _parsed(self, column: pl.Series, table: Table) -> pl.Series:
        if column.dtype == pl.String or column.dtype.is_integer():
            if self._form is None:
                self._form = self._recognised(column, table)
            column = of_our_time(self._moments(column, self._form.text), self._form)
        elif not column.dtype.is_temporal() or column.dtype in (pl.Time, pl.Duration):
            raise RowRefused(where=table.where(0), column=self.column, given=column[0], allowed="a timestamp")
        moments = column.cast(pl.Datetime("us", getattr(column.dtype, "time_zone", None)), strict=False)
        number = moments.to_physical()
        least, most = number.min(), number.max()
        if least is not None and not _FIRST <= least <= most <= _LAST:  # type: ignore[operator]
            moments = pl.select(pl.when(number.is_between(_FIRST, _LAST)).then(moments)).to_series()
        return self._placed(moments)

    def _moments(self, column: pl.Series, form: str) -> pl.Series:
        """The moments of text or whole numbers of this form; null where they are not of it."""
        if form in EPOCHS:
            return _from_numbers(column, EPOCHS[form])
        if column.dtype != pl.String:
            column = column.cast(pl.String)
        moments = read_text(column, form)
        leap = column.str.contains(":60", literal=True).fill_null(False)
        if leap.any():  # read as the first second of the next minute
            moments = pl.select(pl.when(leap).then(moments.dt.offset_by("-1s")).otherwise(moments)).to_series()
        return moments

    def _recognised(self, column: pl.Series, table: Table) -> Form:
        """The form of a column, which is then kept."""
        found = recognise(column)
        if isinstance(found, Undecided):
            raise RowRefused(
                where=table.where(found.row),
                column=self.column,
                given=found.given,
                allowed="a day above 12 in some row, which tells the day from the month",
                remedy=found.remedy(),
            )
        if found is None:
            row = int(column.is_not_null().arg_max() or 0)
            raise RowRefused(
                where=table.where(row),
                column=self.column,
                given=column[row],
                allowed="a timestamp such as 2026-01-31, 2026-01-31T14:30:00+01:00 or 31/01/2026",
                remedy="time_format='dd.mm.yy hh:mm' reads other forms, and time_format='ms' numbers since 1970",
            )
        if not found.usual:
            example = self._moments(pl.Series([found.deciding]), found.text)[0]
            self.recognised = found.note(self.column, example)
        return found

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
        if self._form is None or not (dtype == pl.String or dtype.is_integer()):
            return f"a timestamp{zone}"
        if self._form.text in EPOCHS:
            return f"a number of {self._form.text} since 1970"
        return f"a timestamp of the form {form_in_words(self._form.text)}{zone}"

    def _remedy(self, given: object) -> str:
        """What to type if a value that cannot be read is meant."""
        if is_empty(given):
            return EMPTY_REMEDY
        if self._form is None or not isinstance(given, str) or self._form.text in EPOCHS:
            return ""
        twin = self._form.twin(given)
        if twin is not None:
            return f"it can be read as {form_in_words(twin)} only: the rows are of both forms, or the form is wrong"
        other = recognise(pl.Series([given]))
        if self._form.told and isinstance(other, Form) and other.text != self._form.text:
            return f"time_format={form_in_words(other.text)!r} would read it"
        return ""


def _from_numbers(column: pl.Series, factor: int) -> pl.Series:
    """Moments from numbers of so many microseconds since 1970."""
    whole = column.cast(pl.Int64, strict=False)
    near = whole.is_between(_FIRST // factor, _LAST // factor).fill_null(False)
    near_only = pl.select(pl.when(near).then(whole)).to_series()
    return (near_only * factor).cast(pl.Datetime("us", "UTC"))


def _check_zone(zone: str) -> str:
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidArgument("time_zone", zone, "a name such as Europe/Vienna or UTC") from None
    return zone
