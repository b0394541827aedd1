"""Kill whoever ingests files and releases steps, let him do it all again, then compare with the files.

usage: python -m tests.store.torture_ledger [--kills 300] [--seed 1] [--sabotage batch|again|people]

The driver is that of torture.py; here a life is what `dpstream count` does every morning: ingest a file into open steps
(late rows into the first one), release through a day, show the releases, take the next file. After a kill it begins
some files before the last one that it saw through. Files and days are fixed, so what the store must hold after n
files is, too.

At the end:
    conflicts   two visible values of a step, or a recorded one that is not the visible one, or not the one that a
                counter with the same key computes from the files
    lost        visible, but not recorded; or files that were acknowledged, and are not in the store
    doubled     rows in closed or open steps, or of people, that should not be there, or that are missing
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
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

import dpstream as dp
from dpstream.mechanisms import SmoothBinary
from dpstream.store import batch_memory, durable_streams, ledger, people

from .torture import MEAN_LIFE_SECONDS, Countdown, Report, pause, pause_everywhere

LENGTH = 200_000
BUDGET, TREE = dp.zcdp(0.5), SmoothBinary(LENGTH)
PEOPLE, ROWS_PER_PERSON, OPEN_STEPS = 40, 10_000, 12
NAME = "visits"
#: A life that is not ended by the clock ends after so many statements and writes: 20 to 40 of them make a file.
LIFE_EVENTS = (100, 600)


class File(NamedTuple):
    """One morning's work: the rows of a file, and through which step is released after it."""

    steps: np.ndarray
    places: np.ndarray
    people: np.ndarray
    present: int
    release: int


