"""The release benchmarks: counters and running sums, their speed and their memory."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator

import numpy as np

import dpstream as dp
import measure
import peers
from dpstream import NoiseStream
from dpstream.mechanisms import BufferedToeplitz, SmoothBinary
from dpstream.mechanisms.base import Mechanism
from dpstream.testing import fixed_key
from measure import Row

MILLION = 10**6
BUDGET = dp.zcdp(rho=0.5)
KEY = fixed_key("bench")


def named(mechanism: Mechanism) -> str:
    return type(mechanism).__name__


def at_most(work: str, against: str, ours: float, peer: float, unit: str, most: float) -> Row:
    return Row(work, against, ours, peer, unit, ours / peer, f"≤ {most:g}×", ours <= most * peer)


def at_least(work: str, against: str, ours: float, peer: float, unit: str, least: float) -> Row:
    return Row(work, against, ours, peer, unit, peer / ours, f"≥ {least:g}×", peer >= least * ours)


def additions() -> Iterator[Row]:
    """One release at a time, everything counted: checks, sums, noise."""
    count = 20_000
    source = peers.paper_as_published(10**8, 1)
    counters = [
        dp.Counter(MILLION, BUDGET, key=KEY),
        dp.Counter(MILLION, BUDGET, key=KEY, mechanism=SmoothBinary(MILLION)),
    ]

    def loop(counter: dp.Counter) -> Callable[[], None]:
        held = [counter]

        def work() -> None:
            if held[0].remaining < count:
                held[0] = held[0].fresh(KEY)
            add = held[0].add
            for _ in range(count):
                add(1)

        return work

    *ours, peer = measure.alternate(
        *map(loop, counters), lambda: deque(itertools.islice(source, count), maxlen=0), repeats=(1,) * 3
    )
    for counter, seconds in zip(counters, ours, strict=True):
        title = f"Counter.add, 10^6 steps, {named(counter.mechanism)}"
        yield at_least(title, "the paper's code, a generator", seconds / count * 1e9, peer / count * 1e9, "ns/step", 4)


def extensions() -> Iterator[Row]:
    """A whole stream at once, from a counter built for it."""
    source = peers.paper_as_published(10**8, 1)
    xs = np.random.default_rng(1).integers(0, 2, MILLION)

    def whole(mechanism: Mechanism | str) -> Callable[[], object]:
        return lambda: dp.Counter(MILLION, BUDGET, key=KEY, mechanism=mechanism).extend(xs)

    smooth = SmoothBinary(MILLION)
    fast, auto, peer = measure.alternate(
        whole(smooth),
        whole("auto"),
        lambda: deque(itertools.islice(source, 10**5), maxlen=0),
        repeats=(1, 1, 1),
        rounds=5,
    )
    peer *= 10
    against = "the paper's code, a generator"
    yield at_least("Counter.extend, 10^6 steps, SmoothBinary", against, fast * 1e3, peer * 1e3, "ns/step", 300)
    name = named(dp.Counter(MILLION, BUDGET).mechanism)
    yield at_least(f"Counter.extend, 10^6 steps, {name} (auto)", against, auto * 1e3, peer * 1e3, "ns/step", 300)


def running_sums() -> Iterator[Row]:
    """What checking, summing and rounding add to the noise itself, d = 10^6."""
    x = np.full(MILLION, 1e-3, dtype=np.float32)
    for mechanism in (dp.RunningSum(2**16, BUDGET, shape=4).mechanism, BufferedToeplitz(2**16), SmoothBinary(2**16)):
        total = dp.RunningSum(2**16, BUDGET, shape=MILLION, mechanism=mechanism, key=KEY, threads=1)
        stream = NoiseStream(mechanism, 1.0, MILLION, key=KEY, threads=1)
        sums = np.zeros(MILLION, dtype=np.float32)

        def bare(stream: NoiseStream = stream, sums: np.ndarray = sums) -> None:
            out = stream.step()
            np.add(out, sums, out=out)

        ours, peer = measure.alternate(lambda t=total: t.add(x), bare, repeats=(5, 5))
        title = f"RunningSum.add, d=10^6, float32, {named(mechanism)}"
        yield at_most(title, "NoiseStream.step plus one add", ours * 1e3, peer * 1e3, "ns/coord", 1.3)


def keyed() -> Iterator[Row]:
    """A count for each of a million keys, released together."""
    one, other, out = np.ones(MILLION, np.int64), np.ones(MILLION, np.int64), np.empty(MILLION, np.int64)
    x = np.zeros(MILLION, dtype=np.int64)
    x[5] = 1
    for mechanism in (dp.Counter(1000, BUDGET).mechanism, SmoothBinary(1000)):
        counter = dp.Counter(1000, BUDGET, shape=(MILLION,), mechanism=mechanism, key=KEY)
        ours, peer = measure.alternate(
            lambda c=counter: c.add(x), lambda: np.add(one, other, out=out), repeats=(2, 100), rounds=5
        )
        title = f"Counter(shape=10^6).add, {named(mechanism)}"
        yield at_most(title, "np.add of two int64 arrays", ours * 1e3, peer * 1e3, "ns/key", 60)
        held = measure.peak_bytes(
            "import numpy as np, dpstream as dp\n"
            f"from dpstream.mechanisms import *\nm = {mechanism!r}\n"
            "c = dp.Counter(1000, dp.zcdp(0.5), shape=(64,), mechanism=m)\n"
            "c.add(np.eye(1, 64, dtype=np.int64)[0])\n"
            "x = np.zeros(10**6, dtype=np.int64); x[3] = 1",
            "c = dp.Counter(1000, dp.zcdp(0.5), shape=(10**6,), mechanism=m)\nfor _ in range(100): c.add(x)",
        )
        vectors = held / (8 * MILLION)
        least = mechanism.memory + 4
        yield at_most(
            f"Counter(shape=10^6), peak memory, {named(mechanism)}",
            "its mechanism's and four",
            vectors,
            least,
            "arrays",
            1,
        )


def many() -> Iterator[Row]:
    """Ten thousand counters at once."""
    count = 10**4

    def build() -> list[dp.Counter]:
        return [dp.Counter(1000, BUDGET, name=str(i), key=KEY) for i in range(count)]

    (seconds,) = measure.alternate(build, repeats=(1,), rounds=3)
    yield at_most("10^4 Counters, built", "two seconds", seconds, 2.0, "s", 1)
    setup = "import dpstream as dp\nc = dp.Counter({}, dp.zcdp(0.5))\nc.add(1)"
    held = measure.peak_bytes(
        setup.format(1000),
        "cs = [dp.Counter(1000, dp.zcdp(0.5), name=str(i)) for i in range(10**4)]\nfor c in cs: c.add(1)",
    )
    yield at_most("10^4 Counters, each after one release", "eight kB", held / count / 1e3, 8.0, "kB", 1)
    long_lived = measure.peak_bytes(
        setup.format(10**9),
        "cs = [dp.Counter(10**9, dp.zcdp(0.5)) for _ in range(200)]\nfor c in cs:\n  for _ in range(3000): c.add(1)",
    )
    yield at_most("Counter, T = 10^9, after 3,000 releases", "32 kB", long_lived / 200 / 1e3, 32.0, "kB", 1)


ALL = (additions, extensions, running_sums, keyed, many)
