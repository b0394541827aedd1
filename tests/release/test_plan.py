"""plan: every mechanism that can serve, ranked by errors that are really those of the budget and the participation."""

import math

import numpy as np
import pytest

import dpstream as dp
from dpstream.budget import noise_scale
from dpstream.errors import InvalidArgument, NoiseLawError, NothingFits
from dpstream.mechanisms import AnytimeToeplitz, BalancedToeplitz, BufferedToeplitz, GrowingSmooth, SmoothBinary
from dpstream.release.fitted_candidates import Question, fitted_candidates
from dpstream.release.plan import choose
from dpstream.release.plan_rows import TABLES

BUDGET = dp.zcdp(0.5)


def names(plan: dp.release.Plan) -> list[str]:
    return [type(row.mechanism).__name__ for row in plan.rows]


def test_all_that_can_serve_are_ranked():
    plan = dp.plan(1000, BUDGET)
    assert set(names(plan)) == {
        "BalancedToeplitz",
        "BufferedToeplitz",
        "SquareRoot",
        "SmoothBinary",
        "WeightedTree",
        "Honaker",
        "SignedDigits",
        "Binary",
    }
    assert names(plan)[:2] == ["BalancedToeplitz", "BufferedToeplitz"]
    assert "Optimal" in plan.left_out
    assert "Optimal" in names(dp.plan(30, BUDGET, optimal=True))
    fitting = [row.max_stddev for row in plan.rows if row.fits]
    assert fitting == sorted(fitting)
    assert [row.fits for row in plan.rows] == sorted((row.fits for row in plan.rows), reverse=True)


@pytest.mark.parametrize("participation", [dp.Participation(), dp.Participation(3, 4)])
@pytest.mark.parametrize("budget", [dp.zcdp(0.3), dp.approx_dp(1.0, 1e-6), dp.pure_dp(0.7)], ids=repr)
def test_errors_are_those_of_a_counter_built_with_them(budget, participation):
    plan = dp.plan(60, budget, participation=participation)
    for row in plan.rows:
        counter = dp.Counter(60, budget, mechanism=row.mechanism, participation=participation)
        stddevs = np.array([counter.stddev(t) for t in range(1, 61)])
        # Rounding adds 1/12, up to what it correlates with little noise.
        assert row.max_stddev == pytest.approx(stddevs.max(), rel=1e-3)
        assert row.mean_stddev == pytest.approx(math.sqrt((stddevs**2).mean()), rel=1e-3)


def test_ranking_under_participation_uses_its_sensitivity():
    """The order by one step a person and that by many differ somewhere; the plan follows the second."""
    participation = dp.Participation(times=8)
    rows = [row for row in dp.plan(200, BUDGET, participation=participation).rows if row.fits]
    owed = [
        noise_scale(r.mechanism, BUDGET, participation=participation) ** 2 * r.mechanism.max_squared_row_norm(200)
        for r in rows
    ]
    assert owed == sorted(owed)
    first = choose(200, "gaussian", 1, "exact", participation)
    assert first == rows[0].mechanism


@pytest.mark.parametrize("horizon", [1, 2, 3, 4, 5, 7, 10, 16, 33, 64, 65, 100, 1000, 10_000])
@pytest.mark.parametrize("budget", [BUDGET, dp.pure_dp(1.0)], ids=repr)
def test_auto_is_the_first_of_the_plan(horizon, budget):
    assert choose(horizon, budget.noise, 1, "exact", dp.Participation()) == dp.plan(horizon, budget).mechanism


def test_long_streams_need_no_tables():
    longest = TABLES // 16
    assert type(choose(longest, "gaussian", 1, "exact", dp.Participation())) is BalancedToeplitz
    assert type(choose(longest + 1, "gaussian", 1, "exact", dp.Participation())) is BufferedToeplitz


def test_without_a_horizon():
    assert type(choose(None, "gaussian", 1, "exact", dp.Participation())) is AnytimeToeplitz
    assert type(choose(None, "laplace", 1, "exact", dp.Participation())) is GrowingSmooth
    for budget in (BUDGET, dp.pure_dp(1.0)):
        plan = dp.plan(None, budget)
        assert plan.rows[0].mechanism == choose(None, budget.noise, 1, "exact", dp.Participation())
        assert "no horizon" in str(plan)


