"""Locks on files that end with the process that holds them, however it ends."""

from __future__ import annotations

import importlib
import os
import platform
import struct
from typing import Any

from dpstream.errors import UnsupportedSystem

__all__ = ["lock_file", "lock_range", "require_locks", "unlock_range"]

try:
    # By name, and as Any: type checkers know of each system only what it has.
    fcntl: Any = importlib.import_module("fcntl")
except ModuleNotFoundError:
    fcntl = None

# struct flock of 64-bit Linux: type, whence, start, length, pid.
_FLOCK = struct.Struct("hh4xqqi4x")


def require_locks(what: str) -> None:
    """Refuse, where the operating system has no such locks, what cannot be safe without them.

    Raises
    ------
    UnsupportedSystem
        On Windows.
    """
    if fcntl is None:
        raise UnsupportedSystem(what=what, system=platform.system() or "this system")


def lock_file(descriptor: int, *, wait: bool) -> None:
    """Lock a whole file for whoever has it open here.

    Raises
    ------
    BlockingIOError
        If somebody else holds it and `wait` is False.
    """
    require_locks("a lock on a file")
    fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def lock_range(descriptor: int, start: int, length: int) -> bool:
    """Lock some bytes of a file; return False if another process, or another opening of the file, has them."""
    require_locks("a lock on a part of a file")
    return _set(descriptor, start, length, fcntl.F_WRLCK)


def unlock_range(descriptor: int, start: int, length: int) -> None:
    """Give bytes of a file back."""
    require_locks("a lock on a part of a file")
    _set(descriptor, start, length, fcntl.F_UNLCK)


def _set(descriptor: int, start: int, length: int, kind: int) -> bool:
    try:
        if hasattr(fcntl, "F_OFD_SETLK") and struct.calcsize("P") == 8:
            # Locks of the open file, not of the process: closing another descriptor does not drop them, and two
            # objects in one process see each other.
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _FLOCK.pack(kind, os.SEEK_SET, start, length, 0))
        else:  # macOS: locks of the process
            how = fcntl.LOCK_UN if kind == fcntl.F_UNLCK else fcntl.LOCK_EX | fcntl.LOCK_NB
            fcntl.lockf(descriptor, how, length, start)
    except (BlockingIOError, PermissionError):
        return False
    return True
