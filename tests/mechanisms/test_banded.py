"""Banded strategies and banded inverses: optimality, sensitivities against brute force, bad input."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.signal import lfilter

from dpstream import Participation
from dpstream.errors import InvalidArgument
from dpstream.mechanisms import Banded, BandedInverse
from dpstream.mechanisms.banded_fitting import falling_envelope, fit_banded

from .strategy_checks import worst_of_all_patterns


@pytest.mark.parametrize(("objective", "bands"), [("max", 5), ("mean", 8)])
def test_no_other_bands_are_better(objective, bands):
    n, k = 60, 4
    epochs = Participation(k, 15)
    made = Banded.fit(n, participation=epochs, bands=bands, objective=objective, normalized=False)

    def loss(c: np.ndarray) -> float:
        squares = np.cumsum(lfilter([1.0], np.append(1.0, c), np.ones(n)) ** 2)
        return k * (1 + c @ c) * (squares.mean() if objective == "mean" else squares[-1])

    start = np.full(bands - 1, 0.3)
    least = minimize(loss, start, method="Nelder-Mead", options={"maxiter": 40_000, "fatol": 1e-12, "xatol": 1e-9}).fun
    found = getattr(made, f"{objective}_variance")(participation=epochs)
    assert found <= least * (1 + 1e-6)


def test_long_series_are_inverted_by_fft_with_the_same_result(monkeypatch):
    direct = Banded.fit(200, participation=Participation(4, 50), bands=20)
    fit_banded.cache_clear()
    monkeypatch.setattr("dpstream.mechanisms.banded_fitting.DIRECT", 0)
    transformed = Banded.fit(200, participation=Participation(4, 50), bands=20)
    fit_banded.cache_clear()
    np.testing.assert_allclose(direct.coefficients, transformed.coefficients, atol=1e-4)


@pytest.mark.parametrize(
    ("mechanism", "participation"),
    [
        (made, Participation(*p))
        for made in (
            Banded(22, (1.0, 0.7, 0.4, 0.1)),
            Banded(22, (1.0, 0.7, 0.4, 0.1), normalized=False),
            Banded(22, (1.0, -0.7, 0.4, 0.9)),
            Banded(22, (1.0, -0.7, 0.4, 0.9), normalized=False),
            BandedInverse(22, (1.0, -0.7, -0.1)),
            BandedInverse(22, (1.0, 0.5, -0.3)),
            BandedInverse(22, (1.0, -1.2, 0.7)),
        )
        for p in ((2, 4), (3, 5), (3, 2), (4, 1), (2, 21), (2, 19))
    ],
    ids=repr,
)
def test_sensitivity_against_all_patterns(mechanism, participation):
    worst = worst_of_all_patterns(mechanism, participation)
    charged = mechanism.sensitivity(participation)
    assert charged >= worst
    if mechanism.sensitivity_is_exact(participation):
        assert charged == pytest.approx(worst, rel=1e-8)


def test_bands_that_do_not_overlap_are_exact():
    for normalized in (True, False):
        made = Banded(50, (1.0, 0.5, 0.25), normalized=normalized)
        assert made.sensitivity_is_exact(Participation(5, 3))
        assert not Banded(50, (1.0, -0.5, 0.4), normalized).sensitivity_is_exact(Participation(5, 2))


def test_a_positive_falling_inverse_is_exact():
    assert BandedInverse(50, (1.0, -0.5, -0.125)).sensitivity_is_exact(Participation(3, 7))
    assert not BandedInverse(50, (1.0, 0.5)).sensitivity_is_exact(Participation(3, 7))


def test_falling_envelope():
    assert falling_envelope(np.array([1.0, -0.2, 0.5, 0.1, -0.3])).tolist() == [1.0, 0.5, 0.5, 0.3, 0.3]


@pytest.mark.parametrize("kind", [Banded, BandedInverse])
@pytest.mark.parametrize("coefficients", [(), (2.0, 1.0), (1.0, np.nan), (1.0, np.inf), "10", 1.0])
def test_bad_coefficients(kind, coefficients):
    with pytest.raises(InvalidArgument, match="coefficients must be"):
        kind(10, coefficients)


def test_coefficients_without_a_usable_inverse():
    with pytest.raises(InvalidArgument, match="those of a matrix with a well-conditioned inverse"):
        BandedInverse(1000, (1.0, -3.0))
    with pytest.raises(InvalidArgument, match="those of a matrix whose inverse does not overflow"):
        Banded(2000, (1.0, -3.0))


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"bands": 11}, "bands must be at most 10: with more, columns of contributions would overlap"),
        ({"bands": 0}, "bands must be a whole number of at least 1"),
        ({"objective": "least"}, "objective must be 'max' or 'mean'"),
    ],
)
def test_bad_questions(arguments, problem):
    with pytest.raises(InvalidArgument, match=problem):
        Banded.fit(100, participation=Participation(3, 10), **arguments)


def test_inverses_have_at_most_64_bands():
    with pytest.raises(InvalidArgument, match="bands must be at most 64"):
        BandedInverse.fit(100, bands=65)
    assert len(BandedInverse.fit(5, bands=8).coefficients) == 5
