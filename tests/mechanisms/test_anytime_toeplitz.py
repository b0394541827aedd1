"""The anytime Toeplitz mechanism: its error at every step, and its sensitivity against explicit matrices."""

import itertools

import numpy as np
import pytest
from flint import arb, ctx

from dpstream import Participation
from dpstream.errors import HorizonExceeded, InvalidArgument, NoiseLawError
from dpstream.mechanisms import AnytimeToeplitz
from dpstream.mechanisms.exponentials import zolotarev
from dpstream.mechanisms.scaled_by_levels import Levels, _sum_from_one, _sum_from_zero, level_of, levels_to
from dpstream.mechanisms.scaled_toeplitz import column_norms, row_norms


def square_root_sum(t):
    """S_t = Σ_{k<t} f_k² of the square root: exact to 2^16, then by its asymptotic series."""
    k = np.arange(1, 2**16)
    exact = np.cumsum(np.concatenate([[1.0], np.cumprod(1 - 0.5 / k)]) ** 2)
    series = (np.log(t) + np.euler_gamma + 4 * np.log(2) - 1 / (4 * t) + 5 / (192 * t * t)) / np.pi
    assert exact[-1] == pytest.approx(
        (16 * np.log(2) + np.euler_gamma + 4 * np.log(2) - 2.0**-18 + 5 / 192 * 2.0**-32) / np.pi, rel=1e-13
    )
    return np.where(t <= 2**16, exact[np.minimum(t, 2**16).astype(int) - 1], series)


@pytest.mark.parametrize(
    ("exponent", "buffers", "most"),
    [
        (20, 6, 1.256),
        (24, 7, 1.268),
        (30, 9, 1.273),
        pytest.param(40, 12, 1.28, marks=pytest.mark.heavy),
        pytest.param(50, 14, 1.296, marks=pytest.mark.heavy),
    ],
)
def test_ratio_to_the_known_horizon(exponent, buffers, most):
    m = AnytimeToeplitz(2**exponent)
    assert m.memory == buffers
    starts, widths = m._levels.starts[8:], m._levels.widths[8:]
    octaves = np.round(2 ** np.arange(16, exponent + 1e-9, 1 / 200))
    t = np.concatenate([np.arange(8.0, 2**16), octaves, starts, starts + widths - 1])
    V = m.sensitivity() ** 2 * m._levels.row_norms(t.astype(np.int64))
    assert (V / square_root_sum(t) ** 2).max() <= most
    # the first releases are no worse than the eighth may be
    assert max(m.variance(t) for t in range(1, 8)) <= most * square_root_sum(np.array([8.0]))[0] ** 2


def test_sensitivity_against_every_step():
    """At 2^20 all rows and columns can be looked at one by one, by other formulas."""
    m = AnytimeToeplitz(2**20)
    p, q = m.output_scale(1, 2**20), m.input_scale(1, 2**20)
    largest = np.sqrt(column_norms(m._levels.right, p, q).max())
    assert largest <= m.sensitivity() <= 1.001 * largest
    steps = np.concatenate([np.arange(1, 3000), np.arange(3000, 2**20, 97)])
    np.testing.assert_allclose(m._levels.row_norms(steps), row_norms(m._levels.left, p, q)[steps - 1], rtol=1e-10)


@pytest.mark.parametrize("horizon", [1, 2, 100, 1000, pytest.param(3000, marks=pytest.mark.heavy)])
@pytest.mark.parametrize("tilt", [0.4, -0.2])
def test_levels_against_dense_inverse(horizon, tilt):
    """The column bound holds wherever the largest column is: `tilt` moves it to the start or into wide levels."""
    left, right = zolotarev(min(8 / horizon, 1.0), 4)
    starts, widths = levels_to(horizon)
    middle = starts + 0.5 * (widths - 1)
    levels = Levels(horizon, left, right, middle**tilt * np.exp(0.3 * np.sin(np.log(middle))), middle**-0.4)
    L, R = levels.factors(horizon)
    inverse = np.linalg.solve(L, np.tri(horizon))
    np.testing.assert_allclose(R, inverse, atol=1e-9 * np.abs(inverse).max())
    largest = (inverse**2).sum(axis=0).max()
    assert largest * (1 - 1e-11) <= levels.column_bound <= 1.002 * largest
    np.testing.assert_allclose(levels.row_norms(np.arange(1, horizon + 1)), (L**2).sum(axis=1), rtol=1e-11)


def test_geometric_sums_against_ball_arithmetic(monkeypatch):
    monkeypatch.setattr(ctx, "prec", 300)
    rates = np.geomspace(1e-17, 5, 30)
    for count in (1, 2, 1000, 2**25 + 3, 2**41):
        counts = np.array([float(count)])
        for rate, one, zero in zip(rates, _sum_from_one(rates, counts), _sum_from_zero(rates, counts)[0], strict=True):
            r = arb(float(rate))
            assert one == pytest.approx(float((-r * count).expm1() / -r.expm1()), rel=1e-15)
            assert zero == pytest.approx(float((-r * count).expm1() / (-r).expm1()), rel=1e-15)


@pytest.mark.parametrize("exponent", [30, *(pytest.param(e, marks=pytest.mark.heavy) for e in (40, 50))])
def test_sensitivity_against_longer_doubles(exponent):
    levels = AnytimeToeplitz(2**exponent)._levels
    wide = [
        type(side)(side.gaps.astype(np.longdouble), side.weights.astype(np.longdouble))
        for side in (levels.left, levels.right)
    ]
    again = Levels(2**exponent, *wide, levels.p.astype(np.longdouble), levels.q.astype(np.longdouble))
    assert levels.column_bound == pytest.approx(float(again.column_bound), rel=1e-13)
    steps = np.round(2 ** np.arange(0, exponent + 0.01, 0.37)).astype(np.int64)
    np.testing.assert_allclose(levels.row_norms(steps), again.row_norms(steps).astype(float), rtol=1e-10)


def test_levels_are_the_eleven_leading_bits():
    t = np.arange(1, 2**13)
    leading = [int(bin(s)[2:13], 2) << max(s.bit_length() - 11, 0) for s in t.tolist()]
    starts, widths = levels_to(2**13 - 1)
    assert starts[level_of(t)].tolist() == leading
    assert (t < starts[level_of(t)] + widths[level_of(t)]).all()
    assert levels_to(2**50)[1][-1] == 1  # the limit itself opens an octave


@pytest.mark.heavy
def test_limits():
    assert AnytimeToeplitz().horizon == 2**40
    assert AnytimeToeplitz(5) == AnytimeToeplitz(2**20)
    assert AnytimeToeplitz(2**20 + 1) == AnytimeToeplitz(2**24)
    m = AnytimeToeplitz(2**20)
    assert m.variance(2**20) <= m.max_variance() < 1.27 * 30.03
    assert m.mean_variance() == pytest.approx(m.variance().mean(), rel=1e-4)
    assert m.max_variance() == pytest.approx(m.variance().max(), rel=1e-4)
    with pytest.raises(HorizonExceeded):
        m.variance(2**20 + 1)
    with pytest.raises(InvalidArgument, match=r"limit must be at most 2\*\*50, got"):
        AnytimeToeplitz(2**50 + 1)
    with pytest.raises(InvalidArgument, match=r"limit must be a whole number of at least 1, got 2\.5"):
        AnytimeToeplitz(2.5)
    with pytest.raises(NoiseLawError, match="Gaussian noise only"):
        AnytimeToeplitz(noise="laplace")


@pytest.mark.parametrize(("times", "separation"), [(2, 1), (3, 2), (10, 1)])
def test_participation_against_brute_force(times, separation):
    m = AnytimeToeplitz(2**20)
    _, R = m.factors(12)
    gram = np.abs(R.T @ R)
    worst = max(
        gram[np.ix_(pattern, pattern)].sum()
        for pattern in itertools.combinations(range(12), times)
        if all(b - a >= separation for a, b in itertools.pairwise(pattern))
    )
    participation = Participation(times, separation)
    assert worst**0.5 <= m.sensitivity(participation)
    assert not m.sensitivity_is_exact(participation)
