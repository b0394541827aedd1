"""Errors that are raised after data were added up carry no sum and no number of people, in words or in fields."""

import pickle

import pytest

import dpstream as dp
from dpstream.errors import InputOutOfBound, NameCountOutOfBound, SourceDamaged
from dpstream.events.step_sizes import said_by_steps
from tests.store.conftest import path  # noqa: F401

#: What the stream holds, in a number that occurs nowhere else.
SECRET = 7654


def told(error):
    """Return all that an error carries with it to whoever catches it: its words, its fields, its causes."""
    chain = [error, error.__cause__, None if error.__suppress_context__ else error.__context__]
    return " ".join(f"{one!s} {vars(one)!r} {pickle.dumps(one)!r}" for one in chain if one is not None).replace(",", "")


def test_people_of_a_name():
    terms = dp.OpenCounter(9, dp.approx_dp(6, 1e-6), names_per_person=2, per_name=3)
    terms.add({"rose": SECRET}, people={"rose": SECRET - 1})
    with pytest.raises(NameCountOutOfBound, match="must be from 1 to 3; nothing was added") as caught:
        terms.add({"rose": 10**6}, people={})
    for secret in (SECRET, SECRET - 1, SECRET + 10**6, 3 * (SECRET - 1)):
        assert str(secret) not in told(caught.value)


def test_rows_of_files_that_add_up_to_too_much():
    with pytest.raises(SourceDamaged, match="must be from 0 to 5") as caught, said_by_steps(0, 3):
        raise InputOutOfBound(given=SECRET, least=0, most=5, what="the value")
    assert str(SECRET) not in told(caught.value)


def test_what_the_caller_just_gave_is_said():
    """It is the caller's own number, which helps to find the mistake."""
    with pytest.raises(InputOutOfBound, match="from 0 to 5, got 7654"):
        dp.Counter(9, dp.zcdp(0.5), per_step=5, neighbours="replace").add(SECRET)
