"""A reader of pipes that Ctrl-C gets through to.

Polars catches SIGINT in a way that lets a blocked read go on waiting, and Python would hear of it with the next bytes
only. A wait for readiness is always interrupted.
"""

from __future__ import annotations

import io
from typing import Any, BinaryIO

from dpstream.operating_system.waiting import can_wait, wait_until_readable

__all__ = ["interruptible"]


class _WaitingReader(io.RawIOBase):
    """Waits until there is something to read, and only then reads."""

    def __init__(self, raw: io.FileIO) -> None:
        self._raw = raw

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._raw.fileno()

    def readinto(self, buffer: Any) -> int | None:
        wait_until_readable(self._raw.fileno())
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def interruptible(source: str | int) -> BinaryIO:
    """Open a path, or a file descriptor that stays open, for reading bytes."""
    raw = io.FileIO(source, "rb", closefd=not isinstance(source, int))
    if can_wait(raw.fileno()):
        return io.BufferedReader(_WaitingReader(raw))
    return io.BufferedReader(raw)
