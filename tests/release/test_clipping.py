"""Clipping: of one person's contribution, never of a step's total."""

import inspect
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import dpstream as dp
from dpstream.errors import InputNotFinite, InputOutOfBound, InputTypeError, InvalidArgument
from dpstream.mechanisms import Binary
from dpstream.testing import fixed_key

CATEGORIES = 10_000


def neighbours():
    """A day with one event in each category, and the same day with one event more."""
    day = np.ones(CATEGORIES, dtype=np.int64)
    more = day.copy()
    more[0] += 1
    return day, more


def shrunk(row, most):
    """What clip=True made of a step's total: the same direction, as long as allowed, rounded towards 0."""
    norm = sum(int(v) ** 2 for v in row)
    if norm <= most**2:
        return row
    return np.array([math.isqrt(int(v) ** 2 * most * most // norm) for v in row])


def told_apart(change, trials=80):
    """How often the best test by squared distance finds out which neighbour was counted, at ρ = 0.5, after `change`."""
    first, second = (change(day) for day in neighbours())
    right = 0
    for i in range(trials):
        counter = dp.Counter(1, dp.zcdp(0.5), shape=CATEGORIES, mechanism=Binary(1), key=fixed_key(f"clip {i}"))
        released = counter.add((first, second)[i % 2])
        guess = ((released - first) ** 2).sum() > ((released - second) ** 2).sum()
        right += guess == i % 2
    return right


def test_a_clipped_total_tells_neighbours_apart():
    """The attack: the one event takes the day past the limit of 100, and 9,999 categories change from 1 to 0.

    At ρ = 0.5 neighbours are one standard deviation apart, so no test is right more often than Φ(1/2) = 69 % of the
    time: 76 or more of 80 has a chance below 1e-6. `Counter(largest=100, clip=True)` was told apart 80 times of 80.
    """
    assert told_apart(lambda day: day) < 76
    assert told_apart(lambda day: shrunk(day, 100)) == 80


def test_a_total_is_counted_as_it_is_or_refused():
    """No setting of a stream or a store clips, so the attack has no door."""
    for build in (dp.Counter, dp.RunningSum, dp.Store.counter, dp.Store.running_sum):
        assert "clip" not in inspect.signature(build).parameters
    day, more = neighbours()
    counter = dp.Counter(2, dp.zcdp(0.5), shape=CATEGORIES, per_step=101, mechanism=Binary(2), key=fixed_key("a"))
    plain = dp.Counter(2, dp.zcdp(0.5), shape=CATEGORIES, per_step=101, mechanism=Binary(2), key=fixed_key("a"))
    assert np.abs(counter.add(more) - plain.add(day)).sum() == 1
    more[1] += 200
    with pytest.raises(InputOutOfBound):
        counter.add(more)
    assert counter.t == 1


def test_sums_of_many_clipped_gradients():
    rng = np.random.default_rng(3)
    gradients = rng.standard_normal((50, 20)).astype(np.float32)
    clipped = [dp.clip_contribution(g, per_person=0.5) for g in gradients]
    total = dp.RunningSum(10, dp.zcdp(1e30), shape=20, per_person=0.5, mechanism=Binary(10))
    step = np.sum(clipped, axis=0, dtype=np.float64).astype(np.float32)
    assert np.linalg.norm(step) > 0.5  # more than one person may add, and taken
    np.testing.assert_allclose(total.add(step), step, rtol=1e-6)
    for wrong in (np.nan, np.inf, -np.inf):
        step[3] = wrong
        with pytest.raises(InputNotFinite):
            total.add(step)
    assert total.t == 1


VECTORS = hnp.arrays(
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from([1, 3, 40]),
    elements=st.floats(-(2.0**100), 2.0**100, width=32),
)


@settings(max_examples=200, deadline=None)
@given(VECTORS, st.floats(1e-3, 1e6))
def test_a_clipped_contribution_is_as_short_as_promised(x, most):
    clipped = dp.clip_contribution(x, per_person=most)
    assert clipped.dtype == x.dtype
    assert clipped is not x
    exact = sum(Fraction(float(v)) ** 2 for v in clipped.ravel())
    assert exact <= Fraction(most) ** 2 * (1 + Fraction(1, 2**20)) ** 2
    before = sum(Fraction(float(v)) ** 2 for v in x.ravel())
    if before <= Fraction(most) ** 2 * (1 - Fraction(1, 2**20)):
        np.testing.assert_array_equal(clipped, x)
    else:
        assert exact >= Fraction(most) ** 2 * (1 - Fraction(1, 2**19)) or before == 0


def test_what_is_no_contribution():
    for wrong in ([math.nan, 1.0], [math.inf], np.array([-np.inf])):
        with pytest.raises(InputNotFinite):
            dp.clip_contribution(wrong, 1.0)
    with pytest.raises(InputTypeError):
        dp.clip_contribution(["a"], 1.0)
    for most in (0, -1, math.nan, math.inf, True, "1"):
        with pytest.raises(InvalidArgument, match="per_person must be a positive"):
            dp.clip_contribution([1.0], most)
    assert dp.clip_contribution([0.0, 0.0], 1.0).tolist() == [0.0, 0.0]
    assert dp.clip_contribution([3, 4], 1).tolist() == pytest.approx([0.6, 0.8])
