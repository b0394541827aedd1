"""Open steps: rows are ingested, and released later, once each, whatever happens in between."""

import shutil
import sqlite3

import numpy as np
import pytest

import dpstream as dp
from dpstream.errors import (
    HorizonExceeded,
    InputOutOfBound,
    InvalidArgument,
    LeaseLost,
    StepClosed,
    StepTooFar,
    StoreDamaged,
    StoreMismatch,
    StoreOutdated,
    StreamHasOpenSteps,
    TooManyPeople,
)
from dpstream.mechanisms import SmoothBinary
from dpstream.store import batch_memory, durable_streams, ledger

from .conftest import everything

BUDGET = dp.zcdp(0.5)


def wards(store, name="wards", **more):
    settings = {"horizon": 1000, "budget": BUDGET, "shape": 3, "mechanism": SmoothBinary(1000), "open_steps": 20}
    return store.counter(name, **settings | more)


def plain(store, name, inputs):
    """The releases of the same inputs under the same key, without a store."""
    row = store._row(name)
    key = store._files.seals.noise_key(name, row.tag, row.configuration)
    settings = store.settings(name)
    counter = dp.Counter(
        settings.horizon, settings.budget, shape=settings.shape, per_person=int(settings.per_person),
        mechanism=settings.mechanism, key=key,
    )  # fmt: skip
    return counter.extend(inputs)


