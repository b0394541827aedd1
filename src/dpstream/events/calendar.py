"""Steps of time: days, hours, months, one after the other without gaps, counted from the first."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any
from zoneinfo import ZoneInfo

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
        start = start.cast(pl.Datetime("us", getattr(start.dtype, "time_zone", None)))
        # A day begins at midnight by the clock on the wall, or as soon after it as that clock exists.
        self._by_wall_clock = self.every[-1] not in "hms"
        if self._by_wall_clock:
            self._starts = _in_zone(_on_the_wall(start).dt.truncate(every), start)
        else:
            self._starts = start.dt.truncate(every)
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
        """When each of these steps begins, whether or not there is data for them."""
        self.lay_out(first + count)
        return self._starts.slice(first, count)

    def shown(self, first: int, count: int) -> pl.Series:
        """When each of these steps begins, the way people write it: dates if steps are days or longer."""
        begins = self.begins(first, count)
        return begins.dt.date() if self._by_wall_clock else begins

    def last_days(self, first: int, count: int) -> pl.Series:
        """The last day of each of these steps, if steps are days or longer; else when each begins.

        >>> weeks = Calendar("1w", pl.Series([dt.datetime(2026, 3, 2)]))
        >>> weeks.last_days(0, 2).to_list()
        [datetime.date(2026, 3, 8), datetime.date(2026, 3, 15)]
        """
        if not self._by_wall_clock:
            return self.shown(first, count)
        return self.begins(first + 1, count).dt.date() - dt.timedelta(days=1)

    def reach(self, moment: Any) -> int:
        """How many steps there are up to and including the one that this moment, a value of a series, falls into."""
        last = _one(moment, self._starts.dtype)
        if _microseconds(last)[0] > self._edges[-1]:
            self._check_reach(last)
            further = self._laid_out(last)
            if further.len() > self._starts.len():
                self._starts, self._edges = further, _microseconds(further)
        return int(np.searchsorted(self._edges, _microseconds(last)[0], side="right"))

    def ended(self, moment: Any, most: int) -> int:
        """How many of the first `most` steps have ended by this moment."""
        by = _one(moment, self._starts.dtype)
        passed = (_microseconds(by)[0] - self._edges[0]) / self._length(0)
        if passed > 2 * most + 2:  # however months differ in length: no need to lay out what comes after
            return most
        return min(max(self.reach(by) - 1, 0), most)

    def _laid_out(self, last: pl.Series) -> pl.Series:
        """The beginnings of all steps up to a moment."""
        first = self._starts[:1]
        if not self._by_wall_clock:
            return _range(first, last, self.every)
        wall = _range(_on_the_wall(first).dt.truncate(self.every), _on_the_wall(last), self.every)
        # A day that a zone left out (30 December 2011 in Samoa) begins when the next one does: it is no step.
        return _in_zone(wall, first).unique(maintain_order=True)

    def lay_out(self, count: int) -> None:
        """Know the beginnings of at least so many steps, whether or not there is data for them."""
        while self._starts.len() < count:
            length = self._length(-1)
            missing = count - self._starts.len()
            # Months differ in length, and so do days: a little further than needed, then again if that was too short.
            self.reach(self._starts[-1] + dt.timedelta(microseconds=length * missing + length // 2))

    def stretches(self, length: str, first: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return, for each of these steps, how many steps lie before the stretch of time that ends with it.

        And whether the stretch lies within the calendar: it does not if it begins before the first step. `length` is in
        Polars' words (1d, 1mo), counted back from the step's end by the clock on the wall.
        """
        ends = self.begins(first + 1, count)
        begins = _microseconds(_in_zone(_on_the_wall(ends).dt.offset_by(f"-{length}"), ends))
        return np.searchsorted(self._edges, begins, side="left").astype(np.int64), begins >= self._edges[0]

    def periods(self, every: str, count: int, *, anchor: int | None = None) -> NDArray[np.int64]:
        """Return how many steps lie before each period of this length, those that the first `count` steps fall into.

        And before the one that comes next: `count` + 1 if that is not at the end of these steps. Periods begin as the
        calendar has them (weeks on Mondays, months on their first days) or, with `anchor`, with that step.
        """
        self.lay_out(count + 1)
        first, last = _on_the_wall(self._starts.slice(anchor or 0, 1)), _on_the_wall(self._starts.slice(count, 1))
        if anchor is None:
            first = first.dt.truncate(every)
        begins = _range(first, last.dt.offset_by(every), every)
        before = np.searchsorted(self._edges, _microseconds(_in_zone(begins, self._starts)), side="left")
        return np.minimum(before, count + 1).astype(np.int64)

    def begins_period(self, every: str) -> bool:
        """Whether the first step begins together with a period of the calendar: a week, a month."""
        wall = _on_the_wall(self._starts[:1])
        return bool((wall.dt.truncate(every) == wall).all())

    def back_to(self, moment: Any) -> int:
        """Begin earlier, at the step that this moment falls into; by how many steps."""
        earlier = Calendar(self.every, _one(moment, self._starts.dtype))
        old, end = self._edges[0], self._starts[-1]
        earlier.reach(end)
        moved = int(np.searchsorted(earlier._edges, old))
        if moved == earlier._edges.size or earlier._edges[moved] != old:
            raise InvalidArgument("start", None, f"given: steps of {self.every} do not meet across the data's range")
        self._starts, self._edges = earlier._starts, earlier._edges
        return moved

    def steps(self, moments: pl.Series) -> NDArray[np.int64]:
        """The number of the step that each moment falls into, from 0; negative before the first."""
        if moments.len():
            self.reach(moments.max())
        return np.searchsorted(self._edges, _microseconds(moments), side="right") - 1

    def counts(self, moments: pl.Series, first: int, last: int) -> NDArray[np.int64]:
        """How many of these moments, which are sorted, fall into each of the steps from `first` to `last`: all do."""
        cuts = np.searchsorted(_microseconds(moments), self._edges[first + 1 : last + 1])
        return np.diff(cuts, prepend=0, append=moments.len())

    def _check_reach(self, last: pl.Series) -> None:
        """Before a range is laid out to a moment that may be in the year 9999."""
        if (_microseconds(last)[0] - self._edges[0]) / self._length(0) > MOST_STEPS:
            raise InvalidArgument("every", self.every, f"so long that there are at most {MOST_STEPS:,} steps")

    def _length(self, step: int) -> int:
        """About how many microseconds a step lasts: on the wall, where no clock leaps."""
        begin = _on_the_wall(self._starts.slice(step, 1))
        return int((_microseconds(begin.dt.offset_by(self.every)) - _microseconds(begin))[0])


