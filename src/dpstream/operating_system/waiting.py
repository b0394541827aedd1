"""Waits for pipes and sockets in a way that Ctrl-C ends."""

from __future__ import annotations

import os
import select
import stat

__all__ = ["can_wait", "wait_until_readable"]


def can_wait(descriptor: int) -> bool:
    """Return whether waiting for this file means anything: plain files are always ready, Windows waits for sockets."""
    return os.name == "posix" and not stat.S_ISREG(os.fstat(descriptor).st_mode)


def wait_until_readable(descriptor: int, seconds: float | None = None) -> bool:
    """Wait until there is something to read, or for so many seconds; return whether there is."""
    ready, _, _ = select.select([descriptor], [], [], seconds)
    return bool(ready)