@pytest.mark.parametrize("values", [3, 50, 1 << 15])
def test_what_was_ingested_is_released(path, monkeypatch, values):
    """In whatever order rows come, however the ledger and the commits are cut: the releases of the totals."""
    monkeypatch.setattr(ledger, "PART_VALUES", values)
    monkeypatch.setattr(durable_streams, "RELEASED_VALUES", max(3, values // 3))
    chance = np.random.default_rng(1)
    totals, released = np.zeros((100, 3), dtype=np.int64), []
    for day in range(0, 80, 8):
        with dp.Store(path) as store:
            counter = wards(store)
            for _ in range(2):
                first, count = day + 1 + int(chance.integers(0, 10)), int(chance.integers(0, 12))
                more = chance.integers(-5, 9, (count, 3))
                found = counter.ingest(first, more, through=day)
                assert (found.new, found.first_open, found.last_open) == (True, day + 1, day + 20)
                totals[first - 1 : first - 1 + count] += more
            kept = store.true_data.open_steps("wards", day + 1, day + 25)
            np.testing.assert_array_equal(kept.tallies, totals[day : day + 25])
            store.check_seals()
            released.append(counter.release_through(day + 8))
            assert counter.t == day + 8
            kept = store.true_data.open_steps("wards", day + 9, day + 25)
            np.testing.assert_array_equal(kept.tallies, totals[day + 8 : day + 25])
            assert counter.release_through(day + 8).shape == (0, 3)
            assert counter.release_through(2).shape == (0, 3)
    with dp.Store(path) as store:
        np.testing.assert_array_equal(np.concatenate(released), plain(store, "wards", totals[:80]))
        np.testing.assert_array_equal([release.value for release in store.releases("wards")], np.concatenate(released))
        np.testing.assert_array_equal(store.true_data.inputs("wards", 1, 80), totals[:80])
        verified = store.verify("wards")
        assert verified.ok
        assert verified.every_input
        store.check_seals()
        rows = store._files.database.rows("SELECT part FROM open_steps")
        size = max(1, values // 4)
        assert len(rows) == len({(step - 1) // size for step in range(81, 93)})


def test_rows_tell_steps_that_had_none(path):
    with dp.Store(path) as store:
        counter = wards(store)
        counter.ingest(1, [[0, 0, 0], [1, -1, 0], [0, 0, 0]], through=3, rows=[7, 2, 0])
        counter.ingest(1, [[0, 0, 0], [1, 0, 0]], through=3)
        assert store.true_data.open_steps("wards", 1, 3).rows.tolist() == [7, 3, 0]
        for rows in ([1], [1, -1], [0.5, 1]):
            with pytest.raises((InvalidArgument, TypeError, ValueError)):
                counter.ingest(1, [[0, 0, 0], [1, 0, 0]], through=3, rows=rows)
        counter.release_through(2)
        with pytest.raises(InvalidArgument, match="first open step"):
            store.true_data.open_steps("wards", 2, 3)


def test_a_stream_without_rows_can_be_released(path):
    with dp.Store(path) as store:
        counter = wards(store, rows_per_person=1, people=10)
        values = counter.release_through(30)
        np.testing.assert_array_equal(values, plain(store, "wards", np.zeros((30, 3), dtype=np.int64)))
        assert store.true_data.open_steps("wards", 31, 40).rows.tolist() == [0] * 10
        assert store.verify("wards").ok
        with pytest.raises(HorizonExceeded):
            counter.release_through(1001)
        counter.release_through(1000)
        with pytest.raises(HorizonExceeded):
            counter.ingest(1001, [[1, 0, 0]], through=1001, contributions={5: 1})
        store.check_seals()


# -- batches ----------------------------------------------------------------------------------------------------------


def test_a_batch_is_taken_once(path):
    with dp.Store(path) as store:
        counter = wards(store)
        assert not counter.knows_batch(b"monday.csv")
        assert counter.ingest(1, [[1, 2, 3]], through=1, batch=b"monday.csv").new
        counter.release_through(1)
    with dp.Store(path) as store:
        counter = wards(store)
        before = store._row("wards")
        assert counter.knows_batch(b"monday.csv")
        again = counter.ingest(1, [[1, 2, 3]], through=5, batch=b"monday.csv")  # though its step is closed by now
        assert not again.new
        assert store._row("wards") == before
        assert counter.ingest(2, [[1, 2, 3]], through=5, batch=b"tuesday.csv").new
        # The same rows under no name are other rows.
        assert counter.ingest(2, [[1, 2, 3]], through=5).new
        assert store.true_data.open_steps("wards", 2, 2).tallies.tolist() == [[2, 4, 6]]


def test_the_last_batches_are_remembered(path, monkeypatch):
    monkeypatch.setattr(batch_memory, "INGESTS_KEPT", 3)
    with dp.Store(path) as store:
        counter = wards(store)
        for name in (b"a", b"b", b"c", b"d"):
            counter.ingest(1, [[1, 0, 0]], through=1, batch=name)
        assert [counter.knows_batch(name) for name in (b"a", b"b", b"c", b"d")] == [False, True, True, True]
    with dp.Store(path) as store:
        other = wards(store, "other")
        other.ingest(1, [[1, 0, 0]], through=1)
        assert not other.knows_batch(b"d")


@pytest.mark.parametrize("batch", ["monday.csv", b"", b"x" * 1025, 5])
def test_bad_names_of_batches(path, batch):
    with dp.Store(path) as store, pytest.raises(InvalidArgument, match=r"batch must be 1 to 1,024 bytes"):
        wards(store).ingest(1, [[1, 0, 0]], through=1, batch=batch)


# -- what is refused changes nothing ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "tallies", "more", "error"),
    [
        (5, [[1, 0, 0]], {}, StepClosed),
        (4, [[0, 0, 0], [0, 0, 0], [0, 0, 0]], {}, StepClosed),
        (31, [[1, 0, 0]], {}, StepTooFar),
        (6, np.zeros((26, 3), int), {}, StepTooFar),
        (995, np.zeros((10, 3), int), {"through": 1000}, HorizonExceeded),
        (6, [[1, 0]], {}, ValueError),
        (6, [[0.5, 1, 1]], {}, TypeError),
        (6, [[2**61, 0, 0]], {}, InputOutOfBound),
        (6, [[-(2**61), 0, 0]], {}, InputOutOfBound),
        (6, np.array([[2**64 - 1, 0, 0]], dtype=np.uint64), {}, InputOutOfBound),
        (0, [[1, 0, 0]], {}, InvalidArgument),
        (6, [[1, 0, 0]], {"through": -1}, InvalidArgument),
        (6, [[1, 0, 0]], {"through": 1.5}, InvalidArgument),
        (6, [[1, 0, 0]], {"contributions": {1: 1}}, InvalidArgument),
    ],
)
def test_refused(path, first, tallies, more, error):
    with dp.Store(path) as store:
        counter = wards(store)
        counter.ingest(1, np.ones((8, 3), int), through=8)
        counter.release_through(5)
        before = everything(path)
        with pytest.raises(error):
            counter.ingest(first, tallies, **{"through": 10, "batch": b"x"} | more)
        assert everything(path) == before
        assert not counter.knows_batch(b"x")
        assert counter.ingest(6, [[1, 0, 0]], through=10, batch=b"x").new


def test_errors_say_which_step_is_open(path):
    with dp.Store(path) as store:
        counter = wards(store)
        counter.release_through(5)
        with pytest.raises(StepClosed, match="step 3 is released already; 6 is the first step that is open") as closed:
            counter.ingest(3, [[1, 0, 0]], through=5)
        assert closed.value.first_open == 6
        with pytest.raises(StepTooFar, match="step 40 is too far ahead: steps are open up to 25") as far:
            counter.ingest(40, [[1, 0, 0]], through=5)
        assert far.value.last_open == 25


def test_a_total_that_is_too_large_is_cut_off(path):
    """A refusal would tell one sender how much the others have sent."""
    with dp.Store(path) as store:
        counter = store.counter("visits", 1000, BUDGET, per_step=10, mechanism=SmoothBinary(1000))
        counter.ingest(1, [10], through=1)
        assert counter.ingest(1, [1], through=1).new
        with pytest.raises(InputOutOfBound):  # by itself too much
            counter.ingest(1, [11], through=1)
        counter.ingest(1, [-10], through=1)
        counter.ingest(1, [-10], through=1)
        counter.release_through(1)
        assert store.true_data.inputs("visits", 1, 1).tolist() == [-10]
        # Sums beyond 64 bits do not wrap round to small ones.
        large = store.counter("large", 1, dp.zcdp(1000))
        most = large.settings.input_range[1]
        large.ingest(1, [most // 2], through=1)
        for _ in range(3):
            large.ingest(1, [2**62], through=1)
        large.release_through(1)
        assert store.true_data.inputs("large", 1, 1).tolist() == [most]


def test_open_steps_are_declared(path):
    with dp.Store(path) as store:
        with wards(store, open_steps=20) as counter:
            assert counter.open_steps == 20
        with wards(store, open_steps=None) as counter:
            assert counter.open_steps == 20
        with pytest.raises(StoreMismatch, match="open_steps"):
            wards(store, open_steps=21)
        assert wards(store, "new", open_steps=None).open_steps == 400
        wide = store.counter("wide", 10**6, BUDGET, shape=10**5, mechanism=SmoothBinary(10**6))
        assert wide.open_steps == 8
        for bad in (-1, 1.5, True, 2**40):
            with pytest.raises(InvalidArgument, match="open_steps"):
                wards(store, "bad", open_steps=bad)
        with pytest.raises(InvalidArgument, match="release earlier steps first"):
            wide.ingest(1, np.zeros((0, 10**5), int), through=10_000)


def test_steps_come_from_the_ledger_from_then_on(path):
    with dp.Store(path) as store:
        counter = wards(store)
        assert counter.extend([[1, 0, 0]] * 3, 10).shape == (3, 3)
        counter.ingest(4, [[1, 1, 1]], through=4)
        recorded = counter.extend([[1, 0, 0]] * 3, 10)  # replayed
        assert recorded.shape == (3, 3)
        for call in (
            lambda: counter.add([0, 0, 0]),
            lambda: counter.add([0, 0, 0], position=13),
            lambda: counter.extend([[1, 0, 0]] * 2, 12),
        ):
            with pytest.raises(StreamHasOpenSteps, match=r"release_through\(step\)"):
                call()
        counter.release_through(4)
        assert counter.position == 13
        assert store.verify("wards").ok
        assert store.true_data.inputs("wards", 1, 4).tolist() == [[1, 0, 0]] * 3 + [[1, 1, 1]]


# -- people -----------------------------------------------------------------------------------------------------------


def test_people_are_counted_with_their_rows(path):
    for day in range(1, 4):
        with dp.Store(path) as store:
            counter = wards(store, per_person=3, rows_per_person=3, people=4)
            limit = counter.contribution_limit()
            assert limit.take("ann", 5) == 4 - day
            with pytest.raises(InvalidArgument, match="who is counted"):
                counter.ingest(day, [[1, 0, 0]], through=day)
            counter.ingest(day, [[1, 0, 0]], through=day, contributions={limit.fingerprint("ann"): 1})
            if day == 2:
                counter.release_through(1)
            store.check_seals()
            assert store.verify("wards").ok
    with dp.Store(path) as store:
        counter = wards(store, per_person=3, rows_per_person=3, people=4)
        limit = counter.contribution_limit()
        before = everything(path)
        with pytest.raises(InvalidArgument, match="at most 3 each"):
            counter.ingest(4, [[1, 0, 0]], through=4, contributions={limit.fingerprint("ann"): 1})
        with pytest.raises(TooManyPeople):
            counter.ingest(4, [[1, 0, 0]], through=4, contributions=dict.fromkeys(range(1, 5), 1))
        assert everything(path) == before
        counter.release_through(3)
    with dp.Store(path) as store:  # more room, after ingests
        counter = wards(store, per_person=3, rows_per_person=3, people=40)
        counter.ingest(4, [[1, 0, 0]], through=4, contributions=dict.fromkeys(range(1, 5), 1))
        assert counter.contribution_limit().take("ann", 1) == 0
        store.check_seals()


# -- damage, old files, failures --------------------------------------------------------------------------------------


def changed(path, *statements):
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM open_steps WHERE part = 1",
        "UPDATE open_steps SET part = 9 - part",
        "UPDATE open_steps SET sealed = (SELECT sealed FROM open_steps WHERE part = 2) WHERE part = 1",
        "UPDATE open_steps SET sealed = 'text' WHERE part = 1",
        "INSERT INTO open_steps SELECT stream, 77, sealed FROM open_steps WHERE part = 1",
        "UPDATE open_steps SET sealed = (SELECT sealed FROM old WHERE old.part = open_steps.part) WHERE part = 1",
        "UPDATE ingested_batches SET sealed = (SELECT sealed FROM old_batches)",
        "UPDATE ingested_batches SET ingest = 5 - ingest",
        "DELETE FROM ingested_batches WHERE ingest = 1",
        "DELETE FROM ingested_batches WHERE ingest = 2",
        "INSERT INTO ingested_batches SELECT stream, 3, sealed FROM ingested_batches WHERE ingest = 2",
        "DELETE FROM ingested_batches",
        "UPDATE streams SET open_last = open_last + 1",
        "UPDATE streams SET ingests = ingests - 1",
    ],
)
def test_damage_is_found(path, monkeypatch, statement):
    monkeypatch.setattr(ledger, "PART_VALUES", 20)
    with dp.Store(path) as store:
        counter = wards(store)
        counter.ingest(1, np.ones((20, 3), int), through=4, batch=b"one")
    changed(
        path,
        "CREATE TABLE old AS SELECT * FROM open_steps",
        "CREATE TABLE old_batches AS SELECT * FROM ingested_batches",
    )
    with dp.Store(path) as store:
        counter = wards(store)
        counter.ingest(1, np.ones((20, 3), int), through=4, batch=b"two")
        store.check_seals()
    changed(path, statement)
    with dp.Store(path) as store:
        with pytest.raises(StoreDamaged):
            store.check_seals()
        assert not store.verify("wards").ok


def test_a_part_from_before_a_release_does_not_open(path):
    with dp.Store(path) as store:
        counter = wards(store)
        counter.ingest(1, np.ones((20, 3), int), through=4)
    changed(path, "CREATE TABLE old AS SELECT * FROM open_steps")
    with dp.Store(path) as store:
        wards(store).release_through(2)
    changed(path, "UPDATE open_steps SET sealed = (SELECT sealed FROM old)")
    with dp.Store(path) as store:
        counter = wards(store)
        with pytest.raises(StoreDamaged, match="open steps"):
            counter.release_through(3)
        with pytest.raises(StoreDamaged, match="open steps"):
            counter.ingest(3, [[1, 0, 0]], through=3)
        assert counter.t == 2


def test_a_step_that_is_too_large_is_found(path):
    """Changed together with its seal, by someone who has the key."""
    with dp.Store(path) as store:
        counter = store.counter("visits", 1000, BUDGET, per_step=10, mechanism=SmoothBinary(1000))
        counter.ingest(1, [10], through=1)
        row, files = store._row("visits"), store._files
        table = ledger.read_table(files.database, counter._seals, row)
        table[0, 0] = 11
        with files.database.atomic() as connection:
            ledger.write_ledger(connection, counter._seals, row, table)
        store.check_seals()
        assert store.verify("visits").findings == ("an open step adds up to more than the stream accepts",)


def test_an_old_file_is_refused(path, tmp_path):
    """One from before an ingest, though no step was released since and no one opened the stream."""
    store = dp.Store(path)
    counter = wards(store)
    counter.ingest(1, [[1, 0, 0]], through=1)
    store._files.database.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(path, tmp_path / "old")
    counter.ingest(1, [[1, 0, 0]], through=1)
    store.close()
    with path.open("r+b") as file:  # the same inode, as a restored backup may have
        file.truncate(0)
        file.write((tmp_path / "old").read_bytes())
    with dp.Store(path) as store:
        assert "ingested 2 times" in store.verify("wards").outdated
        with pytest.raises(StoreOutdated, match=r"took rows 1 times.*ingested 2 times before"):
            wards(store)
        store.retire("wards")
        store.check_seals()


def test_a_failed_commit_adds_nothing(path, monkeypatch):
    def fails(*_):
        raise OSError(5, "input/output error")

    with dp.Store(path) as store:
        counter = wards(store, rows_per_person=1, people=10)
        counter.ingest(1, [[1, 0, 0]], through=1, contributions={1: 1}, batch=b"a")
        for function in ("write_people", "write_ledger"):
            with monkeypatch.context() as patched:
                patched.setattr(durable_streams, function, fails)
                with pytest.raises(OSError, match="input/output"):
                    counter.ingest(1, [[5, 0, 0]], through=1, contributions={2: 1}, batch=b"b")
        # The commit succeeds, and noting it does not.
        with monkeypatch.context() as patched:
            patched.setattr(store._files.witness, "mark", fails)
            with pytest.raises(OSError, match="input/output"):
                counter.ingest(1, [[1, 0, 0]], through=1, contributions={3: 1}, batch=b"c")
        assert not counter.ingest(1, [[1, 0, 0]], through=1, contributions={3: 1}, batch=b"c").new
        assert store._files.witness.read(1).ingests == 2
        with monkeypatch.context() as patched:
            patched.setattr("dpstream.store.durable_stream.close_steps", fails)
            with pytest.raises(OSError, match="input/output"):
                counter.release_through(1)
        assert store.releases("wards") == []
        counter.release_through(1)
        assert store.true_data.inputs("wards", 1, 1).tolist() == [[2, 0, 0]]
        assert counter.contribution_limit().people == 2
        assert store.verify("wards").ok


def test_a_file_swapped_under_the_writer(path, tmp_path):
    """What this writer ingested is gone: it does not go on."""
    with dp.Store(path) as store:
        counter = wards(store)
        counter.ingest(1, [[1, 0, 0]], through=1)
        lease = counter._lease
        lease.record = store._files.witness.mark(lease.slot, lease.record, 0, 2)
        counter._live = None
        with pytest.raises(LeaseLost):
            counter.ingest(1, [[1, 0, 0]], through=1)
