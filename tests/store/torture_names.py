"""Kill whoever counts discovered names day by day, let him do it all again, then compare with the files.

usage: python -m tests.store.torture_names [--kills 100] [--seed 1] [--sabotage again|pairs|noise]

The lives are those of torture_ledger.py, with people and names: a file goes into open steps (late rows into the first
one), steps are released and shown. What the store must hold after n files follows from a limit of people and names that
is written once more here, and from an `OpenCounter` with the stream's key.

At the end:
    conflicts   two visible releases of a step, or a published one that is not the visible one, or not the one that
                follows from the files
    lost        visible, but not published; or files that were acknowledged and whose steps are not released
    doubled     counts and people by name, or pairs of a person and a name, that should not be there or are missing;
                people with more names, and names with more rows of one person, than are allowed
"""

from __future__ import annotations

import os
import random
import sys
from collections import Counter, defaultdict
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

import dpstream as dp
from dpstream.errors import NameCountOutOfBound, StoreDamaged
from dpstream.store import PublishedStore, durable_names, names_tables, sealing

from .torture import Countdown, Report, pause, pause_everywhere
from .torture_ledger import LIFE_EVENTS, drive, torture_with

HORIZON, NAME = 4000, "terms"
BUDGET = dp.approx_dp(30, 0.01)
PEOPLE, NAMES_PER_PERSON, PER_NAME, PAIRS = 400, 3, 40, 1200
#: Of the tables in a part; so that a commit has several of each.
PART_BYTES = 6000


class File(NamedTuple):
    """One morning's work: the rows of a file, and through which step is released after it."""

    steps: list[int]
    people: list[int]
    names: list[str]
    release: int