def test_objectives():
    by_mean = dp.plan(1000, dp.pure_dp(1.0), objective="mean")
    assert names(by_mean)[0] == "SignedDigits"  # lower mean, higher maximum
    means = [row.mean_stddev for row in by_mean.rows]
    assert means == sorted(means)
    fast = dp.plan(1000, BUDGET, objective="speed", shape=10**6, lane="float")
    times = [row.nanoseconds for row in fast.rows if row.fits]
    assert times == sorted(times)
    for budget in (BUDGET, dp.pure_dp(1.0)):
        uniform = dp.plan(1000, budget, objective="uniform")
        assert isinstance(uniform.mechanism, SmoothBinary)
        assert uniform.mechanism.padded
        assert len(set(uniform.mechanism.variance().tolist())) == 1


def test_memory_is_a_limit():
    tight = dp.plan(1000, BUDGET, memory=100)
    assert not isinstance(tight.mechanism, BalancedToeplitz)
    assert tight.rows[0].memory <= 100
    assert all(row.fits for row in dp.plan(1000, BUDGET, memory=10**9).rows)
    assert isinstance(dp.plan(1000, BUDGET, memory=10**9).mechanism, BalancedToeplitz)
    narrow, wide = (dp.plan(1000, BUDGET, shape=shape, objective="uniform").rows[0].memory for shape in ((), (10, 10)))
    assert wide == 100 * narrow


def test_the_plan_goes_straight_into_a_release():
    plan = dp.plan(40, BUDGET, lane="float", shape=(3,), objective="speed")
    assert dp.RunningSum(40, BUDGET, shape=(3,), mechanism=plan.mechanism).mechanism is plan.mechanism
    plan = dp.plan(40, dp.pure_dp(1.0), shape=(3,))
    assert dp.Counter(40, dp.pure_dp(1.0), shape=(3,), mechanism=plan.mechanism).mechanism is plan.mechanism


def test_prints_as_a_table():
    text = str(dp.plan(1000, BUDGET, participation=dp.Participation(2)))
    lines = text.splitlines()
    assert "1,000 releases, ZCDP(rho=0.5), shape (), exact lane, Participation(times=2" in lines[0]
    assert lines[1].split() == ["mechanism", "max", "std", "mean", "std", "draws", "memory", "time"]
    assert lines[2].split()[0] == "1"
    assert "is first because" in text
    assert "too much memory" in text
    assert "Optimal left out" in text
    for objective in ("max", "mean", "speed", "uniform"):
        assert dp.plan(100, BUDGET, objective=objective).reason.endswith(".")


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"lane": "fast"}, InvalidArgument, "lane must be 'exact', 'float' or None"),
        ({"objective": "best"}, InvalidArgument, "objective must be one of 'max'"),
        ({"memory": 0}, InvalidArgument, "memory must be"),
        ({"budget": 1.0}, InvalidArgument, "budget must be a budget"),
        ({"horizon": 0}, InvalidArgument, "horizon must be"),
        ({"participation": 2}, InvalidArgument, "participation must be"),
        ({"shape": -1}, InvalidArgument, "shape must be"),
        ({"lane": "float", "budget": dp.pure_dp(1.0)}, NoiseLawError, "use Counter"),
        ({"horizon": None, "objective": "uniform"}, NothingFits, "no mechanism fits horizon=None"),
    ],
    ids=str,
)
def test_bad_settings(settings, error, message):
    with pytest.raises(error, match=message):
        dp.plan(**({"horizon": 100, "budget": BUDGET} | settings))


