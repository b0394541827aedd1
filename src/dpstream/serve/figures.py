"""What the page shows of a store: streams with their releases, totals and windows, read without a key and kept.

A page is asked for much more often than a step closes, so what was computed is kept until something is released.
"""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, cast

import polars as pl

from dpstream.errors import InvalidArgument, StreamUnknown
from dpstream.events.released import Released
from dpstream.events.stored_stream import StoredStream
from dpstream.events.window_figures import window_figures
from dpstream.events.windows import Window
from dpstream.release.error_bars import release_stddev
from dpstream.release.in_words import describe
from dpstream.release.protection import TO_FILL_IN
from dpstream.store import PublishedStore, StreamInfo

__all__ = ["Figures", "StreamFigures", "slug_of", "thinned"]

T = TypeVar("T")
#: Windows that people ask for, of which those are shown that are a whole number of steps.
USUAL_WINDOWS = ("1d", "7d", "1mo", "1y")
#: A file that was written so recently may be written again without a later time: what is read of it is not kept.
UNSETTLED_SECONDS = 0.02


def slug_of(name: str) -> str:
    """Return a name for files and addresses: the stream's own if that is harmless, else with a digest of it.

    >>> slug_of("visits"), slug_of("../Visits")
    ('visits', 'visits-1eb25ed54e4c')
    """
    plain = re.sub("[^a-z0-9_-]+", "-", name.lower()).strip("-")[:40]
    if plain == name:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "backslashreplace")).hexdigest()[:12]
    return f"{plain}-{digest}" if plain else digest


class StreamFigures:
    """All that is shown of one stream with its successors, as of one moment; everything here is public.

    Parameters
    ----------
    store, name
        The published releases, and the stream's name in them.

    Attributes
    ----------
    parts, info
        The streams of the series, oldest first, and the last of them.
    name, slug, t
        The name of the first one, the same for addresses, and how many steps all of them have released.

    Raises
    ------
    StreamUnknown
        If there is no such counter.
    """

    def __init__(self, store: PublishedStore, name: str) -> None:
        self._store, self._stream = store, StoredStream(store, name)
        self.parts = self._stream.parts
        self.info: StreamInfo = self._stream.info
        self.name = self.parts[0].name
        self.slug = slug_of(self.name)
        self.t = sum(part.t for part in self.parts)

    @cached_property
    def released(self) -> Released:
        """The releases with what they are of."""
        found = self._stream.released()
        return replace(found, values=found.values[: self.t])  # of the same moment as all else here

    @cached_property
    def table(self) -> pl.DataFrame:
        """All releases: step, start (if steps have dates), category (if there are any), value, stddev, low, high."""
        return self.released.table()

    @property
    def names(self) -> tuple[str, ...]:
        """The categories; () for a single number."""
        return self._stream.names

    @property
    def every(self) -> str | None:
        """How long a step is; None if steps have no dates."""
        return self._stream.every

    @cached_property
    def windows(self) -> tuple[Window, ...]:
        """The windows that are shown, shortest first: those that the stream was made for, else usual ones.

        None but the shortest that is longer than what was released.
        """
        if self._stream.source.get("windows"):
            asked = [str(text) for text in self._stream.source["windows"]]
        elif self.every is None:
            asked = [str(length) for length in self._stream.settings.windows or (1, 7)]
        else:
            asked = list(USUAL_WINDOWS)
        found: dict[int, Window] = {}
        for text in asked:
            try:
                window = Window(text)
                found.setdefault(window.longest(self.every), window)
            except InvalidArgument:  # no whole number of steps
                continue
        shortest = min(found, default=0)
        return tuple(found[length] for length in sorted(found) if length <= max(self.t, shortest))

    def bars(self, window: Window) -> pl.DataFrame:
        """Return the figure of each window, one after the other; see `window_figures`."""
        return self._bars_of(window.text)

    def _bars_of(self, text: str) -> pl.DataFrame:
        kept: dict[str, pl.DataFrame] = self.__dict__.setdefault("_kept_bars", {})
        if text not in kept:
            kept[text] = window_figures(self.released, text)
        return kept[text]

    @cached_property
    def last_windows(self) -> pl.DataFrame | None:
        """The last release with its windows; one row for each category. None before the first release."""
        if not self.t:
            return None
        return self.released.table(windows=self.windows).tail(len(self.names) or 1)

    @cached_property
    def protection(self) -> str:
        """The paragraph on protection and exactness, for everyone who reads the figures."""
        return self._stream.protection().paragraph()

    @cached_property
    def promises(self) -> list[str]:
        """What exactly is promised, to whom and against whom: a paragraph for each stream of the series."""
        found = []
        for part in self.parts:
            settings, t = self._store.settings(part.name), max(part.t, 1)
            words = describe(settings, release_stddev(settings, t), t, rows_per_person=part.rows_per_person)
            found.append(words if len(self.parts) == 1 else f"{part.name}: {words}")
        return found

    @cached_property
    def registry_entry(self) -> dict[str, Any]:
        """A draft for OpenDP's registry of deployments."""
        entry = self._stream.protection().registry_entry(name=self.name)
        entry["deployment"]["basic"]["publication_date"] = TO_FILL_IN  # which no release tells
        return entry

    def between(self, first: str | None, last: str | None) -> pl.DataFrame:
        """Return the releases from one step, or date, to another; None: the first, or the last.

        Raises
        ------
        InvalidArgument
            If one is no step and no date.
        """
        frame = self.table
        if first is not None:
            frame = frame.filter(pl.col("step") >= self._step("from", first))
        if last is not None:
            frame = frame.filter(pl.col("step") <= self._step("to", last, end_of_day=True))
        return frame

    def only(self, frame: pl.DataFrame, category: str) -> pl.DataFrame:
        """Return the releases of one category.

        Raises
        ------
        InvalidArgument
            If there is no such category.
        """
        if category not in self.names:
            raise InvalidArgument("category", category[:100], "one of this stream's, which /api/streams lists")
        return frame.filter(pl.col("category") == category)

    def _step(self, argument: str, text: str, *, end_of_day: bool = False) -> int:
        from dpstream.events.calendar import parse_moment

        calendar = self._stream.calendar
        if re.fullmatch("[0-9]{1,18}", text) and (calendar is None or len(text) < 8):
            return int(text)
        if calendar is None:
            raise InvalidArgument(argument, text[:100], "the number of a step: steps of this stream have no dates")
        moment = parse_moment(argument, text[:100], calendar.zone, end_of_day=end_of_day)
        calendar.lay_out(self.t + 1)
        return int(calendar.steps(moment)[0]) + 1


