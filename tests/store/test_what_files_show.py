"""What the files of a store show without its key depends on settings and releases, not on the data behind them."""

import hashlib
import itertools
import os
import shutil
import sqlite3

import numpy as np
import pytest

import dpstream as dp
from dpstream.store import durable_stream

from .conftest import everything

KEY = bytes(range(32))
DAYS = 8


def visible(path):
    """Everything that can be seen of a store without its key, but for the bytes of what is encrypted.

    Sizes of all files; free and used pages; every row of every table, with the length of each blob in its place.
    """
    looked_at = path.parent / "looked at"
    looked_at.mkdir()
    for file in path.parent.glob(path.name + "*"):
        shutil.copy(file, looked_at / file.name)
    shown = {file.name: file.stat().st_size for file in looked_at.iterdir()}
    connection = sqlite3.connect(looked_at / path.name)
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    for table in tables:
        rows = connection.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608
        shown[table] = [tuple(len(x) if isinstance(x, bytes) else x for x in row) for row in rows]
    for pragma in ("page_count", "freelist_count"):
        shown[pragma] = connection.execute(f"PRAGMA {pragma}").fetchone()
    connection.close()
    shutil.rmtree(looked_at)
    return shown


def fixed_urandom(monkeypatch):
    """Let two stores have the same id and tags, and with them the same noise."""
    calls = itertools.count()
    monkeypatch.setattr(os, "urandom", lambda n: hashlib.shake_256(str(next(calls)).encode()).digest(n))


def counted(path, monkeypatch, days, people=1000):
    """Count these days, each a list of people's numbers; give what is visible after every day, and the releases."""
    with monkeypatch.context() as patched:
        fixed_urandom(patched)
        shown = []
        for day, who in enumerate(days):  # a process each
            with dp.Store(path, master_key=KEY) as store:
                visits = store.counter(
                    "visits", 100, dp.zcdp(0.5), per_person=50, per_step=10**6, rows_per_person=50, people=people,
                    mechanism=dp.mechanisms.BalancedToeplitz(100),
                )  # fmt: skip
                limit = visits.contribution_limit()
                found = np.unique(np.array(who, dtype=int), return_counts=True)
                fingerprints = np.array([limit.fingerprint(int(x)) for x in found[0]], dtype=np.uint64)
                visits.extend([len(who)], day, contributions=(fingerprints, found[1]))
                shown.append(visible(path))
            shown.append(visible(path))
        with dp.Store(path, master_key=KEY) as store:
            return shown, [release.value for release in store.releases("visits")]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param([range(42)] * DAYS, [range(43), *[range(42)] * (DAYS - 1)], id="one person more"),
        pytest.param([range(42)] * DAYS, [range(42)] * (DAYS - 1) + [[]], id="an empty day"),
        pytest.param([range(d * 20, d * 20 + 20) for d in range(DAYS)], [[]] * DAYS, id="nobody ever"),
        pytest.param([range(500), *[[]] * (DAYS - 1)], [[]] * (DAYS - 1) + [range(500)], id="all on another day"),
    ],
)
def test_sizes_tell_nothing(path, monkeypatch, one, other, tmp_path):
    (tmp_path / "other").mkdir()
    first, _ = counted(path, monkeypatch, one)
    second, _ = counted(tmp_path / "other" / path.name, monkeypatch, other)
    assert len(first) == 2 * DAYS
    assert first == second


def test_the_same_releases_from_other_people(path, monkeypatch, tmp_path):
    """Forty people once each, or one person forty times: the same releases, and nothing else to see."""
    (tmp_path / "other").mkdir()
    one = [range(d * 40, d * 40 + 40) for d in range(DAYS)]
    other = [[d] * 40 for d in range(DAYS)]
    first, released = counted(path, monkeypatch, one)
    second, also = counted(tmp_path / "other" / path.name, monkeypatch, other)
    assert released == also
    assert first == second


def test_reading_the_days_off_the_sizes(path, monkeypatch):
    """The attack that worked: a day's number of people was (length of a blob - 28) / 12 for one row a day."""
    days = np.random.default_rng(5).integers(0, 100, DAYS)
    shown, _ = counted(path, monkeypatch, [range(n) for n in days])
    numbers = [x for row in shown[-1]["people"] for x in row]
    assert numbers == [1, 0, 1000 * 10 + 28]
    assert all(row[:3] == (1, step, 1) for step, row in enumerate(shown[-1]["batches"], start=1))
    assert len({row[3] for row in shown[-1]["batches"]}) == 1


