"""The SQLite file: one doorway for writing, a versioned schema, and errors with names.

A store's database carries its own application id, so that no other SQLite file is ever mistaken for one.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dpstream.errors import StoreBusy, StoreDamaged, StoreError, StoreFull, StoreNotWritten, StoreReadOnly, StoreTooNew
from dpstream.store.files import APPLICATION_ID, Draft, OpenFile, os_error_as_store_error

__all__ = ["MIGRATIONS", "SQLITE_ERRORS", "Database", "create_database"]

#: How long a writer of one stream waits for the writer of another.
PATIENCE_SECONDS = 30.0

#: What a damaged file may raise: SQLite quotes it in its messages, and what is quoted need not be text.
SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)

#: Script n takes a file of format n to format n + 1. Old scripts never change.
MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE about (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
    CREATE TABLE streams (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        tag BLOB NOT NULL UNIQUE,          -- 16 random bytes: no two streams ever share noise
        configuration TEXT NOT NULL,       -- every setting, as JSON
        seal BLOB NOT NULL,                -- of the three above
        generation INTEGER NOT NULL,       -- how often the stream was opened for writing
        t INTEGER NOT NULL,                -- how many releases there are
        first_position INTEGER,            -- the position of step 1 that the caller gave, if it gives positions
        retired INTEGER NOT NULL,
        people INTEGER,                    -- for how many people there is room, if the rows of a person are limited
        ingests INTEGER NOT NULL,          -- how often rows were added to open steps
        open_last INTEGER NOT NULL,        -- the last step that rows were or can be ingested for
        sealed BLOB NOT NULL,              -- the true sums, encrypted, bound to tag and the six numbers from t on
        holder_pid INTEGER,
        holder_started TEXT
    );
    CREATE TABLE batches (
        stream INTEGER NOT NULL,
        first INTEGER NOT NULL,            -- the step of the first release
        count INTEGER NOT NULL,
        sealed BLOB NOT NULL,              -- releases, and keyed digests of inputs that have positions, encrypted
        PRIMARY KEY (stream, first)
    ) WITHOUT ROWID;
    CREATE TABLE people (
        stream INTEGER NOT NULL,
        part INTEGER NOT NULL,
        sealed BLOB NOT NULL,              -- how often each person was counted, encrypted, padded to the declared room
        PRIMARY KEY (stream, part)
    ) WITHOUT ROWID;
    CREATE TABLE open_steps (
        stream INTEGER NOT NULL,
        part INTEGER NOT NULL,
        sealed BLOB NOT NULL,              -- what was ingested for steps that are not released yet, encrypted
        PRIMARY KEY (stream, part)
    ) WITHOUT ROWID;
    CREATE TABLE ingested_batches (
        stream INTEGER NOT NULL,
        ingest INTEGER NOT NULL,           -- the number of the ingest
        sealed BLOB NOT NULL,              -- keyed digests of its batches, encrypted, in a fixed number of places
        PRIMARY KEY (stream, ingest)
    );
    CREATE TABLE published (
        stream INTEGER NOT NULL,
        part INTEGER NOT NULL,
        released BLOB NOT NULL,            -- releases of a counter, in clear, written once they are in `batches`
        PRIMARY KEY (stream, part)
    );
    CREATE TABLE names (
        stream INTEGER NOT NULL,
        kind TEXT NOT NULL,                -- texts, sums, pairs, cells or batches
        part INTEGER NOT NULL,
        sealed BLOB NOT NULL,              -- what a stream of names keeps, encrypted, padded to the declared room
        PRIMARY KEY (stream, kind, part)
    ) WITHOUT ROWID;
    CREATE TABLE published_names (
        stream INTEGER NOT NULL,
        step INTEGER NOT NULL,
        names TEXT NOT NULL,               -- the names that were published in this step, as JSON, in clear
        released BLOB NOT NULL,            -- the releases of all names that were published until then, in clear
        seal BLOB NOT NULL,                -- of the three above
        PRIMARY KEY (stream, step)
    );
    CREATE TABLE noise_states (
        stream INTEGER NOT NULL,
        step INTEGER NOT NULL,
        state BLOB NOT NULL,               -- sealed by NoiseStream
        PRIMARY KEY (stream, step)
    ) WITHOUT ROWID;
    """,
)