def thinned(frame: pl.DataFrame, points: str | None) -> pl.DataFrame:
    """Return the rows of at most so many steps, evenly, the first and the last among them; None: all rows.

    Raises
    ------
    InvalidArgument
        If `points` is no whole number from 2 to 10^6.
    """
    if points is None:
        return frame
    if not re.fullmatch("[0-9]{1,7}", points) or not 2 <= int(points) <= 10**6:
        raise InvalidArgument("points", points[:100], "a whole number from 2 to 1,000,000")
    steps = frame["step"].unique().sort()
    if steps.len() <= int(points):
        return frame
    at = [round(i * (steps.len() - 1) / (int(points) - 1)) for i in range(int(points))]
    return frame.filter(pl.col("step").is_in(steps[at].implode()))


class Figures:
    """The streams of a store, kept until something is released; threads may share it.

    Parameters
    ----------
    path
        The store's database.

    Raises
    ------
    NotAStore
        If it is none.
    """

    def __init__(self, path: str | Path) -> None:
        self.store = PublishedStore(path)
        #: Of what is kept; held for a moment only. Whoever makes something holds one of the others meanwhile, so that
        #: it is made once, and whoever asks for something else does not wait.
        self._lock = threading.Lock()
        self._makers = [threading.RLock() for _ in range(64)]
        self._state: str | None = None
        self._kept: dict[str, Any] = {}
        #: The file as it was when it was last read, and what was published then.
        self._looked: tuple[tuple[Any, ...], str] | None = None

    def streams(self) -> list[StreamFigures]:
        """Return every counter of single numbers or of categories, oldest first; successors are part of the first."""
        return self.kept("streams", self._streams)

    def _streams(self) -> list[StreamFigures]:
        found = [info for info in self.store.streams() if len(info.shape) <= 1 and info.continues is None]
        return [StreamFigures(self.store, info.name) for info in found]

    def stream(self, name: str) -> StreamFigures:
        """Return one stream by its name, or that of a successor."""
        for stream in self.streams():
            if any(part.name == name for part in stream.parts):
                return stream
        raise StreamUnknown(name=name)

    def stream_of(self, slug: str) -> StreamFigures:
        """Return one stream by its name in addresses."""
        for stream in self.streams():
            if stream.slug == slug:
                return stream
        raise StreamUnknown(name=slug)

    def kept(self, name: str, make: Callable[[], T]) -> T:
        """Return what `make` returns, from memory if nothing was released since it was made."""
        with self._makers[hash(name) % len(self._makers)]:
            before = self._published()
            with self._lock:
                found = self._kept.get(name) if self._state == before else None
            if found is not None:
                return cast("T", found)
            made = make()
            if self._published() == before:
                with self._lock:
                    if self._state != before:
                        self._kept, self._state = {}, before
                    self._kept[name] = made
            return made

    def at_hand(self, name: str) -> Any:
        """Return what `kept` has in memory if that can be told without reading the store; None otherwise."""
        with self._lock:
            known = self._state is not None and self._looked == (self._file_state()[0], self._state)
            return self._kept.get(name) if known else None

    def _published(self) -> str:
        """Return what changes when something is released; a writer changes the file more often than that."""
        file, settled = self._file_state()
        with self._lock:
            if self._looked is not None and self._looked[0] == file:
                return self._looked[1]
        found = repr(self.store.streams())
        if settled:
            with self._lock:
                self._looked = file, found
        return found

    def _file_state(self) -> tuple[tuple[Any, ...], bool]:
        """What changes when the store does, and whether the last change was long enough ago."""
        found: list[Any] = []
        newest = 0.0
        for path in (self.store.path, self.store.path.with_name(self.store.path.name + "-wal")):
            try:
                seen = path.stat()
            except FileNotFoundError:
                found.append(None)
            else:
                found.append((seen.st_ino, seen.st_size, seen.st_mtime_ns))
                newest = max(newest, seen.st_mtime)
        return tuple(found), not 0 <= time.time() - newest < UNSETTLED_SECONDS
