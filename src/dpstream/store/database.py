"""The SQLite file: one doorway for writing, a versioned schema, and errors with names.

A store's database carries its own application id, so that no other SQLite file is ever mistaken for one. It is made
under another name and linked into place when it is complete: a crash leaves a whole store or none.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import sqlite3
import struct
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dpstream.errors import (
    ForkedStore,
    NotAStore,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreNotWritten,
    StoreReadOnly,
    StoreTooNew,
)

__all__ = [
    "MIGRATIONS",
    "Database",
    "check_file",
    "create_file",
    "publish",
    "refuse_open_files",
    "sweep",
    "synchronise",
]

#: "dpst" in the header of the file, where SQLite keeps a number for exactly this.
APPLICATION_ID = 0x64707374
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
        first_position INTEGER,            -- the caller's offset of step 1, if the caller has offsets
        retired INTEGER NOT NULL,
        sealed BLOB NOT NULL,              -- the true sums, encrypted, bound to tag, t, first_position and retired
        holder_pid INTEGER,
        holder_started TEXT
    );
    CREATE TABLE batches (
        stream INTEGER NOT NULL,
        first INTEGER NOT NULL,            -- the step of the first release
        count INTEGER NOT NULL,
        releases BLOB NOT NULL,            -- little-endian, one after the other
        inputs BLOB,                       -- 8 bytes a step: keyed digests of the inputs, if they have positions
        seal BLOB NOT NULL,                -- of everything in the row
        PRIMARY KEY (stream, first)
    ) WITHOUT ROWID;
    CREATE TABLE noise_states (
        stream INTEGER NOT NULL,
        step INTEGER NOT NULL,
        state BLOB NOT NULL,               -- sealed by NoiseStream
        PRIMARY KEY (stream, step)
    ) WITHOUT ROWID;
    """,
)


# SQLite's locks are the process's, and end when any descriptor of the file is closed, also one that SQLite knows
# nothing of. So a file that is open here is never opened to look at it; and in a forked child, never again.
_open_files: dict[tuple[int, int], int] = {}
_inherited_files: set[tuple[int, int]] = set()
_registry = threading.RLock()


def refuse_open_files() -> None:
    """In a forked child: the files that are open now belong to the parent."""
    _inherited_files.update(_open_files)
    _open_files.clear()


class Database:
    """One connection to a store's file, shared by the threads of this process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._file: tuple[int, int] | None = None
        with _registry:
            self.connection = _connect(path)
            try:
                self._file = _identity(path)
                _open_files[self._file] = _open_files.get(self._file, 0) + 1
                with self._translated():
                    self._prepare()
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """Close the file."""
        with _registry:
            self.connection.close()
            if self._file is not None:
                _open_files[self._file] -= 1
                if not _open_files[self._file]:
                    del _open_files[self._file]
                self._file = None

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
    def atomic(self) -> Iterator[sqlite3.Connection]:
        """The only way to write: all of it is on the disk when this ends, or none of it ever was there."""
        with self._lock:
            try:
                self.connection.execute("BEGIN IMMEDIATE")
                yield self.connection
                self.connection.execute("COMMIT")
            except BaseException as error:
                # Some errors end the transaction by themselves; and a COMMIT may succeed and be interrupted after it.
                if self.connection.in_transaction:
                    with contextlib.suppress(sqlite3.Error):
                        self.connection.execute("ROLLBACK")
                if isinstance(error, SQLITE_ERRORS):
                    raise named(error, self.path) from error
                raise

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
            raise named(error, self.path) from error


def named(error: Exception, path: Path) -> StoreError:
    """SQLite's error under the name it has here."""
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


def check_file(path: Path) -> bool:
    """Whether there is a store at `path`; False if nothing is there. Reads 100 bytes and changes nothing.

    Raises
    ------
    NotAStore, StoreTooNew
        If something else is there.
    """
    try:
        with _registry:
            if path.exists():
                identity = _identity(path)
                if identity in _inherited_files:
                    raise ForkedStore
                if identity in _open_files:
                    return True
            with path.open("rb") as file:
                header = file.read(100)
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise NotAStore(path=str(path), found="its directory does not exist") from None
        return False
    except IsADirectoryError:
        raise NotAStore(path=str(path), found="it is a directory") from None
    except NotADirectoryError:
        raise NotAStore(path=str(path), found="its parent is not a directory") from None
    except PermissionError:
        raise StoreReadOnly(path=str(path)) from None
    except OSError as error:
        raise NotAStore(path=str(path), found=f"it cannot be read ({error.strerror})") from None
    if not header:
        raise NotAStore(path=str(path), found="it is empty")
    if len(header) < 100 or header[:16] != b"SQLite format 3\0":
        raise NotAStore(path=str(path), found="it is not an SQLite database")
    version, application = struct.unpack(">I4xI", header[60:72])
    if application != APPLICATION_ID:
        raise NotAStore(path=str(path), found="it is an SQLite database of something else")
    if version > len(MIGRATIONS):
        raise StoreTooNew(path=str(path), found=version, known=len(MIGRATIONS))
    return True


def create_file(path: Path, about: dict[str, bytes]) -> None:
    """Make a complete, empty store at `path`, unless another process is faster."""
    made = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}")
    try:
        os.close(os.open(made, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        connection = _connect(made, wal=False)
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            _migrate(connection, 0)
            connection.executemany("INSERT INTO about VALUES (?, ?)", about.items())
            connection.execute("COMMIT")
            connection.execute("PRAGMA journal_mode = WAL")
        finally:
            connection.close()
        publish(made, path)
    except sqlite3.Error as error:
        raise named(error, path) from error
    except OSError as error:
        raise unwritten(error, path) from error
    finally:
        made.unlink(missing_ok=True)


def publish(made: Path, path: Path) -> bool:
    """Give a finished file its name, durably; False if the name is taken."""
    try:
        os.link(made, path)
    except FileExistsError:
        return False
    synchronise(path.parent)
    return True


def synchronise(directory: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sweep(path: Path) -> None:
    """Remove the second names that files of this store keep if their maker is killed right after `publish`.

    Other leftovers may belong to a process that is at work right now; they hold nothing that is in use.
    """
    for suffix in ("", ".key", ".witness"):
        file = path.with_name(path.name + suffix)
        for leftover in path.parent.glob(f".{glob.escape(file.name)}.*-*"):
            if file.exists() and leftover.exists() and leftover.samefile(file):
                leftover.unlink(missing_ok=True)


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def unwritten(error: OSError, path: Path) -> StoreError:
    """An operating system's error under the name it has here."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return StoreFull(path=str(path))
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return StoreReadOnly(path=str(path))
    return StoreNotWritten(path=str(path), reason=error.strerror or type(error).__name__)


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
        raise named(error, path) from error
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        if wal:
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
    except BaseException as error:
        connection.close()
        if isinstance(error, SQLITE_ERRORS):
            raise named(error, path) from error
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
