"""Dates that read well along a picture: 1 Jan, 15 Jan, 1 Feb, with the year below the first of each year."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["date_axis", "day_in_words", "tick_labels"]


def day_in_words(moment: dt.date) -> str:
    """Return a date as people write it, with the time of day if it has one.

    >>> day_in_words(dt.date(2026, 1, 5)), day_in_words(dt.datetime(2026, 1, 5, 13, 30))
    ('5 January 2026', '5 January 2026 13:30')
    """
    day = f"{moment.day} {moment:%B %Y}"
    return f"{day} {moment:%H:%M}" if isinstance(moment, dt.datetime) else day


def date_axis(axes: Axes, first: Any, last: Any, *, days: bool) -> None:
    """Let the axis along the bottom go from one moment to another, with labels that tell day, month and year.

    `days`: steps are days or longer, and nothing is to be said of hours.
    """
    from matplotlib.dates import AutoDateLocator, DayLocator, num2date
    from matplotlib.ticker import Formatter

    def moment(x: float) -> dt.datetime:
        found: dt.datetime = num2date(x)  # type: ignore[no-untyped-call]
        return found.replace(tzinfo=None)

    class Dates(Formatter):
        """Labels all ticks at once, since a year stands below the first tick of each year only."""

        def __call__(self, x: float, pos: int | None = None) -> str:
            return day_in_words(moment(x))

        def format_ticks(self, values: Any) -> list[str]:
            return tick_labels([moment(value) for value in values])

    axes.set_xlim(np.datetime64(first), np.datetime64(last))  # type: ignore[arg-type]
    short = np.datetime64(last) - np.datetime64(first) <= np.timedelta64(9, "D")
    locator = DayLocator() if days and short else AutoDateLocator(minticks=4, maxticks=9)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(Dates())


def tick_labels(moments: list[dt.datetime]) -> list[str]:
    r"""Return a label for each of these moments, no longer than it must be.

    >>> tick_labels([dt.datetime(2025, month, 1) for month in (11, 12)] + [dt.datetime(2026, 1, 1)])
    ['Nov\n2025', 'Dec', 'Jan\n2026']
    >>> tick_labels([dt.datetime(2026, 1, day) for day in (1, 15)])
    ['1 Jan\n2026', '15 Jan']
    >>> tick_labels([dt.datetime(2026, 1, 1, hour) for hour in (0, 12)] + [dt.datetime(2026, 1, 2)])
    ['00:00\n1 Jan 2026', '12:00', '00:00\n2 Jan']
    """
    labels = []
    months = all(moment.day == 1 and moment.hour == 0 for moment in moments)
    years = months and all(moment.month == 1 for moment in moments) and len(moments) > 1
    hours = any(moment.hour or moment.minute or moment.second for moment in moments)
    before: dt.datetime | None = None
    for moment in moments:
        new_year = before is None or moment.year != before.year
        if years:
            label = f"{moment:%Y}"
        elif hours:
            label = f"{moment:%H:%M:%S}" if moment.second else f"{moment:%H:%M}"
            if before is None or moment.date() != before.date():
                label += f"\n{moment.day} {moment:%b}" + (f" {moment:%Y}" if new_year else "")
        else:
            label = f"{moment:%b}" if months else f"{moment.day} {moment:%b}"
            label += f"\n{moment:%Y}" if new_year else ""
        labels.append(label)
        before = moment
    return labels
