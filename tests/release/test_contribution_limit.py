"""Never one event too many is kept, whatever the ids and however many people there are."""

import collections
import copy
import math
import os
import pickle
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpstream import ContributionLimit, Participation
from dpstream.errors import ForkedStream, InvalidArgument, TooManyPeople
from dpstream.release import contribution_limit
from dpstream.release.person_id import person_id

IDS = st.one_of(st.text(max_size=2), st.binary(max_size=2), st.integers(-20, 20), st.floats(-3, 3))


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 5), st.lists(IDS.filter(lambda x: not isinstance(x, (str, bytes)) or x.strip()), max_size=200))
def test_keeps_the_first_and_drops_the_rest(times, events):
    limit = ContributionLimit(times)
    kept, asked = collections.Counter(), collections.Counter()
    for person in events:
        try:
            named = person_id(person)
        except InvalidArgument:
            continue
        asked[named] += 1
        kept[named] += limit.keep(person)
        assert kept[named] <= times
    assert kept == {p: min(times, n) for p, n in asked.items()}
    assert limit.people == len(asked)
    assert limit.dropped == asked.total() - kept.total()


@pytest.mark.parametrize("spellings", [(7, 7.0, "7", " 7", b"7", "7.0"), ("ann", " ann", "ann ", b"ann")])
def test_one_person_however_spelled(spellings):
    limit = ContributionLimit(1)
    assert [limit.keep(person) for person in spellings] == [True] + [False] * (len(spellings) - 1)


def test_many_people():
    limit = ContributionLimit(2, capacity=20_000)
    order = [p for p in range(20_000) for _ in range(3)]
    random.Random(1).shuffle(order)  # noqa: S311
    kept = collections.Counter(p for p in order if limit.keep(p))
    assert set(kept.values()) == {2}
    assert limit.dropped == 20_000
    assert 20_000 * 9 * 1.5 <= limit.nbytes <= 20_000 * 9 * 3 + 1024 * 9


def test_at_capacity_newcomers_are_refused_and_the_others_served():
    limit = ContributionLimit(2, capacity=3)
    for person in "abc":
        assert limit.keep(person)
    for _ in range(2):
        with pytest.raises(TooManyPeople, match="has met 3 people, its capacity") as caught:
            limit.keep("d")
        assert caught.value.capacity == 3
    assert (limit.people, limit.dropped) == (3, 0)
    assert [limit.keep("a"), limit.keep("a")] == [True, False]


def test_a_collision_drops_and_never_keeps(monkeypatch):
    """Two people with one fingerprint share one allowance."""
    monkeypatch.setattr(ContributionLimit, "fingerprint", lambda self, person: 42)
    limit = ContributionLimit(2)
    assert [limit.keep(p) for p in ("ann", "bob", "ann", "bob")] == [True, True, False, False]


def test_the_same_person_in_another_type_is_the_same_person():
    limit = ContributionLimit(1)
    assert limit.keep(7)
    assert not limit.keep("7")
    assert not limit.keep(b"7")


@pytest.mark.parametrize("times", [255, 256, 300])
def test_counts_of_more_than_a_byte(times):
    limit = ContributionLimit(times)
    assert sum(limit.keep("x") for _ in range(2 * times)) == times


def test_ids_are_not_kept():
    limit = ContributionLimit(1)
    limit.keep("alice@example.org")
    held = repr(limit) + "".join(repr(getattr(limit, slot)) for slot in limit.__slots__ if slot != "_key")
    assert "alice" not in held
    other = ContributionLimit(1)
    assert other.fingerprint("alice@example.org") != limit.fingerprint("alice@example.org")


def test_participation():
    assert ContributionLimit(5).participation == Participation(times=5)
    assert ContributionLimit(5).times == 5


@pytest.mark.parametrize("person", [None, ("a",), math.nan, "", " "])
def test_bad_person(person):
    limit = ContributionLimit(1)
    with pytest.raises(InvalidArgument, match="person must be"):
        limit.keep(person)
    assert limit.people == 0


@pytest.mark.parametrize("times", [0, -1, 1.5, True, None, 2**16])
def test_bad_times(times):
    with pytest.raises(InvalidArgument, match="times must be"):
        ContributionLimit(times)


def test_bad_capacity():
    with pytest.raises(InvalidArgument, match="capacity must be a whole number of at least 1"):
        ContributionLimit(1, capacity=0)


