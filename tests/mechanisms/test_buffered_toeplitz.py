"""Buffered Toeplitz: closed forms against sums, the sensitivity against inverted doubles, long horizons."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import arb

from dpstream.errors import HorizonExceeded, InvalidArgument, NoiseLawError
from dpstream.mechanisms.buffered_toeplitz import BufferedToeplitz
from dpstream.mechanisms.exponentials import Exponentials
from dpstream.mechanisms.square_root import SquareRoot
from dpstream.mechanisms.toeplitz import column_weights, series_product
from tests.mechanisms.test_square_root import inverse_in_long_double

SHAPES = [(1, 1), (2, 3), (7, 8), (250, 1), (250, 4), (1023, 16), (4096, 6)]


@pytest.mark.parametrize(("T", "buffers"), SHAPES)
def test_the_inverse_of_the_stored_factor_costs_what_is_stated(T: int, buffers: int) -> None:
    for normalized in (False, True):
        m = BufferedToeplitz(T, buffers, normalized)
        # L as the stored doubles denote it, powers of 1 - gap taken exactly enough in long double.
        theta = 1 - m.gaps.astype(np.longdouble)
        powers = theta[:, None] ** np.arange(T)
        left = (m.weights.astype(np.longdouble)[:, None] * powers).sum(axis=0)
        left[0] = 1
        r = inverse_in_long_double(left)
        w = 1 / m.input_scale(1, T).astype(np.longdouble) ** 2
        columns = np.array([float((r[: T - j] ** 2 * w[j:]).sum()) for j in range(0, T, max(1, T // 256))])
        assert columns.max() ** 0.5 <= m.sensitivity() <= columns.max() ** 0.5 * (1 + 1e-8)


@pytest.mark.parametrize("normalized", [False, pytest.param(True, marks=pytest.mark.heavy)])
def test_a_million_steps(normalized: bool) -> None:
    T = 2**20
    m = BufferedToeplitz(T, normalized=normalized)
    assert m.gaps.size == m.buffers == m.memory == 6
    assert m.sensitivity() >= 1.0
    assert m.input_scale(1, 1) > 0

    lags = np.arange(T, dtype=np.float64)
    left, right = m._left.at(lags), m._right.at(lags)
    assert np.abs(series_product(left, right, T) - 1.0).max() < 1e-9
    assert np.all(np.diff(left) < 0)
    assert np.all(np.diff(right) < 0)

    r = inverse_in_long_double(left)
    w = 1 / m.input_scale(1, T).astype(np.longdouble) ** 2
    for first in (0, 1, 1000, T // 2, T - 1000, T - 2, T - 1):
        assert float((r[: T - first] ** 2 * w[first:]).sum()) ** 0.5 < m.sensitivity()
    assert m.max_variance() <= (28.01 if normalized else 30.1)
    assert m.max_variance() <= 1.0035 * SquareRoot(T, normalized=normalized).max_variance()


@pytest.mark.parametrize("buffers", [3, 4, 6, 8])
@pytest.mark.parametrize("T", [7, 250, 4096])
def test_normalised_columns_all_have_norm_one(T: int, buffers: int) -> None:
    m = BufferedToeplitz(T, buffers)
    steps = np.arange(T, dtype=np.float64)
    r, u = m._right.at(steps), m._columns.at(steps)
    assert series_product(r * r, u, T) == pytest.approx(np.ones(T), abs=1e-12)
    assert u == pytest.approx(column_weights(r), rel=1e-12)
    assert np.all(np.diff(u) < 0)


def test_one_scale_at_a_time_is_the_same_double_as_all_at_once() -> None:
    m = BufferedToeplitz(2**18)
    at_once = m.input_scale(1, 2**18)
    for t in (1, 2, 1000, 77_777, 2**18 - 30, 2**18):
        assert m.input_scale(t, 1)[0] == at_once[t - 1]
    assert m.input_scale(100, 50).tobytes() == at_once[99:149].tobytes()


def test_closed_forms_are_the_sums() -> None:
    e = Exponentials(np.array([0.0, 0.01, 0.5]), np.array([0.2, 0.3, 0.1]))
    terms = e.at(np.arange(300, dtype=np.float64))
    assert terms[:2] == pytest.approx([1.0, 0.2 + 0.3 * 0.99 + 0.1 * 0.5])
    for count, lag in ((1, 0), (1, 3), (17, 0), (200, 0), (200, 5), (120, 100)):
        assert e.products(count, lag) == pytest.approx(terms[:count] @ terms[lag : lag + count], rel=1e-13)


@pytest.mark.heavy
@pytest.mark.parametrize("normalized", [False, True])
def test_long_horizons_are_integrated_as_short_ones_are_summed(
    normalized: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dpstream import Participation
    from dpstream.mechanisms import buffered_toeplitz

    T, steps, often = 2**17, 100_000, Participation(times=9, separation=1000)
    summed = BufferedToeplitz(T, 4, normalized)
    expected = (
        summed.max_variance(),
        summed.mean_variance(),
        summed.max_variance(steps),
        summed.mean_variance(steps),
    )
    stated = summed.sensitivity(often)
    assert summed.sensitivity_is_exact(often)
    assert [summed.variance(t) for t in (1, 50_000, T)] == pytest.approx(
        summed.variance()[[0, 49_999, T - 1]], rel=1e-9
    )
    monkeypatch.setattr(buffered_toeplitz, "STEP_BY_STEP", 1)
    m = BufferedToeplitz(T, 4, normalized)
    found = m.max_variance(), m.mean_variance(), m.max_variance(steps), m.mean_variance(steps)
    assert found == pytest.approx(expected, rel=1e-6)
    assert stated <= m.sensitivity(often) <= 1.05 * stated
    assert not m.sensitivity_is_exact(often)


def test_a_trillion_steps() -> None:
    m = BufferedToeplitz(2**40)
    assert m.buffers == 8
    assert np.all(m.weights > 0)
    assert np.all(np.diff(m.gaps) > 0)
    assert m.variance(2**39) == pytest.approx(96.4, rel=0.01)
    left, right, u = (e.at(np.arange(4096.0)) for e in (m._left, m._right, m._columns))
    assert series_product(left, right, 4096) == pytest.approx(np.ones(4096), abs=1e-12)
    assert series_product(right**2, u, 4096) == pytest.approx(np.ones(4096), abs=1e-12)


class Rational:
    """A number that knows nothing but + and - among its kind and * by a float, and makes no error."""

    def __init__(self, value: Fraction) -> None:
        self.value = value

    def __add__(self, other: Rational) -> Rational:
        return Rational(self.value + other.value)

    def __sub__(self, other: Rational) -> Rational:
        return Rational(self.value - other.value)

    def __mul__(self, factor: float) -> Rational:
        assert type(factor) is float
        return Rational(self.value * Fraction(factor))


@pytest.mark.parametrize("m", [BufferedToeplitz(12), SquareRoot(12, normalized=True)], ids=repr)
def test_the_pure_step_serves_exact_numbers_and_balls(m: Any) -> None:
    L = m.factors()[0]
    for column in (0, 3, 11):
        rational, ball = m.start(), m.start()
        for t in range(1, 13):
            unit = int(t - 1 == column)
            exact, rational = m.advance(rational, [Rational(Fraction(unit))])
            enclosure, ball = m.advance(ball, [arb(unit)])
            assert float(exact.value) == pytest.approx(L[t - 1, column], abs=1e-15)
            assert abs(float(enclosure.mid()) - float(exact.value)) < 1e-14


def test_how_many_buffers() -> None:
    assert [BufferedToeplitz(T).buffers for T in (1, 4, 15, 16, 2**16, 2**16 + 1, 2**20, 2**20 + 1)] == [
        1, 2, 3, 4, 4, 6, 6, 8,
    ]  # fmt: skip
    for T in (1, 2, 4, 5, 15, 16, 100):
        assert BufferedToeplitz(T).max_variance() <= 1.01 * SquareRoot(T, normalized=True).max_variance()
    assert BufferedToeplitz(100) == BufferedToeplitz(100, buffers=4) != BufferedToeplitz(100, buffers=5)
    assert repr(BufferedToeplitz(100)) == "BufferedToeplitz(horizon=100, buffers=4, normalized=True)"


def test_refusals() -> None:
    with pytest.raises(NoiseLawError, match="BufferedToeplitz has real coefficients"):
        BufferedToeplitz(10, noise="laplace")
    with pytest.raises(InvalidArgument, match="buffers must be at most 16, got 17"):
        BufferedToeplitz(10, 17)
    for buffers in (0, 1.5, True, float("nan")):
        with pytest.raises(InvalidArgument, match="buffers must be a whole number of at least 1"):
            BufferedToeplitz(10, buffers)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="normalized must be True or False, got None"):
        BufferedToeplitz(10, normalized=None)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="horizon must be at most 1099511627776"):
        BufferedToeplitz(2**41)
    m = BufferedToeplitz(1)
    _, state = m.advance(m.start(), [0.5])
    with pytest.raises(HorizonExceeded, match="step 2 is past the horizon"):
        m.advance(state, [0.5])
    with pytest.raises(ValueError, match="read-only"):
        m.gaps[0] = 0.5
