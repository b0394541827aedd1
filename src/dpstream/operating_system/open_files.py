"""How many files and connections a process may have open: `allow_open_files`."""

from __future__ import annotations

import sys

__all__ = ["allow_open_files"]


def allow_open_files(wanted: int) -> int | None:
    """Raise the soft limit on open files to `wanted` if it is lower and the hard one allows it; return what it is.

    Shells often start programs with a soft limit of 1,024. None where there is no such limit (Windows).
    """
    if sys.platform == "win32":
        return None
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft = most
    return soft
