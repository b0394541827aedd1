"""Which steps are to be released: decided by a date or by the clock, never by the data."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import polars as pl

from dpstream.events.calendar import Calendar, parse_moment

__all__ = ["last_step", "now", "steps_ended"]


def now() -> dt.datetime:
    """The present moment. All clock readings of this package go through here, so that a test can set the clock."""
    return dt.datetime.now(dt.UTC)


def last_step(through: str, zone: str | None) -> Callable[[Calendar, int], int]:
    """Return a function that says how many of a calendar's first steps are to be released.

    Parameters
    ----------
    through
        "now": every step that has ended by now. "yesterday": every step that had ended at the last midnight. A date
        or a moment: every step up to and including the one that it falls into.
    zone
        The time zone of the calendar; None: its timestamps are read as they stand, and the clock is this machine's.

    Raises
    ------
    InvalidArgument
        If `through` is none of these.
    """
    if through in ("now", "yesterday"):
        return lambda calendar, most: steps_ended(calendar, most, midnight=through == "yesterday")
    moment = parse_moment("through", through, zone, end_of_day=True)
    return lambda calendar, most: min(calendar.reach(moment), most)


def steps_ended(calendar: Calendar, most: int, *, midnight: bool = False, at: dt.datetime | None = None) -> int:
    """How many of a calendar's first `most` steps have ended by now (or `at`), or had ended at the last midnight."""
    present = now() if at is None else at
    moment = pl.Series([present.astimezone(dt.UTC)]).dt.cast_time_unit("us")
    if calendar.zone is None:
        local = present.astimezone().replace(tzinfo=None)
        moment = pl.Series([local]).dt.cast_time_unit("us")
    else:
        moment = moment.dt.convert_time_zone(calendar.zone)
    if midnight:
        moment = Calendar("1d", moment).begins(0, 1)
    return calendar.ended(moment, most)
