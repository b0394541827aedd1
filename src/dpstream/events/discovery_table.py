"""NamesTable: the releases of names as tables, with error bars and windows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpstream.arguments import check_probability
from dpstream.events.calendar import Calendar
from dpstream.events.release_table import significant
from dpstream.events.windows import Window
from dpstream.release.open_settings import OpenSettings
from dpstream.store.published_names import NamedRelease

__all__ = ["NamesTable"]


class NamesTable:
    """Makes tables of the releases of names, which are given in order: a row for each step and published name.

    A window of a name that was not published when it began is empty: null.

    Parameters
    ----------
    settings, calendar
        Those of the counter, and when steps begin; None: steps have no dates.
    confidence, windows, non_negative
        As for `ReleaseTable`.
    """

    def __init__(
        self,
        settings: OpenSettings,
        calendar: Calendar | None = None,
        *,
        confidence: float = 0.95,
        windows: Iterable[Window] = (),
        non_negative: bool = False,
    ) -> None:
        self._settings, self.calendar = settings, calendar
        self._confidence = check_probability("confidence", confidence)
        self._windows = tuple(windows)
        self._non_negative = non_negative
        every = None if calendar is None else calendar.every
        self._kept_at_most = max((window.longest(every) for window in self._windows), default=0)
        #: Releases of earlier steps that windows need, by step.
        self._past: dict[int, NDArray[np.int64]] = {}

    @property
    def needs(self) -> int:
        """How many earlier releases windows need."""
        return self._kept_at_most

    def skip(self, releases: Iterable[NamedRelease]) -> None:
        """Take releases that are not to be in a table, but that later windows need."""
        for release in releases:
            self._keep(release)

    def rows(self, releases: Sequence[NamedRelease]) -> pl.DataFrame:
        """Return these releases as a table."""
        tables = [self._of(release) for release in releases]
        return pl.concat([self._empty(), *tables])

    def _of(self, release: NamedRelease) -> pl.DataFrame:
        t, names, values = release
        columns: dict[str, Any] = {"step": np.full(len(names), t)}
        if self.calendar is not None:
            self.calendar.lay_out(t)
            columns["start"] = self.calendar.shown(t - 1, 1).new_from_index(0, len(names))
        columns["category"] = pl.Series(names, dtype=pl.String)
        columns |= self._numbers("", values, len(names), *self._bars(t, 0))
        for window in self._windows:
            since = int(window.since(self.calendar, t - 1, 1)[0])
            change = values if since <= 0 else values[: len(self._past[since])] - self._past[since]
            columns |= self._numbers(window.name, change, len(names), *self._bars(t, max(since, 0)))
        self._keep(release)
        return pl.DataFrame(columns)

    def _bars(self, t: int, since: int) -> tuple[float, int]:
        if not since:
            return self._settings.stddev(t), self._settings.half_width(t, self._confidence)
        return self._settings.change(t, since, self._confidence)

    def _numbers(
        self, window: str, values: NDArray[np.int64], size: int, stddev: float, off: int
    ) -> dict[str, pl.Series]:
        prefix = f"{window}_" if window else ""
        shown = float(significant(np.array([stddev]))[0])
        columns = {
            window or "value": values,
            f"{prefix}stddev": np.full(len(values), shown),
            f"{prefix}low": values - off,
            f"{prefix}high": values + off,
        }
        if self._non_negative:
            columns[f"{prefix}non_negative"] = np.maximum(values, 0)
        rest = size - len(values)
        return {name: pl.Series(name, each).extend_constant(None, rest) for name, each in columns.items()}

    def _keep(self, release: NamedRelease) -> None:
        if self._kept_at_most:
            self._past[release.step] = release.values
            self._past.pop(release.step - self._kept_at_most - 1, None)

    def _empty(self) -> pl.DataFrame:
        """Return a table without rows."""
        nothing = np.zeros(0, dtype=np.int64)
        columns: dict[str, Any] = {"step": nothing}
        if self.calendar is not None:
            self.calendar.lay_out(1)
            columns["start"] = self.calendar.shown(0, 1).clear()
        columns["category"] = pl.Series([], dtype=pl.String)
        for name in ("", *(window.name for window in self._windows)):
            columns |= self._numbers(name, nothing, 0, 0.0, 0)
        return pl.DataFrame(columns)
