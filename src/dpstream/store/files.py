"""Files that are there as a whole or not at all, and which file is a store.

A file is made under another name and linked into place when it is complete and synchronised: a crash leaves a whole one
or none, and of two makers one wins.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import struct
import threading
from pathlib import Path
from typing import Self

from dpstream.errors import (
    ForkedStore,
    InvalidArgument,
    NotAStore,
    StoreError,
    StoreFull,
    StoreNotWritten,
    StoreReadOnly,
    StoreTooNew,
)
from dpstream.operating_system.durability import synchronise_folder
from dpstream.operating_system.locks import lock_file, require_locks

__all__ = [
    "APPLICATION_ID",
    "Draft",
    "OpenFile",
    "check_file",
    "check_path",
    "os_error_as_store_error",
    "read_start",
    "refuse_open_files",
    "sweep",
]

#: "dpst" in the header of a database, where SQLite keeps a number for exactly this.
APPLICATION_ID = 0x64707374
#: SQLite opens no longer paths, and adds "-journal" to those of databases it makes.
LONGEST_PATH = 512 - len("-journal") - 1
#: What is added to the path of a database for its other files; the last three are SQLite's. (Key files have their own
#: errors.)
SUFFIXES = ("", ".witness", "-wal", "-shm", "-journal")
#: What `Draft` adds to a name at most: a dot before it; a dot, a process number, a dash and 8 digits after it.
DRAFT_BYTES = len(".") + len(".4194304-01234567")


def check_path(path: object) -> Path:
    """Return a store's path as an absolute one.

    Raises
    ------
    InvalidArgument
        If it is not text, holds NUL or bytes that are not UTF-8, names no file, or is too long for the files of a
        store: nothing is left behind of a store that could only be made in part.
    UnsupportedSystem
        Where files cannot be locked as a store needs it: on Windows.
    """
    require_locks("a store")
    if not isinstance(path, (str, os.PathLike)):
        raise InvalidArgument("path", path, "a path")
    text = os.fspath(path)
    if not isinstance(text, str) or not text or "\0" in text:
        raise InvalidArgument("path", path, "a path: text without NUL")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        shown = os.fsencode(text).decode("utf-8", "backslashreplace")
        raise InvalidArgument("path", shown, "a path whose name is UTF-8 text") from None
    if size > os.pathconf("/", "PC_PATH_MAX"):
        raise InvalidArgument("path", f"{size:,} bytes", f"at most {LONGEST_PATH} bytes long")
    found = Path(text).absolute()
    if not found.name or found.name == "..":
        raise NotAStore(path=text, found="it is a directory")
    longest = 255 - len(".witness") - DRAFT_BYTES
    if len(found.name.encode()) > longest:
        raise InvalidArgument("path", f"a name of {len(found.name.encode())} bytes", f"a name of at most {longest}")
    if len(str(found).encode()) > LONGEST_PATH - DRAFT_BYTES:
        raise InvalidArgument(
            "path", f"{len(str(found).encode()):,} bytes", f"at most {LONGEST_PATH - DRAFT_BYTES} bytes long"
        )
    return found


def check_file(path: Path, *, newest: int) -> bool:
    """Return whether there is a store at `path`, of format `newest` or older; False if nothing is there.

    Changes nothing, and opens nothing that is not a plain file.

    Raises
    ------
    NotAStore, StoreTooNew
        If something else is there.
    """
    for suffix in SUFFIXES:
        _check_plain(path.with_name(path.name + suffix))
    with _registry:
        identity = _identity_if_there(path)
        if identity is None:
            if not path.parent.is_dir():
                raise NotAStore(path=str(path), found="its directory does not exist")
            return False
        if identity in _inherited_files:
            raise ForkedStore
        if identity in _open_files:
            return True
        header = read_start(path, 100)
    if not header:
        raise NotAStore(path=str(path), found="it is empty")
    if len(header) < 100 or header[:16] != b"SQLite format 3\0":
        raise NotAStore(path=str(path), found="it is not an SQLite database")
    version, application = struct.unpack(">I4xI", header[60:72])
    if application != APPLICATION_ID:
        raise NotAStore(path=str(path), found="it is an SQLite database of something else")
    if version > newest:
        raise StoreTooNew(path=str(path), found=version, known=newest)
    return True


def read_start(path: Path, size: int) -> bytes:
    """Return the first bytes of a plain file; never waits, as opening a named pipe would.

    Raises
    ------
    NotAStore, StoreReadOnly
        If it cannot be opened, or is not a plain file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        raise _unreadable(error, path) from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotAStore(path=str(path), found="it is not a plain file")
        return os.read(descriptor, size)
    except OSError as error:
        raise _unreadable(error, path) from None
    finally:
        os.close(descriptor)


