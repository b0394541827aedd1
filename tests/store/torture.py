"""Kill a writer again and again, restart it from its source's offsets, then replay the whole history.

usage: python tests/store/torture.py [--kills 300] [--seed 1] [--sabotage durability|noise]

A life: a forked child opens the store and feeds three streams, from where the source thinks it is (and some inputs
again). It shows each release by appending it to a file: what is in there is visible to the world. Pauses stretch the
time between any two statements, and SIGKILL comes at a random instant, also while the store is being opened. In one
life of three, and in every sabotaged one, it comes after a random number of statements and writes instead, so that
however slow the machine is, that much happens.

At the end, for every stream and step:
    conflicts   two visible values, or a recorded one that is not the visible one, or not the one that a counter with
                the same key computes from the source's data
    lost        visible or acknowledged, but not recorded
    doubled     inputs in the true sum that should not be there, or that are missing from it

`--sabotage` breaks the store on purpose (here, not in the library), and then there must be conflicts.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

import dpstream as dp
from dpstream.errors import PositionGap
from dpstream.mechanisms import BufferedToeplitz, SmoothBinary
from dpstream.store import database, durable_stream, lease, sealing, witness

LENGTH = 200_000
FIRST_POSITION = 1000
SOURCE = np.random.default_rng(7).integers(-3, 4, LENGTH)
VECTORS = np.random.default_rng(8).uniform(-0.5, 0.5, (LENGTH, 3)).astype(np.float32)
BUDGET, TREE, RECURRENCE = dp.zcdp(0.5), SmoothBinary(LENGTH), BufferedToeplitz(LENGTH, buffers=3)
NAMES = ("tree", "recurrence", "vectors")
#: One life in four is short, and often ends while the store is being opened.
MEAN_LIFE_SECONDS = (0.02, 0.2, 0.2, 0.2)
#: A life that is not ended by the clock ends after so many statements and writes: 10 to 20 of them make a commit.
LIFE_EVENTS = (100, 800)


def inputs(name: str) -> np.ndarray:
    return VECTORS if name == "vectors" else SOURCE


def open_stream(store: dp.Store, name: str):
    if name == "vectors":
        return store.running_sum(name, LENGTH, BUDGET, shape=(3,), mechanism=TREE)
    return store.counter(
        name, LENGTH, BUDGET, per_person=3, per_step=3, mechanism=TREE if name == "tree" else RECURRENCE
    )


# -- one life ---------------------------------------------------------------------------------------------------------


def live(
    path: Path, visible: Path, offsets: dict[str, int], seed: int, sabotage: str | None, *, by_clock: bool
) -> None:
    """What the child does until it is killed: open, feed, show."""
    chance = random.Random(seed)  # noqa: S311
    durable_stream.REPLAYED_VALUES = 64
    event = partial(pause, chance) if by_clock else Countdown(chance.randrange(*LIFE_EVENTS))
    pause_everywhere(event)
    if sabotage:
        SABOTAGE[sabotage]()
    shown = os.open(visible, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    store = dp.Store(path)
    store._files.database.connection.set_trace_callback(lambda _: event())
    streams = {name: open_stream(store, name) for name in NAMES}
    at = {name: max(0, offsets[name] - chance.choice((0, 0, 1, 5))) for name in NAMES}
    shift = dict.fromkeys(NAMES, 0)
    while True:
        name = chance.choice(NAMES)
        stream, index = streams[name], at[name]
        count = chance.choice((1, 1, 1, 2, 7, 20))
        given = inputs(name)[index : index + count]
        while True:
            try:
                first = FIRST_POSITION + index + shift[name]
                values = (
                    [stream.add(given[0], position=first)] if count == 1 else stream.extend(given, first_position=first)
                )
                break
            except PositionGap as gap:
                if not sabotage:
                    raise
                # The source has forgotten what it was told is counted: it can only go on.
                shift[name] += gap.following - first
        step = first - FIRST_POSITION + 1
        lines = [f"{name} {step + i} {index + i} {np.asarray(v).tobytes().hex()}\n" for i, v in enumerate(values)]
        os.write(shown, "".join(lines).encode())
        at[name] = index + count


def pause(chance: random.Random) -> None:
    if chance.random() < 0.1:
        time.sleep(chance.random() * 0.004)


class Countdown:
    """Kills this process at the n-th event."""

    def __init__(self, events: int) -> None:
        self.left = events

    def __call__(self) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def pause_everywhere(event) -> None:
    """Before and after each write to the witness and each synchronisation; statements have their own pauses."""
    for owner, function in ((os, "fsync"), (os, "pwrite"), (os, "link")):
        setattr(owner, function, paused(getattr(owner, function), event))


def paused(function, event):
    def slow(*arguments):
        event()
        result = function(*arguments)
        event()
        return result

    return slow


# -- sabotage: what only this file can do to a store ------------------------------------------------------------------


def no_durability() -> None:
    """Commit once in 40 transactions, long after the releases are visible; and silence the witness."""
    unwritten = 0

    @contextlib.contextmanager
    def sometimes(self, *, durable=True):
        nonlocal unwritten
        with self._lock:
            if not self.connection.in_transaction:
                self.connection.execute("BEGIN IMMEDIATE")
            yield self.connection
            unwritten += 1
            if unwritten % 40 == 0:
                self.connection.execute("COMMIT")

    database.Database.atomic = sometimes
    witness.Witness.mark = lambda self, slot, record, *_: record
    lease.check_age = lambda row, record: None


def no_keyed_noise() -> None:
    """Noise from the operating system, new in every life."""
    sealing.StoreSeals.noise_key = lambda self, name, tag, configuration: os.urandom(32)


SABOTAGE = {"durability": no_durability, "noise": no_keyed_noise}


# -- many lives -------------------------------------------------------------------------------------------------------


@dataclass
class Report:
    kills: int = 0
    failed: int = 0
    releases: int = 0
    retries: int = 0
    conflicts: int = 0
    lost: int = 0
    doubled: int = 0
    seconds: float = 0.0
    steps: dict[str, int] = field(default_factory=dict)

    @property
    def clean(self) -> bool:
        return not (self.failed or self.conflicts or self.lost or self.doubled)


def torture(folder: Path, kills: int, seed: int, sabotage: str | None = None) -> Report:
    chance = random.Random(seed)  # noqa: S311
    report, start = Report(), time.perf_counter()
    path, visible = folder / "torture.db", folder / "visible"
    visible.touch()
    offsets = dict.fromkeys(NAMES, 0)
    for name in NAMES:
        plain(name, None)  # mechanisms are worked out once, here, and not in every life
    while report.kills < kills and not report.failed:
        by_clock = sabotage is None and report.kills % 3 != 0
        child = os.fork()
        if child == 0:
            try:
                live(path, visible, offsets, chance.getrandbits(32), sabotage, by_clock=by_clock)
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
            os._exit(3)
        chance.getrandbits(32)
        if by_clock:
            time.sleep(chance.expovariate(1 / chance.choice(MEAN_LIFE_SECONDS)))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            report.kills += 1
        else:
            report.failed += 1
        for name, _, index, _ in read(visible):
            offsets[name] = max(offsets[name], index + 1)
    judge(path, visible, offsets, report)
    report.seconds = time.perf_counter() - start
    return report


def read(visible: Path) -> list[tuple[str, int, int, bytes]]:
    found = []
    for line in visible.read_text().splitlines():
        name, step, index, value = line.split()
        found.append((name, int(step), int(index), bytes.fromhex(value)))
    return found


def judge(path: Path, visible: Path, offsets: dict[str, int], report: Report) -> None:
    """Replay the whole history."""
    seen: dict[tuple[str, int], set[bytes]] = defaultdict(set)
    for name, step, _, value in read(visible):
        report.retries += bool(seen[name, step])
        seen[name, step].add(value)
    report.conflicts += sum(len(values) - 1 for values in seen.values())
    with dp.Store(path) as store:
        store.check_seals()
        for name in NAMES:
            if name not in {info.name for info in store.streams()}:
                report.lost += sum(of == name for of, _ in seen)
                continue
            recorded = {r.step: np.asarray(r.value).tobytes() for r in store.releases(name)}
            report.releases += len(recorded)
            report.steps[name] = len(recorded)
            expected = replay(store, name, len(recorded))
            for step in range(1, max([len(recorded), offsets[name]]) + 1):
                shown, kept = seen[name, step], recorded.get(step)
                if kept is None:
                    report.lost += 1
                else:
                    report.conflicts += bool(shown - {kept}) or kept != expected[step - 1]
            report.doubled += wrong_sum(store, name, len(recorded))


def replay(store: dp.Store, name: str, steps: int) -> list[bytes]:
    """What the same key and the source's data give, in one go, without a store."""
    row = store._row(name)
    key = store._files.seals.noise_key(name, row.tag, row.configuration)
    return [np.asarray(value).tobytes() for value in plain(name, key).extend(inputs(name)[:steps])]


