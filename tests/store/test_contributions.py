"""Who was counted survives with the releases, and shows when somebody touches it."""

import random
import sqlite3
import threading
from collections import Counter

import numpy as np
import pytest

import dpstream as dp
from dpstream.errors import InvalidArgument, ParticipationError, StoreDamaged, StoreMismatch, TooManyPeople
from dpstream.store import people
from tests.store.conftest import copy_of


def counter(store, name="visits", **settings):
    usual = {"per_person": 2, "per_step": 1000, "mechanism": dp.mechanisms.SmoothBinary(100), "rows_per_person": 2}
    return store.counter(name, 100, dp.zcdp(0.5), **(usual | {"people": 100} | settings))


def execute(path, *statements):
    connection = sqlite3.connect(path)
    with connection:
        for statement in statements:
            connection.execute(*statement) if isinstance(statement, tuple) else connection.execute(statement)
    connection.close()


@pytest.fixture
def counted(path):
    """A store with two streams of three batches each; everybody came once in each of the first two."""
    with dp.Store(path) as store:
        for name in ("visits", "calls"):
            visits = counter(store, name)
            limit = visits.contribution_limit()
            for first, people in ((0, ("ann", "bob")), (1, ("ann",)), (2, ())):
                assert all(limit.keep(person) for person in people)
                kept = {limit.fingerprint(person): 1 for person in people}
                visits.extend([len(people)], first, contributions=kept)
    return path


def test_the_next_process_goes_on_counting(counted):
    with dp.Store(counted) as store:
        limit = counter(store).contribution_limit()
        assert [limit.take(person, 5) for person in ("ann", "bob", "cid")] == [0, 1, 2]
        assert limit.people == 3


def test_no_more_than_allowed_over_many_processes(path):
    rng = random.Random(8)  # noqa: S311
    total = Counter()
    for _ in range(12):
        with dp.Store(path) as store:
            visits = counter(store)
            limit = visits.contribution_limit()
            users = [rng.choice("abcdefgh") for _ in range(6)]
            kept = [user for user in users if limit.keep(user)]
            people = Counter(limit.fingerprint(user) for user in kept)
            if rng.random() < 0.3:
                continue  # stopped before the release: nothing was counted, and nobody
            visits.extend([len(kept)], visits.t, contributions=people)
            total.update(kept)
    assert max(total.values()) == 2
    with dp.Store(path) as store:
        limit = counter(store).contribution_limit()
        assert [2 - limit.take(user, 9) for user in "abcdefgh"] == [total[user] for user in "abcdefgh"]
        assert store.true_data.inputs("visits", 1, store.streams()[0].t).sum() == total.total()


def test_people_are_not_in_the_file_and_streams_do_not_share_them(counted):
    with dp.Store(counted) as store:
        visits, calls = (counter(store, name).contribution_limit() for name in ("visits", "calls"))
        assert visits.fingerprint("ann") != calls.fingerprint("ann")
        print_of_ann = visits.fingerprint("ann").to_bytes(8, "little")
    content = b"".join(file.read_bytes() for file in counted.parent.iterdir())
    assert print_of_ann not in content
    assert b"ann" not in content


@pytest.mark.parametrize(
    "tampering",
    [
        "DELETE FROM people WHERE stream = 1",
        "DELETE FROM people",
        "INSERT INTO people SELECT stream, 1, sealed FROM people WHERE stream = 1",
        "UPDATE people SET sealed = (SELECT sealed FROM people WHERE stream = 2) WHERE stream = 1",
        "UPDATE people SET sealed = zeroblob(1028) WHERE stream = 1",
        "UPDATE people SET sealed = x'' WHERE stream = 1",
        "UPDATE people SET sealed = substr(sealed, 1, length(sealed) - 1) WHERE stream = 1",
    ],
)
def test_what_was_touched_shows(counted, tampering):
    execute(counted, tampering)
    with dp.Store(counted) as store:
        visits = counter(store)
        for use in (visits.contribution_limit, lambda: visits.extend([0], 3, contributions={})):
            with pytest.raises(StoreDamaged, match="who was counted in stream 'visits' is missing or changed"):
                use()
        assert visits.t == 3
        assert store.verify("visits").findings == ("who was counted in stream 'visits' is missing or changed",)


