"""StoredStream: a counter of a store with what it counts: dates, categories, and its releases as tables."""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstream.errors import InvalidArgument
from dpstream.events.calendar import Calendar, parse_moment
from dpstream.events.measure import OTHER
from dpstream.events.release_table import ReleaseTable
from dpstream.events.released import Released
from dpstream.events.windows import Window, windows_of
from dpstream.release.protection import ProtectionText
from dpstream.release.series_errors import ErrorBars, SeriesErrors
from dpstream.release.settings import StreamSettings
from dpstream.store import PublishedStore, Store, StreamInfo

__all__ = ["StoredStream", "calendar_of"]


_CALENDARS = threading.Lock()


def calendar_of(every: str, start: str, zone: str | None, steps: int) -> Calendar:
    """Return a calendar in which so many steps are laid out, from memory where another stream has the same."""
    with _CALENDARS:
        found = _calendar(every, start, zone)
        found.lay_out(steps)
        return copy.copy(found)


@lru_cache(maxsize=16)
def _calendar(every: str, start: str, zone: str | None) -> Calendar:
    return Calendar(every, parse_moment("start", start, zone))


class StoredStream:
    """A counter that a store keeps, to look at: nothing here writes, and other processes may be writing.

    With its predecessors and successors, if it has any: steps, releases and error bars are those of the whole series.

    Parameters
    ----------
    store, name
        The store, which may be opened without its key, and the name of a stream in it.
    parts
        The streams of the series, if they were read before.

    Attributes
    ----------
    parts, info
        The streams of the series, oldest first, and the last of them.

    Raises
    ------
    StreamUnknown
        If there is no such stream.
    InvalidArgument
        If it is no counter of single numbers or of categories.
    """

    def __init__(self, store: Store | PublishedStore, name: str, parts: Sequence[StreamInfo] | None = None) -> None:
        self.name = name
        self._store = store
        self.parts = store.series(name) if parts is None else list(parts)
        found = self.info = self.parts[-1]
        if found.dtype != "int64" or len(found.shape) > 1:
            raise InvalidArgument("name", name, "a counter, of single numbers or of categories")

    @cached_property
    def settings(self) -> StreamSettings:
        """The settings of the last stream, with the mechanism that it was created with."""
        return self._store.settings(self.info.name)

    @cached_property
    def error_bars(self) -> ErrorBars | None:
        """What computes error bars of a series of several streams; None for one, whose settings tell."""
        if len(self.parts) == 1:
            return None
        settings = tuple(self._store.settings(part.name) for part in self.parts)
        return SeriesErrors(settings, tuple(part.t for part in self.parts))

    @cached_property
    def source(self) -> dict[str, Any]:
        """What `dpstream count` wrote about what is counted; {} for a stream that it did not make."""
        try:
            found = json.loads(self.parts[0].source)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    @cached_property
    def calendar(self) -> Calendar | None:
        """When steps begin; None if they have no dates."""
        every, start = self.source.get("every"), self.source.get("start")
        if not self.source.get("time") or every is None or start is None:
            return None
        return calendar_of(every, start, self.source.get("time_zone"), sum(part.t for part in self.parts) + 1)

    @property
    def every(self) -> str | None:
        """How long a step is; None if steps have no dates."""
        return None if self.calendar is None else self.calendar.every

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The categories, in order; their numbers if nothing was said of them; () for single numbers."""
        if not self.info.shape:
            return ()
        named = [str(name) for name in self.source.get("categories") or ()]
        if named and self.source.get("undeclared") == "other":
            named.append(OTHER)
        (count,) = self.info.shape
        return tuple(named) if len(named) == count else tuple(map(str, range(count)))

    def releases(self) -> NDArray[np.int64]:
        """Return all releases, one row for each step."""
        return self._store.series_values(self.name)

    @property
    def label(self) -> str:
        """What is counted, in a word: the column that is summed, or the stream's name."""
        return str(self.source.get("value") or (self.name if self.name != "count" else "rows"))

    @property
    def unit(self) -> Decimal:
        """What a whole number stands for: 0.01 where cents are counted."""
        return Decimal(self.source.get("unit") or 1)

    def protection(self, *, confidence: float = 0.95, label: str = "") -> ProtectionText:
        """Return what to publish beside the figures: how they are protected, how exact they are."""
        windows = windows_of(self.source.get("windows") or ())
        return ProtectionText(
            self.settings,
            label or self.label,
            rows_per_person=self.info.rows_per_person,
            confidence=confidence,
            windows={window.words: window.longest(self.every) for window in windows},
            unit=self.unit,
            earlier_releases=sum(part.t for part in self.parts[:-1]),
        )

    def released(self, values: NDArray[np.int64] | None = None) -> Released:
        """Return all releases with what they are of; `values` are those of `releases`, if they were read before."""
        values = self.releases() if values is None else values
        return Released(self.settings, values, self.calendar, self.names, self.unit, self.error_bars)

    def table(
        self,
        *,
        confidence: float = 0.95,
        windows: Iterable[Window] = (),
        non_negative: bool = False,
        monotone: bool = False,
    ) -> ReleaseTable:
        """Return what makes tables of its releases; they are given in order, from the first."""
        return ReleaseTable(
            self.settings,
            self.calendar,
            self.names,
            confidence=confidence,
            windows=windows,
            non_negative=non_negative,
            monotone=monotone,
            errors=self.error_bars,
        )