def plain(name: str, key: bytes | None):
    """The same stream without a store."""
    if name == "vectors":
        return dp.RunningSum(LENGTH, BUDGET, shape=(3,), mechanism=TREE, key=key)
    return dp.Counter(
        LENGTH, BUDGET, per_person=3, per_step=3, mechanism=TREE if name == "tree" else RECURRENCE, key=key
    )


def wrong_sum(store: dp.Store, name: str, steps: int) -> int:
    """How far the true sum in the file is from the source's, in inputs."""
    row = store._row(name)
    kept = row.sums(store._files.seals.stream(row.tag), store._files.database)
    if name == "vectors":
        total = np.zeros(3)
        for vector in VECTORS[:steps]:
            total += vector
        return int(kept != total.tobytes())
    return abs(int(np.frombuffer(kept, "<i8")[0]) - int(SOURCE[:steps].sum()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sabotage", choices=sorted(SABOTAGE))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = torture(Path(folder), given.kills, given.seed, given.sabotage)
    print(
        f"{report.kills} kills in {report.seconds:.0f} s, {report.releases:,} releases recorded"
        f" ({report.steps}), {report.retries:,} shown again:"
        f" {report.conflicts:,} conflicts, {report.lost:,} lost, {report.doubled:,} doubled, {report.failed} failures"
    )
    if given.sabotage:
        return 0 if report.conflicts else 1
    return 0 if report.clean else 1


if __name__ == "__main__":
    sys.exit(main())
