"""What is looked at before anything is written: the date through which is released, and late rows."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpstream.errors import (
    ClockWentBack,
    StreamEnded,
    ThroughInsideStep,
    ThroughTooEarly,
)
from dpstream.events import last_step as clock
from dpstream.events.calendar import Calendar, parse_moment
from dpstream.events.tally import TimeTally

if TYPE_CHECKING:
    from dpstream.events.counting import CountRun

__all__ = ["check_before_release", "steps_in_words", "steps_without_rows"]

#: So many steps, or stretches of steps, are named in a sentence.
NAMED = 5


def check_before_release(run: CountRun) -> None:
    """Refuse what should not be released, before anything is written.

    Raises
    ------
    ThroughTooEarly, ClockWentBack
        If the last step to release is before one that was released.
    ThroughInsideStep
        If a step of several days would be released through a date inside it, into a store.
    StreamEnded
        If rows are late and there is no open step to count them in.
    """
    tally = run.tally
    if tally.calendar is None:
        return
    _check_end(run, tally.calendar)
    if run.in_ledger:
        _check_late(run, tally)


def _check_whole_step(run: CountRun, through: str, calendar: Calendar) -> None:
    """Refuse a date inside a step of several days; a moment of a day is taken at its word."""
    if "T" in through or ":" in through:
        return
    moment = parse_moment("through", through, run.options.time_zone, end_of_day=True)
    step = calendar.reach(moment)
    if not run.seen < step <= run.tally.horizon:
        return
    first, last = (series[0] for series in (calendar.shown(step - 1, 1), calendar.last_days(step - 1, 1)))
    if isinstance(last, dt.datetime) or last <= moment[0].date():
        return
    before = first - dt.timedelta(days=1)
    raise ThroughInsideStep(through=through, first=str(first), last=str(last), before=str(before))


def _check_end(run: CountRun, calendar: Calendar) -> None:
    end, seen = run.options.end, run.seen
    if end is not None and end not in ("now", "yesterday") and run.in_ledger:
        _check_whole_step(run, end, calendar)
    if end is None or not seen:
        return
    calendar.lay_out(seen)
    last = str(calendar.shown(seen - 1, 1)[0])
    if end in ("now", "yesterday"):
        # Of steps that were released by date, ahead of the clock, the same can be said.
        if clock.steps_ended(calendar, seen) < seen:
            raise ClockWentBack(last=last, now=f"{clock.now():%Y-%m-%d %H:%M} UTC")
    elif clock.last_step(end, run.options.time_zone)(calendar, seen) < seen:
        raise ThroughTooEarly(through=end, last=last)


def _check_late(run: CountRun, tally: TimeTally) -> None:
    assert tally.calendar is not None  # noqa: S101
    seen = run.seen
    if tally.old and run.options.late != "drop" and seen >= tally.horizon:
        tally.calendar.lay_out(seen + 1)
        last = str(tally.calendar.shown(seen - 1, 1)[0]) if seen else f"before {tally.calendar.shown(0, 1)[0]}"
        raise StreamEnded(name=run.options.name, horizon=tally.horizon, last=last)


def steps_without_rows(run: CountRun) -> NDArray[np.int64]:
    """Return which of the steps that are released next have no rows, in this run or in an earlier one."""
    tally, first, last = run.tally, run.seen, run.closed
    if last <= first:
        return np.zeros(0, dtype=np.int64)
    rows = np.zeros(last - first, dtype=np.int64)
    if run.in_ledger:
        rows += run.rows_waiting(first + 1, last)
        for part in tally.parts:
            found = part.rows[: last - part.first]
            rows[part.first - first :][: len(found)] += found
    else:
        found = tally.rows_in(first, last - first)
        rows[: len(found)] += found
    return first + np.flatnonzero(rows == 0)


def steps_in_words(calendar: Calendar, steps: NDArray[np.int64]) -> str:
    """Return when steps begin, in words: stretches of them by their ends, and no more than a few.

    Examples
    --------
    >>> import polars as pl, datetime as dt
    >>> days = Calendar("1d", pl.Series([dt.datetime(2026, 3, 1)]))
    >>> steps_in_words(days, np.array([1, 4, 5, 6]))
    '2026-03-02 and 2026-03-05 to 2026-03-07'
    """
    calendar.lay_out(int(steps[-1]) + 1)
    stretches = np.split(steps, np.flatnonzero(np.diff(steps) > 1) + 1)

    def shown(step: int) -> str:
        return str(calendar.shown(int(step), 1)[0])

    named = [
        shown(one[0]) if len(one) == 1 else f"{shown(one[0])} {'and' if len(one) == 2 else 'to'} {shown(one[-1])}"
        for one in stretches[:NAMED]
    ]
    more = sum(map(len, stretches[NAMED:]))
    if more:
        named.append(f"{more:,} more {'step' if more == 1 else 'steps'}")
    *most, last = named
    return f"{', '.join(most)} and {last}" if most else last
