"""The figures of each day, week or month from the releases of a stream that exists: `window_figures`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpstream.errors import InvalidArgument, NoReleaseYet
from dpstream.events.calendar import Calendar, parse_moment
from dpstream.events.release_table import significant
from dpstream.events.released import Released, in_amounts
from dpstream.events.windows import Window

__all__ = ["Spans", "figures_of", "spans_of", "window_figures"]

WholeArray = NDArray[np.int64]


class Spans(NamedTuple):
    """Windows of steps: how many steps are up to the end of each and before it, and whether it is whole."""

    t: WholeArray
    since: WholeArray
    complete: NDArray[np.bool_]


def window_figures(
    released: Released,
    over: str,
    *,
    every: str | None = None,
    rolling: bool = False,
    start: str | None = None,
    through: str | None = None,
    confidence: float = 0.95,
) -> pl.DataFrame:
    """Return what was counted in each window, with error bars, from the releases that a stream has made.

    No budget is spent. A window that was not asked for when the stream began is answered with its exact error.

    Parameters
    ----------
    released
        The releases: `StoredStream(store, name).released()`.
    over
        How long a window is: 7d, 1w (from Monday to Sunday), 1mo (a month of the calendar), or a number of steps.
    every
        How far windows are apart; None: as far as they are long, so that each step is in one of them. Windows of one
        day, of weeks, months, quarters and years are those of the calendar; others begin at the first step, or at
        `start`.
    rolling
        A window up to every step instead.
    start, through
        Only windows that end between these dates (or steps, where steps have no dates).
    confidence
        The chance that the number without noise is between `low` and `high`, for each figure on its own.

    Returns
    -------
    DataFrame
        Columns from, through (the first and the last day of the window; its first and last step, where steps have no
        dates or are shorter than a day), steps (how many it has), complete (whether it lies within what was released;
        if not, the figure is that of a part), category, value, stddev, low, high. Of discovered names there are those
        windows that began when the name was published, and the first ones.

    Raises
    ------
    NoReleaseYet
        If nothing was released.
    InvalidArgument
        If a window is no whole number of steps, or no window ends between the dates.
    """
    spans = spans_of(released, over, every=every, rolling=rolling, start=start, through=through)
    return figures_of(released, spans, confidence)


def spans_of(
    released: Released,
    over: str,
    *,
    every: str | None = None,
    rolling: bool = False,
    start: str | None = None,
    through: str | None = None,
) -> Spans:
    """Return the windows that `window_figures` tells of."""
    if rolling and every is not None:
        raise InvalidArgument("every", every, "left out with `rolling`: a window ends with every step")
    steps, calendar = len(released.values), released.calendar
    if not steps:
        raise NoReleaseYet
    window = _window("over", over, released.every)
    first, last = _between(calendar, start, through, steps)
    if rolling:
        t = np.arange(1, steps + 1)
        since, complete = window.stretches(calendar, 0, steps)
    elif every is None or every == over:
        since, t, first_is_whole = _one_after_the_other(calendar, window, steps, first)
        complete = (t <= steps) & (first_is_whole | (since > 0))
        t = np.minimum(t, steps)
    else:
        _, t, _ = _one_after_the_other(calendar, _window("every", every, released.every), steps, first)
        t = t[t <= steps]
        since, complete = window.stretches(calendar, 0, steps)
        since, complete = since[t - 1], complete[t - 1]
    chosen = (t > first) & (t <= last)
    if not chosen.any():
        raise InvalidArgument("over", over, "such that a window ends between the dates")
    return Spans(t[chosen], since[chosen], complete[chosen])


def _window(argument: str, text: str, every: str | None) -> Window:
    """Return a window of whole steps; refuse others by the name of the argument."""
    try:
        window = Window(text)
        window.longest(every)
    except InvalidArgument as error:
        raise InvalidArgument(argument, text, error.allowed) from None
    return window


def _between(calendar: Calendar | None, start: str | None, through: str | None, steps: int) -> tuple[int, int]:
    """Return how many steps are before `start`, and how many are up to `through`."""
    found = []
    for argument, text in (("start", start), ("through", through)):
        if text is None:
            found.append(0 if argument == "start" else steps)
        elif calendar is None:
            if not text.isdecimal() or not int(text):
                raise InvalidArgument(argument, text, "the number of a step: steps of this stream have no dates")
            found.append(int(text) - (argument == "start"))
        else:
            moment = parse_moment(argument, text, calendar.zone, end_of_day=argument == "through")
            calendar.lay_out(steps + 1)
            found.append(int(calendar.steps(moment)[0]) + (argument == "through"))
    return max(found[0], 0), min(found[1], steps)


def _one_after_the_other(
    calendar: Calendar | None, window: Window, steps: int, first: int
) -> tuple[WholeArray, WholeArray, bool]:
    """Return windows that follow each other: how many steps are before each, and up to its end (more if it goes on).

    And whether one that begins with the first step is whole.
    """
    if calendar is None or window.unit is None:
        edges = np.arange(first, steps + window.count, window.count, dtype=np.int64)
        first_is_whole = True
    else:
        of_the_calendar = window.unit in ("w", "mo", "q", "y") or (window.unit == "d" and window.count == 1)
        edges = calendar.periods(window.text, steps, anchor=None if of_the_calendar else first)
        first_is_whole = not of_the_calendar or calendar.begins_period(window.text)
    there = (edges[:-1] < steps) & (edges[1:] > edges[:-1])
    return edges[:-1][there], edges[1:][there], first_is_whole


def figures_of(released: Released, spans: Spans, confidence: float = 0.95) -> pl.DataFrame:
    """Return the figures of these windows as a table; see `window_figures`."""
    values, (t, since, complete) = released.values, spans
    change = values[t - 1]
    change[since > 0] -= values[since[since > 0] - 1]
    stddev, off = released.errors(t, since, confidence)
    k = values[:1].size if len(values) else 1
    off = np.repeat(off, k)
    calendar = released.calendar
    if calendar is None:
        begins = ends = pl.Series(np.arange(1, len(values) + 1))
    else:
        calendar.lay_out(len(values))
        begins, ends = calendar.shown(0, len(values)), calendar.last_days(0, len(values))
    columns = {
        "from": begins[np.repeat(since, k)],
        "through": ends[np.repeat(t - 1, k)],
        "steps": np.repeat(t - since, k),
        "complete": np.repeat(complete, k),
        "category": pl.Series(released.names or [""], dtype=pl.String)[np.tile(np.arange(k), len(t))],
        "value": change.reshape(-1),
        "stddev": np.repeat(significant(stddev), k),
        "low": change.reshape(-1) - off,
        "high": change.reshape(-1) + off,
    }
    if values.ndim == 1:
        del columns["category"]
    frame = in_amounts(pl.DataFrame(columns), released.unit, ("value", "stddev", "low", "high"))
    known = released.known(t, since)
    return frame if known.all() else frame.filter(known.reshape(-1))
