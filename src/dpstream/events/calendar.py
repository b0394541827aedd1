"""Steps of time: days, hours, months, one after the other without gaps, counted from the first."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpstream.errors import InvalidArgument

__all__ = ["MOST_STEPS", "Calendar", "check_every", "parse_moment"]

#: More steps than this in one run are a timestamp gone wrong.
MOST_STEPS = 1 << 24
_UNITS = "like 1d, 1h, 15m, 1w, 1mo, 1q or 1y"


class Calendar:
    """Where each step begins.

    Parameters
    ----------
    every
        How long a step is, in Polars' words: 15m, 1h, 1d, 1w, 1mo, 1q, 1y.
    start
        A moment of the first step, as Polars knows it: microseconds, with a zone or without.

    Examples
    --------
    >>> days = Calendar("1d", pl.Series([dt.datetime(2026, 3, 1, 15)]))
    >>> days.steps(pl.Series([dt.datetime(2026, 3, 1), dt.datetime(2026, 3, 3, 23)]))
    array([0, 2])
    >>> str(days.begin(2))
    '2026-03-03 00:00:00'
    """

    def __init__(self, every: str, start: pl.Series) -> None:
        self.every = check_every(every)
        self._starts = start.cast(pl.Datetime("us", getattr(start.dtype, "time_zone", None))).dt.truncate(every)
        self._edges = _microseconds(self._starts)

    @property
    def zone(self) -> str | None:
        """The time zone, if there is one."""
        return self._starts.dtype.time_zone  # type: ignore[attr-defined,no-any-return]

    @property
    def start(self) -> dt.datetime:
        """When the first step begins."""
        return self.begin(0)

    def begin(self, step: int) -> dt.datetime:
        """When a step begins (the first is 0), as far as `reach` has gone."""
        moment: dt.datetime = self._starts[step]
        return moment

    def begins(self, first: int, count: int) -> pl.Series:
        """When each of these steps begins."""
        return self._starts.slice(first, count)

    def reach(self, moment: Any) -> int:
        """How many steps there are up to and including the one that this moment, a value of a series, falls into."""
        last = _one(moment, self._starts.dtype)
        if _microseconds(last)[0] > self._edges[-1]:
            self._check_reach(last)
            further = pl.select(
                pl.datetime_range(pl.lit(self._starts[:1]).first(), pl.lit(last).first(), self.every, time_unit="us")
            ).to_series()
            if further.len() > self._starts.len():
                self._starts, self._edges = further, _microseconds(further)
        return int(np.searchsorted(self._edges, _microseconds(last)[0], side="right"))

    def lay_out(self, count: int) -> None:
        """Know the beginnings of at least so many steps, whether or not there is data for them."""
        while self._starts.len() < count:
            length = int((_microseconds(self._starts[-1:].dt.offset_by(self.every)) - self._edges[-1:])[0])
            missing = count - self._starts.len()
            # Months differ in length, and so do days: a little further than needed, then again if that was too short.
            self.reach(self._starts[-1] + dt.timedelta(microseconds=length * missing + length // 2))

    def back_to(self, moment: Any) -> int:
        """Begin earlier, at the step that this moment falls into; by how many steps."""
        earlier = Calendar(self.every, _one(moment, self._starts.dtype))
        old, end = self._edges[0], self._starts[-1]
        earlier.reach(end)
        moved = int(np.searchsorted(earlier._edges, old))
        if moved == earlier._edges.size or earlier._edges[moved] != old:
            raise InvalidArgument("--from", None, f"given: steps of {self.every} do not meet across the data's range")
        self._starts, self._edges = earlier._starts, earlier._edges
        return moved

    def steps(self, moments: pl.Series) -> NDArray[np.int64]:
        """The number of the step that each moment falls into, from 0; negative before the first."""
        if moments.len():
            self.reach(moments.max())
        return np.searchsorted(self._edges, _microseconds(moments), side="right") - 1

    def _check_reach(self, last: pl.Series) -> None:
        """Before a range is laid out to a moment that may be in the year 9999."""
        begin = self._starts[:1]
        length = (_microseconds(begin.dt.offset_by(self.every)) - _microseconds(begin))[0]
        if (_microseconds(last)[0] - self._edges[0]) / max(length, 1) > MOST_STEPS:
            raise InvalidArgument("--every", self.every, f"so long that the data has at most {MOST_STEPS:,} steps")


def check_every(every: str) -> str:
    """A length of time that Polars can cut a calendar into."""
    try:
        day = pl.Series([dt.datetime(2024, 1, 1)])
        day.dt.truncate(every)
        if day.dt.offset_by(every)[0] > day[0] and "i" not in every:
            return every
    except (pl.exceptions.PolarsError, OverflowError):
        pass
    raise InvalidArgument("--every", every, f"a length of time {_UNITS}")


def parse_moment(option: str, text: str, zone: str | None) -> pl.Series:
    """A date or moment that was given as an option, on the clock of the zone."""
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArgument(option, text, "a date such as 2026-01-31 or a moment such as 2026-01-31T06:00") from None
    if moment.tzinfo is not None:
        return pl.Series([moment.astimezone(dt.UTC)]).dt.cast_time_unit("us").dt.convert_time_zone(zone or "UTC")
    return pl.Series([moment]).dt.cast_time_unit("us").dt.replace_time_zone(zone, ambiguous="earliest")


def _one(moment: Any, dtype: pl.DataType) -> pl.Series:
    if isinstance(moment, pl.Series):
        return moment.cast(dtype)
    zone = dtype.time_zone  # type: ignore[attr-defined]
    if moment.tzinfo is not None:
        return pl.Series([moment.astimezone(dt.UTC)]).dt.cast_time_unit("us").dt.convert_time_zone(zone)
    return pl.Series([moment]).dt.cast_time_unit("us").cast(dtype)


def _microseconds(moments: pl.Series) -> NDArray[np.int64]:
    return moments.to_physical().to_numpy()
