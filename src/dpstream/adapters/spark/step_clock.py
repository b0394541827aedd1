"""StepClock: which step a moment falls into, and when steps end, for a horizon that is known beforehand."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpstream.errors import InvalidArgument
from dpstream.events.calendar import Calendar, parse_moment
from dpstream.events.windows import Window, fitting_lengths, windows_of

__all__ = ["StepClock"]

Numbers = NDArray[np.int64]


class StepClock:
    """The beginnings and ends of `horizon` steps, in microseconds since 1970 (UTC), as Spark counts time.

    Parameters
    ----------
    every, start, zone, horizon
        How long a step is (15m, 1h, 1d, 1mo), a moment of the first one (text), the zone whose calendar cuts days and
        months, and how many steps there are.
    windows
        Lengths of time (7d, 1mo) or numbers of steps whose changes are told beside each total.

    Examples
    --------
    >>> days = StepClock("1d", "2026-03-01", "UTC", 31, ("7d",))
    >>> moments = np.array([days.edges[0] - 1, days.edges[0], days.edges[2] + 5, days.edges[31]])
    >>> days.steps(moments).tolist()  # from 0; before the first: -1, after the last: 31
    [-1, 0, 2, 31]
    >>> days.ended(days.ends_ms[1]), days.ended(days.ends_ms[1] - 1), days.since(9).tolist()
    (2, 1, [2])
    """

    def __init__(self, every: str, start: str, zone: str, horizon: int, windows: Sequence[str | int] = ()) -> None:
        self.every, self.start, self.zone, self.horizon = every, start, zone, horizon
        self.windows: tuple[Window, ...] = windows_of(windows)
        try:
            first = parse_moment("start", start, zone)
        except pl.exceptions.PolarsError:
            raise InvalidArgument("zone", zone, "a time zone such as UTC or Europe/Copenhagen") from None
        self._calendar = Calendar(every, first)
        self._calendar.lay_out(horizon + 1)
        #: Where each step begins, and where the last one ends.
        self.edges: Numbers = self._calendar.begins(0, horizon + 1).to_physical().to_numpy().astype(np.int64)
        if self.edges[0] < 0:
            raise InvalidArgument("start", start, "1970 or later: Spark's watermark begins there")
        if np.diff(self.edges).min() < 1000:
            raise InvalidArgument("every", every, "at least 1ms: Spark's watermark counts milliseconds")
        #: From which watermark on, in milliseconds, each step has ended.
        self.ends_ms: Numbers = -(-self.edges[1:] // 1000)

    @property
    def lengths(self) -> tuple[int, ...]:
        """The lengths in steps that a mechanism is fitted to."""
        return fitting_lengths(self.windows, self.every, self.horizon)

    @cached_property
    def earlier(self) -> Numbers:
        """For each window and step, how many steps lie before the window that this step ends."""
        none = np.zeros((0, self.horizon), dtype=np.int64)
        return np.concatenate([none, *(w.since(self._calendar, 0, self.horizon)[None] for w in self.windows)])

    @cached_property
    def kept(self) -> int:
        """How many earlier releases windows look back at most."""
        steps = np.arange(1, self.horizon + 1)
        back = (steps - self.earlier)[self.earlier > 0]
        return int(back.max(initial=0))

    def since(self, t: int) -> Numbers:
        """Return for each window how many steps lie before it when it ends with step t (from 1)."""
        found: Numbers = self.earlier[:, t - 1]
        return found

    def steps(self, microseconds: Numbers) -> Numbers:
        """Return the step of each moment, from 0: -1 before the first, `horizon` after the last."""
        return np.searchsorted(self.edges, microseconds, side="right") - 1

    def ended(self, watermark_ms: int) -> int:
        """Return how many steps have ended at this watermark."""
        return int(np.searchsorted(self.ends_ms, watermark_ms, side="right"))

    def begin(self, t: int) -> dt.datetime:
        """Return when step t (from 1) begins, in UTC."""
        return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=int(self.edges[t - 1]))

    def as_json(self) -> dict[str, Any]:
        """Return what decides the steps."""
        return {"every": self.every, "start": int(self.edges[0]), "zone": self.zone}