def test_every_commit_writes_the_whole_table(path, monkeypatch):
    """Which parts change from one day to the next would tell who, or how many, came."""
    monkeypatch.setattr("dpstream.store.people.PART", 100)
    before = None
    for days in ([range(3)], [range(3), []], [range(3), [], [1]]):
        folder = path.parent / str(len(days))
        folder.mkdir()
        counted(folder / path.name, monkeypatch, days)
        connection = sqlite3.connect(folder / path.name)
        parts = [sealed for (sealed,) in connection.execute("SELECT sealed FROM people ORDER BY part")]
        connection.close()
        assert len(parts) == 10
        if before is not None:
            assert all(one != other for one, other in zip(parts, before, strict=True))
        before = parts


def ingested(path, monkeypatch, days):
    """Ingest these days, each {step: people's numbers}, and release two days later; give what is visible each time."""
    with monkeypatch.context() as patched:
        fixed_urandom(patched)
        shown = []
        for day, rows in enumerate(days, start=1):
            with dp.Store(path, master_key=KEY) as store:
                visits = store.counter(
                    "visits", 100, dp.zcdp(0.5), shape=4, per_person=50, rows_per_person=50, people=1000,
                    mechanism=dp.mechanisms.BalancedToeplitz(100), open_steps=5,
                )  # fmt: skip
                limit = visits.contribution_limit()
                tallies = np.zeros((7, 4), dtype=np.int64)
                for step, who in rows.items():
                    tallies[step - max(day - 1, 1), 1] += len(who)
                everybody = [person for who in rows.values() for person in who]
                found = np.unique(np.array(everybody, dtype=int), return_counts=True)
                fingerprints = np.array([limit.fingerprint(int(x)) for x in found[0]], dtype=np.uint64)
                visits.ingest(
                    max(day - 1, 1), tallies[: 7 - (day == 1)], through=day, contributions=(fingerprints, found[1]),
                    batch=f"{day}.csv".encode(),
                )  # fmt: skip
                shown.append(visible(path))
                visits.release_through(max(day - 1, 0))
                shown.append(visible(path))
            shown.append(visible(path))
        return shown


@pytest.mark.parametrize(
    "other",
    [
        pytest.param([{}] * DAYS, id="no rows at all"),
        pytest.param([{1: range(500)}, *[{}] * (DAYS - 1)], id="all on the first day"),
        pytest.param([{day + 5: range(30)} for day in range(1, DAYS + 1)], id="all as far ahead as possible"),
        pytest.param([{max(day - 1, 1): [3] * 5} for day in range(1, DAYS + 1)], id="one person, late"),
    ],
)
def test_open_steps_tell_nothing(path, monkeypatch, other, tmp_path):
    (tmp_path / "other").mkdir()
    monkeypatch.setattr("dpstream.store.ledger.PART_VALUES", 11)
    first = ingested(path, monkeypatch, [{day: range(40), day + 1: range(2)} for day in range(1, DAYS + 1)])
    second = ingested(tmp_path / "other" / path.name, monkeypatch, other)
    assert len(first) == 3 * DAYS
    assert len(first[-1]["open_steps"]) == 4
    assert first == second


def test_every_ingest_writes_all_open_steps(path, monkeypatch):
    monkeypatch.setattr("dpstream.store.ledger.PART_VALUES", 10)
    with dp.Store(path) as store:
        visits = store.counter("visits", 100, dp.zcdp(0.5), open_steps=30)
        before = []
        for day in range(3):
            visits.ingest(2, [day], through=1, batch=b"%d" % day)
            parts = [sealed for (sealed,) in store._files.database.rows("SELECT sealed FROM open_steps ORDER BY part")]
            parts += [sealed for (sealed,) in store._files.database.rows("SELECT sealed FROM ingested_batches")][-1:]
            assert len(parts) == 8
            assert not set(parts) & set(before)
            before = parts


def test_a_failed_commit_leaves_no_release_in_the_log(path, monkeypatch):
    """A long transaction reaches the log before its commit, and a failed one stays there until it is overwritten."""
    computed = []

    def fails(*_):
        raise OSError(5, "input/output error")

    with dp.Store(path, master_key=KEY) as store:
        visits = store.counter("visits", 2**20, dp.zcdp(0.5))
        really = visits._seals.seal_batch

        def seal(first, count, releases, inputs):
            computed.append(releases)
            return really(first, count, releases, inputs)

        monkeypatch.setattr(visits._seals, "seal_batch", seal)
        with monkeypatch.context() as patched:
            patched.setattr(durable_stream.Lease, "move", lambda *_: None)
            patched.setattr(durable_stream, "save_noise_state", fails)
            with pytest.raises(OSError, match="input/output"):
                visits.extend(np.ones(600_000, dtype=np.int64))
        assert visits.t == 0
        visits.extend(np.zeros(100, dtype=np.int64))
        files = everything(path)
    log = files[path.name + "-wal"]
    assert len(log) > 1_000_000  # the failed one is in there
    assert len(computed) == 2
    # What failed was never returned; what was committed is in there, in clear: it is public.
    assert not any(computed[0][at : at + 64] in log for at in range(0, len(computed[0]), 6400))
    assert computed[1][:64] in log
