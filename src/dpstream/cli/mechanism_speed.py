"""How long a release's noise takes here and now, for several mechanisms measured side by side."""

from __future__ import annotations

import time
from collections.abc import Sequence

from dpstream.mechanisms.base import Mechanism
from dpstream.noise.engine import engine_class
from dpstream.noise.pure_step_engine import PureStepEngine
from dpstream.noise.stream import NoiseStream

__all__ = ["nanoseconds_a_release"]

#: Enough steps for a stable figure, few enough to measure twenty mechanisms in a second.
STEPS = 2000
ROUNDS = 5
#: Steps of mechanisms that are streamed by their pure step, in Python.
SLOW_STEPS = 40


def nanoseconds_a_release(mechanisms: Sequence[Mechanism], steps: int) -> list[float]:
    """Nanoseconds that the exact lane's noise of one release takes, in blocks of up to 2,000 steps.

    The mechanisms take turns, so that a busy moment of the machine hits all of them, and the least time of each counts.
    """
    streams = [NoiseStream(mechanism, 1.0, dtype="int64") for mechanism in mechanisms]
    slow = [engine_class(mechanism, exact=True) is PureStepEngine for mechanism in mechanisms]
    counts = [min(steps, SLOW_STEPS if one else STEPS) for one in slow]
    for stream, n in zip(streams, counts, strict=True):
        stream.block(n)  # the first time makes tables
    taken: list[list[float]] = [[] for _ in streams]
    for _ in range(ROUNDS):
        for stream, kept, n in zip(streams, taken, counts, strict=True):
            stream.seek(0)
            start = time.perf_counter()
            stream.block(n)
            kept.append(1e9 * (time.perf_counter() - start) / n)
    return [min(kept) for kept in taken]
