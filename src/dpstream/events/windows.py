"""Windows: the last so many days, weeks or months up to a step, and which releases tell what was counted in them."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpstream.errors import InvalidArgument
from dpstream.events.calendar import Calendar

__all__ = ["Window", "fitting_lengths", "windows_of"]

#: Lengths of time, in microseconds; and those that differ in length, in months.
_FIXED = {
    "us": 1,
    "ms": 1000,
    "s": 10**6,
    "m": 60 * 10**6,
    "h": 3600 * 10**6,
    "d": 86400 * 10**6,
    "w": 7 * 86400 * 10**6,
}
_MONTHS = {"mo": 1, "q": 3, "y": 12}
_LENGTH = re.compile("([1-9][0-9]{0,8})(us|ms|s|m|h|d|w|mo|q|y)?")
ALLOWED = "a number of steps such as 7, or a length of time such as 1d, 7d, 4w, 1mo, 1q or 1y"


@dataclass(frozen=True)
class Window:
    """A length of time (7d, 4w, 1mo) or a number of steps (7), up to and including a step.

    A month or a year is one of the calendar, so that its length in steps differs: up to 31 March, 1mo is all of March.

    Examples
    --------
    >>> import polars as pl
    >>> week, month = Window("7d"), Window("1mo")
    >>> week.name, week.longest("1d"), month.longest("1d"), Window("12").longest("1h")
    ('last_7d', 7, 31, 12)
    >>> days = Calendar("1d", pl.Series([dt.datetime(2026, 2, 1)]))
    >>> (np.arange(27, 30) + 1 - month.since(days, 27, 3)).tolist()  # up to 28 February, 1 and 2 March
    [28, 28, 28]
    """

    text: str

    def __post_init__(self) -> None:
        if not isinstance(self.text, str) or not _LENGTH.fullmatch(self.text):
            raise InvalidArgument("windows", self.text, ALLOWED)

    @property
    def name(self) -> str:
        """How columns are named."""
        return f"last_{self.text}"

    @cached_property
    def count(self) -> int:
        """The number before the unit."""
        return int(self._parts[0])

    @cached_property
    def unit(self) -> str | None:
        """The unit of time; None: steps."""
        return self._parts[1]

    @property
    def _parts(self) -> tuple[str, str | None]:
        found = _LENGTH.fullmatch(self.text)
        assert found is not None  # noqa: S101
        return found[1], found[2]

    @property
    def words(self) -> str:
        """How people say it.

        >>> [Window(text).words for text in ("1d", "7d", "2w", "12", "1")]
        ['1 day', '7 days', '2 weeks', '12 steps', '1 step']
        """
        nouns = {"us": "microsecond", "ms": "millisecond", "s": "second", "m": "minute", "h": "hour", "d": "day"}
        nouns |= {"w": "week", "mo": "month", "q": "quarter", "y": "year"}
        noun = "step" if self.unit is None else nouns[self.unit]
        return f"{self.count:,} {noun}{'' if self.count == 1 else 's'}"

    def longest(self, every: str | None) -> int:
        """Return how many steps of this length fit into the window, at most; None: steps are not of time.

        Raises
        ------
        InvalidArgument
            If the window is no whole number of steps.
        """
        if self.unit is None:
            return self.count
        if every is None:
            raise InvalidArgument("windows", self.text, "a number of steps where steps have no dates, such as 7")
        step = Window(every)
        if step.unit in _MONTHS:
            if self.unit in _MONTHS:
                return self._ratio(self.count * _MONTHS[self.unit], step.count * _MONTHS[step.unit], every)
            raise self._misfit(every)
        assert step.unit is not None  # noqa: S101
        length = step.count * _FIXED[step.unit]
        if self.unit not in _MONTHS:
            return self._ratio(self.count * _FIXED[self.unit], length, every)
        if _FIXED["d"] % length:  # weeks and months do not begin together
            raise self._misfit(every)
        return _FIXED["d"] // length * _most_days(self.count * _MONTHS[self.unit])

    def _ratio(self, length: int, step: int, every: str) -> int:
        if length % step:
            raise self._misfit(every)
        return length // step

    def _misfit(self, every: str) -> InvalidArgument:
        step = Window(every)
        some = f"such as {step.count}{step.unit} or {4 * step.count}{step.unit}"
        other = "" if step.text in ("1d", "1h") else "; a stream with steps of 1d has days, weeks and months"
        return InvalidArgument("windows", self.text, f"a whole number of steps of {every}, {some}{other}")

    def since(self, calendar: Calendar | None, first: int, count: int) -> NDArray[np.int64]:
        """Return, for each of the steps from `first` (from 0) on, how many steps lie before the window that it ends.

        So many releases are before the window: 0, if it reaches back to the beginning of the stream or beyond.
        """
        return self.stretches(calendar, first, count)[0]

    def stretches(
        self, calendar: Calendar | None, first: int, count: int
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return `since`, and for each step whether the window lies within the stream; else it is shorter."""
        longest = self.longest(None if calendar is None else calendar.every)
        through = np.arange(first + 1, first + count + 1, dtype=np.int64)
        if calendar is None or self.unit is None or not self._varies(calendar):
            return np.maximum(through - longest, 0), through >= longest
        return calendar.stretches(self.text, first, count)

    def _varies(self, calendar: Calendar) -> bool:
        """Whether the calendar decides how many steps there are: months differ, and so do days of hours."""
        unit = Window(calendar.every).unit
        if self.unit in _MONTHS:
            return unit not in _MONTHS
        return calendar.zone is not None and self.unit in ("d", "w") and unit not in ("d", "w")


def windows_of(given: str | Iterable[str | int]) -> tuple[Window, ...]:
    """Return the windows that a text with commas, or a list, names.

    >>> [window.name for window in windows_of("1d, 7d,1mo")]
    ['last_1d', 'last_7d', 'last_1mo']
    """
    parts = given.split(",") if isinstance(given, str) else list(given)
    found = tuple(Window(str(part).strip()) for part in parts)
    if len({window.text for window in found}) < len(found):
        raise InvalidArgument("windows", given, "each window once")
    return found


def fitting_lengths(windows: Sequence[Window], every: str | None, horizon: int | None) -> tuple[int, ...]:
    """Return the lengths in steps that a mechanism is fitted to, rising: of months the longest, none above the horizon.

    >>> fitting_lengths(windows_of("1d,7d,1mo,1y"), "1d", 365)
    (1, 7, 31, 365)
    """
    lengths = {window.longest(every) for window in windows}
    return tuple(sorted(lengths if horizon is None else {min(length, horizon) for length in lengths}))


def _most_days(months: int) -> int:
    """Return how many days so many months in a row have at most."""
    begins = [dt.date(2000 + i // 12, i % 12 + 1, 1) for i in range(96 + months % 48)]
    whole, rest = divmod(months, 48)  # four years have 1,461 days, but for centuries
    if not rest:
        return 1461 * whole
    return 1461 * whole + max((later - begin).days for begin, later in zip(begins, begins[rest:], strict=False))
