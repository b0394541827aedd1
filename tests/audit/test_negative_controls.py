"""Every broken variant is caught, and its sound twin is not.

Audits run at a confidence of 1 - RISK. A sound twin is called violated with a chance of at most RISK, over the
choice of its (fixed) keys.
"""

import numpy as np
import pytest

from dpstream import Counter, Participation, RunningSum, pure_dp, zcdp
from dpstream.audit import audit, one_changed_step
from dpstream.audit.key_search import integer_keys, search_key
from dpstream.mechanisms import Binary, SmoothBinary, SquareRoot
from dpstream.testing import fixed_key

from . import subjects

RISK = 1e-7
HALF = zcdp(0.5)


def verdict(make, pairs, budget, trials=20_000):
    return audit(make, pairs, budget, trials, 1 - RISK)


def changed_at(steps, horizon, bound=1):
    second = np.zeros(horizon, dtype=np.int64)
    second[list(steps)] = bound
    return [(np.zeros(horizon, dtype=np.int64), second)]


# -- noise of the wrong size ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rho", "expected"), [(0.5, "wasteful"), (10.0, "violated")])
@pytest.mark.parametrize("lane", ["exact", "float"])
def test_variance_where_a_standard_deviation_belongs(lane, rho, expected):
    budget, settings = zcdp(rho), {"horizon": 7, "mechanism": Binary(7)}
    build, base = (subjects.counters, Counter) if lane == "exact" else (subjects.sums, RunningSum)
    pairs = one_changed_step(7, 1 if lane == "exact" else 1.0)
    broken = build(f"variance {rho}", subjects.scaled(base, lambda s: s**2), budget=budget, **settings)
    found = verdict(broken, pairs, budget)
    assert found.verdict == expected
    assert found.ratio < 0.5 or found.ratio > 1.2
    assert found.at_most < budget.rho or expected == "violated"
    sound = verdict(build(f"right scale {rho}", budget=budget, **settings), pairs, budget)
    assert sound.verdict != "violated"


@pytest.mark.parametrize("lane", ["exact", "float"])
@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_ten_percent_of_noise_too_little_or_too_much(lane, factor):
    budget, mechanism = zcdp(4.5), SmoothBinary(7)
    build, base = (subjects.counters, Counter) if lane == "exact" else (subjects.sums, RunningSum)
    settings = {"horizon": 7, "mechanism": mechanism, "budget": budget} | ({"bound": 64} if lane == "exact" else {})
    pairs = one_changed_step(7, 64 if lane == "exact" else 1.0)
    found = verdict(
        build(f"off {factor}", subjects.scaled(base, lambda s: s * factor), **settings), pairs, budget, 60_000
    )
    assert found.verdict == ("violated" if factor < 1 else "wasteful")
    assert (found.at_most < budget.rho) == (factor > 1)


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_ten_percent_of_laplace_noise_too_little_or_too_much(factor):
    budget = pure_dp(1.0)
    settings = {"horizon": 3, "mechanism": SmoothBinary(3, noise="laplace"), "budget": budget, "bound": 64}
    make = subjects.counters(f"off {factor}", subjects.scaled(Counter, lambda s: s * factor), **settings)
    found = verdict(make, one_changed_step(3, 64), budget, 200_000)
    assert (found.verdict == "violated") == (factor < 1)
    assert (found.at_most < budget.epsilon) == (factor > 1)


def test_sensitivity_one_node_short():
    settings = {"horizon": 15, "budget": HALF, "bound": 64}
    short = subjects.counters("short", mechanism=subjects.OneNodeShort(15), **settings)
    assert verdict(short, one_changed_step(15, 64), HALF, 60_000).verdict == "violated"
    whole = subjects.counters("whole", mechanism=Binary(15), **settings)
    assert verdict(whole, one_changed_step(15, 64), HALF, 60_000).verdict != "violated"


def test_a_column_normalised_mechanism_priced_as_a_toeplitz_one():
    person = Participation(times=8, separation=2)
    settings = {"horizon": 16, "budget": HALF, "bound": 64, "participation": person}
    pairs = changed_at(range(0, 16, 2), 16, 64)
    cheap = subjects.counters("Toeplitz", mechanism=subjects.PricedAsToeplitz(16, normalized=True), **settings)
    assert verdict(cheap, pairs, HALF, 60_000).verdict == "violated"
    right = subjects.counters("normalised", mechanism=SquareRoot(16, normalized=True), **settings)
    found = verdict(right, pairs, HALF, 60_000)
    assert found.verdict != "violated"
    assert found.at_most > HALF.rho  # and not because the right price is too high


