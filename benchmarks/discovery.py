"""Names nobody listed beforehand: the workload of DP-SQLP (arXiv:2303.18086, section 6), and a million live names.

10^7 people bring min(Zipf-Mandelbrot(10^5, q = 26, s = 6.738), 32) records each, in steps drawn at random; names are
drawn from 10^6 with weights (i + 1000)^-1.4; ε = 6, δ = 10^-9, at most 32 names of a person. Released are numbers of
people by name after each of T steps. The error of a name that is not published is its true number.

usage: python benchmarks/discovery.py STEPS     one run, its figures as JSON
       make bench suite=discovery               all of it, about ten minutes on a quiet machine; by themselves:
       make bench suite=live_names, suite=dp_sqlp_100, suite=dp_sqlp_1000
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from measure import Row

PEOPLE, NAMES, MOST_RECORDS = 10**7, 10**6, 32
#: People whose records are drawn at a time.
PIECE = 10**6
#: Published for DP-SQLP (names), and what is wanted here: names, largest error, sum of errors, minutes.
PUBLISHED = {100: 28_338, 1000: 22_280}
WANTED = {100: (50_000, 200, 10_000_000, 3), 1000: (42_000, None, None, 20)}
GIGABYTES = 6
LIVE_NAMES, LIVE_SECONDS = 10**6, 2.0


def records(steps: int, people: int = PEOPLE) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Person and name of every record, in the order of their steps, and where each step begins."""
    generator = np.random.default_rng(1)
    sizes = np.arange(1.0, 10**5 + 1)
    law = np.cumsum((sizes + 26) ** -6.738)
    weights = np.cumsum((np.arange(NAMES) + 1000.0) ** -1.4)
    who, what, when = [], [], []
    for first in range(0, people, PIECE):
        count = min(PIECE, people - first)
        each = np.minimum(1 + np.searchsorted(law, generator.random(count) * law[-1]), MOST_RECORDS)
        who.append(np.repeat(np.arange(first, first + count, dtype=np.int32), each))
        drawn = generator.random(each.sum()) * weights[-1]
        what.append(np.searchsorted(weights, drawn).astype(np.int32))
        when.append(generator.integers(0, steps, each.sum()).astype(np.uint16))
    moment = np.concatenate(when)
    order = np.argsort(moment, kind="stable")
    begins = np.searchsorted(moment[order], np.arange(steps + 1))
    return np.concatenate(who)[order], np.concatenate(what)[order], begins


def run(steps: int, people: int = PEOPLE) -> dict[str, Any]:
    """Discover names: every person's contributions are bounded, every step is released."""
    import dpstream as dp
    from dpstream.release import NameLimit

    made = time.perf_counter()
    person, name, begins = records(steps, people)
    begun, spent = time.perf_counter(), time.process_time()
    words = [f"search term {i}" for i in range(NAMES)]
    limit = NameLimit(MOST_RECORDS, capacity=8 * people)
    person_keys, name_keys = limit.people_keys(range(people)), limit.name_keys(words)
    counter = dp.OpenCounter(steps, dp.approx_dp(6, 1e-9), names_per_person=MOST_RECORDS)
    released: dict[str, int] = {}
    for low, high in zip(begins[:-1].tolist(), begins[1:].tolist(), strict=True):
        who, what = person[low:high], name[low:high]
        kept = limit.take_keys(person_keys[who], name_keys[what]).kept
        counts = np.bincount(what[kept], minlength=NAMES)
        there = np.flatnonzero(counts)
        released = counter.add(([words[i] for i in there.tolist()], counts[there]))
    ended, spent = time.perf_counter(), time.process_time() - spent
    figures = {"bytes a pair": limit.nbytes / limit.pairs, "pairs": limit.pairs, "peak": _peak()}
    del limit, kept  # what follows looks at the truth, and is no part of the run
    pairs = np.unique(person.astype(np.int64) * NAMES + name)
    truth = np.bincount(pairs % NAMES, minlength=NAMES)
    numbers = {word: i for i, word in enumerate(words)}
    error = truth.astype(np.float64)
    shown = np.array([numbers[word] for word in released], dtype=np.int64)
    error[shown] = np.abs(np.array(list(released.values())) - truth[shown])
    return {
        "steps": steps,
        "records": len(person),
        "stddev": counter.stddev(steps),
        "threshold": counter.threshold,
        "names": len(released),
        "largest": float(error.max()),
        "sum": float(error.sum()),
        "root": float(np.sqrt((error**2).sum())),
        "making seconds": begun - made,
        "seconds": ended - begun,
        "cpu seconds": spent,
        "bytes a name": counter.nbytes / len(counter._sums.index),
        **figures,
    }