def test_several_epochs_get_a_fitted_mechanism():
    epochs = dp.Participation(4, 128)
    found = dp.plan(512, dp.zcdp(0.5), shape=10**4, lane="float", participation=epochs, objective="mean")
    ranked = names(found)
    assert ranked[0] == "FittedToeplitz"
    assert {"Banded", "BandedInverse", "Independent", "BalancedToeplitz"} <= set(ranked)
    first = found.rows[0]
    expected = first.mechanism.mean_variance(participation=epochs) ** 0.5
    assert first.mean_stddev == pytest.approx(expected, rel=1e-9)
    balanced = next(row for row in found.rows if type(row.mechanism).__name__ == "BalancedToeplitz")
    assert first.mean_stddev < 0.9 * balanced.mean_stddev
    # Memory decides how many bands there are: with room for all of them nothing is better.
    roomy = dp.plan(
        512, dp.zcdp(0.5), shape=10**4, lane="float", participation=epochs, objective="mean", memory=4 * 10**4 * 140
    )
    assert type(roomy.mechanism).__name__ == "Banded"
    assert roomy.mechanism.increment_memory == 127


def test_windows_get_a_fitted_mechanism():
    windows = (1, 7, 30)
    found = dp.plan(100, dp.zcdp(0.5), windows=windows)
    assert type(found.mechanism).__name__ == "FittedToeplitz"
    assert found.windows == windows
    for row in found.rows:
        for window, error in zip(windows, row.window_stddev, strict=True):
            # 2ρ = 1, and two roundings of a twelfth each
            assert error**2 == pytest.approx(row.mechanism.max_variance(window=window) + 1 / 6, rel=1e-9)
    independent = next(row for row in found.rows if type(row.mechanism).__name__ == "Independent")
    assert independent.window_stddev[0] == min(row.window_stddev[0] for row in found.rows)
    assert "last 7" in str(found)
    by_mean = dp.plan(100, dp.zcdp(0.5), windows=windows, objective="mean", lane="float")
    assert by_mean.rows[0].window_stddev[1] ** 2 == pytest.approx(by_mean.mechanism.mean_variance(window=7), rel=1e-9)


@pytest.mark.parametrize("lane", ["exact", "float"])
@pytest.mark.parametrize(("horizon", "times", "separation"), [(638, 2, 146), (165, 3, 39)])
def test_the_first_is_no_worse_than_any_other(horizon, times, separation, lane):
    """Two contributions far apart are served best by BalancedToeplitz, three by what is fitted to them."""
    epochs = dp.Participation(times, separation)
    found = dp.plan(horizon, dp.zcdp(0.5), participation=epochs, lane=lane, shape=100)
    least = min(
        m.max_variance(participation=epochs)
        for m in (dp.mechanisms.BalancedToeplitz(horizon), dp.mechanisms.BufferedToeplitz(horizon))
    )
    assert found.mechanism.max_variance(participation=epochs) <= least
    assert {"Banded", "BandedInverse", "FittedToeplitz"} <= set(names(found))
    if times > 2:
        assert found.mechanism.max_variance(participation=epochs) < 0.95 * least


def test_counters_beyond_65536_steps_get_no_parts_that_cancel():
    question = Question(2**16 + 1, "gaussian", dp.Participation(2, 2**14), (), "max", 64, exact=True)
    offered = list(fitted_candidates(question, {}))
    assert {type(m).__name__ for m in offered} == {"Independent", "FittedToeplitz"}
    assert all(m.as_recurrence is not None for m in offered if isinstance(m, dp.mechanisms.FittedToeplitz))


def test_pure_windows_are_served_by_what_there_is():
    found = dp.plan(100, dp.pure_dp(1.0), windows=(1, 30))
    assert {type(row.mechanism).__name__ for row in found.rows} >= {"Independent", "SmoothBinary"}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"horizon": 100, "windows": (1, 101)}, "windows must be no longer than the horizon, 100 steps"),
        ({"horizon": 100, "windows": (7, 1)}, "in rising order"),
        ({"horizon": None, "windows": (1, 7)}, "windows must be left out without a horizon"),
        ({"horizon": 100, "windows": (1, 7), "objective": "speed"}, "objective must be 'max' or 'mean' with windows"),
    ],
)
def test_bad_windows(arguments, problem):
    with pytest.raises(InvalidArgument, match=problem):
        dp.plan(budget=dp.zcdp(0.5), **arguments)
