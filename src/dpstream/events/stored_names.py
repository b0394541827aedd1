"""StoredNames: a stream of discovered names in a store, to look at: dates, and its releases as tables."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import polars as pl

from dpstream.events.calendar import Calendar, parse_moment
from dpstream.events.discovery_table import NamesTable
from dpstream.events.windows import Window
from dpstream.release.open_settings import OpenSettings
from dpstream.store import NamedRelease, PublishedNames, PublishedStore, Store, StreamInfo

__all__ = ["StoredNames"]


class StoredNames:
    """A stream of names that a store keeps; nothing here writes, and other processes may be writing.

    Parameters
    ----------
    store, name
        The store, which may be opened without its key, and the name of a stream of names in it.

    Raises
    ------
    StreamUnknown, InvalidArgument
        If there is no such stream, or it is not one of names.
    """

    def __init__(self, store: Store | PublishedStore, name: str) -> None:
        self.name, self._store = name, store
        self.settings: OpenSettings = store.open_settings(name)
        listed = store.streams() if isinstance(store, Store) else store.names_streams()
        self.info: StreamInfo = next(info for info in listed if info.name == name)

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
        return Calendar(every, parse_moment("start", start, self.source.get("time_zone")))

    def published(self) -> PublishedNames:
        """Return all releases."""
        return self._store.published_names(self.name)

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
        found = self.published()
        releases = [
            NamedRelease(step, found.names[: len(values)], values) for step, values in enumerate(found.values, start=1)
        ]
        table = NamesTable(
            self.settings, self.calendar, confidence=confidence, windows=windows, non_negative=non_negative
        )
        table.skip(releases[:since])
        return table.rows(releases[since:])
