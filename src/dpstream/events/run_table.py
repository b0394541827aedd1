"""RunTable: the releases of a run as tables, continuing those of earlier runs and of the streams before."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpstream.events.calendar import Calendar
from dpstream.events.count_options import CountOptions
from dpstream.events.release_table import ReleaseTable
from dpstream.events.released import Released
from dpstream.events.stored_stream import StoredStream
from dpstream.release.settings import StreamSettings
from dpstream.store import Store

__all__ = ["RunTable"]

#: Steps of one table of earlier releases.
PIECE = 1 << 15


class RunTable:
    """Makes tables of the releases of a run.

    A stream that goes on with another one (`Store.start_successor`) is told as one series with it: steps are counted
    through, totals include the one that was carried over, and error bars are those of both.

    Parameters
    ----------
    options, settings, calendar
        What is counted, the settings of the counter, and when its steps begin (None: they have no dates).
    store, seen
        The store of the stream, and how many of its steps were released in earlier runs.
    keep
        Whether to keep all releases, for `released`.

    Attributes
    ----------
    before
        How many steps were released before this run, those of streams before included.
    """

    def __init__(
        self,
        options: CountOptions,
        settings: StreamSettings,
        calendar: Calendar | None,
        store: Store | None,
        seen: int,
        *,
        keep: bool = False,
    ) -> None:
        self._options, self._settings = options, settings
        self._store = store
        series = None if store is None else StoredStream(store, options.name)
        self._series = series if series is not None and len(series.parts) > 1 else None
        self._calendar = calendar if self._series is None else self._series.calendar
        info = None if self._series is None else self._series.info
        self.before = seen + (0 if info is None else info.steps_before)
        self._carried = np.asarray(0 if info is None else info.carried, dtype=np.int64)
        self._kept: list[NDArray[np.int64]] | None = [] if keep else None
        self._table = self._new_table()
        self._skipped = False

    def _new_table(self) -> ReleaseTable:
        options = self._options
        return ReleaseTable(
            self._settings,
            self._calendar,
            options.measure.names,
            confidence=options.confidence,
            windows=options.windows,
            non_negative=options.non_negative,
            monotone=options.monotone,
            total=options.total,
            errors=None if self._series is None else self._series.error_bars,
        )

    def earlier(self) -> Iterator[pl.DataFrame]:
        """Yield the releases before this run as tables; to be called before `rows`, or not at all."""
        self._skipped = True
        values = self._recorded()
        for first in range(0, self.before, PIECE):
            yield self._shown(values[first : first + PIECE])

    def rows(self, values: NDArray[np.int64]) -> pl.DataFrame:
        """Return the releases that follow on those of the last table, as a table with error bars."""
        if not self._skipped:
            self._skipped = True
            if self.before:
                recorded = self._recorded()
                self._keep(recorded)
                self._table.skip(recorded)
        return self._shown(values + self._carried)

    def released(self) -> Released:
        """Return all releases, those before this run too; only with `keep`."""
        assert self._kept is not None  # noqa: S101
        values = [np.zeros((0, *self._settings.shape), dtype=np.int64), *self._kept]
        measure = self._options.measure
        return Released(
            self._settings,
            np.concatenate(values),
            self._calendar,
            measure.names,
            measure.reader.unit,
            None if self._series is None else self._series.error_bars,
        )

    def _shown(self, values: NDArray[np.int64]) -> pl.DataFrame:
        self._keep(values)
        return self._options.measure.in_unit(self._table.rows(values))

    def _keep(self, values: NDArray[np.int64]) -> None:
        if self._kept is not None:
            self._kept.append(values)

    def _recorded(self) -> NDArray[np.int64]:
        assert self._store is not None  # noqa: S101
        if not self.before:
            return np.zeros((0, *self._settings.shape), dtype=np.int64)
        return self._store.series_values(self._options.name)[: self.before]
