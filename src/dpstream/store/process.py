"""Who holds a lease: this process, and when it started; and what may not leave it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from dpstream.errors import ForkedStore
from dpstream.turns import forks

__all__ = ["OfThisProcess", "Process", "this_process"]


@dataclass(frozen=True)
class Process:
    """A process id and its start time, which tells reused ids apart."""

    pid: int
    started: str


def this_process() -> Process:
    """Return the process that runs this line."""
    return _process(os.getpid())


class OfThisProcess:
    """Holds keys or locks: cannot be copied or pickled, and refuses to work in a forked child."""

    def __init__(self) -> None:
        self._forks = forks.count

    def __reduce__(self) -> Any:
        raise TypeError(
            f"a {type(self).__name__} holds keys of a store and is bound to this process: it cannot be copied or"
            " pickled; open the store again instead"
        )

    @property
    def forked(self) -> bool:
        """Whether this process is a forked child of the one that made the object."""
        return self._forks != forks.count

    def check_process(self) -> None:
        """Refuse in a forked child."""
        if self._forks != forks.count:
            raise ForkedStore


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
