"""NameLimit: at most so many names of a person, at most so much for each, whatever the order and the batches."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpstream.errors import InputTypeError, InvalidArgument, TooManyPairs
from dpstream.release import NameLimit
from dpstream.testing import fixed_key


class OneByOne:
    """What a NameLimit says, event by event in plain dicts."""

    def __init__(self, names, per_name):
        self.names, self.per_name, self.pairs, self.people = names, per_name, {}, {}

    def take(self, person, name):
        kept = self.pairs.get((person, name), 0)
        if kept == self.per_name or (not kept and self.people.get(person, 0) == self.names):
            return False, False
        if not kept:
            self.people[person] = self.people.get(person, 0) + 1
        self.pairs[person, name] = kept + 1
        return True, not kept


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 4),
    st.integers(1, 3),
    st.lists(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 6)), max_size=30), max_size=4),
)
def test_batches_say_what_single_events_would(names, per_name, batches):
    fast, slow = NameLimit(names, per_name), OneByOne(names, per_name)
    for batch in batches:
        found = fast.take([person for person, _ in batch], [f"n{name}" for _, name in batch])
        expected = [slow.take(*event) for event in batch]
        assert list(zip(found.kept.tolist(), found.new.tolist(), strict=True)) == expected
    assert (fast.pairs, fast.people) == (len(slow.pairs), len(slow.people))
    assert fast.dropped == sum(map(len, batches)) - sum(slow.pairs.values())


@pytest.mark.parametrize(("names", "per_name"), [(3, 1), (2, 300)])
def test_many_events_and_growing_tables(names, per_name):
    fast, slow = NameLimit(names, per_name), OneByOne(names, per_name)
    generator = np.random.default_rng(1)
    for size in (10, 5_000, 40_000):
        people, words = generator.integers(0, 9_000, size).tolist(), generator.integers(0, 50, size).tolist()
        found = fast.take(people, [f"n{word}" for word in words])
        assert found.kept.tolist() == [slow.take(*event)[0] for event in zip(people, words, strict=True)]
    assert 25 < fast.nbytes / fast.pairs < 90  # 17 or 18 bytes a slot of a pair, 9 of a person, at most 3 slots each


def test_spellings_of_one_person_and_one_name_are_one():
    limit = NameLimit(2, 1)
    assert limit.take([7, "7", b"7", 7.0, " 7 "], ["x"] * 5).kept.tolist() == [True, False, False, False, False]
    assert limit.take([7, 7, 7], ["caf\u00e9", "cafe\u0301", "y"]).kept.tolist() == [True, False, False]
    assert limit.take([8, 8, 8], ["X", "x", "x "]).kept.tolist() == [True, True, False]


def test_what_was_remembered_goes_on_elsewhere():
    first = NameLimit(2, 3, key=fixed_key("limit"))
    first.take(["ann", "ann", "bob", "ann"], ["a", "b", "a", "b"])
    second = NameLimit(2, 3, key=fixed_key("limit"))
    second.restore(*first.remembered())
    assert (second.pairs, second.people) == (3, 2)
    events = ["ann"] * 6 + ["bob"], ["c", "b", "b", "a", "a", "a", "z"]
    assert second.take(*events).kept.tolist() == first.take(*events).kept.tolist()
    with pytest.raises(InvalidArgument, match="of a fresh object"):
        second.restore(*first.remembered())
    with pytest.raises(InvalidArgument, match="at most 1 names each"):
        NameLimit(1, 3, key=fixed_key("limit")).restore(*first.remembered())


def test_a_full_table_refuses_and_changes_nothing():
    limit = NameLimit(2, capacity=3)
    limit.take(["a", "b"], ["x", "x"])
    before = [column.tolist() for column in limit.remembered()], limit.dropped, limit.people
    with pytest.raises(TooManyPairs, match="3 pairs of a person and a name"):
        limit.take(["a", "c"], ["y", "y"])
    assert ([column.tolist() for column in limit.remembered()], limit.dropped, limit.people) == before
    # What would be dropped takes no room.
    assert limit.take(["a", "a", "a"], ["y", "z", "w"]).kept.tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("people", "names", "error"),
    [
        ([None], ["x"], InvalidArgument),
        ([""], ["x"], InvalidArgument),
        ([float("nan")], ["x"], InvalidArgument),
        (["a"], [""], InputTypeError),
        (["a"], [7], InputTypeError),
        (["a"], [b"x"], InputTypeError),
        (["a"], ["x" * 10**5], InputTypeError),
        (["a"], ["\ud800"], InputTypeError),
        (["a", "b"], ["x"], InvalidArgument),
    ],
)
def test_bad_events_are_refused_and_change_nothing(people, names, error):
    limit = NameLimit(2)
    with pytest.raises(error):
        limit.take(["good", *people], ["good", *names])
    assert (limit.pairs, limit.people, limit.dropped) == (0, 0, 0)


@pytest.mark.parametrize("settings", [{"names_per_person": 0}, {"names_per_person": 2**16}, {"per_name": 0}])
def test_settings_out_of_range(settings):
    with pytest.raises(InvalidArgument, match=next(iter(settings))):
        NameLimit(**{"names_per_person": 1} | settings)


def test_no_copies():
    limit = NameLimit(1)
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="as many names again"):
            copied(limit)
    assert "1000" in repr(NameLimit(1, capacity=1000))
