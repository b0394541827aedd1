"""Participation of an order of batches: what it is, and whether it keeps a promise."""

import random

import pytest

from dpstream import Participation
from dpstream.errors import ParticipationError


def test_epochs_in_a_fixed_order():
    batches = [[3 * i, 3 * i + 1, 3 * i + 2] for i in range(7)] * 4
    assert Participation.of(batches) == Participation(times=4, separation=7)
    Participation(4, 7).check(batches)
    Participation(5, 6).check(iter(batches))


def test_shuffled_epochs_come_back_sooner():
    order = list(range(20))
    rng = random.Random(1)  # noqa: S311
    batches = []
    for _ in range(3):
        rng.shuffle(order)
        batches += [order[i : i + 2] for i in range(0, 20, 2)]
    found = Participation.of(batches)
    assert found.times == 3
    assert found.separation < 10
    found.check(batches)
    with pytest.raises(ParticipationError, match=f"in less than {found.separation + 1} steps"):
        Participation(3, found.separation + 1).check(batches)
    with pytest.raises(ParticipationError, match="every example in at most 2 steps"):
        Participation(2, found.separation).check(batches)


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        ([], Participation(1, 1)),
        ([[], []], Participation(1, 1)),
        ([["a"], ["b"]], Participation(1, 1)),
        ([["a", "a"], [], ["a"]], Participation(2, 2)),  # twice in a step is once: what a step takes is clipped
        ([["a"], ["a", "b"], ["b"], [], ["a"]], Participation(3, 1)),
    ],
)
def test_small_orders(batches, expected):
    assert Participation.of(batches) == expected
    expected.check(batches)


def test_the_error_names_example_and_steps():
    with pytest.raises(ParticipationError, match=r"less than 3 steps \(not in steps 2 and 4\), got 'bob'") as caught:
        Participation(2, 3).check([["ann"], ["bob"], [], ["bob"]])
    assert caught.value.argument == "batches"
    assert caught.value.given == "bob"
