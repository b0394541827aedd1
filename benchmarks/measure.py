"""Timing by ratios: both sides alternate in one process on one core, and medians are compared."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

ROUNDS = 9


@dataclass(frozen=True)
class Row:
    """One line of the table. `ratio` is peer over ours (times, so more is better) unless `wanted` starts with "≤"."""

    work: str
    against: str
    ours: float
    peer: float
    unit: str
    ratio: float
    wanted: str
    met: bool
    floors: float | None = None

    def as_json(self) -> dict[str, object]:
        return asdict(self)


def seconds(work: Callable[[], object], repeat: int) -> float:
    start = time.perf_counter()
    for _ in range(repeat):
        work()
    return (time.perf_counter() - start) / repeat


def alternate(*works: Callable[[], object], repeats: tuple[int, ...], rounds: int = ROUNDS) -> list[float]:
    """Median seconds of each piece of work, taken in turns so that a noisy moment hits all of them."""
    for work in works:
        work()
    samples: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        for kept, work, repeat in zip(samples, works, repeats, strict=True):
            kept.append(seconds(work, repeat))
    return [statistics.median(kept) for kept in samples]


def peak_bytes(setup: str, work: str) -> int:
    """How much `work` adds to the peak resident memory of a fresh process that has run `setup`."""
    script = (
        # VmHWM belongs to the program; ru_maxrss would start at the size of the process that launched it.
        "def peak():\n"
        "    return next(int(line.split()[1]) for line in open('/proc/self/status') if line.startswith('VmHWM'))\n"
        f"{setup}\n"
        "before = peak()\n"
        f"{work}\n"
        "print((peak() - before) * 1024)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)  # noqa: S603
    return int(done.stdout)
