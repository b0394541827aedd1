"""Signed digits."""

import numpy as np
import pytest

from dpstream.errors import InvalidArgument
from dpstream.mechanisms import SignedDigits, SmoothBinary
from tests.mechanisms.tree_checks import check_participation, check_walk


def test_digits_add_up_and_stay_small():
    for base in (3, 5, 9, 101):
        m = SignedDigits(1000, base=base)
        for t in range(1001):
            digits = m.digits(t)
            assert sum(d * base**i for i, d in enumerate(reversed(digits))) == t
            assert all(abs(d) <= base // 2 for d in digits)
            assert len(digits) <= m.levels


@pytest.mark.parametrize("base", [None, 3, 5, 7, 21])
@pytest.mark.parametrize("horizon", [1, 2, 13, 14, 122, 123])
def test_cursor_entries_and_steps_agree(horizon, base):
    m = SignedDigits(horizon, base=base)
    check_walk(m, horizon)
    assert m.moves(1, horizon) is None


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("horizon", [1, 6, 14])
def test_repeated_participation(horizon, noise):
    check_participation(SignedDigits(horizon, noise=noise, base=3), horizon)


def test_moments_and_draws_against_counting():
    for base in (3, 5, 11):
        for horizon in (1, 4, 5, 12, 13, 40, 60, 200):
            m = SignedDigits(horizon, base=base)
            sums = [sum(abs(d) for d in m.digits(t)) for t in range(1, horizon + 1)]
            assert m.squared_row_norms(horizon).tolist() == sums
            for steps in {1, (horizon + 1) // 2, horizon}:
                assert m.max_squared_row_norm(steps) == max(sums[:steps])
                assert m.mean_squared_row_norm(steps) == pytest.approx(np.mean(sums[:steps]))
            counts = [m.draws_at(t) for t in range(1, horizon + 1)]
            assert m.draws_per_step.worst == max(counts)
            assert m.draws_per_step.average == pytest.approx(np.mean(counts))


@pytest.mark.parametrize("levels", [2, 3, 5])
@pytest.mark.parametrize("base", [3, 5, 9])
def test_mean_variance_of_a_full_tree_is_the_published_one(base, levels):
    """h³ (k - 1/k)/4 in V, with Var = 2 V/ε², over t = 0 .. T of a full tree."""
    horizon = (base**levels - 1) // 2
    m = SignedDigits(horizon, base=base)
    assert m.levels == levels
    published = levels**3 * (base - 1 / base) / 4
    assert m.mean_variance() * 2 * horizon / (2 * horizon + 1) == pytest.approx(published)


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("horizon", [1, 2, 3, 5, 14, 40, 100, 777])
def test_chosen_base_has_the_least_maximum(horizon, noise):
    chosen = SignedDigits(horizon, noise=noise)
    others = [SignedDigits(horizon, noise=noise, base=base) for base in range(3, 2 * horizon + 4, 2)]
    best = min((round(m.max_variance(), 6), m.base) for m in others)
    assert (round(chosen.max_variance(), 6), chosen.base) == best


def test_lower_mean_and_higher_maximum_than_smooth():
    signed, smooth = SignedDigits(2**20), SmoothBinary(2**20, noise="laplace")
    assert signed.mean_variance() < smooth.mean_variance()
    assert signed.max_variance() > smooth.max_variance()


def test_astronomic_horizon():
    m = SignedDigits(10**12)
    assert (m.base, m.levels) == (17, 10)
    assert m.max_variance() == pytest.approx(8000)
    assert m.mean_variance() < m.max_variance()
    assert m.variance(10**12) <= m.max_variance()


@pytest.mark.parametrize("base", [1, 2, 4])
def test_bad_base(base):
    with pytest.raises(InvalidArgument, match=f"base must be an odd whole number of at least 3, got {base}"):
        SignedDigits(10, base=base)


@pytest.mark.parametrize("base", [0, 3.0, True, "3"])
def test_base_is_a_whole_number(base):
    with pytest.raises(InvalidArgument, match="base must be a whole number of at least 1, got"):
        SignedDigits(10, base=base)