class Database:
    """One connection to a store's file, shared by the threads of this process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        try:
            self._file = OpenFile(path)  # before it is: from here on nobody in this process looks into it
        except OSError as error:
            raise os_error_as_store_error(error, path) from error
        try:
            self.connection = _connect(path)
        except BaseException:
            self._file.close()
            raise
        try:
            with self._translated():
                self._prepare()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self.connection.close()
        self._file.close()

    def _prepare(self) -> None:
        found = int(self.connection.execute("PRAGMA user_version").fetchone()[0])
        if not 1 <= found <= len(MIGRATIONS):
            raise StoreTooNew(path=str(self.path), found=found, known=len(MIGRATIONS))
        if found < len(MIGRATIONS):
            with self.atomic():
                # Another process may have been faster.
                found = int(self.connection.execute("PRAGMA user_version").fetchone()[0])
                _migrate(self.connection, found)

    @contextlib.contextmanager
    def atomic(self, *, durable: bool = True) -> Iterator[sqlite3.Connection]:
        """The only way to write: all of it is on the disk when this ends, or none of it ever was there.

        With durable=False it survives a crash of the process at once, and one of the machine from the next commit on.
        """
        with self._lock, contextlib.ExitStack() as afterwards:
            try:
                if not durable:
                    afterwards.callback(self.connection.execute, "PRAGMA synchronous = FULL")
                    self.connection.execute("PRAGMA synchronous = NORMAL")
                self.connection.execute("BEGIN IMMEDIATE")
                yield self.connection
                self.connection.execute("COMMIT")
            except BaseException as error:
                # Some errors end the transaction by themselves; and a COMMIT may succeed and be interrupted after it.
                if self.connection.in_transaction:
                    with contextlib.suppress(sqlite3.Error):
                        self.connection.execute("ROLLBACK")
                if isinstance(error, SQLITE_ERRORS):
                    raise sqlite_error_as_store_error(error, self.path) from error
                raise

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let everything read inside see the file as of one moment, whatever another process writes meanwhile."""
        with self._lock, self._translated():
            if self.connection.in_transaction:  # which sees one moment already
                yield
                return
            self.connection.execute("BEGIN")
            try:
                yield
            finally:
                self.connection.execute("ROLLBACK")

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """What a SELECT finds, as of one moment."""
        with self._lock, self._translated():
            return self.connection.execute(query, values).fetchall()

    def damaged(self, what: str) -> StoreDamaged:
        """The error for a row that is not as it was written."""
        return StoreDamaged(path=str(self.path), what=what)

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except SQLITE_ERRORS as error:
            raise sqlite_error_as_store_error(error, self.path) from error


def sqlite_error_as_store_error(error: Exception, path: Path) -> StoreError:
    """Return the StoreError that means what SQLite's error means here."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return StoreFull(path=str(path))
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_AUTH):
        return StoreReadOnly(path=str(path))
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreBusy(name=str(path), pid=None, started=None)
    if code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_INTERRUPT):
        return StoreNotWritten(path=str(path), reason=str(error))
    return StoreDamaged(path=str(path), what=f"SQLite says: {error}")


def create_database(path: Path, about: dict[str, bytes]) -> None:
    """Make a complete, empty store at `path`, unless another process is faster."""
    try:
        with Draft(path) as made:
            connection = _connect(made.path, wal=False)
            try:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                _migrate(connection, 0)
                connection.executemany("INSERT INTO about VALUES (?, ?)", about.items())
                connection.execute("COMMIT")
                connection.execute("PRAGMA journal_mode = WAL")
            finally:
                connection.close()
            made.publish()
    except sqlite3.Error as error:
        raise sqlite_error_as_store_error(error, path) from error
    except OSError as error:
        raise os_error_as_store_error(error, path) from error


def _connect(path: Path, *, wal: bool = True) -> sqlite3.Connection:
    """A connection to a file that exists: mode=rw never makes one."""
    try:
        connection = sqlite3.connect(
            f"file:{quote(str(path.absolute()))}?mode=rw",
            uri=True,
            timeout=PATIENCE_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
    except sqlite3.Error as error:
        raise sqlite_error_as_store_error(error, path) from error
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        connection.execute("PRAGMA temp_store = MEMORY")  # nothing goes into files that we do not know of
        # A database that is being made needs no journal: a crash leaves a draft.
        connection.execute(f"PRAGMA journal_mode = {'WAL' if wal else 'MEMORY'}")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")  # of macOS only, whose fsync stops at the disk's cache
    except BaseException as error:
        connection.close()
        if isinstance(error, SQLITE_ERRORS):
            raise sqlite_error_as_store_error(error, path) from error
        raise
    return connection


def _migrate(connection: sqlite3.Connection, found: int) -> None:
    """Inside a transaction: bring the schema from format `found` to the newest."""
    for script in MIGRATIONS[found:]:
        for statement in _statements(script):
            connection.execute(statement)
    # PRAGMA takes no parameters.
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")


def _statements(script: str) -> list[str]:
    """The statements of a script: executescript would commit behind our back."""
    plain = "\n".join(line.split("--")[0] for line in script.splitlines())
    return [statement for statement in plain.split(";") if statement.strip()]