def test_growing_keeps_every_count(monkeypatch):
    monkeypatch.setattr(contribution_limit, "_SMALLEST_TABLE", 2)
    limit = ContributionLimit(3)
    for round_ in range(5):
        assert [limit.keep(i) for i in range(50)] == [round_ < 3] * 50


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 2**64 - 1), st.integers(0, 5)), max_size=300), st.booleans())
def test_restoring_all_is_restoring_each(events, used):
    """Also where fingerprints fight for slots, come twice, or had events dropped; also into a table in use."""
    crowd = [(1 + 1024 * i, 2) for i in range(20)]
    one, other = ContributionLimit(3, key=bytes(32)), ContributionLimit(3, key=bytes(32))
    if used:
        assert one.keep("ann")
        assert other.keep("ann")
    for fingerprint, count in crowd + events:
        one.restore(fingerprint, count)
    other.restore_all([f for f, _ in crowd + events], [n for _, n in crowd + events])
    seen = (one.people, one.dropped, one.people_over)
    assert (other.people, other.dropped, other.people_over) == seen
    for fingerprint, _ in crowd + events:
        assert one._taken(fingerprint, 1) == other._taken(fingerprint, 1)


def test_restoring_many_is_fast_enough_and_grows():
    fingerprints = np.random.default_rng(1).integers(1, 2**64, 200_000, dtype=np.uint64)
    limit = ContributionLimit(1, capacity=200_000)
    limit.restore_all(fingerprints, np.ones(200_000, dtype=np.int64))
    assert limit.people == len(np.unique(fingerprints))
    assert not any(limit._taken(int(f), 1) for f in fingerprints[:1000])


def test_restoring_refuses_and_changes_nothing():
    limit = ContributionLimit(1, capacity=2)
    with pytest.raises(TooManyPeople):
        limit.restore_all([1, 2, 3], [1, 1, 1])
    for wrong in (([0], [1]), ([1], [1, 2]), ([1], [-1])):
        with pytest.raises(InvalidArgument, match="fingerprints, events"):
            limit.restore_all(*wrong)
    assert limit.people == 0
    assert limit.keep("ann")
    with pytest.raises(TooManyPeople):
        limit.restore_all([1, 2], [1, 1])
    assert limit.people == 1


def test_a_limit_cannot_be_copied():
    """Each copy would keep `times` events more of everybody."""
    limit = ContributionLimit(1)
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            leak(limit)
    assert not hasattr(limit, "__dict__")


def test_a_forked_child_is_refused():
    limit = ContributionLimit(1)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - runs in the child
        try:
            limit.keep("ann")
        except ForkedStream:
            os.write(write, b"refused")
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    assert os.read(read, 100) == b"refused"
    os.close(read)
    assert limit.keep("ann")


@given(
    st.integers(1, 4),
    st.lists(
        st.lists(st.tuples(st.integers(0, 60), st.integers(0, 6)), max_size=40, unique_by=lambda e: e[0]), max_size=5
    ),
)
def test_taking_all_is_taking_each(times, batches):
    one, other = (ContributionLimit(times, key=bytes(32)) for _ in range(2))
    for batch in batches:
        people, events = [person for person, _ in batch], [count for _, count in batch]
        told = [one._taken(one.fingerprint(person), count) for person, count in batch]
        assert other.take_all(other.fingerprints(people), events).tolist() == told
        assert (one.people, one.dropped, one.people_over) == (other.people, other.dropped, other.people_over)
    assert [one.take(person, 9) for person in range(61)] == [other.take(person, 9) for person in range(61)]


def test_taking_all_refuses_and_changes_nothing():
    limit = ContributionLimit(2, capacity=3)
    limit.take_all([5, 6], [1, 1])
    with pytest.raises(TooManyPeople):
        limit.take_all([6, 7, 8], [1, 1, 1])
    for wrong in (([5, 5], [1, 1]), ([5], [1, 1]), ([0], [1]), ([5], [-1])):
        with pytest.raises(InvalidArgument):
            limit.take_all(*wrong)
    assert limit.take_all([5, 6, 7], [9, 9, 9]).tolist() == [1, 1, 2]


def test_a_million_people_at_once():
    """Linear: every person is met once, in tables that grow as they fill."""
    limit = ContributionLimit(2, capacity=10**6)
    people = np.random.default_rng(1).permutation(10**6).astype(np.uint64) + np.uint64(1)
    for part in np.array_split(people, 7):
        assert (limit.take_all(part, np.ones(len(part), dtype=np.int64)) == 1).all()
    assert limit.people == 10**6
    assert (limit.take_all(people[:1000], np.full(1000, 5)) == 1).all()
    assert limit.people_over == 1000


def test_fingerprints_are_those_of_each():
    limit = ContributionLimit(2)
    people = ["ann", b"bob", 7, "7.0", " ann "]
    assert limit.fingerprints(people).tolist() == [limit.fingerprint(person) for person in people]
    assert limit.fingerprints([]).tolist() == []
