"""What every mechanism promises, held against explicit matrices.

All mechanisms of the catalogue, and variants: tests/mechanism_subjects.py; test_catalogue.py finds missing ones.
"""

import csv
import math
import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpstream import Participation, mechanisms
from dpstream.errors import DenseTooLarge, HorizonExceeded, HorizonRequired, InvalidArgument, NoiseLawError
from dpstream.mechanisms import (
    AnytimeToeplitz,
    BalancedToeplitz,
    Binary,
    BufferedToeplitz,
    Honaker,
    Optimal,
    SignedDigits,
    SquareRoot,
    Unbounded,
    WeightedTree,
)
from dpstream.mechanisms.base import Mechanism
from tests import mechanism_subjects as subjects

BOUNDED = subjects.BOUNDED | subjects.FROM_NUMBERS
ENDLESS = subjects.ENDLESS
LIMITED = {"AnytimeToeplitz"}

HORIZONS = [1, 2, 3, 4, 5, 7, 8, 10, 15, 16, 31, 33, 64, 100]


def cases(*steps: int) -> list[tuple[str, int]]:
    """Every mechanism by name, with the numbers of steps to look at (all, if none is given)."""
    listed = [(name, T) for name in BOUNDED for T in HORIZONS]
    listed += [(name, T) for name in ENDLESS for T in (1, 2, 9, 40, 100)]
    return [case for case in listed if not steps or case[1] in steps]


@cache
def mechanism_of(name: str, steps: int) -> Mechanism:
    return (BOUNDED | ENDLESS)[name](steps)


def materialise(mechanism: Mechanism, steps: int) -> np.ndarray:
    """The streaming operator as a matrix: feed the pure step with unit vectors, one column per draw."""
    counts = [mechanism.draws_at(t) for t in range(1, steps + 1)]
    units = iter(np.eye(sum(counts)))
    state, rows = mechanism.start(), []
    for count in counts:
        noise, state = mechanism.advance(state, [next(units) for _ in range(count)])
        rows.append(noise)
    assert state.t == steps
    return np.array(rows)


def needed_sensitivity(mechanism: Mechanism, steps: int) -> float:
    """The largest column norm of R by nodes, or of L⁺A by releases."""
    L, R = mechanism.factors(steps)
    if mechanism.sensitivity_of == "releases":
        R = np.linalg.lstsq(L, np.tri(steps), rcond=None)[0]
    return float(np.linalg.norm(R, ord=1 if mechanism.noise == "laplace" else None, axis=0).max())


def check_algebra(mechanism: Mechanism, steps: int) -> None:
    L, R = mechanism.factors(steps)
    np.testing.assert_allclose(L @ R, np.tri(steps), atol=1e-9)
    dense = needed_sensitivity(mechanism, steps)
    if mechanism.horizon == steps:
        assert mechanism.sensitivity() == pytest.approx(dense, rel=1e-8)
        assert mechanism.sensitivity_is_exact()
    # A longer or endless horizon has at least as large a sensitivity.
    assert mechanism.sensitivity() >= dense * (1 - 1e-12)
    variance = mechanism.sensitivity() ** 2 * (L**2).sum(axis=1)
    np.testing.assert_allclose([mechanism.variance(t) for t in range(1, steps + 1)], variance, rtol=1e-8)
    assert mechanism.max_variance(steps) == pytest.approx(variance.max(), rel=1e-8)
    assert mechanism.mean_variance(steps) == pytest.approx(variance.mean(), rel=1e-8)
    if mechanism.horizon == steps:
        np.testing.assert_allclose(mechanism.variance(), variance, rtol=1e-8)