def test_an_older_table_does_not_open(counted):
    connection = sqlite3.connect(counted)
    (old,) = connection.execute("SELECT sealed FROM people WHERE stream = 1").fetchone()
    connection.close()
    with dp.Store(counted) as store:
        counter(store).extend([1], 3, contributions={77: 1})
    execute(counted, ("UPDATE people SET sealed = ? WHERE stream = 1", (old,)))
    with dp.Store(counted) as store, pytest.raises(StoreDamaged):
        counter(store).contribution_limit()


def test_less_room_than_was_declared_shows(counted):
    execute(counted, "UPDATE streams SET people = 50")
    with dp.Store(counted) as store, pytest.raises(StoreDamaged, match="sums of stream"):
        counter(store)


def test_every_byte_counts(counted):
    with sqlite3.connect(counted) as connection:
        (sealed,) = connection.execute("SELECT sealed FROM people WHERE stream = 1").fetchone()
    connection.close()
    for i in range(0, len(sealed), 53):
        changed = bytes(byte ^ (j == i) for j, byte in enumerate(sealed))
        execute(counted, ("UPDATE people SET sealed = ? WHERE stream = 1", (changed,)))
        with dp.Store(counted) as store, pytest.raises(StoreDamaged):
            counter(store).contribution_limit()


# -- what is refused --------------------------------------------------------------------------------------------------


def test_a_step_must_say_who_is_in_it(path):
    with dp.Store(path) as store:
        visits = counter(store)
        for use in (lambda: visits.add(1), lambda: visits.add(1, position=0), lambda: visits.extend([1])):
            with pytest.raises(InvalidArgument, match="contributions must be who is counted"):
                use()
        assert visits.t == 0
        visits.extend([])
        visits.extend([1], 0, contributions={5: 1})
        assert visits.add(1, position=0) == store.releases("visits")[0].value  # a retry needs to say nothing
        free = counter(store, "free", rows_per_person=None)
        with pytest.raises(InvalidArgument, match="left out"):
            free.extend([1], contributions={5: 1})
        with pytest.raises(InvalidArgument, match="rows_per_person"):
            free.contribution_limit()
        assert free.t == 0


@pytest.mark.parametrize(
    "given",
    [
        7,
        {5: 0},
        {5: -1},
        {5: 3},
        {0: 1},
        {"ann": 1},
        {2**64: 1},
        {-5: 1},
        {5: 1.5},
        {5: 10**6},
        ([5, 5], [1, 1]),
        ([5, 6], [1]),
        ([5], [[1]]),
        ([5.0], [1]),
        (np.array([5]),),
    ],
    ids=repr,
)
def test_contributions_that_make_no_sense(path, given):
    with dp.Store(path) as store:
        visits = counter(store)
        with pytest.raises(InvalidArgument, match="contributions must be"):
            visits.extend([1], 0, contributions=given)
        assert visits.t == 0


def test_nobody_is_counted_too_often_and_nobody_too_many(path):
    with dp.Store(path) as store:
        visits = counter(store, people=3)
        visits.extend([2], 0, contributions={5: 1, 6: 1})
        with pytest.raises(InvalidArgument, match="at most 2 each, got '3 events of one person'"):
            visits.extend([2], 1, contributions={5: 2})
        with pytest.raises(TooManyPeople, match="3"):
            visits.extend([2], 1, contributions={7: 1, 8: 1})
        assert visits.t == 1
        visits.extend([2], 1, contributions={7: 1, 6: 1})
    with dp.Store(path) as store, counter(store, people=2) as visits, pytest.raises(TooManyPeople):
        visits.extend([1], 2, contributions={8: 1})  # less room than before changes nothing
    with dp.Store(path) as store:
        visits = counter(store, people=4)
        visits.extend([1], 2, contributions={8: 1, 5: 1})
        assert (store.streams()[0].people, store.streams()[0].rows_per_person) == (4, 2)
        limit = visits.contribution_limit()
        assert (limit.people, limit.times) == (4, 2)
        assert store.verify("visits").ok