def live(names: int) -> dict[str, float]:
    """A step of so many names that were all brought before, and one in which all come up after 100 steps."""
    import dpstream as dp

    words = [f"search term {i}" for i in range(names)]
    dp.OpenCounter(200, dp.approx_dp(6, 1e-9), names_per_person=MOST_RECORDS).add({})  # loads what is loaded late
    before = _peak()
    counter = dp.OpenCounter(200, dp.approx_dp(6, 1e-9), names_per_person=MOST_RECORDS)
    for _ in range(100):
        counter.add({})
    step = dict.fromkeys(words, 50)
    begun = time.perf_counter()
    counter.add(step)
    first = time.perf_counter() - begun
    times, spent = [], []
    for _ in range(5):
        begun, worked = time.perf_counter(), time.process_time()
        counter.add(step)
        times.append(time.perf_counter() - begun)
        spent.append(time.process_time() - worked)
    return {
        "first": first,
        "seconds": sorted(times)[2],
        "cpu seconds": sorted(spent)[2],
        "bytes of arrays": counter.nbytes / names,
        "bytes": (_peak() - before) / names,
    }


def _peak() -> int:
    with open("/proc/self/status") as status:
        return 1024 * next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))


def _alone(call: str) -> dict[str, Any]:
    """Run in a process of its own, so that its memory is its own."""
    code = f"import json, discovery as d; print(json.dumps(d.{call}))"
    path = str(__file__).rsplit("/", 1)[0]
    done = subprocess.run([sys.executable, "-c", code], cwd=path, capture_output=True, text=True, check=True)  # noqa: S603
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def dp_sqlp_100() -> Iterator[Row]:
    """Names, errors, time and memory after 100 steps."""
    yield from _workload(100)


def dp_sqlp_1000() -> Iterator[Row]:
    """Names, errors, time and memory after 1,000 steps."""
    yield from _workload(1000)


def _workload(steps: int) -> Iterator[Row]:
    found = _alone(f"run({steps})")
    names, largest, total, minutes = WANTED[steps]
    title, peer = f"discovery, T = {steps}", PUBLISHED[steps]
    ours = float(found["names"])
    yield Row(f"{title}: names", "DP-SQLP", ours, peer, "names", ours / peer, f"≥ {names:,}", ours >= names)
    for what, key, most in (("largest error", "largest", largest), ("sum of errors", "sum", total)):
        if most is not None:
            value = found[key]
            yield Row(f"{title}: {what}", "wanted", value, most, "people", value / most, "≤ 1×", value <= most)
    spent = found["seconds"] / 60
    yield Row(f"{title}: time", "wanted", spent, minutes, "min", spent / minutes, "≤ 1×", spent <= minutes)
    memory = found["peak"] / 1e9
    yield Row(f"{title}: memory", "wanted", memory, GIGABYTES, "GB", memory / GIGABYTES, "≤ 1×", memory <= GIGABYTES)


def live_names() -> Iterator[Row]:
    """Time and memory of a step at 10^4, 10^5 and 10^6 names: both grow with the names, and not faster."""
    tiny, small, large = (_alone(f"live({LIVE_NAMES // part})") for part in (100, 10, 1))
    for what, key in (("a step of 10^6 live names", "seconds"), ("10^6 names come up at step 101", "first")):
        spent = large[key]
        limit = LIVE_SECONDS if key == "seconds" else 10 * LIVE_SECONDS
        yield Row(what, "wanted", spent, limit, "s", spent / limit, "≤ 1×", spent <= limit)
    # The texts and the dict of 10^6 names do not stay near the processor, those of 10^4 do: a name may cost twice.
    each, less = 1e6 * large["seconds"] / LIVE_NAMES, 1e7 * small["seconds"] / LIVE_NAMES
    yield Row("a step, for each of 10^6 names", "10^5 names", each, less, "µs", each / less, "≤ 2×", each <= 2 * less)
    ours, tenth = large["bytes"], small["bytes"]
    yield Row("memory of a name", "10^5 names", ours, tenth, "bytes", ours / tenth, "≤ 1.3×", ours <= 1.3 * tenth)
    arrays, few = large["bytes of arrays"], tiny["bytes of arrays"]
    yield Row("arrays of a name", "10^4 names", arrays, few, "bytes", arrays / few, "≤ 1.1×", arrays <= 1.1 * few)


ALL = (live_names, dp_sqlp_100, dp_sqlp_1000)


if __name__ == "__main__":
    print(json.dumps(run(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else PEOPLE), indent=1))
