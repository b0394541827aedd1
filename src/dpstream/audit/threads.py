"""Threads: whether several of them, on one object, are ever given the same noise twice.

Noise is a pure function of key and step. If two threads make the same step, its noise goes out under two different
sums, and the difference of the two releases is the exact difference of the sums. So several threads use one object at
the same time, each adding nothing, and together they must get the noise of every step exactly once: what one thread
alone gets under the same key. A repeated step is a violation, whatever the budget. This finds races that happen; it
does not prove that there are none.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter as Multiset
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dpstream.budget import zcdp
from dpstream.errors import DpstreamError
from dpstream.mechanisms import SmoothBinary
from dpstream.noise.keystream import fresh_key
from dpstream.noise.stream import NoiseStream
from dpstream.release import ContributionLimit, Counter, RunningSum

__all__ = ["ThreadCheck", "check_threads"]

#: The interpreter is asked to change threads this often, in seconds: as often as it can.
SWITCH_INTERVAL = 1e-6


@dataclass(frozen=True)
class ThreadCheck:
    """What several threads got from one object.

    Attributes
    ----------
    title
        What they used.
    threads, calls
        How many there were, and how many calls they made together.
    repeated
        How many releases repeat the noise of a step; for a ContributionLimit, how many events are kept too many.
    refused
        How many calls were refused, which is safe.
    """

    title: str
    threads: int
    calls: int
    repeated: int
    refused: int

    def __str__(self) -> str:
        found = f"{self.repeated:,} repeated" if self.repeated else "none repeated"
        refused = f", {self.refused:,} refused" if self.refused else ""
        return f"{self.threads} threads on one {self.title}: {self.calls:,} calls, {found}{refused}"


def check_threads(threads: int = 4, calls: int = 10_000) -> list[ThreadCheck]:
    """Let so many threads make so many calls each on every kind of object that holds noise or counts people.

    >>> [check.repeated for check in check_threads(2, 50)]
    [0, 0, 0, 0, 0]
    """
    steps = threads * calls
    mechanism, budget, nothing = SmoothBinary(steps), zcdp(0.001), np.zeros(3, dtype=np.int64)
    key = fresh_key()

    def counter(**settings: Any) -> Counter[Any]:
        return Counter(steps, budget, mechanism=mechanism, key=key, **settings)

    def running_sum() -> RunningSum:
        return RunningSum(steps, budget, shape=(3,), dtype="float64", mechanism=mechanism, key=key)

    def noise() -> NoiseStream:
        return NoiseStream(mechanism, 1.0, (3,), dtype="float64", key=key)

    subjects: list[tuple[str, Callable[[], Any], Callable[[Any], Hashable]]] = [
        ("Counter", counter, lambda made: made.add(0)),
        ("histogram", lambda: counter(shape=(3,)), lambda made: made.add(nothing).tobytes()),
        ("RunningSum", running_sum, lambda made: made.add(nothing * 0.0).tobytes()),
        ("NoiseStream", noise, lambda made: made.step().tobytes()),
    ]
    found = []
    for title, build, call in subjects:
        alone, shared = build(), build()
        expected = Multiset(call(alone) for _ in range(steps))
        got = Multiset(_together(partial(call, shared), threads, calls))
        found.append(ThreadCheck(title, threads, steps, (got - expected).total(), steps - got.total()))
    limit = ContributionLimit(calls)
    kept = _together(lambda: limit.keep("ann"), threads, calls)
    found.append(ThreadCheck("ContributionLimit", threads, steps, max(0, kept.count(True) - calls), steps - len(kept)))
    return found


def _together(call: Callable[[], Any], threads: int, calls: int) -> list[Hashable]:
    """Let threads call at the same time; return what they got. A call that is refused gets nothing."""
    got: list[list[Hashable]] = [[] for _ in range(threads)]
    start = threading.Barrier(threads)

    def work(mine: list[Hashable]) -> None:
        start.wait()
        for _ in range(calls):
            with suppress(DpstreamError):
                mine.append(call())

    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL)
    try:
        workers = [threading.Thread(target=work, args=(mine,)) for mine in got]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        sys.setswitchinterval(before)
    return [value for mine in got for value in mine]