def _check_plain(path: Path) -> None:
    """Refuse what is neither a plain file nor missing, without opening it."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise _unreadable(error, path) from None
    if stat.S_ISDIR(mode):
        raise NotAStore(path=str(path), found="it is a directory")
    if not stat.S_ISREG(mode):
        raise NotAStore(path=str(path), found="it is not a plain file (a pipe, a socket or a device)")


def _unreadable(error: OSError, path: Path) -> StoreError:
    if isinstance(error, NotADirectoryError):
        return NotAStore(path=str(path), found="its parent is not a directory")
    if isinstance(error, PermissionError):
        return StoreReadOnly(path=str(path))
    return NotAStore(path=str(path), found=f"it cannot be read ({error.strerror})")


# -- making files -----------------------------------------------------------------------------------------------------


class Draft:
    """An empty file beside `target`, to be written and then published as `target`; removed when the context ends.

    It is locked while its maker is at work, so that `sweep` can tell what a crash left behind.
    """

    def __init__(self, target: Path) -> None:
        self.target = target
        while True:
            self.path = target.with_name(f".{target.name}.{os.getpid()}-{os.urandom(4).hex()}")
            self._descriptor = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
            lock_file(self._descriptor, wait=True)
            if _is_at(self._descriptor, self.path):
                break
            os.close(self._descriptor)  # swept before it was locked

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.path.unlink(missing_ok=True)
        finally:
            self._unlock()

    def publish(self) -> bool:
        """Give the finished file its name, durably; False if the name is taken."""
        with _registry:  # nobody in this process opens it before this descriptor, and SQLite's locks with it, is gone
            try:
                os.link(self.path, self.target)
            except FileExistsError:
                return False
            self._unlock()
        synchronise_folder(self.target.parent)
        return True

    def replace(self) -> None:
        """Put the finished file in the place of the one that has the name, durably."""
        self.path.replace(self.target)
        synchronise_folder(self.target.parent)

    def _unlock(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def sweep(path: Path) -> None:
    """Remove the drafts of this store whose makers were killed; those of makers that are at work stay."""
    made = re.compile(re.escape(f".{path.name}") + r"(\.key|\.witness)?\.\d+-[0-9a-f]{8}")
    with contextlib.suppress(OSError):  # a directory that cannot be read or written has no drafts that we could remove
        for entry in os.scandir(path.parent):
            if made.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                _remove_abandoned(path, path.with_name(entry.name))


def _remove_abandoned(path: Path, leftover: Path) -> None:
    with contextlib.suppress(FileNotFoundError), _registry:  # its maker may be removing it as well
        # The second name of a file that is in place may be removed at any time. It must not be opened: closing it
        # would end SQLite's locks.
        if any(_same(leftover, path.with_name(path.name + suffix)) for suffix in ("", ".key", ".witness")):
            leftover.unlink()
            return
        descriptor = os.open(leftover, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
        try:
            lock_file(descriptor, wait=False)
            if _is_at(descriptor, leftover):
                for suffix in ("-wal", "-shm", ""):
                    leftover.with_name(leftover.name + suffix).unlink(missing_ok=True)
        except BlockingIOError:
            pass  # its maker is at work
        finally:
            os.close(descriptor)


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except FileNotFoundError:
        return False


def _is_at(descriptor: int, path: Path) -> bool:
    """Return whether an open file still has this name."""
    found, there = os.fstat(descriptor), _identity_if_there(path)
    return there == (found.st_dev, found.st_ino)


def os_error_as_store_error(error: OSError, path: Path) -> StoreError:
    """Return the StoreError that means what the operating system's error means here."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return StoreFull(path=str(path))
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return StoreReadOnly(path=str(path))
    return StoreNotWritten(path=str(path), reason=error.strerror or type(error).__name__)


# -- files that are open ----------------------------------------------------------------------------------------------

# SQLite's locks are the process's, and end when any descriptor of the file is closed, also one that SQLite knows
# nothing of. So a file that is open here is never opened to look at it; and in a forked child, never again.
_open_files: dict[tuple[int, int], int] = {}
_inherited_files: set[tuple[int, int]] = set()
_registry = threading.RLock()


def refuse_open_files() -> None:
    """In a forked child: the files that are open now belong to the parent."""
    _inherited_files.update(_open_files)
    _open_files.clear()


class OpenFile:
    """Remembers that SQLite has a file open in this process, until `close`."""

    def __init__(self, path: Path) -> None:
        with _registry:
            self._identity: tuple[int, int] | None = _identity(path)
            _open_files[self._identity] = _open_files.get(self._identity, 0) + 1

    def close(self) -> None:
        """Forget the file: SQLite has closed it."""
        with _registry:
            if self._identity is not None:
                _open_files[self._identity] -= 1
                if not _open_files[self._identity]:
                    del _open_files[self._identity]
                self._identity = None


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def _identity_if_there(path: Path) -> tuple[int, int] | None:
    try:
        return _identity(path)
    except FileNotFoundError:
        return None
