"""A reader of pipes that Ctrl-C gets through to.

Polars catches SIGINT in a way that lets a blocked read go on waiting, and Python would hear of it with the next bytes
only. A wait for readiness is always interrupted.
"""

from __future__ import annotations

import io
import os
import select
import stat
from collections.abc import Callable
from typing import Any, BinaryIO

__all__ = ["interruptible"]


class _WaitingReader(io.RawIOBase):
    """Waits until there is something to read, and only then reads."""

    def __init__(self, raw: io.FileIO, idle: Callable[[], float | None] | None) -> None:
        self._raw = raw
        self._idle = idle

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._raw.fileno()

    def readinto(self, buffer: Any) -> int | None:
        if self._idle is not None:
            ready, _, _ = select.select([self._raw], [], [], 0)
            while not ready:
                ready, _, _ = select.select([self._raw], [], [], self._idle())
        else:
            select.select([self._raw], [], [])
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def interruptible(source: str | int, idle: Callable[[], float | None] | None = None) -> BinaryIO:
    """Open a path, or a file descriptor that stays open, for reading bytes.

    Parameters
    ----------
    idle
        Called while there is nothing to read; it returns after how many seconds it is to be called again.
    """
    raw = io.FileIO(source, "rb", closefd=not isinstance(source, int))
    # Windows waits for sockets only, and files are always ready.
    if os.name == "posix" and not stat.S_ISREG(os.fstat(raw.fileno()).st_mode):
        return io.BufferedReader(_WaitingReader(raw, idle))
    return io.BufferedReader(raw)