def check_every(every: str) -> str:
    """A length of time that Polars can cut a calendar into."""
    try:
        day = pl.Series([dt.datetime(2024, 1, 1)])
        if re.fullmatch("[1-9][0-9]*(us|ms|s|m|h|d|w|mo|q|y)", every) and day.dt.offset_by(every)[0] > day[0]:
            return every
    except (pl.exceptions.PolarsError, OverflowError, ValueError):
        pass
    raise InvalidArgument("every", every, f"a length of time {_UNITS}")


def parse_moment(argument: str, text: str, zone: str | None, *, end_of_day: bool = False) -> pl.Series:
    """Read a date or moment given as an argument, on the clock of the zone; of a date the beginning, or the end."""
    try:
        moment = dt.datetime.fromisoformat(text)
        if end_of_day and ":" not in text and "T" not in text:
            moment = moment.replace(hour=23, minute=59, second=59, microsecond=999_999)
        if moment.tzinfo is not None:
            moment = moment.astimezone(dt.UTC)
    except (ValueError, OverflowError):
        raise InvalidArgument(
            argument, text, "a date such as 2026-01-31 or a moment such as 2026-01-31T06:00"
        ) from None
    if moment.tzinfo is not None:
        return pl.Series([moment]).dt.cast_time_unit("us").dt.convert_time_zone(zone or "UTC")
    wall = pl.Series([moment]).dt.cast_time_unit("us")
    return wall if zone is None else _in_zone(wall, wall.dt.replace_time_zone("UTC").dt.convert_time_zone(zone))


def _one(moment: Any, dtype: pl.DataType) -> pl.Series:
    if isinstance(moment, pl.Series):
        return moment.cast(dtype)
    zone = dtype.time_zone  # type: ignore[attr-defined]
    if moment.tzinfo is not None:
        utc = pl.Series([moment.astimezone(dt.UTC)]).dt.cast_time_unit("us")
        return utc.dt.replace_time_zone(None) if zone is None else utc.dt.convert_time_zone(zone)
    return pl.Series([moment]).dt.cast_time_unit("us").cast(dtype)


def _microseconds(moments: pl.Series) -> NDArray[np.int64]:
    return moments.to_physical().to_numpy()


def _range(first: pl.Series, last: pl.Series, every: str) -> pl.Series:
    return pl.select(pl.datetime_range(pl.lit(first).first(), pl.lit(last).first(), every, time_unit="us")).to_series()


def _on_the_wall(moments: pl.Series) -> pl.Series:
    return moments.dt.replace_time_zone(None)


def _in_zone(wall: pl.Series, like: pl.Series) -> pl.Series:
    """Convert wall-clock times to this zone. Ambiguous: the earlier one. Skipped: the instant of the change."""
    zone = like.dtype.time_zone  # type: ignore[attr-defined]
    if zone is None:
        return wall
    found = wall.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
    leapt = found.is_null()
    if not leapt.any():
        return found
    # With the offset of before the leap, as Python reads such times: a leap at midnight is met exactly.
    after = [moment.replace(tzinfo=ZoneInfo(zone)).astimezone(dt.UTC) for moment in wall.filter(leapt)]
    utc = pl.Series(after).dt.cast_time_unit("us").dt.convert_time_zone(zone)
    return found.scatter(leapt.arg_true(), utc)
