"""Files that are there as a whole or not at all, and which file is a store.

A file is made under another name and linked into place when it is complete and synchronised: a crash leaves a whole one
or none, and of two makers one wins.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import struct
import threading
from pathlib import Path

from dpstream.errors import (
    ForkedStore,
    NotAStore,
    StoreError,
    StoreFull,
    StoreNotWritten,
    StoreReadOnly,
    StoreTooNew,
)

__all__ = [
    "APPLICATION_ID",
    "OpenFile",
    "check_file",
    "draft",
    "publish",
    "refuse_open_files",
    "sweep",
    "synchronise",
    "unwritten",
]

#: "dpst" in the header of a database, where SQLite keeps a number for exactly this.
APPLICATION_ID = 0x64707374


def check_file(path: Path, *, newest: int) -> bool:
    """Whether there is a store at `path`, of format `newest` or older; False if nothing is there. Changes nothing.

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
    if version > newest:
        raise StoreTooNew(path=str(path), found=version, known=newest)
    return True


def draft(path: Path) -> Path:
    """A name under which to make the file that `publish` gives its real one."""
    return path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}")


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
            with contextlib.suppress(FileNotFoundError):  # its maker may be removing it as well
                if leftover.samefile(file):
                    leftover.unlink()


def unwritten(error: OSError, path: Path) -> StoreError:
    """An operating system's error under the name it has here."""
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
        """SQLite has closed it."""
        with _registry:
            if self._identity is not None:
                _open_files[self._identity] -= 1
                if not _open_files[self._identity]:
                    del _open_files[self._identity]
                self._identity = None


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino
