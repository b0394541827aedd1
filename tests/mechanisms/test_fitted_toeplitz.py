"""Fitted strategies: errors against the reference tables, sensitivities against brute force, bad input."""

import csv
import math
import os
import warnings
from pathlib import Path

import numpy as np
import pytest

from dpstream import Participation, mechanisms
from dpstream.errors import FitNotConverged, InvalidArgument, ParticipationError
from dpstream.mechanisms import Banded, BandedInverse, FittedToeplitz, Independent, fitting
from dpstream.mechanisms.exponential_sums import geometric, rational_series, triangular
from dpstream.mechanisms.lag_envelope import lag_envelope_bound
from tests.mechanism_subjects import PAIR_POLES, PAIR_ZEROS

from .strategy_checks import worst_of_all_patterns, worst_of_random_patterns

#: Every row of the tables, and twenty random cases, instead of a few.
HEAVY = bool(os.environ.get("DPSTREAM_HEAVY"))
HERE = Path(__file__).parent


def training_rows() -> list[tuple[int, int, int, str, str, float]]:
    with (HERE / "multi_epoch.csv").open() as file:
        rows = [
            (
                int(r["n"]),
                int(r["times"]),
                int(r["separation"]),
                r["strategy"],
                r["objective"],
                float(r["error_at_2rho_1"]),
            )
            for r in csv.DictReader(file)
        ]
    return rows if HEAVY else [r for r in rows if r[0] == 512 and "6 buffers" not in r[3]]


def strategy(name: str, n: int, participation: Participation, objective: str):
    normalized = name.endswith("column-normalised")
    if name.startswith("rational"):
        buffers = int(name.split()[1])
        return FittedToeplitz.fit(
            n, participation=participation, objective=objective, buffers=buffers, normalized=normalized
        )
    if name.startswith("BandMF"):
        return Banded.fit(n, participation=participation, objective=objective, normalized=normalized)
    if name == "lambda-CGD":
        return BandedInverse.fit(n, participation=participation, objective=objective, bands=2)
    return Independent(n)


@pytest.mark.parametrize(("n", "times", "separation", "name", "objective", "expected"), training_rows())
def test_errors_of_training(n, times, separation, name, objective, expected):
    participation = Participation(times, separation)
    made = strategy(name, n, participation, objective)
    error = getattr(made, f"{objective}_variance")(participation=participation) ** 0.5
    print(f"{n},{times},{separation},{name},{objective},{error:.4f},{error / expected:.4f}")
    assert error <= 1.003 * expected
    assert error >= 0.97 * expected  # far better than computed twice before is a mistake


@pytest.mark.parametrize(("bands", "most"), [(8, 12.3), (16, 11.6)])
def test_banded_inverse_for_training(bands, most):
    epochs = Participation(8, 256)
    made = BandedInverse.fit(2048, participation=epochs, bands=bands, objective="mean")
    assert made.mean_variance(participation=epochs) ** 0.5 <= most


def window_rows() -> list[tuple[int, tuple[int, ...], tuple[float, ...]]]:
    with (HERE / "windows.csv").open() as file:
        rows = list(csv.DictReader(file))
    cases = []
    for horizon in sorted({int(r["horizon"]) for r in rows}):
        mine = [r for r in rows if int(r["horizon"]) == horizon]
        cases.append(
            (horizon, tuple(int(r["window"]) for r in mine), tuple(float(r["V_joint_3_buffers"]) for r in mine))
        )
    return cases if HEAVY else cases[:2]


@pytest.mark.parametrize(("horizon", "windows", "expected"), window_rows())
def test_errors_of_windows(horizon, windows, expected):
    made = FittedToeplitz.fit(horizon, windows=windows)
    found = [made.max_variance(window=w) for w in windows]
    ratios = [f / e for f, e in zip(found, expected, strict=True)]
    print(horizon, windows, np.round(found, 3), np.round(ratios, 4))
    # The file's values are of columns that are not normalised, and 1.01 times them was asked for.
    assert max(ratios) <= 0.995
    assert made.normalized
    assert made.memory <= 5
    plain = FittedToeplitz.fit(horizon, windows=windows, normalized=False)
    assert max(plain.max_variance(window=w) / e for w, e in zip(windows, expected, strict=True)) <= 1.01
    assert made.interlacing


def test_windows_are_better_served_than_by_the_best_total():
    made = FittedToeplitz.fit(365, windows=(1, 7, 30, 365))
    balanced = mechanisms.BalancedToeplitz(365)
    assert made.max_variance(window=1) < 0.25 * balanced.max_variance(window=1)
    assert made.max_variance(window=30) < 0.8 * balanced.max_variance(window=30)


def test_normalised_columns_are_fitted_to_windows_themselves():
    """Fitting before normalising leaves 2.5 % of V: the last increments then carry less noise than they may."""
    windows = (1, 7, 30, 365)
    made, plain = (FittedToeplitz.fit(365, windows=windows, normalized=n) for n in (True, False))
    after = FittedToeplitz(365, plain.poles, plain.zeros, normalized=True)
    alone = [1.0, 3.524, 6.413, 8.668]

    def worst(m):
        return max(m.max_variance(window=w) / v for w, v in zip(windows, alone, strict=True))

    assert worst(made) < 0.98 * worst(after) < 0.98 * worst(plain)
    assert all(complex(round(p.real, 12), round(p.imag, 12)) == p for p in map(complex, made.poles + made.zeros))


def test_the_better_of_several_fits_is_returned():
    epochs = Participation(3, 39)
    best = FittedToeplitz.fit(165, participation=epochs)
    each = [FittedToeplitz.fit(165, participation=epochs, complex_pairs=pairs) for pairs in (False, True)]
    assert best.max_variance(participation=epochs) == min(m.max_variance(participation=epochs) for m in each)


def test_mean_over_windows():
    made = FittedToeplitz.fit(100, windows=(1, 10), objective="mean")
    other = FittedToeplitz.fit(100, windows=(1, 10))
    L = made.factors()[0]
    rows = L.copy()
    rows[10:] -= L[:-10]
    assert made.mean_variance(window=10) == pytest.approx(made.sensitivity() ** 2 * (rows**2).sum(axis=1).mean())
    worst = max(made.mean_variance(window=w) / fitting_alone(w) for w in (1, 10))
    assert worst <= max(other.mean_variance(window=w) / fitting_alone(w) for w in (1, 10)) * 1.001


def fitting_alone(window: int) -> float:
    return FittedToeplitz.fit(100, windows=(window,), objective="mean", buffers=4).mean_variance(window=window)


# -- sensitivities ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize(("times", "separation"), [(2, 9), (3, 7), (4, 8), (3, 1)])
@pytest.mark.parametrize(
    ("poles", "zeros"),
    [
        ((0.95, 0.6), (0.8, 0.25)),  # interlacing: exact
        (PAIR_POLES, PAIR_ZEROS),
        ((0.9, -0.7), (0.3, 0.6)),  # signs
        ((0.97 + 0.15j, 0.97 - 0.15j), (0.6, 0.5)),
        ((0.2 + 0.9j, 0.2 - 0.9j, -0.9), (0.5, -0.4, 0.1)),
    ],
)
def test_sensitivity_against_all_patterns(poles, zeros, times, separation, normalized):
    made = FittedToeplitz(30, poles, zeros, normalized)
    participation = Participation(times, separation)
    worst = worst_of_all_patterns(made, participation)
    charged = made.sensitivity(participation)
    if made.interlacing:
        assert made.sensitivity_is_exact(participation)
        assert charged == pytest.approx(worst, rel=1e-8)
    assert charged >= worst


@pytest.mark.parametrize("normalized", [True, False])
def test_the_bound_on_a_grid_is_that_on_every_truncation_and_lag(normalized, monkeypatch):
    """Against all M and l, one by one: never below, and not far above."""
    r = rational_series(np.array(PAIR_ZEROS) ** 0.2, np.array(PAIR_POLES) ** 0.2)
    for n, k, b in ((400, 6, 40), (700, 30, 11), (300, 2, 299), (50, 50, 1)):
        c = r.at(np.arange(n, dtype=float))
        squares = np.cumsum(c * c)
        products = np.zeros((n + 1, n))  # of columns `lag` apart, the later one with `count` entries
        for lag in range(b, n):
            sums = np.abs(np.cumsum(c[: n - lag] * c[lag:]))
            products[1 : n - lag + 1, lag] = sums / np.sqrt(squares[: n - lag] * squares[lag:]) if normalized else sums
        largest = np.maximum.accumulate(np.maximum.accumulate(products[::-1, ::-1], axis=0), axis=1)[::-1, ::-1]
        single = k * (1.0 if normalized else squares[-1])
        pairs = [(i * b + 1, m * b) for i in range(k - 1) for m in range(1, k - i) if (i + m) * b < n]
        exact = single + 2 * sum(largest[pair] for pair in pairs)
        bound = lag_envelope_bound(r, n, k, b, normalized=normalized)
        assert exact * (1 - 1e-12) <= bound <= exact * 1.00001
        for growth, following in ((0.5, 256), (1 / 96, 3)):
            monkeypatch.setattr("dpstream.mechanisms.lag_envelope.MOST_FOLLOWING", following)
            assert lag_envelope_bound(r, n, k, b, normalized=normalized, growth=growth) >= exact * (1 - 1e-12)
        monkeypatch.undo()
        # Columns that others follow are not cut as short as the last: without that the bound would be this.
        looser = single + 2 * sum((k - m) * largest[1, m * b] for m in range(1, k) if m * b < n)
        assert bound <= looser * (1 + 1e-12)


