"""The shipped contract suite: passed by everything we ship, failed by everything broken on purpose."""

import pytest

from dpstream import Counter, NoiseStream, RunningSum, pure_dp, zcdp
from dpstream.testing import check_counter, check_mechanism, check_noise, check_running_sum
from tests.noise.catalogue import ALL, GAUSSIAN, LAPLACE, variants_heavy

from .broken import COUNTERS, MECHANISMS, NOISE, RUNNING_SUMS, ShortStreamsOnly

HORIZON = 24


def counter_with(make):
    def build(horizon, budget, **settings):
        return Counter(horizon, budget, mechanism=make(horizon), **settings)

    return build


@pytest.mark.parametrize("name", ALL)
def test_mechanisms(name):
    check_mechanism(ALL[name](HORIZON), steps=HORIZON)


@pytest.mark.parametrize("name", variants_heavy(ALL))
def test_exact_noise(name):
    mechanism = ALL[name](HORIZON)
    check_noise(lambda key, coordinates: NoiseStream(mechanism, 2.0, coordinates, dtype="int64", key=key))


@pytest.mark.parametrize("name", ["SmoothBinary", "BufferedToeplitz", "SquareRoot", "Optimal", "Unbounded"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_float_noise(name, dtype):
    mechanism = ALL[name](HORIZON)
    check_noise(lambda key, coordinates: NoiseStream(mechanism, 2.0, coordinates, dtype=dtype, key=key))


@pytest.mark.parametrize("name", variants_heavy(ALL))
def test_counters(name):
    check_counter(counter_with(ALL[name]), pure_dp(0.5) if name in LAPLACE else zcdp(0.5), HORIZON)


@pytest.mark.parametrize("name", variants_heavy(GAUSSIAN))
def test_running_sums(name):
    def build(horizon, budget, **settings):
        return RunningSum(horizon, budget, mechanism=GAUSSIAN[name](horizon), **settings)

    check_running_sum(build, horizon=HORIZON)


def test_running_sums_in_float64():
    check_running_sum(lambda **settings: RunningSum(dtype="float64", **settings))


@pytest.mark.parametrize("broken", MECHANISMS)
def test_broken_mechanisms_are_caught(broken):
    with pytest.raises(AssertionError, match=MECHANISMS[broken]):
        check_mechanism(broken(HORIZON))


def test_a_sensitivity_that_is_too_small_for_long_streams_is_caught():
    check_mechanism(ShortStreamsOnly(64))
    with pytest.raises(AssertionError, match="sensitivity\\(\\) is below"):
        check_mechanism(ShortStreamsOnly(1000))


@pytest.mark.parametrize("broken", NOISE)
def test_broken_noise_is_caught(broken):
    mechanism = GAUSSIAN["Binary"](HORIZON)
    with pytest.raises(AssertionError, match=NOISE[broken]):
        check_noise(lambda key, coordinates: broken(mechanism, 2.0, coordinates, key=key))


@pytest.mark.parametrize("broken", COUNTERS)
def test_broken_counters_are_caught(broken):
    def build(horizon, budget, **settings):
        return broken(horizon=horizon, budget=budget, mechanism=GAUSSIAN["Binary"](horizon), **settings)

    with pytest.raises(AssertionError, match=COUNTERS[broken]):
        check_counter(build, horizon=HORIZON)


@pytest.mark.parametrize("broken", RUNNING_SUMS)
def test_broken_running_sums_are_caught(broken):
    def build(horizon, budget, **settings):
        return broken(horizon=horizon, budget=budget, mechanism=GAUSSIAN["Binary"](horizon), **settings)

    with pytest.raises(AssertionError, match=RUNNING_SUMS[broken]):
        check_running_sum(build, horizon=HORIZON)
