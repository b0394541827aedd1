"""StoredNames: a stream of discovered names in a store, to look at: dates, and its releases as tables.

`stored_stream` finds streams of either kind.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import polars as pl

from dpstream.events.calendar import Calendar
from dpstream.events.discovery_table import NamesTable
from dpstream.events.released_names import ReleasedNames, released_names
from dpstream.events.stored_stream import StoredStream, calendar_of
from dpstream.events.windows import Window, windows_of
from dpstream.release.names_protection import NamesProtection
from dpstream.release.open_settings import OpenSettings
from dpstream.store import NamedRelease, PublishedNames, PublishedStore, Store, StreamInfo

__all__ = ["StoredNames", "stored_stream"]


class StoredNames:
    """A stream of names that a store keeps; nothing here writes, and other processes may be writing.

    Parameters
    ----------
    store, name
        The store, which may be opened without its key, and the name of a stream of names in it.
    info
        What the store lists of it, if that was read before.

    Raises
    ------
    StreamUnknown, InvalidArgument
        If there is no such stream, or it is not one of names.
    """

    def __init__(self, store: Store | PublishedStore, name: str, info: StreamInfo | None = None) -> None:
        self.name, self._store = name, store
        self.settings: OpenSettings = store.open_settings(name)
        if info is None:
            listed = store.streams() if isinstance(store, Store) else store.names_streams()
            info = next(info for info in listed if info.name == name)
        self.info: StreamInfo = info

    @cached_property
    def source(self) -> dict[str, Any]:
        """What `dpstream count` wrote about what is counted; {} for a stream that it did not make."""
        try:
            found = json.loads(self.info.source)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    @cached_property
    def calendar(self) -> Calendar | None:
        """When steps begin; None if they have no dates."""
        every, start = self.source.get("every"), self.source.get("start")
        if every is None or start is None:
            return None
        return calendar_of(every, start, self.source.get("time_zone"), self.info.t + 1)

    @property
    def every(self) -> str | None:
        """How long a step is; None if steps have no dates."""
        return None if self.calendar is None else self.calendar.every

    @property
    def label(self) -> str:
        """What is counted, in a word: the stream's name."""
        return self.name if self.name != "count" else ("rows" if self.settings.splits else "people")

    def published(self) -> PublishedNames:
        """Return all releases."""
        return self._store.published_names(self.name)

    def releases(self) -> list[NamedRelease]:
        """Return all releases, one for each step."""
        found = self.published()
        return [
            NamedRelease(step, found.names[: len(values)], values) for step, values in enumerate(found.values, start=1)
        ]

    def released(self) -> ReleasedNames:
        """Return all releases with what they are of."""
        return released_names(self.settings, self.releases(), self.calendar)

    def protection(self, *, confidence: float = 0.95, label: str = "") -> NamesProtection:
        """Return what to publish beside the figures: how they are protected, how exact they are."""
        windows = windows_of(self.source.get("windows") or ())
        return NamesProtection(
            self.settings,
            label or self.label,
            rows_per_person=self.settings.per_name,
            confidence=confidence,
            windows={window.words: window.longest(self.every) for window in windows},
        )

    def table(
        self,
        *,
        confidence: float = 0.95,
        windows: Iterable[Window] = (),
        non_negative: bool = False,
        since: int = 0,
    ) -> pl.DataFrame:
        """Return the releases after step `since` as a table: a row for each step and name that was published by then.

        Columns are step, start (if steps have dates), category (the name), value, stddev, low, high, and four for each
        window, which are null for names that were not published when the window began.
        """
        releases = self.releases()
        table = NamesTable(
            self.settings, self.calendar, confidence=confidence, windows=windows, non_negative=non_negative
        )
        table.skip(releases[:since])
        return table.rows(releases[since:])


def stored_stream(store: Store | PublishedStore, name: str) -> StoredStream | StoredNames:
    """Return a stream of a store to look at, of numbers, of categories or of names.

    Raises
    ------
    StreamUnknown, InvalidArgument
        If there is no such stream, or it is none of these.
    """
    listed = store.streams() if isinstance(store, Store) else store.names_streams()
    names = any(info.name == name and info.kind == "names" for info in listed)
    return StoredNames(store, name) if names else StoredStream(store, name)
