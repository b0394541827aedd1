"""Nobody is counted more often than allowed, and everybody up to there."""

import random
from collections import Counter

import numpy as np
import polars as pl
import pytest

from dpstream.errors import InvalidArgument, RowRefused, TooManyPeople
from dpstream.events.people import People, person_ids
from dpstream.events.tables import Table
from dpstream.release.contribution_limit import ContributionLimit
from dpstream.release.person_id import person_id
from tests.cli.test_count import counted


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
            assert {(user, step): n for user, step, n in found.iter_rows()} == {
                key: n for key, n in theirs.items() if n
            }
            for user, _, n in found.iter_rows():
                remembered[user] += n
        assert remembered == so_far
        assert max(so_far.values()) == times


@pytest.mark.parametrize(("nobody", "said"), [(None, "an empty cell"), ("", "''")])
def test_a_row_without_a_user_is_refused(nobody, said):
    people = People("who", ContributionLimit(1))
    with pytest.raises(RowRefused, match=rf"line 4, column 'who': expected a user, got {said}"):
        people.kept(table(["ann", "bob", nobody]), np.zeros(2, dtype=np.int64), np.array([0, 2]))
    kept, found = people.kept(table(["ann", "bob", nobody]), np.zeros(1, dtype=np.int64), np.array([1]))
    assert kept.tolist() == [True]
    assert found.is_empty()


def test_numbers_are_users_too():
    people = People("who", ContributionLimit(1))
    kept, _ = people.kept(table([7, 8, 7]), np.zeros(3, dtype=np.int64), np.arange(3))
    assert kept.tolist() == [True, True, False]


def test_more_people_than_there_is_room_for():
    people = People("who", ContributionLimit(1, capacity=2))
    with pytest.raises(TooManyPeople):
        people.kept(table(["ann", "bob", "cid"]), np.zeros(3, dtype=np.int64), np.arange(3))


#: Each row: spellings of one person, in any kind of column.
ONE_PERSON = [
    ["ann", " ann", "ann ", "\tann\n", "ann\u00a0", b"ann"],
    [7, 7.0, "7", "7.0", " 7.00", b"7", np.float64(7.0), np.int8(7)],
    ["jose\u0301", "jos\u00e9", "jos\u00e9\u2003"],
    [0, -0.0, "0", "0.0"],
    [True, "true"],
    [2**53, float(2**53), "9007199254740992"],
    [10**20, 1e20],
]


@pytest.mark.parametrize("spellings", ONE_PERSON, ids=lambda one: repr(one[0]))
def test_one_person_has_one_id(spellings):
    """Attack: the same person in columns of several kinds, counted once although each spelling is new."""
    ids = {person_id(spelling) for spelling in spellings}
    assert len(ids) == 1
    people = People("who", ContributionLimit(1))
    kept = 0
    for spelling in spellings:
        column = [spelling.item() if isinstance(spelling, np.generic) else spelling]
        kept += int(people.kept(table(column), np.zeros(1, dtype=np.int64), np.arange(1))[0].sum())
    assert kept == 1


@pytest.mark.parametrize("two", [("ann", "Ann"), ("7", "7.5"), ("7", "07"), ("a b", "ab"), (True, 1), ("7", "7.0x")])
def test_two_people_have_two_ids(two):
    assert person_id(two[0]) != person_id(two[1])
    people = People("who", ContributionLimit(1))
    for one in two:
        assert people.kept(table([one]), np.zeros(1, dtype=np.int64), np.arange(1))[0].all()


def test_letter_case_is_folded_if_asked_for():
    assert person_id("Ann", fold_case=True) == person_id("aNN ", fold_case=True)
    assert person_id("STRASSE", fold_case=True) == person_id("Straße", fold_case=True)
    people = People("who", ContributionLimit(1), fold_case=True)
    kept, _ = people.kept(table(["Ann", "ann ", "ANN", "bob"]), np.zeros(4, dtype=np.int64), np.arange(4))
    assert kept.tolist() == [True, False, False, True]


def test_a_column_gives_the_ids_of_its_values():
    """The fast way for whole columns and the plain function for one value say the same, also of odd characters."""
    rng = random.Random(7)  # noqa: S311
    odd = ["\x1c", "\u200b", "\u2003", "\u0301", "e", "É", "ß", "7", ".", "0", "-", " ", "\u3000", "\U0001f600", "İ"]
    texts = ["".join(rng.choices(odd, k=rng.randrange(1, 6))) for _ in range(5000)]
    for fold in (False, True):
        for one, found in zip(texts, person_ids(pl.Series(texts), fold_case=fold), strict=True):
            try:
                wanted = person_id(one, fold_case=fold)
            except InvalidArgument:
                wanted = None
            assert found == wanted, repr(one)


@pytest.mark.parametrize("nobody", [float("nan"), float("inf"), " ", "\u00a0", b"", [1], None])
def test_who_has_no_id_is_refused(nobody):
    with pytest.raises(RowRefused, match="expected a user"):
        People("who", ContributionLimit(1)).kept(table([nobody]), np.zeros(1, dtype=np.int64), np.arange(1))


def test_one_id_in_every_format(tmp_path):
    """7 in CSV, 7.0 in a Parquet column with gaps, "7" in JSON: counted once, over three runs of one store."""
    frame = pl.DataFrame({"when": ["2026-01-01"] * 2, "who": [7.0, 8.0]})
    frame.write_parquet(tmp_path / "log.parquet")
    (tmp_path / "log.csv").write_text("when,who\n2026-01-02,7\n2026-01-02, 8 \n")
    (tmp_path / "log.jsonl").write_text('{"when": "2026-01-03", "who": 7}\n{"when": "2026-01-03", "who": "7.0"}\n')
    for day, form in enumerate(("parquet", "csv", "jsonl"), start=1):
        rows = counted(
            tmp_path / f"log.{form}", "--time", "when", "--rho", 5e5, "--horizon", 9, "--from", "2026-01-01",
            "--through", f"2026-01-0{day}", "--user", "who", "--max-contributions", 1, "--store", tmp_path / "s.db",
            "--all",
        )  # fmt: skip
    assert [int(row["value"]) for row in rows] == [2, 2, 2]


def test_letters_and_digits_are_their_own_id():
    # They take a shortcut: it must give what the long way gives, which a space at the end enforces.
    for text in ("7", "007", "ann", "Ann", "a1B2", "x" * 300):
        assert person_id(text) == person_id(f"{text} ") == text
    assert person_id("Ann", fold_case=True) == person_id("Ann ", fold_case=True) == "ann"


def test_users_that_come_once_are_kept_as_those_that_come_twice():
    """Tables in which nobody comes twice are looked at in a shorter way."""
    people = [f"p{i}" for i in range(40)]
    once, twice = (People("user", ContributionLimit(2), remember=True) for _ in range(2))
    for turn in range(3):
        order = [people[(7 * i + turn) % 40] for i in range(40)]
        steps, rows = np.arange(40) // 10, np.arange(40, dtype=np.intp)
        kept, whose = once.kept(Table(pl.DataFrame({"user": order}), str), steps, rows)
        # The same rows beside one of somebody who is there twice.
        more = Table(pl.DataFrame({"user": [*order, "extra", "extra"]}), str)
        kept_2, whose_2 = twice.kept(more, np.append(steps, [4, 4]), np.arange(42, dtype=np.intp))
        assert kept.tolist() == kept_2[:40].tolist() == [turn < 2] * 40
        assert whose.sort("user", "step").equals(whose_2.filter(pl.col("user") != "extra").sort("user", "step"))
