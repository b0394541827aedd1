"""Releases of counters in clear, for readers without a key: the table `published`, and the key-less reader.

A release is public once it is returned, but not before: a commit that fails may leave its pages in SQLite's log, and
the release that takes its place would then give the difference of their data away. So releases are stored encrypted,
together with the sums, and only when that commit is on the disk are they written here, in a commit of their own. That
one need not wait for the disk: what a crash of the machine takes from it is written again when the stream is opened.

Releases are kept in parts of so many steps that a part takes 4 kB, whatever number of commits they came in; so the last
part is written again by each commit, and reading takes one row for many steps.
"""

from __future__ import annotations

import contextlib
import math
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from dpstream.arguments import check_whole
from dpstream.errors import InvalidArgument, NotAStore, StoreBusy, StoreDamaged, StoreTooNew, StreamUnknown
from dpstream.release.open_settings import OpenSettings
from dpstream.release.settings import StreamSettings
from dpstream.store.database import MIGRATIONS, SQLITE_ERRORS, Database, sqlite_error_as_store_error
from dpstream.store.files import OpenFile, check_file, check_path
from dpstream.store.published_names import PublishedNames, named_steps, read_published_names
from dpstream.store.sealing import Seals
from dpstream.store.settings import check_name, open_settings_from_row, settings_from_row
from dpstream.store.successor import carried, series_of, stream_infos
from dpstream.store.tables import StreamInfo, StreamRow, read_batches, unchecked_streams

__all__ = ["PublishedStore", "Publisher", "compare_published", "is_published", "published_steps", "read_published"]

#: Numbers in one part: 4 kB.
PART_VALUES = 1 << 9
#: A file that changes while it is read without locks is read again, so often.
ATTEMPTS = 50

T = TypeVar("T")
#: Runs a query on a database and returns all rows.
Query = Callable[[str, tuple[Any, ...]], list[tuple[Any, ...]]]


def is_published(row: StreamRow) -> bool:
    """Return whether the releases of this stream are published in the file: those of counters are."""
    return bool(row.settings["lane"] == "exact")


