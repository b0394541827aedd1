"""Figures: the streams of a store as the page shows them, read without a key and kept in memory.

A page is asked for much more often than a step closes, so what was computed is kept until something is released.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from dpstream.errors import StreamUnknown
from dpstream.serve.counter_figures import CounterFigures
from dpstream.serve.names_figures import NamesFigures
from dpstream.serve.shown_stream import ShownStream
from dpstream.store import PublishedStore
from dpstream.store.successor import all_series

__all__ = ["Figures"]

T = TypeVar("T")
#: A file that was written so recently may be written again without a later time: what is read of it is not kept.
UNSETTLED_SECONDS = 0.02


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
        self._shown: dict[str, ShownStream] = {}
        #: The file as it was when it was last read, and what was published then.
        self._looked: tuple[tuple[Any, ...], str] | None = None

    def streams(self) -> list[ShownStream]:
        """Return every stream of numbers, of categories or of names; successors are part of the first."""
        return self.kept("streams", self._streams)

    def _streams(self) -> list[ShownStream]:
        counters = [parts for parts in all_series(self.store.streams()) if len(parts[0].shape) <= 1]
        named = [[info] for info in self.store.names_streams()]
        before = self._shown
        found: list[ShownStream] = []
        for parts in (*counters, *named):
            known = before.get(parts[0].name)
            if known is None or known.parts != parts:  # a release of one stream leaves the others as they are
                kind = NamesFigures if parts[0].kind == "names" else CounterFigures
                known = kind(self.store, parts)
            found.append(known)
        self._shown = {stream.name: stream for stream in found}
        return found

    def stream(self, name: str) -> ShownStream:
        """Return one stream by its name, or that of a successor."""
        for stream in self.streams():
            if any(part.name == name for part in stream.parts):
                return stream
        raise StreamUnknown(name=name)

    def stream_of(self, slug: str) -> ShownStream:
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
        found = repr((self.store.streams(), self.store.names_streams()))
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
