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


def seconds(work: Callable[[], object], repeat: int, clock: Callable[[], float] = time.perf_counter) -> float:
    start = clock()
    for _ in range(repeat):
        work()
    return (clock() - start) / repeat


def alternate(
    *works: Callable[[], object],
    repeats: tuple[int, ...],
    rounds: int = ROUNDS,
    clock: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """Median seconds of each piece of work, taken in turns so that a noisy moment hits all of them."""
    for work in works:
        work()
    samples: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        for kept, work, repeat in zip(samples, works, repeats, strict=True):
            kept.append(seconds(work, repeat, clock))
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


#: Runs a program and prints its seconds and its largest resident memory in kilobytes.
_WATCH = """
import os, subprocess, sys, time
begin = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
print(time.perf_counter() - begin, usage.ru_maxrss)
sys.exit(status != 0)
"""


def program(command: list[str]) -> tuple[float, float]:
    """Seconds, and the most resident memory in MB, of a program.

    Started by a small process of its own: a program's ru_maxrss begins at the size of the process that starts it, which
    after other benchmarks is gigabytes.
    """
    watcher = [sys.executable, "-S", "-E", "-c", _WATCH, *command]
    done = subprocess.run(watcher, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise RuntimeError(done.stderr or "failed")
    elapsed, kilobytes = done.stdout.split()
    return float(elapsed), float(kilobytes) / 1000
