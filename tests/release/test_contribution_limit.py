"""Never one event too many is kept, whatever the ids and however many people there are."""

import collections
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpstream import ContributionLimit, Participation
from dpstream.errors import InvalidArgument, TooManyPeople
from dpstream.release import contribution_limit


@settings(max_examples=100, deadline=None)
@given(
    st.integers(1, 5),
    st.lists(st.one_of(st.text(max_size=2), st.binary(max_size=2), st.integers(-20, 20)), max_size=200),
)
def test_keeps_the_first_and_drops_the_rest(times, events):
    limit = ContributionLimit(times)
    kept = collections.Counter()
    for person in events:
        named = person if isinstance(person, bytes) else str(person).encode("utf-8", "surrogatepass")
        kept[named] += limit.keep(person)
        assert kept[named] <= times
    asked = collections.Counter(p if isinstance(p, bytes) else str(p).encode("utf-8", "surrogatepass") for p in events)
    assert kept == {p: min(times, n) for p, n in asked.items()}
    assert limit.people == len(asked)
    assert limit.dropped == len(events) - sum(kept.values())


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


@pytest.mark.parametrize("person", [1.5, None, True, ("a",), math.nan])
def test_bad_person(person):
    limit = ContributionLimit(1)
    with pytest.raises(InvalidArgument, match="person must be text, bytes or a whole number"):
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