def file(i: int) -> File:
    """Two files a day, with early and late rows; three steps are released after every sixth."""
    chance = np.random.default_rng(i)
    day, rows = i // 2 + 1, int(chance.integers(0, 9))
    steps = np.maximum(day + chance.integers(-5, 6, rows), 1)
    return File(steps, chance.integers(0, 2, rows), chance.integers(1, PEOPLE + 1, rows), day, (i + 1) // 6 * 3)


def open_stream(store: dp.Store) -> dp.store.DurableCounter:
    return store.counter(
        NAME, LENGTH, BUDGET, shape=2, per_person=ROWS_PER_PERSON, rows_per_person=ROWS_PER_PERSON, people=PEOPLE,
        mechanism=TREE, open_steps=OPEN_STEPS,
    )  # fmt: skip


# -- one life ---------------------------------------------------------------------------------------------------------


def cut_small(*sizes: int) -> tuple[int, ...]:
    """Cut the ledger, the table of people and the commits into pieces of these sizes; return what they were."""
    before = ledger.PART_VALUES, people.PART, durable_streams.RELEASED_VALUES
    ledger.PART_VALUES, people.PART, durable_streams.RELEASED_VALUES = sizes
    return before


@contextlib.contextmanager
def small_pieces():
    before = cut_small(9, 16, 4)
    try:
        yield
    finally:
        cut_small(*before)


def live(path: Path, visible: Path, at: int, seed: int, sabotage: str | None, *, by_clock: bool) -> None:
    """What the child does until it is killed: open, ingest, release, show."""
    chance = random.Random(seed)  # noqa: S311
    event = partial(pause, chance) if by_clock else Countdown(chance.randrange(*LIFE_EVENTS))
    pause_everywhere(event)
    cut_small(9, 16, 4)
    if sabotage:
        SABOTAGE[sabotage]()
    shown = os.open(visible, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    store = dp.Store(path)
    store._files.database.connection.set_trace_callback(lambda _: event())
    stream = open_stream(store)
    i = max(0, at - chance.choice((0, 0, 1, 4)))
    while True:
        given, first = file(i), stream.t + 1
        tallies = np.zeros((given.present + OPEN_STEPS - first + 1, 2), dtype=np.int64)
        np.add.at(tallies, (np.maximum(given.steps, first) - first, given.places), 1)
        who = np.unique(given.people, return_counts=True)
        stream.ingest(first, tallies, through=given.present, contributions=who, batch=b"%d" % i)
        os.write(shown, b"file %d\n" % i)
        before = stream.t
        for step, value in enumerate(stream.release_through(given.release), start=before + 1):
            os.write(shown, f"step {step} {value.tobytes().hex()}\n".encode())
        i += 1


# -- sabotage: what only this file can do to a store ------------------------------------------------------------------


def batch_of_its_own() -> None:
    """The batch is noted in a commit after that of its rows."""
    really = durable_streams.DurableCounter._commit_ingest

    def twice(self, grown, table, digests, counted, **more):
        really(self, grown, table, [], counted, **more)
        for _ in range(20):  # time passes: about half of all kills come here
            self._files.database.connection.execute("SELECT 1")
        with self._files.database.atomic() as connection:
            batch_memory.write_memory(connection, self._seals, self._lease.row, digests, first=1, places=1)
        self._memory = None

    durable_streams.DurableCounter._commit_ingest = twice


def no_memory_of_batches() -> None:
    """Files that come again are added again."""
    batch_memory.BatchMemory.knows = lambda *_: False


def people_of_their_own() -> None:
    """Who was counted is written in a commit before that of the rows."""
    really = durable_streams.DurableCounter._commit_ingest

    def twice(self, grown, table, digests, counted, **more):
        with self._files.database.atomic() as connection:
            people.write_people(connection, self._seals, self._lease.row, counted)
        really(self, grown, table, digests, counted, **more)

    durable_streams.DurableCounter._commit_ingest = twice


SABOTAGE = {"batch": batch_of_its_own, "again": no_memory_of_batches, "people": people_of_their_own}


# -- many lives -------------------------------------------------------------------------------------------------------


def torture(folder: Path, kills: int, seed: int, sabotage: str | None = None) -> Report:
    plain(None)  # the mechanism is worked out once, here, and not in every life
    return torture_with(live, judge, folder, kills, seed, sabotage)


def torture_with(live, judge, folder: Path, kills: int, seed: int, sabotage: str | None) -> Report:
    """Let many lives ingest and release, each until it is killed, and judge what they left behind."""
    chance = random.Random(seed)  # noqa: S311
    report, start = Report(), time.perf_counter()
    path, visible = folder / "torture.db", folder / "visible"
    visible.touch()
    while report.kills < kills and not report.failed:
        by_clock = sabotage is None and report.kills % 3 != 0
        at = len({line for line in visible.read_text().splitlines() if line.startswith("file")})
        child = os.fork()
        if child == 0:
            try:
                # The last file may have been ingested and not released.
                live(path, visible, max(0, at - 1), chance.getrandbits(32), sabotage, by_clock=by_clock)
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
    judge(path, visible, report)
    report.seconds = time.perf_counter() - start
    return report


def judge(path: Path, visible: Path, report: Report) -> None:
    """Work the whole history out again."""
    seen: dict[int, set[bytes]] = defaultdict(set)
    acknowledged: set[int] = set()
    for line in visible.read_text().splitlines():
        word, number, *value = line.split()
        if word == "file":
            report.retries += int(number) in acknowledged
            acknowledged.add(int(number))
        else:
            seen[int(number)].add(bytes.fromhex(value[0]))
    report.conflicts += sum(len(values) - 1 for values in seen.values())
    files = len(acknowledged)
    with small_pieces(), dp.Store(path) as store:
        store.check_seals()
        row = store._row(NAME)
        recorded = [release.value.tobytes() for release in store.releases(NAME)]
        report.releases, report.steps = len(recorded), {NAME: len(recorded), "files": files}
        report.lost += sum(step > len(recorded) for step in seen)
        seals = store._files.seals.stream(row.tag)
        closed, still = (
            store.true_data.inputs(NAME, 1, row.t),
            ledger.read_open_steps(store._files.database, seals, row),
        )
        counted = people.read_people(store._files.database, seals, row)
        events = np.zeros(PEOPLE + 1, dtype=np.int64)
        events[counted.fingerprints.astype(np.int64)] = counted.events
        found = np.concatenate([closed, still.tallies])
        # The file that was being ingested when the last kill came is in there, or is not.
        wrong = {}
        for n in (files, files + 1):
            tallies, of_people = expected(n, len(found))
            wrong[n] = int(np.abs(tallies - found).sum() + np.abs(of_people - events).sum())
        n = min(wrong, key=lambda n: wrong[n])
        report.doubled += wrong[n]
        released = [value.tobytes() for value in plain(noise_key(store)).extend(expected(n, len(found))[0][: row.t])]
        for step, value in enumerate(recorded, start=1):
            report.conflicts += bool(seen[step] - {value}) or value != released[step - 1]
        # Nothing that was released before the last acknowledged file may be missing.
        report.lost += max(0, (file(files - 2).release if files > 1 else 0) - row.t)


def expected(files: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """What is in the first steps, and of whom, after so many files."""
    tallies, events = (
        np.zeros((max(steps, files) + OPEN_STEPS, 2), dtype=np.int64),
        np.zeros(PEOPLE + 1, dtype=np.int64),
    )
    closed = 0
    for i in range(files):
        given = file(i)
        np.add.at(tallies, (np.maximum(given.steps, closed + 1) - 1, given.places), 1)
        np.add.at(events, given.people, 1)
        closed = given.release
    return tallies[:steps], events


def plain(key: bytes | None) -> dp.Counter:
    """The same stream without a store."""
    return dp.Counter(LENGTH, BUDGET, shape=2, per_person=ROWS_PER_PERSON, mechanism=TREE, key=key)


def noise_key(store: dp.Store) -> bytes:
    row = store._row(NAME)
    return store._files.seals.noise_key(NAME, row.tag, row.configuration)


def drive(torture, sabotage: dict, text: str, *, kills: int) -> int:
    """Run a torture from the command line; 0 if it found nothing or, sabotaged, something."""
    parser = argparse.ArgumentParser(description=text.splitlines()[0])
    parser.add_argument("--kills", type=int, default=kills)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sabotage", choices=sorted(sabotage))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = torture(Path(folder), given.kills, given.seed, given.sabotage)
    print(
        f"{report.kills} kills in {report.seconds:.0f} s, {report.releases:,} releases recorded"
        f" ({report.steps}), {report.retries:,} files again:"
        f" {report.conflicts:,} conflicts, {report.lost:,} lost, {report.doubled:,} doubled, {report.failed} failures"
    )
    if given.sabotage:
        return 0 if report.conflicts + report.doubled + report.failed else 1
    return 0 if report.clean else 1


if __name__ == "__main__":
    sys.exit(drive(torture, SABOTAGE, __doc__, kills=300))
