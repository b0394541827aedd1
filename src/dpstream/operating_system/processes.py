"""Asks about other processes of this machine."""

from __future__ import annotations

import os

__all__ = ["has_ended"]


def has_ended(pid: int) -> bool:
    """Return whether a process is known to be gone; False where that cannot be asked.

    Windows has no signal 0: `os.kill` would send a Ctrl-C there.
    """
    if os.name != "posix":
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False
