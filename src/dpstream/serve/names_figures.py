"""What the page shows of a stream of discovered names: names that are published, and the values released of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpstream.events.discovery_table import NamesTable
from dpstream.events.release_table import significant
from dpstream.events.released import Released
from dpstream.events.stored_names import StoredNames
from dpstream.events.window_figures import Spans, spans_of
from dpstream.events.windows import Window
from dpstream.release.name_words import describe_names
from dpstream.release.protection import TO_FILL_IN
from dpstream.serve.shown_stream import ShownStream
from dpstream.store import NamedRelease, PublishedNames, PublishedStore, StreamInfo

__all__ = ["NamesFigures"]

#: Of the numbers beside every figure.
CONFIDENCE = 0.95


class _Bars(NamedTuple):
    """Windows one after the other, when they begin and end, and the errors of what was counted in them."""

    spans: Spans
    begins: pl.Series
    ends: pl.Series
    stddev: NDArray[np.float64]
    off: NDArray[np.int64]


class NamesFigures(ShownStream):
    """All that is shown of one stream of names.

    There may be so many names that a table of all releases is large; it is made when somebody asks for it, and pages
    and charts do without.

    Parameters
    ----------
    store, parts
        The published releases, and a stream of names in them, as it was listed: names have no successors.
    """

    discovers = True

    def __init__(self, store: PublishedStore, parts: Sequence[StreamInfo]) -> None:
        self._stream = StoredNames(store, parts[0].name, parts[0])
        asked = self._stream.source.get("windows") or ()
        if not asked and self._stream.calendar is None:
            asked = self._stream.settings.windows
        super().__init__([self._stream.info], self._stream.calendar, [str(text) for text in asked])
        self._bars: dict[str, _Bars] = {}

    @cached_property
    def _published(self) -> PublishedNames:
        found = self._stream.published()
        known = int((found.since <= self.t).sum())  # of the same moment as all else here
        return PublishedNames(found.names[:known], found.since[:known], found.values[: self.t])

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: at for at, name in enumerate(self._published.names)}

    @property
    def names(self) -> tuple[str, ...]:
        """The published names, oldest first."""
        return self._published.names

    @property
    def table(self) -> pl.DataFrame:
        return self.select(1, self.t)

    def select(self, first: int, last: int, category: str | None = None) -> pl.DataFrame:
        if category is not None:
            frame = self.totals(category)
            return frame.filter(pl.col("step").is_between(first, last))
        return NamesTable(self._stream.settings, self._calendar).rows(list(self._releases(first, last)))

    def _releases(self, first: int, last: int) -> list[NamedRelease]:
        found = self._published
        return [
            NamedRelease(step, found.names[: len(found.values[step - 1])], found.values[step - 1])
            for step in range(first, last + 1)
        ]

    @cached_property
    def _errors(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Standard deviation and half width of each total."""
        settings, steps = self._stream.settings, range(1, self.t + 1)
        stddev = np.array([settings.stddev(t) for t in steps], dtype=np.float64)
        off = np.array([settings.half_width(t, CONFIDENCE) for t in steps], dtype=np.int64)
        return significant(stddev), off

    def totals(self, category: str | None) -> pl.DataFrame:
        """Return the running total of one name, from the step on in which it was published."""
        assert category is not None  # noqa: S101
        values = self._published.of(category)
        first = self.t - len(values)
        steps = np.arange(first + 1, self.t + 1)
        stddev, off = (errors[first:] for errors in self._errors)
        columns: dict[str, Any] = {"step": steps}
        if self._calendar is not None:
            columns["start"] = self._calendar.shown(first, len(values))
        columns["category"] = pl.Series([category], dtype=pl.String).new_from_index(0, len(values))
        return pl.DataFrame(columns | {"value": values, "stddev": stddev, "low": values - off, "high": values + off})

    def bars(self, window: Window, category: str | None) -> pl.DataFrame:
        """Return what was counted of one name in each window that began after the name was published, or at the start.

        Of others nothing can be told: no value was released of the name when the window began.
        """
        assert category is not None  # noqa: S101
        (t, since, complete), begins, ends, stddev, off = self._windows_of(window)
        at, published = self._places[category], self._published
        told = (t >= published.since[at]) & ((since == 0) | (since >= max(published.since[at], 1)))
        value = np.array(
            [
                published.values[end - 1][at] - (published.values[before - 1][at] if before else 0)
                for end, before in zip(t[told].tolist(), since[told].tolist(), strict=True)
            ],
            dtype=np.int64,
        )
        return pl.DataFrame(
            {
                "from": begins.filter(pl.Series(told)),
                "through": ends.filter(pl.Series(told)),
                "complete": complete[told],
                "value": value,
                "stddev": stddev[told],
                "low": value - off[told],
                "high": value + off[told],
            }
        )

    def _windows_of(self, window: Window) -> _Bars:
        if window.text not in self._bars:
            # Where windows begin and end follows from the number of steps and their dates alone.
            steps = Released(cast("Any", None), np.zeros(self.t, dtype=np.int64), self._calendar)
            spans = spans_of(steps, window.text)
            settings = self._stream.settings
            errors = [
                settings.change(end, before, CONFIDENCE)
                if before
                else (settings.stddev(end), settings.half_width(end, CONFIDENCE))
                for end, before in zip(spans.t.tolist(), spans.since.tolist(), strict=True)
            ]
            moments = pl.Series(np.arange(1, self.t + 1)) if self._calendar is None else self._calendar.shown(0, self.t)
            self._bars[window.text] = _Bars(
                spans,
                moments[spans.since],
                moments[spans.t - 1],
                significant(np.array([stddev for stddev, _ in errors])),
                np.array([off for _, off in errors], dtype=np.int64),
            )
        return self._bars[window.text]

    @cached_property
    def last_windows(self) -> pl.DataFrame | None:
        if not self.t:
            return None
        table = NamesTable(self._stream.settings, self._calendar, windows=self.windows)
        table.skip(self._releases(max(1, self.t - table.needs), self.t - 1))
        since = pl.Series("since", self._published.since)
        return table.rows(self._releases(self.t, self.t)).with_columns(since)

    @cached_property
    def course(self) -> Sequence[float]:
        """How many names were published by each step."""
        return [float(len(values)) for values in self._published.values]

    @cached_property
    def protection(self) -> str:
        return self._stream.protection().paragraph()

    @property
    def limit(self) -> str:
        return self._stream.protection().limit

    @cached_property
    def promises(self) -> list[str]:
        return [describe_names(self._stream.settings, enforced=True)]

    @cached_property
    def registry_entry(self) -> dict[str, Any]:
        entry = self._stream.protection().registry_entry(name=self.name)
        entry["deployment"]["basic"]["publication_date"] = TO_FILL_IN  # which no release tells
        return entry