def file(i: int) -> File:
    """Two files a day, with early and late rows; three steps are released after every sixth."""
    chance = np.random.default_rng(i)
    day, rows = i // 2 + 1, int(chance.integers(0, 30))
    steps = np.maximum(day + chance.integers(-5, 6, rows), 1).tolist()
    names = [f"name {n}" for n in chance.geometric(0.25, rows)]
    return File(steps, chance.integers(0, PEOPLE, rows).tolist(), names, (i + 1) // 6 * 3)


def settings() -> dict[str, int]:
    return {"names_per_person": NAMES_PER_PERSON, "per_name": PER_NAME}


def open_stream(store: dp.Store) -> dp.store.DurableNames:
    return store.open_names(NAME, HORIZON, BUDGET, **settings(), pairs=PAIRS)


def plain(key: bytes | None) -> dp.OpenCounter:
    """The same stream without a store."""
    return dp.OpenCounter(HORIZON, BUDGET, **settings(), name=NAME, key=key)


def live(path: Path, visible: Path, at: int, seed: int, sabotage: str | None, *, by_clock: bool) -> None:
    """What the child does until it is killed: open, ingest, release, show."""
    chance = random.Random(seed)  # noqa: S311
    event = partial(pause, chance) if by_clock else Countdown(chance.randrange(*LIFE_EVENTS))
    pause_everywhere(event)
    names_tables.PART_BYTES = PART_BYTES
    if sabotage:
        SABOTAGE[sabotage]()
    shown = os.open(visible, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    store = dp.Store(path)
    store._files.database.connection.set_trace_callback(lambda _: event())
    stream = open_stream(store)
    i = max(0, at - chance.choice((0, 0, 1, 4)))
    while True:
        given = file(i)
        steps = [max(step, stream.t + 1) for step in given.steps]
        stream.ingest(np.array(steps, dtype=np.int64), given.people, given.names, batch=b"%d" % i)
        os.write(shown, b"file %d\n" % i)
        for made in stream.release_through(given.release):
            os.write(shown, f"step {made.step} {as_bytes(made.names, made.values).hex()}\n".encode())
        i += 1


def as_bytes(names, values) -> bytes:
    return repr((tuple(names), np.asarray(values).tolist())).encode()


# -- sabotage: what only this file can do to a store ------------------------------------------------------------------


def no_memory_of_batches() -> None:
    """Files that come again are added again."""
    really = durable_names.DurableNames._commit_events
    durable_names.DurableNames._commit_events = lambda self, *given: really(self, *given[:-1], None)


def pairs_of_their_own() -> None:
    """Who brought what is written in a commit before that of the rows."""
    really = durable_names.DurableNames._commit

    def twice(self, moved, content):
        before = self._live
        really(self, moved, replace(content, cells=before.cells.of(content.base + 1, HORIZON), batches=()))
        for _ in range(20):  # time passes: about half of all kills come here
            self._files.database.connection.execute("SELECT 1")
        really(self, replace(self._lease.row, ingests=self._lease.row.ingests + 1), content)

    durable_names.DurableNames._commit = twice


def no_keyed_noise() -> None:
    """Noise from the operating system, new in every life."""
    sealing.StoreSeals.noise_key = lambda *_: os.urandom(32)


SABOTAGE = {"again": no_memory_of_batches, "pairs": pairs_of_their_own, "noise": no_keyed_noise}


# -- judging ----------------------------------------------------------------------------------------------------------


class Expected(NamedTuple):
    """What the store must hold after some files: by step and name rows and new people, and the rows of each pair."""

    rows: dict[int, Counter[str]]
    people: dict[int, Counter[str]]
    pairs: Counter[tuple[int, str]]


def expected(files: int) -> Expected:
    """Limit people and names, file by file, as the documentation says it."""
    rows: dict[int, Counter[str]] = defaultdict(Counter)
    people: dict[int, Counter[str]] = defaultdict(Counter)
    pairs: Counter[tuple[int, str]] = Counter()
    names: Counter[int] = Counter()
    closed = 0
    for i in range(files):
        given = file(i)
        for step, who, name in zip(given.steps, given.people, given.names, strict=True):
            at, new = max(step, closed + 1), (who, name) not in pairs
            if (new and names[who] == NAMES_PER_PERSON) or pairs[who, name] == PER_NAME:
                pairs += Counter()  # forget the zero that looking has left
                continue
            names[who] += new
            people[at][name] += new
            pairs[who, name] += 1
            rows[at][name] += 1
        closed = given.release
    return Expected(rows, people, pairs)


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
    with dp.Store(path) as store:
        try:
            open_stream(store).close()  # what is closed and not published yet is published now
        except NameCountOutOfBound:  # rows without their people
            report.failed += 1
            return
        try:
            store.check_seals()
        except StoreDamaged:  # which is what fresh noise looks like
            report.failed += 1
        row = store._row(NAME)
        seals = store._files.seals.stream(row.tag)
        kept = names_tables.read_names(store._files.database, seals, row)
        key = store._files.seals.noise_key(NAME, row.tag, row.configuration)
    found = PublishedStore(path).published_names(NAME)
    recorded = [as_bytes(found.names[: len(values)], values) for values in found.values]
    report.releases, report.steps = len(recorded), {"files": files, "names": len(found.names)}
    report.lost += sum(step > len(recorded) for step in seen)
    # The file that was being ingested when the last kill came is in there, or is not.
    wrong = {n: differences(kept, expected(n)) for n in (files, files + 1)}
    n = min(wrong, key=lambda n: wrong[n])
    report.doubled += wrong[n] + beyond_the_limits(kept.pairs)
    counter, truth = plain(key), expected(n)
    for step, value in enumerate(recorded, start=1):
        released = counter.add(dict(truth.rows[step]), dict(truth.people[step]))
        report.conflicts += bool(seen[step] - {value}) or value != as_bytes(released, list(released.values()))
    # Nothing that was released before the last acknowledged file may be missing.
    report.lost += max(0, (file(files - 2).release if files > 1 else 0) - row.t)


def differences(kept: names_tables.NamesKept, truth: Expected) -> int:
    """How many rows, new people and pairs are in the store that should not be, or are missing."""
    wrong = 0
    for what, sums, cells in (
        (truth.rows, kept.sums.counts, kept.cells.counts),
        (truth.people, kept.sums.people, kept.cells.people),
    ):
        there: Counter[tuple[int, str]] = Counter()
        for name, count in zip(kept.texts, sums.tolist(), strict=True):
            there[0, name] = count  # of all steps up to `base`
        for step, at, count in zip(kept.cells.steps.tolist(), kept.cells.rows.tolist(), cells.tolist(), strict=True):
            there[step, kept.texts[at]] = count
        wanted: Counter[tuple[int, str]] = Counter()
        for step, names in what.items():
            for name, count in names.items():
                wanted[0 if step <= kept.base else step, name] += count
        wrong += sum(abs(there[place] - wanted[place]) for place in there | wanted)
    by_pair = sorted(kept.pairs.events.tolist())
    return wrong + sum((Counter(by_pair) - Counter(truth.pairs.values())).values())


def beyond_the_limits(pairs: names_tables.Pairs) -> int:
    """How many people have more names than they may, and pairs more rows."""
    _, names = np.unique(pairs.people, return_counts=True)
    return int((names > NAMES_PER_PERSON).sum() + (pairs.events > PER_NAME).sum())


def torture(folder: Path, kills: int, seed: int, sabotage: str | None = None) -> Report:
    plain(None)  # the mechanism is worked out once, here, and not in every life
    return torture_with(live, judge, folder, kills, seed, sabotage)


if __name__ == "__main__":
    sys.exit(drive(torture, SABOTAGE, __doc__, kills=100))
