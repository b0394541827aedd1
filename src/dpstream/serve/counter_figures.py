"""What the page shows of a counter: releases, totals and windows, of single numbers or of declared categories."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from dpstream.events.released import Released
from dpstream.events.stored_stream import StoredStream
from dpstream.events.window_figures import window_figures
from dpstream.events.windows import Window
from dpstream.release.error_bars import release_stddev
from dpstream.release.in_words import describe
from dpstream.release.protection import TO_FILL_IN
from dpstream.serve.shown_stream import ShownStream
from dpstream.store import PublishedStore, StreamInfo

__all__ = ["CounterFigures"]


class CounterFigures(ShownStream):
    """All that is shown of one counter with its successors.

    Parameters
    ----------
    store, parts
        The published releases, and the streams of a series in them, as they were listed.
    """

    def __init__(self, store: PublishedStore, parts: Sequence[StreamInfo]) -> None:
        self._store, self._stream = store, StoredStream(store, parts[0].name, parts)
        asked = self._stream.source.get("windows") or ()
        if not asked and self._stream.calendar is None:
            asked = self._stream.settings.windows
        super().__init__(self._stream.parts, self._stream.calendar, [str(text) for text in asked])
        self._bars: dict[str, pl.DataFrame] = {}

    @cached_property
    def released(self) -> Released:
        """The releases with what they are of."""
        return self._stream.released(self._store.values_of(self.parts))  # of the same moment as all else here

    @cached_property
    def table(self) -> pl.DataFrame:
        return self.released.table()

    @property
    def names(self) -> tuple[str, ...]:
        return self._stream.names

    def select(self, first: int, last: int, category: str | None = None) -> pl.DataFrame:
        return _only(self.table.filter(pl.col("step").is_between(first, last)), category)

    def totals(self, category: str | None) -> pl.DataFrame:
        return _only(self.table, category)

    def bars(self, window: Window, category: str | None) -> pl.DataFrame:
        if window.text not in self._bars:
            self._bars[window.text] = window_figures(self.released, window.text)
        return _only(self._bars[window.text], category)

    @cached_property
    def last_windows(self) -> pl.DataFrame | None:
        if not self.t:
            return None
        return self.released.table(windows=self.windows, last=1)

    @cached_property
    def course(self) -> Sequence[float]:
        """What was counted in each of the shortest windows, counted back from the last step; else the totals."""
        totals = self.released.values.reshape(self.t, -1).sum(axis=1, dtype=np.float64) * float(self._stream.unit)
        length = self.windows[0].longest(self.every) if self.windows else self.t
        if self.t < max(4, 2 * length):
            return list(totals)
        return list(np.diff(np.append(0.0, totals)[self.t % length :: length]))

    @cached_property
    def protection(self) -> str:
        return self._stream.protection().paragraph()

    @property
    def limit(self) -> str:
        return self._stream.protection().limit

    @cached_property
    def promises(self) -> list[str]:
        found = []
        for part in self.parts:
            settings, t = self._store.settings(part.name), max(part.t, 1)
            words = describe(settings, release_stddev(settings, t), t, rows_per_person=part.rows_per_person)
            found.append(words if len(self.parts) == 1 else f"{part.name}: {words}")
        return found

    @cached_property
    def registry_entry(self) -> dict[str, Any]:
        entry = self._stream.protection().registry_entry(name=self.name)
        entry["deployment"]["basic"]["publication_date"] = TO_FILL_IN  # which no release tells
        return entry


def _only(frame: pl.DataFrame, category: str | None) -> pl.DataFrame:
    return frame if category is None else frame.filter(pl.col("category") == category)
