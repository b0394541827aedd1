"""Who was counted survives with the releases, and shows when somebody touches it."""

import random
import sqlite3
from collections import Counter

import numpy as np
import pytest

import dpstream as dp
from dpstream.errors import InvalidArgument, StoreDamaged
from tests.store.conftest import copy_of


def counter(store, name="visits"):
    return store.counter(
        name, 100, dp.zcdp(0.5), per_person=2, per_step=1000, mechanism=dp.mechanisms.SmoothBinary(100)
    )


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
            limit = visits.contribution_limit(2)
            for first, people in ((0, ("ann", "bob")), (1, ("ann",)), (2, ())):
                assert all(limit.keep(person) for person in people)
                kept = {limit.fingerprint(person): 1 for person in people}
                visits.extend([len(people)], first, contributions=kept)
    return path


def test_the_next_process_goes_on_counting(counted):
    with dp.Store(counted) as store:
        limit = counter(store).contribution_limit(2)
        assert [limit.take(person, 5) for person in ("ann", "bob", "cid")] == [0, 1, 2]
        assert limit.people == 3


def test_no_more_than_allowed_over_many_processes(path):
    rng = random.Random(8)  # noqa: S311
    total = Counter()
    for _ in range(12):
        with dp.Store(path) as store:
            visits = counter(store)
            limit = visits.contribution_limit(2)
            users = [rng.choice("abcdefgh") for _ in range(6)]
            kept = [user for user in users if limit.keep(user)]
            people = Counter(limit.fingerprint(user) for user in kept)
            if rng.random() < 0.3:
                continue  # stopped before the release: nothing was counted, and nobody
            visits.extend([len(kept)], visits.t, contributions=people)
            total.update(kept)
    assert max(total.values()) == 2
    with dp.Store(path) as store:
        limit = counter(store).contribution_limit(2)
        assert [2 - limit.take(user, 9) for user in "abcdefgh"] == [total[user] for user in "abcdefgh"]
        assert store.recorded_inputs("visits", 1, store.streams()[0].t).sum() == total.total()


def test_people_are_not_in_the_file_and_streams_do_not_share_them(counted):
    with dp.Store(counted) as store:
        visits, calls = (counter(store, name).contribution_limit(2) for name in ("visits", "calls"))
        assert visits.fingerprint("ann") != calls.fingerprint("ann")
        print_of_ann = visits.fingerprint("ann").to_bytes(8, "little")
    content = b"".join(file.read_bytes() for file in counted.parent.iterdir())
    assert print_of_ann not in content
    assert b"ann" not in content


@pytest.mark.parametrize(
    "tampering",
    [
        "DELETE FROM contributions WHERE stream = 1 AND first = 1",
        "DELETE FROM contributions WHERE stream = 1 AND first = 3",
        "DELETE FROM contributions WHERE stream = 1",
        "DELETE FROM contributions",
        "UPDATE contributions SET first = 4 - first WHERE stream = 1 AND first <> 2",
        "UPDATE contributions SET sealed = (SELECT sealed FROM contributions WHERE stream = 1 AND first = 3)",
        "UPDATE contributions SET sealed = (SELECT sealed FROM contributions WHERE stream = 2 AND first = 1)"
        " WHERE stream = 1 AND first = 1",
        "UPDATE contributions SET sealed = zeroblob(60) WHERE first = 2",
        "UPDATE contributions SET sealed = x'' WHERE first = 2",
        "UPDATE contributions SET sealed = substr(sealed, 1, length(sealed) - 1) WHERE first = 2",
    ],
)
def test_what_was_touched_shows(counted, tampering):
    # Swapping first numbers meets the primary key half way, so rows are moved out of the way first.
    if "4 - first" in tampering:
        execute(
            counted,
            "UPDATE contributions SET first = 100 WHERE stream = 1 AND first = 1",
            "UPDATE contributions SET first = 1 WHERE stream = 1 AND first = 3",
            "UPDATE contributions SET first = 3 WHERE stream = 1 AND first = 100",
        )
    else:
        execute(counted, tampering)
    with dp.Store(counted) as store:
        visits = counter(store)
        with pytest.raises(StoreDamaged, match=r"who was counted from step \d of stream 'visits' on is missing"):
            visits.contribution_limit(2)
        assert visits.t == 3


def test_every_byte_counts(counted):
    with sqlite3.connect(counted) as connection:
        (sealed,) = connection.execute("SELECT sealed FROM contributions WHERE stream = 1 AND first = 1").fetchone()
    connection.close()
    for i in range(0, len(sealed), 7):
        changed = bytes(byte ^ (j == i) for j, byte in enumerate(sealed))
        execute(counted, ("UPDATE contributions SET sealed = ? WHERE stream = 1 AND first = 1", (changed,)))
        with dp.Store(counted) as store, pytest.raises(StoreDamaged):
            counter(store).contribution_limit(2)


def test_a_stream_that_did_not_keep_people_cannot_tell(path):
    with dp.Store(path) as store:
        visits = counter(store)
        assert visits.contribution_limit(2).people == 0
        visits.add(1)
        with pytest.raises(StoreDamaged, match="who was counted"):
            visits.contribution_limit(2)


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
        print_of_cid = visits.contribution_limit(2).fingerprint("cid")
        with pytest.raises(dp.errors.InputOutOfBound):
            visits.extend([10**6], 3, contributions={print_of_cid: 2})
        visits.extend([0], 3, contributions={})
        assert visits.contribution_limit(2).take("cid", 5) == 2
    with dp.Store(copy_of(counted, tmp_path), adopt=True) as store:
        assert counter(store).contribution_limit(2).take("ann", 1) == 0


def test_verify_looks_at_who_was_counted(counted):
    with dp.Store(counted) as store:
        assert store.verify("visits").ok
    execute(counted, "DELETE FROM contributions WHERE first = 2 AND stream = (SELECT min(stream) FROM contributions)")
    with dp.Store(counted) as store:
        found = store.verify("visits")
        assert found.findings == ("who was counted from step 2 of stream 'visits' on is missing or changed",)
        assert store.verify("calls").ok
