"""The balanced Toeplitz mechanism: its error targets, and its sensitivity against explicit matrices."""

import itertools

import numpy as np
import pytest

from dpstream import Participation
from dpstream.errors import HorizonExceeded, InvalidArgument, NoiseLawError
from dpstream.mechanisms import BalancedToeplitz, BufferedToeplitz, Optimal
from dpstream.mechanisms.exponentials import zolotarev
from dpstream.mechanisms.scaled_toeplitz import ColumnProducts, column_norms, row_norms


@pytest.mark.parametrize(
    ("horizon", "most"), [(512, 7.60), (1023, 8.84), (16384, 14.80), (131072, 20.30), (2**20, 26.7)]
)
def test_error_targets(horizon, most):
    m = BalancedToeplitz(horizon)
    assert m.max_variance() <= most
    assert m.mean_variance() >= 0.99 * m.max_variance()
    even = m.variance()[10:] / m.max_variance()
    assert even.min() >= 0.9


def test_close_to_the_optimum():
    assert BalancedToeplitz(64).max_variance() <= 1.02 * Optimal(64).max_variance()
    assert BalancedToeplitz(250).max_variance() <= 1.01 * 6.3779
    assert BalancedToeplitz(2048).max_variance() <= 1.01 * 10.0963  # certified lower bound, Optimal(2048)


def test_small_horizons():
    for horizon in range(1, 17):
        m = BalancedToeplitz(horizon)
        L, R = m.factors()
        np.testing.assert_allclose(L @ R, np.tri(horizon), atol=1e-12)
        assert m.max_variance() <= 1.001 * BufferedToeplitz(horizon).max_variance()


@pytest.mark.heavy
def test_between_table_points():
    """Never above the normalised buffered mechanism, and smooth in the horizon."""
    rng = np.random.default_rng(1)
    for horizon in np.unique(np.exp(rng.uniform(np.log(10), np.log(10**6), 40)).astype(int)).tolist():
        largest = BalancedToeplitz(horizon).max_variance()
        assert largest <= BufferedToeplitz(horizon, buffers=6).max_variance()
        if horizon >= 64:
            # V is nearly a parabola in ln T: a percent off would be a bump.
            assert largest == pytest.approx(parabola(horizon), rel=0.01)


def parabola(horizon: int) -> float:
    return float(np.polyval(PARABOLA, np.log(horizon)))


PARABOLA = np.polyfit(
    np.log([64, 512, 2**12, 2**16, 2**20]),
    [BalancedToeplitz(T).max_variance() for T in (64, 512, 2**12, 2**16, 2**20)],
    2,
)


@pytest.mark.parametrize("horizon", [1, 2, 10, 100, 777, 2048])
def test_sensitivity_against_dense_inverse(horizon):
    m = BalancedToeplitz(horizon)
    L, R = m.factors()
    inverse = np.linalg.solve(L, np.tri(horizon))
    np.testing.assert_allclose(R, inverse, atol=1e-11)
    largest = np.sqrt((inverse**2).sum(axis=0).max())
    assert largest <= m.sensitivity() <= largest * (1 + 2e-9)
    np.testing.assert_allclose(m.variance(), m.sensitivity() ** 2 * (L**2).sum(axis=1), rtol=1e-12)


def test_sensitivity_against_longer_doubles():
    """The margin of 1e-9 is far above what 2^20 steps lose in double precision."""
    m = BalancedToeplitz(2**18)
    left, right = m._sides
    wide = [type(side)(side.gaps.astype(np.longdouble), side.weights.astype(np.longdouble)) for side in (left, right)]
    p, q = (scale.astype(np.longdouble) for scale in m._scales)
    for norms, side, sides in ((row_norms, left, wide[0]), (column_norms, right, wide[1])):
        np.testing.assert_allclose(norms(side, *m._scales), norms(sides, p, q).astype(float), rtol=1e-11)


def test_blocks_do_not_show(monkeypatch):
    left, right = zolotarev(8 / 1000, 5)
    t = np.arange(1, 1001)
    p, q = t**-0.3 * np.exp(0.4 * np.sin(np.log(t))), np.exp(0.3 * np.cos(t / 300))
    rows, columns = row_norms(left, p, q), column_norms(right, p, q)
    monkeypatch.setattr("dpstream.mechanisms.scaled_toeplitz.BLOCK", 97)
    np.testing.assert_allclose(row_norms(left, p, q), rows, rtol=1e-13)
    np.testing.assert_allclose(column_norms(right, p, q), columns, rtol=1e-13)


def test_products_of_columns():
    m = BalancedToeplitz(200)
    _, R = m.factors()
    gram = np.abs(R.T @ R)
    products = ColumnProducts(m._sides[1], *m._scales)
    for distance in (0, 1, 2, 5, 30, 199):
        largest = max(np.diagonal(gram, d).max() for d in range(distance, 200))
        assert largest * (1 - 1e-12) <= products.at(distance) <= 1.05 * largest


@pytest.mark.parametrize(("times", "separation"), [(2, 1), (2, 3), (3, 2), (3, 4), (12, 1)])
def test_participation_against_brute_force(times, separation):
    m = BalancedToeplitz(12)
    _, R = m.factors()
    gram = np.abs(R.T @ R)
    worst = 0.0
    for count in range(1, times + 1):
        for pattern in itertools.combinations(range(12), count):
            if all(b - a >= separation for a, b in itertools.pairwise(pattern)):
                worst = max(worst, gram[np.ix_(pattern, pattern)].sum())
    participation = Participation(times, separation)
    assert worst**0.5 <= m.sensitivity(participation) <= times * m.sensitivity()
    assert m.sensitivity(participation) <= 1.3 * worst**0.5
    assert not m.sensitivity_is_exact(participation)


def test_more_or_fewer_buffers():
    assert BalancedToeplitz(1023, buffers=2).max_variance() > BalancedToeplitz(1023).max_variance()
    assert BalancedToeplitz(1023, buffers=8).max_variance() <= 1.05 * BalancedToeplitz(1023).max_variance()
    assert BalancedToeplitz(1023, buffers=4) == BalancedToeplitz(1023)


def test_refusals():
    with pytest.raises(InvalidArgument, match=r"at most 16777216 .*BufferedToeplitz or AnytimeToeplitz.*got 16777217"):
        BalancedToeplitz(2**24 + 1)
    with pytest.raises(InvalidArgument, match="horizon must be a whole number of at least 1, got 0"):
        BalancedToeplitz(0)
    with pytest.raises(InvalidArgument, match="horizon must be a whole number of at least 1, got nan"):
        BalancedToeplitz(float("nan"))
    with pytest.raises(InvalidArgument, match="buffers must be at most 16, got 17"):
        BalancedToeplitz(100, buffers=17)
    with pytest.raises(NoiseLawError, match="Gaussian noise only"):
        BalancedToeplitz(100, noise="laplace")
    with pytest.raises(HorizonExceeded):
        BalancedToeplitz(100).variance(101)
