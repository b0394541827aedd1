"""Many error bars at once are the same as one by one."""

import numpy as np
import pytest

import dpstream as dp
from dpstream.errors import HorizonExceeded, InvalidArgument
from dpstream.release.error_bars import _SINGLE_STEPS, error_bars

BUDGETS = (
    dp.zcdp(0.5),
    dp.zcdp(30.0),
    dp.zcdp(1e-6),
    dp.approx_dp(1, 1e-6),
    dp.approx_dp(30, 1e-3),
    dp.pure_dp(0.5),
    dp.pure_dp(20),
)


def one_by_one(counter, first, count, confidence):
    """The same from the counter's own methods, one release after the other."""
    stddev, off = [], []
    for t in range(1, first + count):
        release = counter.add(np.zeros(counter.shape, dtype=np.int64) if counter.shape else 0)
        if t >= first:
            _, _, low, high = counter.estimate(confidence)
            stddev.append(counter.stddev())
            off.append(np.max(high - release))
            assert np.max(release - low) == off[-1]
    return np.array(stddev), np.array(off)


@pytest.mark.parametrize(
    ("budget", "horizon"),
    [
        *((budget, 40) for budget in BUDGETS),
        # Without an end each has a mechanism of up to 2^40 steps.
        (BUDGETS[0], None),
        *(pytest.param(budget, None, marks=pytest.mark.heavy) for budget in BUDGETS[1:]),
    ],
    ids=repr,
)
def test_the_same_as_the_counter_says(budget, horizon):
    for first, count, confidence in (
        (1, 25, 0.95),
        (7, _SINGLE_STEPS, 0.5),
        (3, 1, 0.999999),
        (2, _SINGLE_STEPS + 1, 0.999999),
    ):
        counter = dp.Counter(horizon, budget)
        stddev, off = error_bars(counter.settings, first, count, confidence)
        wanted_stddev, wanted_off = one_by_one(counter, first, count, confidence)
        np.testing.assert_allclose(stddev, wanted_stddev, rtol=1e-12)
        np.testing.assert_array_equal(off, wanted_off)


@pytest.mark.parametrize(
    "mechanism", [dp.mechanisms.Binary(40), dp.mechanisms.Honaker(40), dp.mechanisms.SquareRoot(40)], ids=repr
)
def test_whatever_the_mechanism(mechanism):
    counter = dp.Counter(40, dp.zcdp(0.3), mechanism=mechanism, shape=(3,), per_person=4, per_step=10)
    stddev, off = error_bars(counter.settings, 1, 40)
    wanted_stddev, wanted_off = one_by_one(counter, 1, 40, 0.95)
    np.testing.assert_allclose(stddev, wanted_stddev, rtol=1e-12)
    np.testing.assert_array_equal(off, wanted_off)


def test_refusals():
    counter = dp.Counter(10, dp.zcdp(0.5))
    with pytest.raises(HorizonExceeded):
        error_bars(counter.settings, 5, 7)
    with pytest.raises(InvalidArgument, match="confidence"):
        error_bars(counter.settings, 1, 1, 1.0)
    stddev, off = error_bars(counter.settings, 1, 0)
    assert stddev.size == off.size == 0