def test_a_limit_beyond_the_promise_is_refused(path):
    with dp.Store(path) as store:
        for settings in (
            {"rows_per_person": 3},
            {"rows_per_person": 5, "participation": dp.Participation(times=2)},
            {"rows_per_person": 3, "participation": dp.Participation(times=2, separation=5)},
            {"rows_per_person": 2, "per_person": 1},
        ):
            with pytest.raises(ParticipationError, match=r"rows_per_person must be at most .* promise no more"):
                counter(store, **settings)
        assert store.streams() == []
        for bad in (0, 1.5, "2", 2**16):
            with pytest.raises(InvalidArgument, match="rows_per_person"):
                counter(store, rows_per_person=bad)
        with pytest.raises(InvalidArgument, match="people"):
            counter(store, people=0)
        counter(store, rows_per_person=4, participation=dp.Participation(times=2))
        with pytest.raises(StoreMismatch, match="rows_per_person"):
            counter(store, rows_per_person=3, participation=dp.Participation(times=2)).close()


def test_several_parts(path, monkeypatch):
    monkeypatch.setattr(people, "PART", 8)
    told = np.random.default_rng(3).permutation(np.arange(1, 21, dtype=np.uint64) << np.uint64(58))
    with dp.Store(path) as store:
        visits = counter(store, people=20)
        for i in range(0, 20, 5):
            visits.extend([5], i // 5, contributions=(told[i : i + 5], np.ones(5, np.uint8)))
        visits.extend([1], 4, contributions=(told[3:4], [1]))
    with dp.Store(path) as store:
        visits = counter(store, people=20)
        kept = people.read_people(store._files.database, visits._seals, visits._lease.row)
        assert kept.fingerprints.tolist() == sorted(told.tolist())
        assert kept.events.tolist() == [1 + (one == told[3]) for one in sorted(told)]
        assert store._files.database.rows("SELECT count(*) FROM people") == [(3,)]


def test_verifying_while_another_process_counts(path):
    """Row and table are read as of one moment, however fast the writer is."""
    with dp.Store(path) as store, dp.Store(path) as other:
        visits = counter(store, people=10**5)
        done = threading.Event()

        def write():
            for i in range(30):
                visits.extend([1], i, contributions={i + 1: 1})
            done.set()

        writer = threading.Thread(target=write)
        writer.start()
        found = []
        while not done.is_set():
            found.append(other.verify("visits").findings)
        writer.join()
        assert set(found) == {()}
        assert visits.t == 30


def test_contributions_of_old_steps_are_refused(counted):
    with dp.Store(counted) as store:
        visits = counter(store)
        with pytest.raises(InvalidArgument, match="contributions must be of new steps only"):
            visits.extend([0, 5], 2, contributions={7: 1})
        assert visits.t == 3
        np.testing.assert_array_equal(visits.extend([0], 2), [store.releases("visits")[-1].value])


def test_a_refused_step_keeps_nobody(counted, tmp_path):
    with dp.Store(counted) as store:
        visits = counter(store)
        print_of_cid = visits.contribution_limit().fingerprint("cid")
        with pytest.raises(dp.errors.InputOutOfBound):
            visits.extend([10**6], 3, contributions={print_of_cid: 2})
        visits.extend([0], 3, contributions={})
        assert visits.contribution_limit().take("cid", 5) == 2
    with dp.Store(copy_of(counted, tmp_path), adopt=True) as store:
        assert counter(store).contribution_limit().take("ann", 1) == 0