def _part_steps(row: StreamRow) -> int:
    return max(1, PART_VALUES * 8 // _step_bytes(row))


def _step_bytes(row: StreamRow) -> int:
    return 8 * int(math.prod(row.settings["shape"]))


# -- writing ----------------------------------------------------------------------------------------------------------


class Publisher:
    """Publishes what the writer of a counter has committed; what an error left out comes with the next call."""

    def __init__(self, database: Database, seals: Seals) -> None:
        self._database, self._seals = database, seals
        #: How many steps are published, and what the last part holds if it is not full; None if that is not known.
        self._known: tuple[int, bytes] | None = None

    def publish(self, row: StreamRow, values: bytes = b"") -> None:
        """Publish all releases of a stream that stands as `row` says; `values` are the last ones, if they are known."""
        size, width = _part_steps(row), _step_bytes(row)
        if self._known is not None and self._known[0] * width + len(values) == row.t * width:
            part, content = self._known[0] // size, self._known[1] + values
        else:
            try:
                done = published_steps(self._database.rows, row, str(self._database.path))
            except StoreDamaged:
                done = row.t + 1
            if done == row.t:
                return
            part = 0 if done > row.t else done // size  # too many, or damaged: all of them again
            batches = [b.values for b in read_batches(self._database, row, self._seals, part * size + 1, row.t)]
            content = np.concatenate(batches).astype("<i8").tobytes() if batches else b""
        self._known = None
        with self._database.atomic(durable=False) as connection:
            connection.execute("DELETE FROM published WHERE stream = ? AND part >= ?", (row.id, part))
            connection.executemany(
                "INSERT INTO published VALUES (?, ?, ?)",
                (
                    (row.id, part + i, content[at : at + size * width])
                    for i, at in enumerate(range(0, len(content), size * width))
                ),
            )
        self._known = row.t, content[len(content) - row.t % size * width :]


def published_steps(query: Query, row: StreamRow, path: str) -> int:
    """Return how many steps of a stream are published; refuse a last part that cannot be one."""
    found = query(
        "SELECT part, typeof(released), length(released) FROM published WHERE stream = ? ORDER BY part DESC LIMIT 1",
        (row.id,),
    )
    if not found:
        return 0
    part, kind, length = found[0]
    steps, rest = divmod(length, _step_bytes(row)) if kind == "blob" else (0, 1)
    if not isinstance(part, int) or part < 0 or rest or steps > _part_steps(row):
        raise StoreDamaged(path=path, what=f"published releases of stream {row.name!r} are not as they were written")
    return int(part * _part_steps(row) + steps)


def read_published(query: Query, row: StreamRow, first: int, last: int, path: str) -> NDArray[np.int64]:
    """Return the published releases of the steps from `first` to `last`, of shape (steps, *shape).

    Raises
    ------
    StoreDamaged
        If a step is missing.
    """
    shape, size = tuple(row.settings["shape"]), _part_steps(row)
    found = query(
        "SELECT part, released FROM published WHERE stream = ? AND part BETWEEN ? AND ? ORDER BY part",
        (row.id, (first - 1) // size, (last - 1) // size),
    )
    parts = [part for part, _ in found]
    content = b"".join(released for _, released in found if isinstance(released, bytes))
    skipped = (first - 1) % size
    steps = max(0, last - first + 1)
    if last >= first and (
        parts != list(range((first - 1) // size, (last - 1) // size + 1))
        or len(content) < (skipped + steps) * _step_bytes(row)
        or any(len(released) != size * _step_bytes(row) for _, released in found[:-1])
    ):
        raise StoreDamaged(path=path, what=f"published releases of stream {row.name!r} are missing")
    values = np.frombuffer(content, "<i8", steps * math.prod(shape), offset=skipped * _step_bytes(row) if steps else 0)
    return values.reshape(steps, *shape).astype(np.int64)


def compare_published(database: Database, row: StreamRow, releases: NDArray[Any], first: int) -> list[int]:
    """Return the steps from `first` on whose published release is not this one; those not published yet are not."""
    if not is_published(row):
        return []
    last = min(first + len(releases) - 1, published_steps(database.rows, row, str(database.path)))
    found = read_published(database.rows, row, first, last, str(database.path))
    differ = (found != releases[: len(found)]).reshape(len(found), math.prod(row.settings["shape"])).any(axis=1)
    return [first + int(i) for i in np.flatnonzero(differ)]


# -- reading without a key --------------------------------------------------------------------------------------------


class PublishedStore:
    """The published releases of a store's counters, read without its key, its witness, or the right to write.

    Nothing is ever written, and no writer waits. What it shows is what stands in the file, in clear: it cannot tell an
    edited value from a true one, which `Store.verify` does.

    Parameters
    ----------
    path
        The store's database.

    Examples
    --------
    >>> import tempfile, dpstream as dp
    >>> from dpstream.store import PublishedStore
    >>> folder = tempfile.TemporaryDirectory()
    >>> with dp.Store(folder.name + "/counts.db") as store:
    ...     released = store.counter("visits", horizon=3650, budget=dp.zcdp(rho=0.5)).extend([3, 1, 4])
    >>> page = PublishedStore(folder.name + "/counts.db")
    >>> [(info.name, info.t) for info in page.streams()], bool((page.releases("visits") == released).all())
    ([('visits', 3)], True)
    >>> folder.cleanup()
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = check_path(path)
        if not check_file(self.path, newest=len(MIGRATIONS)):
            raise NotAStore(path=str(self.path), found="there is no such file")

    def __repr__(self) -> str:
        return f"PublishedStore({str(self.path)!r})"

    def streams(self) -> list[StreamInfo]:
        """Return every counter of the store, oldest first; their `t` is the number of published releases."""

        def read(query: Query) -> list[StreamInfo]:
            rows = _counters(query, self.path)
            return stream_infos([replace(row, t=self._steps(query, row)) for row in rows], str(self.path))

        return self._read(read)

    def series(self, name: str) -> list[StreamInfo]:
        """Return the counters of which this one is part, oldest first; see `Store.series`."""
        return series_of(self.streams(), check_name(name))

    def series_values(self, name: str) -> NDArray[np.int64]:
        """Return the releases of a whole series, one row a step, with the totals that were carried over."""
        return self.values_of(self.series(name))

    def values_of(self, parts: list[StreamInfo]) -> NDArray[np.int64]:
        """Return the releases of a series as `series_values` does; its streams were listed before."""
        return carried(parts, [self.releases(part.name, 1, part.t) for part in parts])

    def check(self) -> None:
        """Open the file and read one row; raise a StoreError if that fails. However large the store, this is quick."""
        self._read(lambda query: query("SELECT id FROM streams LIMIT 1", ()))

    def settings(self, name: str) -> StreamSettings:
        """Return the settings of a counter; raises as `Store.settings`."""
        name = check_name(name)
        return settings_from_row(self._read(lambda query: self._row(query, name)), str(self.path))

    def releases(self, name: str, first: int = 1, last: int | None = None) -> NDArray[np.int64]:
        """Return the releases of the steps from `first` to `last`, all by default, of shape (steps, *shape).

        Raises
        ------
        StreamUnknown
            If the store has no such counter.
        InvalidArgument
            If a step has not been published.
        """
        name, first = check_name(name), check_whole("first", first)
        asked = None if last is None else check_whole("last", last, least=first - 1)

        def read(query: Query) -> NDArray[np.int64]:
            row = self._row(query, name)
            there = published_steps(query, row, str(self.path))
            if asked is not None and asked > there:
                raise InvalidArgument("last", asked, f"at most {there}, the last release of {name!r}")
            end = max(there, first - 1) if asked is None else asked
            return read_published(query, row, first, end, str(self.path))

        return self._read(read)

    def published_names(self, name: str) -> PublishedNames:
        """Return all releases of a stream of names; raises as `releases`, and StoreDamaged if a step is missing."""
        name = check_name(name)

        return self._read(lambda query: read_published_names(query, self._named_row(query, name), str(self.path)))

    def names_streams(self) -> list[StreamInfo]:
        """Return every stream of names of the store, oldest first; their `t` is the number of published releases."""

        def read(query: Query) -> list[StreamInfo]:
            rows = _named(query, self.path)
            return stream_infos([replace(row, t=named_steps(query, row)) for row in rows], str(self.path))

        return self._read(read)

    def open_settings(self, name: str) -> OpenSettings:
        """Return the settings of a stream of names; raises as `Store.open_settings`."""
        name = check_name(name)
        return open_settings_from_row(self._read(lambda query: self._named_row(query, name)), str(self.path))

    def _row(self, query: Query, name: str) -> StreamRow:
        return _only(_counters(query, self.path, name), name)

    def _named_row(self, query: Query, name: str) -> StreamRow:
        return _only(_named(query, self.path, name), name)

    def _steps(self, query: Query, row: StreamRow) -> int:
        return published_steps(query, row, str(self.path))

    def _read(self, work: Callable[[Query], T]) -> T:
        """Run `work` on the file as of one moment."""
        for _ in range(ATTEMPTS):
            before = _state(self.path)
            locked = before[-1]
            try:
                with _connection(self.path, locked=locked) as query:
                    found = work(query)
            except StoreDamaged:
                if locked or _state(self.path) == before:
                    raise
            else:
                if locked or _state(self.path) == before:
                    return found
            time.sleep(0.01)
        raise StoreBusy(name=str(self.path), pid=None, started=None)


def _state(path: Path) -> tuple[Any, ...]:
    """What changes when the file does; last, whether somebody has it open, so that SQLite's locks are needed."""
    try:
        found = path.stat()
    except FileNotFoundError:
        raise NotAStore(path=str(path), found="there is no such file") from None
    log = path.with_name(path.name + "-wal")
    try:
        opened = log.stat().st_size > 0
    except FileNotFoundError:
        opened = False
    return found.st_ino, found.st_size, found.st_mtime_ns, opened


@contextlib.contextmanager
def _connection(path: Path, *, locked: bool) -> Iterator[Query]:
    """Yield a function that queries the file as of one moment.

    A file that nobody has open is read as one that does not change: SQLite would make its log and its shared memory
    otherwise, which the reader may not be allowed to, and the writer might then not be allowed to write.
    """
    check_file(path, newest=len(MIGRATIONS))
    file = OpenFile(path)
    connection: sqlite3.Connection | None = None
    try:
        mode = "mode=ro" if locked else "mode=ro&immutable=1"
        connection = sqlite3.connect(f"file:{quote(str(path))}?{mode}", uri=True, timeout=30, isolation_level=None)
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA query_only = ON")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if not 1 <= version <= len(MIGRATIONS):
            raise StoreTooNew(path=str(path), found=version, known=len(MIGRATIONS))
        connection.execute("BEGIN")
        opened = connection
        yield lambda query, values: opened.execute(query, values).fetchall()
    except SQLITE_ERRORS as error:
        raise sqlite_error_as_store_error(error, path) from error
    finally:
        if connection is not None:
            connection.close()
        file.close()


def _only(rows: list[StreamRow], name: str) -> StreamRow:
    if not rows:
        raise StreamUnknown(name=name)
    return rows[0]


def _counters(query: Query, path: Path, name: str | None = None) -> list[StreamRow]:
    return [row for row in _rows(query, path, name) if is_published(row)]


def _named(query: Query, path: Path, name: str | None = None) -> list[StreamRow]:
    return [row for row in _rows(query, path, name) if row.settings["lane"] == "names"]


def _rows(query: Query, path: Path, name: str | None) -> list[StreamRow]:
    try:
        rows = unchecked_streams(query, str(path), name)
        for row in rows:
            _ = row.settings["lane"]
        return rows
    except (ValueError, KeyError, TypeError) as error:
        raise StoreDamaged(path=str(path), what=f"the settings of a stream cannot be read ({error!r})") from None