def check_windows(mechanism: Mechanism, steps: int) -> None:
    """`variance(t, since=s)` and the largest and mean variance of windows, against differences of rows of L."""
    L, _ = mechanism.factors(steps)
    squared = mechanism.sensitivity() ** 2
    for window in {1, min(2, steps), steps // 3 + 1, steps}:
        rows = L.copy()
        if window < steps:
            rows[window:] -= L[:-window]
        norms = (rows**2).sum(axis=1)
        assert mechanism.max_variance(steps, window=window) == pytest.approx(squared * norms.max(), rel=1e-8)
        assert mechanism.mean_variance(steps, window=window) == pytest.approx(squared * norms.mean(), rel=1e-8)
        if window < steps:
            difference = L[-1] - L[-1 - window]
            found = mechanism.variance(steps, since=steps - window)
            assert found == pytest.approx(squared * difference @ difference, rel=1e-8)


def check_stream(mechanism: Mechanism, steps: int) -> None:
    L, _ = mechanism.factors(steps)
    operator = materialise(mechanism, steps)
    np.testing.assert_allclose(operator @ operator.T, L @ L.T, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("name", "steps"), cases())
def test_algebra(name, steps):
    check_algebra(mechanism_of(name, steps), steps)


@pytest.mark.parametrize(("name", "steps"), cases())
def test_stream_has_the_covariance_of_the_factors(name, steps):
    check_stream(mechanism_of(name, steps), steps)


@pytest.mark.parametrize(("name", "steps"), cases())
def test_windows_have_the_variance_of_differences(name, steps):
    check_windows(mechanism_of(name, steps), steps)


@pytest.mark.parametrize("participation", [None, Participation(3, 4)])
@pytest.mark.parametrize("name", BOUNDED)
def test_variances_under_participation(name, participation):
    mechanism = mechanism_of(name, 33)
    owed = (mechanism.sensitivity(participation) / mechanism.sensitivity()) ** 2
    for plain, asked in (
        (mechanism.variance(7), mechanism.variance(7, participation=participation)),
        (mechanism.variance(7, since=3), mechanism.variance(7, since=3, participation=participation)),
        (mechanism.variance().sum(), mechanism.variance(participation=participation).sum()),
        (mechanism.max_variance(), mechanism.max_variance(participation=participation)),
        (mechanism.mean_variance(window=5), mechanism.mean_variance(window=5, participation=participation)),
    ):
        assert asked == pytest.approx(owed * plain, rel=1e-9)


@settings(max_examples=150 if os.environ.get("DPSTREAM_HEAVY") else 8, deadline=None)
@given(st.sampled_from(sorted(BOUNDED)), st.integers(1, 300))
def test_any_horizon(name, horizon):
    mechanism = BOUNDED[name](horizon)
    check_algebra(mechanism, horizon)
    check_stream(mechanism, horizon)


@settings(max_examples=30 if os.environ.get("DPSTREAM_HEAVY") else 4, deadline=None)
@given(st.sampled_from(sorted(ENDLESS)), st.integers(1, 300))
def test_any_number_of_steps_without_a_horizon(name, steps):
    mechanism = ENDLESS[name](1)
    check_algebra(mechanism, steps)
    check_stream(mechanism, steps)


@pytest.mark.parametrize(("name", "steps"), cases(33, 40, 64, 100))
def test_draws_per_step_is_what_the_stream_takes(name, steps):
    mechanism = mechanism_of(name, steps)
    counts = [mechanism.draws_at(t) for t in range(1, steps + 1)]
    assert max(counts) <= mechanism.draws_per_step.worst
    if mechanism.noise == "gaussian" and not isinstance(mechanism, (SignedDigits, Unbounded)):
        assert mechanism.draws_per_step.worst <= (2 if getattr(mechanism, "padded", False) else 1)
    if mechanism.horizon == steps:
        assert np.mean(counts) == pytest.approx(mechanism.draws_per_step.average, rel=1e-9)


@pytest.mark.parametrize("name", BOUNDED)
def test_nothing_passes_the_horizon(name):
    mechanism = BOUNDED[name](6)
    state = mechanism.start()
    for t in range(1, 7):
        _, state = mechanism.advance(state, [np.zeros(2)] * mechanism.draws_at(t))
    with pytest.raises(HorizonExceeded, match=r"step 7 is past the horizon: .* for 6 steps") as caught:
        mechanism.advance(state, [np.zeros(2)])
    assert (caught.value.horizon, caught.value.step) == (6, 7)
    with pytest.raises(HorizonExceeded):
        mechanism.variance(7)
    with pytest.raises(HorizonExceeded):
        mechanism.factors(7)


@pytest.mark.parametrize(("name", "steps"), cases(10, 40))
def test_step_is_pure(name, steps):
    """The same state and draws give the same noise twice, and the draws come back untouched."""
    mechanism = mechanism_of(name, steps)
    rng = np.random.default_rng(7)
    state = mechanism.start()
    for t in range(1, steps + 1):
        draws = [rng.standard_normal(3) for _ in range(mechanism.draws_at(t))]
        before = [draw.copy() for draw in draws]
        once, following = mechanism.advance(state, draws)
        once = once.copy()
        again, _ = mechanism.advance(state, draws)
        np.testing.assert_array_equal(once, again)
        np.testing.assert_array_equal(draws, before)
        state = following


@pytest.mark.parametrize("name", BOUNDED | ENDLESS)
def test_frozen_comparable_hashable_printable(name):
    make = (BOUNDED | ENDLESS)[name]
    one, same = make(20), make(20)
    assert one == same
    assert hash(one) == hash(same)
    if name != "FromMatrix":  # of many numbers a repr shows a digest
        small = make(5)
        assert eval(repr(small), vars(mechanisms)) == small  # noqa: S307
    if name in BOUNDED:
        assert one != make(21)
    with pytest.raises(AttributeError):
        one.horizon = 5
    assert one.reference
    assert one.memory >= 1


@pytest.mark.parametrize("name", subjects.BOUNDED)
@pytest.mark.parametrize("horizon", [0, -3, 2.5, True, math.nan, "10", None])
def test_bad_horizon(name, horizon):
    with pytest.raises(InvalidArgument, match=r"horizon must be a whole number of at least 1, got") as caught:
        BOUNDED[name](horizon)
    assert caught.value.argument == "horizon"


@pytest.mark.parametrize("name", BOUNDED)
@pytest.mark.parametrize("t", [0, -1, 1.5, True, math.nan, "3"])
def test_bad_step(name, t):
    with pytest.raises(InvalidArgument, match="t must be a whole number of at least 1"):
        BOUNDED[name](9).variance(t)


@pytest.mark.parametrize(
    ("since", "t", "problem"),
    [(5, 5, "since must be less than t, 5"), (-1, 5, "since must be a whole"), (2, None, "since must be 0 unless t")],
)
def test_bad_since(since, t, problem):
    with pytest.raises(InvalidArgument, match=problem):
        Binary(9).variance(t, since=since)


@pytest.mark.parametrize("window", [0, -1, 2.5, True, "3", 10])
def test_bad_window(window):
    for ask in (Binary(9).max_variance, Binary(9).mean_variance):
        with pytest.raises(InvalidArgument, match="window must be"):
            ask(window=window)


@pytest.mark.parametrize(
    "make",
    [Honaker, WeightedTree, SquareRoot, BufferedToeplitz, BalancedToeplitz, Optimal],
)
def test_real_coefficients_take_gaussian_noise_only(make):
    with pytest.raises(NoiseLawError, match="takes Gaussian noise only, got noise='laplace'"):
        make(10, noise="laplace")


@pytest.mark.parametrize("name", sorted(set(ENDLESS) - LIMITED))
def test_without_a_horizon_steps_are_needed(name):
    mechanism = ENDLESS[name](1)
    for ask in (mechanism.factors, mechanism.variance, mechanism.max_variance, mechanism.mean_variance):
        with pytest.raises(HorizonRequired, match=r"has no horizon: say how many steps"):
            ask()


def test_dense_factors_stop_at_4096_steps():
    with pytest.raises(DenseTooLarge, match="stops at 4096 steps, but 5000 were asked for"):
        Binary(5000).factors()
    assert Binary(5000).factors(steps=10)[0].shape[0] == 10


def test_variances_of_a_trillion_steps_are_refused_as_an_array():
    for mechanism in (Binary(10**12), AnytimeToeplitz()):
        with pytest.raises(InvalidArgument, match="t must be given above 268435456 steps"):
            mechanism.variance()


def brute_force(mechanism: Mechanism, participation: Participation) -> float:
    """The sensitivity to the worst pattern, by looking at all of them."""
    T = mechanism.horizon
    L, R = mechanism.factors()
    if mechanism.sensitivity_of == "releases":
        R = np.linalg.lstsq(L, np.tri(T), rcond=None)[0]
    order = 1 if mechanism.noise == "laplace" else 2
    worst = 0.0

    def extend(total: np.ndarray, first: int, left: int) -> None:
        nonlocal worst
        # Signs matter: a person's contributions may point in opposite directions.
        worst = max(worst, float(np.linalg.norm(total, ord=order)))
        if left:
            for j in range(first, T):
                for sign in (1, -1):
                    extend(total + sign * R[:, j], j + participation.separation, left - 1)

    extend(np.zeros(R.shape[0]), 0, participation.times)
    return worst


@pytest.mark.parametrize(
    "participation", [Participation(2, 1), Participation(2, 3), Participation(3, 2), Participation(3, 5)]
)
@pytest.mark.parametrize("horizon", [1, 2, 5, 8, 12])
@pytest.mark.parametrize("name", BOUNDED)
def test_repeated_participation_against_all_patterns(name, horizon, participation):
    mechanism = BOUNDED[name](horizon)
    worst = brute_force(mechanism, participation)
    stated = mechanism.sensitivity(participation)
    assert stated >= worst * (1 - 1e-10)
    assert stated <= participation.times * mechanism.sensitivity() * (1 + 1e-9)
    if mechanism.sensitivity_is_exact(participation):
        assert stated == pytest.approx(worst, rel=1e-8)


def reference_rows() -> list[tuple[str, str, str, str]]:
    with (Path(__file__).parent / "variances.csv").open() as file:
        return [(r["mechanism"], r["relation"], r["max_V"], r["mean_V"]) for r in csv.DictReader(file)]


@pytest.mark.parametrize(("call", "relation", "max_v", "mean_v"), reference_rows(), ids=lambda v: str(v))
def test_reference_variances(call, relation, max_v, mean_v):
    mechanism = eval(call, vars(mechanisms))  # noqa: S307
    for measured, expected in ((mechanism.max_variance, max_v), (mechanism.mean_variance, mean_v)):
        if not expected:
            continue
        if relation == "=":
            assert measured() == pytest.approx(float(expected), rel=1e-4)
        else:
            assert measured() <= float(expected) * 1.005
