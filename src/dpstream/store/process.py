"""Who holds a lease: this process, and when it started."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

__all__ = ["Process", "this_process"]


@dataclass(frozen=True)
class Process:
    """A process, told from a later one with the same number by when it started."""

    pid: int
    started: str


def this_process() -> Process:
    """The process that runs this line."""
    return _process(os.getpid())


@lru_cache(maxsize=1)
def _process(pid: int) -> Process:
    try:
        # Field 22 of stat, counted after the name, which may hold spaces: ticks from the boot of the machine.
        ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
        lines = Path("/proc/stat").read_text().splitlines()
        boot = next(int(line.split()[1]) for line in lines if line.startswith("btime "))
        started = datetime.fromtimestamp(boot + ticks / os.sysconf("SC_CLK_TCK"), UTC)
    except (OSError, ValueError, IndexError, StopIteration):  # no /proc: when it first opened a store
        started = datetime.now(UTC)
    return Process(pid, started.isoformat(timespec="milliseconds"))