def random_cases() -> list[tuple[int, Participation, tuple[int, ...] | None]]:
    rng = np.random.default_rng(15)
    cases: list[tuple[int, Participation, tuple[int, ...] | None]] = []
    for _ in range(20):
        n = int(rng.integers(40, 900))
        if rng.random() < 0.3:
            lengths = np.unique(rng.integers(1, n + 1, size=3))
            cases.append((n, Participation(), tuple(int(w) for w in lengths)))
            continue
        b = int(rng.integers(2, n // 2))
        k = int(rng.integers(2, min((n - 1) // b + 1, 20) + 1))
        cases.append((n, Participation(k, b), None))
    return cases if HEAVY else cases[:3]


@pytest.mark.parametrize(("n", "participation", "windows"), random_cases())
@pytest.mark.filterwarnings("ignore::dpstream.errors.FitNotConverged")
def test_never_worse_than_the_others_and_never_understated(n, participation, windows):
    rng = np.random.default_rng(n)
    others = [
        mechanisms.BalancedToeplitz(n),
        mechanisms.BufferedToeplitz(n),
        mechanisms.SmoothBinary(n),
        Independent(n),
    ]
    if windows is not None:
        made = [FittedToeplitz.fit(n, windows=windows)]
        references = [
            FittedToeplitz.fit(n, windows=(w,), buffers=4, normalized=False).max_variance(window=w) for w in windows
        ]

        def worst(m):
            return max(m.max_variance(window=w) / r for w, r in zip(windows, references, strict=True))

        assert worst(made[0]) <= min(map(worst, others))
    else:
        made = [
            FittedToeplitz.fit(n, participation=participation),
            FittedToeplitz.fit(n, participation=participation, buffers=2),
            BandedInverse.fit(n, participation=participation),
            Banded.fit(n, participation=participation),
        ]
        least = min(m.max_variance(participation=participation) for m in others)
        assert made[0].max_variance(participation=participation) <= least
    for mechanism in made:
        found = worst_of_random_patterns(mechanism, participation, 100_000 if HEAVY else 2_000, rng)
        assert mechanism.sensitivity(participation) >= found * (1 - 1e-12)


@pytest.mark.parametrize(("n", "times", "separation"), [(100, 2, 3), (200, 2, 90)])
def test_close_contributions_and_two_contributions(n, times, separation):
    """Where the last zero goes to 0, and where steps are not alike: BalancedToeplitz was up to 4 % better."""
    participation = Participation(times, separation)
    made = FittedToeplitz.fit(n, participation=participation)
    assert made.max_variance(participation=participation) < mechanisms.BalancedToeplitz(n).max_variance(
        participation=participation
    )
    assert made.scales
    assert made.sensitivity_is_exact(participation)
    plain = FittedToeplitz(n, made.poles, made.zeros)
    assert made.max_variance(participation=participation) < plain.max_variance(participation=participation)
    rng = np.random.default_rng(n)
    assert made.sensitivity(participation) >= worst_of_random_patterns(made, participation, 2_000, rng) * (1 - 1e-12)


@pytest.mark.parametrize("objective", ["mean", "max"])
def test_two_contributions_at_short_horizons(objective):
    """Fewer pairs of steps than groups of pairs: training for two short epochs has them."""
    for n in range(2, 65) if HEAVY else (2, 3, 4, 5, 10, 16, 17, 24, 46, 48):
        participation = Participation(2, n // 2)
        made = FittedToeplitz.fit(n, participation=participation, objective=objective, buffers=1)
        worst = worst_of_all_patterns(made, participation)
        assert worst <= made.sensitivity(participation) <= 1.001 * worst


@pytest.mark.parametrize(
    ("n", "objective", "scales"),
    [(20, "max", (1.019306487524, 0.935040507921)), (48, "mean", (0.999649527244, 1.136984697431))],
)
def test_the_scales_of_a_fit_stay_as_they_are(n, objective, scales):
    """Another fit is another noise under the same key."""
    made = FittedToeplitz.fit(n, participation=Participation(2, n // 2), objective=objective, buffers=2)
    assert made.scales[1:5:3] == pytest.approx(scales, rel=1e-9)


@pytest.mark.parametrize("times", [1, 2, 3, 4])
@pytest.mark.parametrize(
    "scales", [(1.0, 0.4, 1.3), (0.5, 2.0), (0.7,), tuple(1.0 + 0.3 * (-1) ** i for i in range(30))]
)
@pytest.mark.parametrize(("poles", "zeros"), [((0.95, 0.6), (0.8, 0.25)), (PAIR_POLES, PAIR_ZEROS)])
def test_sensitivity_of_scaled_columns_against_all_patterns(poles, zeros, scales, times):
    made = FittedToeplitz(30, poles, zeros, scales=scales)
    participation = Participation(times, 7)
    worst = worst_of_all_patterns(made, participation)
    charged = made.sensitivity(participation)
    assert charged >= worst
    if made.sensitivity_is_exact(participation):
        assert charged == pytest.approx(worst, rel=1e-8)
    assert charged <= 1.05 * worst


# -- closed forms -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("log", [0.0, -1e-12, -1e-7, -1.9e-5, -2.1e-5, -1e-3, -0.4 + 0.3j, -0.01 - 3j])
def test_sums_of_geometric_series(log):
    n = 500
    powers = np.exp(log * np.arange(n))
    assert geometric(np.asarray(log), np.asarray(float(n))) == pytest.approx(powers.sum(), rel=1e-12)
    weighted = ((n - np.arange(n)) * powers).sum()
    assert triangular(np.asarray(log), n) == pytest.approx(weighted, rel=1e-11)


def test_long_horizons_agree_with_short_ones():
    far = FittedToeplitz(2**40, (1 - 2.0**-30, 0.5), (1 - 2.0**-20, 0.25), normalized=False)
    assert math.isfinite(far.max_variance(participation=Participation(1000, 2**25)))
    assert math.isfinite(far.mean_variance())
    near = FittedToeplitz(1000, far.poles, far.zeros, normalized=False)
    assert far.squared_row_norm(1000) == pytest.approx(near.factors()[0][-1] @ near.factors()[0][-1], rel=1e-9)


# -- values -----------------------------------------------------------------------------------------------------------


def test_a_fit_is_a_plain_value():
    epochs = Participation(4, 20)
    one = FittedToeplitz.fit(80, participation=epochs)
    fitting.fit_real.cache_clear()
    fitting.fit_with_pairs.cache_clear()
    again = FittedToeplitz.fit(80, participation=epochs)
    assert one == again
    assert eval(repr(one), vars(mechanisms)) == one  # noqa: S307
    scaled = FittedToeplitz(80, one.poles, one.zeros, scales=(1, 0.5))
    assert eval(repr(scaled), vars(mechanisms)) == scaled != one  # noqa: S307
    assert all(complex(round(p.real, 12), round(p.imag, 12)) == p for p in map(complex, one.poles + one.zeros))
    assert FittedToeplitz(80, one.poles[::-1], one.zeros[::-1], one.normalized) == one
    assert one.memory == 5
    assert one.increment_memory == 4


def test_a_fit_that_stops_early_says_so_and_is_private(monkeypatch):
    fitting.fit_with_pairs.cache_clear()
    monkeypatch.setattr(fitting, "ITERATIONS", 1)
    monkeypatch.setattr(fitting, "ORDERS", (6.0,))
    epochs = Participation(4, 20)
    with pytest.warns(FitNotConverged, match="the fit for 80 steps stopped before it came to rest"):
        made = FittedToeplitz.fit(80, participation=epochs, complex_pairs=True)
    fitting.fit_with_pairs.cache_clear()
    assert made.sensitivity(epochs) >= worst_of_random_patterns(made, epochs, 2_000, np.random.default_rng(1))


def test_a_fit_that_converges_is_silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FittedToeplitz.fit(200, participation=Participation(4, 40))


# -- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("poles", "zeros", "problem"),
    [
        ((1.0,), (0.5,), "poles must be inside the unit circle and not 0"),
        ((1.5,), (0.5,), "poles must be inside the unit circle"),
        ((0.5,), (0.6 + 0.8j, 0.6 - 0.8j), "zeros must be inside the unit circle"),
        ((math.nan,), (0.5,), "poles must be inside the unit circle"),
        ((0.0,), (0.5,), "poles must be inside the unit circle and not 0"),
        ((0.5 + 0.1j,), (0.5,), r"poles must be closed under conjugation: with a \+ bj also a - bj, exactly"),
        ((0.5 + 0.1j, 0.5 - 0.11j), (0.5, 0.4), "poles must be closed under conjugation"),
        ((0.9, 0.5), (0.7,), "zeros must be as many numbers as there are poles, 2"),
        ((), (), "zeros must be as many numbers as there are poles, 0, and at least 1"),
        ((0.9, 0.9), (0.7, 0.5), "poles must be farther apart"),
        ((0.9, 0.9 + 1e-14), (0.7, 0.5), "cannot be told apart in floating point; give fewer buffers"),
        ((0.9,), (0.9,), "poles must be farther apart"),
        (tuple(0.9 - 0.01 * i for i in range(13)), tuple(0.895 - 0.01 * i for i in range(13)), "at most 12 numbers"),
        ("ab", (0.5,), "poles must be a sequence of numbers"),
        (0.5, (0.5,), "poles must be a sequence of numbers"),
    ],
)
def test_bad_poles_and_zeros(poles, zeros, problem):
    with pytest.raises(InvalidArgument, match=problem):
        FittedToeplitz(100, poles, zeros)


@pytest.mark.parametrize(
    ("scales", "problem"),
    [
        ("ab", "scales must be a sequence of numbers"),
        (0.5, "scales must be a sequence of numbers"),
        ((1.0, 0.0), "scales must be at most 64 numbers from 1e-6 to 1e6"),
        ((1.0, math.nan), "scales must be at most 64 numbers from 1e-6 to 1e6"),
        ((1.0,) * 65, "scales must be at most 64 numbers"),
    ],
)
def test_bad_scales(scales, problem):
    with pytest.raises(InvalidArgument, match=problem):
        FittedToeplitz(100, (0.9,), (0.5,), scales=scales)
    with pytest.raises(InvalidArgument, match="scales must be empty unless columns are normalised"):
        FittedToeplitz(100, (0.9,), (0.5,), normalized=False, scales=(1.0, 0.5))


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"windows": (1, 101)}, "windows must be no longer than the horizon, 100 steps"),
        ({"windows": (0, 7)}, "windows must be whole numbers of steps in rising order"),
        ({"windows": (7, 1)}, r"in rising order, each once, .*: give windows=\(1, 7\)"),
        ({"windows": (7, 7)}, r"each once, .*: give windows=\(7,\)"),
        ({"windows": ()}, "windows must be at least one length, or left out for running totals"),
        ({"windows": 7}, "windows must be whole numbers of steps in rising order"),
        ({"windows": (1, 2.5)}, "windows must be whole numbers of steps in rising order"),
        ({"objective": "median"}, "objective must be 'max' or 'mean'"),
        ({"buffers": 0}, "buffers must be a whole number of at least 1"),
        ({"buffers": 13}, "buffers must be at most 12"),
        ({"buffers": 3, "complex_pairs": True}, "complex_pairs must be False unless buffers is even"),
        ({"participation": 3}, "participation must be a Participation or None"),
    ],
)
def test_bad_questions(arguments, problem):
    with pytest.raises(InvalidArgument, match=problem):
        FittedToeplitz.fit(100, **arguments)


@pytest.mark.parametrize("fit", [FittedToeplitz.fit, Banded.fit, BandedInverse.fit])
def test_participation_that_cannot_happen(fit):
    with pytest.raises(ParticipationError, match="60 steps apart only 2 of 3 contributions fit"):
        fit(100, participation=Participation(3, 60))


def test_normalised_columns_stop_at_four_million_steps():
    with pytest.raises(InvalidArgument, match="horizon must be at most 4194304, or give normalized=False"):
        FittedToeplitz(2**23, (0.9,), (0.5,))