# -- noise at the wrong time ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("publish", "pairs"),
    [
        (subjects.fresh_noise_on_a_replay(HALF), changed_at([0], 7)),
        (subjects.same_noise_under_changed_data(HALF), changed_at([3], 7)),
        (subjects.noise_repeated_past_the_horizon(HALF, 7), changed_at([7], 9)),
        (subjects.one_key_for_two_streams(HALF, lambda i: ""), changed_at([2], 7)),
        (subjects.last_step_skipped(HALF), changed_at([7], 8)),
    ],
    ids=[
        "fresh noise on a replay",
        "same noise, changed data",
        "past the horizon",
        "one key for two",
        "last step skipped",
    ],
)
def test_noise_at_the_wrong_time(publish, pairs):
    found = verdict(subjects.publishers("wrong time", publish), pairs, HALF)
    assert found.verdict == "violated"


@pytest.mark.parametrize(
    ("publish", "pairs"),
    [
        (lambda xs, key: np.concatenate([subjects.count(xs, key, HALF)] * 2), changed_at([0], 7)),
        (lambda xs, key: subjects.count(xs, key, HALF), changed_at([7], 9)),
        (lambda xs, key: subjects.count(xs, key, HALF), changed_at([7], 8)),
    ],
    ids=["the same noise on a replay", "a longer horizon", "all steps"],
)
def test_noise_at_the_right_time(publish, pairs):
    assert verdict(subjects.publishers("right time", publish), pairs, HALF).verdict != "violated"


@pytest.mark.parametrize("mechanism", [Binary, SmoothBinary, SquareRoot])
def test_inputs_that_depend_on_releases_tell_no_more(mechanism):
    budget = zcdp(4.5)
    adaptive = subjects.publishers("adaptive", subjects.answering_inputs(budget, mechanism))
    found = verdict(adaptive, one_changed_step(7), budget)
    assert found.verdict != "violated"
    assert found.ratio > 0.5


def test_two_names_under_one_key_share_no_noise():
    publish = subjects.one_key_for_two_streams(HALF, lambda i: f"stream {i}")
    assert verdict(subjects.publishers("two names", publish), changed_at([2], 7), HALF).verdict != "violated"


def test_the_skipped_last_step_is_found_among_all_steps():
    broken = subjects.publishers("search", subjects.last_step_skipped(HALF))
    found = verdict(broken, one_changed_step(8), HALF)
    assert (found.verdict, found.pair) == ("violated", 7)


# -- keys and bits ----------------------------------------------------------------------------------------------------


def test_a_key_from_a_small_integer_is_found():
    visits = np.random.default_rng(3).integers(0, 2, 30)

    def build(key):
        return Counter(30, HALF, mechanism=Binary(30), key=key)

    weak = (1234).to_bytes(32, "big")
    assert search_key(build(weak).extend(visits), build, 1, integer_keys(1500)) == weak
    strong = build(fixed_key("not a small integer")).extend(visits)
    assert search_key(strong, build, 1, integer_keys(300)) is None


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_low_bits_of_float_noise(dtype):
    settings = {"horizon": 2, "budget": HALF, "mechanism": Binary(2), "dtype": dtype}
    found = verdict(subjects.sums("no grid", subjects.NoGrid, **settings), one_changed_step(2, 1.0), HALF)
    assert (found.verdict, found.statistic[:8]) == ("violated", "low bits")
    found = verdict(subjects.sums("grid", **settings), one_changed_step(2, 1.0), HALF)
    assert found.verdict == "kept" or found.ratio > 0.7


def test_low_bits_of_rounded_float32_noise():
    bound = 2**30 - 1
    pairs = one_changed_step(2, bound)
    broken = subjects.publishers("float32", subjects.rounded_float32_noise(HALF, bound))
    found = verdict(broken, pairs, HALF)
    assert (found.verdict, found.statistic[:8]) == ("violated", "low bits")
    sound = subjects.counters("exact", horizon=2, budget=HALF, mechanism=Binary(2), bound=bound)
    assert verdict(sound, pairs, HALF).verdict != "violated"
