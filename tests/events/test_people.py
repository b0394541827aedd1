"""Nobody is counted more often than allowed, and everybody up to there."""

import random
from collections import Counter

import numpy as np
import polars as pl
import pytest

from dpstream.errors import RowRefused, TooManyPeople
from dpstream.events.people import People
from dpstream.events.tables import Table
from dpstream.release.contribution_limit import ContributionLimit


def table(users):
    return Table(pl.DataFrame({"who": users}), lambda row: f"line {row + 2}")


def test_the_first_rows_of_each_are_kept():
    rng = random.Random(3)  # noqa: S311
    for times in (1, 2, 5):
        people = People("who", ContributionLimit(times), remember=True)
        so_far, remembered = Counter(), Counter()
        for _ in range(20):
            users = [f"user {rng.randrange(12)}" for _ in range(rng.randrange(1, 40))]
            rows = np.array([row for row in range(len(users)) if rng.random() < 0.8], dtype=np.intp)
            steps = np.array([rng.randrange(4) for _ in rows], dtype=np.int64)
            kept, found = people.kept(table(users), steps, rows)
            for row, was_kept in zip(rows, kept, strict=True):
                assert was_kept == (so_far[users[row]] < times)
                so_far[users[row]] += was_kept
            theirs = Counter()
            for row, step, was_kept in zip(rows, steps, kept, strict=True):
                theirs[users[row], int(step)] += int(was_kept)
            assert {(one.user, one.step): one.rows for one in found} == {key: n for key, n in theirs.items() if n}
            for one in found:
                remembered[one.user] += one.rows
        assert remembered == so_far
        assert max(so_far.values()) == times


@pytest.mark.parametrize("nobody", [None, ""])
def test_a_row_without_a_user_is_refused(nobody):
    people = People("who", ContributionLimit(1))
    with pytest.raises(RowRefused, match=rf"line 4, column 'who': expected a user, got {nobody!r}"):
        people.kept(table(["ann", "bob", nobody]), np.zeros(2, dtype=np.int64), np.array([0, 2]))
    kept, found = people.kept(table(["ann", "bob", nobody]), np.zeros(1, dtype=np.int64), np.array([1]))
    assert kept.tolist() == [True]
    assert found == []


def test_numbers_are_users_too():
    people = People("who", ContributionLimit(1))
    kept, _ = people.kept(table([7, 8, 7]), np.zeros(3, dtype=np.int64), np.arange(3))
    assert kept.tolist() == [True, True, False]


def test_more_people_than_there_is_room_for():
    people = People("who", ContributionLimit(1, capacity=2))
    with pytest.raises(TooManyPeople):
        people.kept(table(["ann", "bob", "cid"]), np.zeros(3, dtype=np.int64), np.arange(3))
