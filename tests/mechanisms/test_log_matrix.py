"""The log-matrix: coefficients against ball arithmetic, the infinite sum against two other computations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from flint import acb, arb, arb_series, ctx

from dpstream import Participation
from dpstream.errors import HorizonRequired, InvalidArgument, NoiseLawError
from dpstream.mechanisms.log_matrix import LogMatrix
from dpstream.mechanisms.toeplitz import series_product
from tests.mechanisms.test_square_root import inverse_in_long_double


def test_the_coefficients_are_those_of_the_power_series() -> None:
    terms, precision, cap = 400, ctx.prec, ctx.cap
    ctx.prec, ctx.cap = 300, terms
    try:
        log_P = arb_series([arb(1) / (k + 1) for k in range(terms + 1)]).log()
        Q = arb_series([2 * log_P[k + 1] for k in range(terms - 1)])
        log_root = arb_series([1, -1]).log() * arb("-0.5")
        R = (log_P * arb(-2.203) + Q.log() * arb(3.169) + log_root).exp()
        L = (log_P * arb(2.203) - Q.log() * arb(3.169) + log_root).exp()
        right, left = ([float(series[k]) for k in range(terms - 2)] for series in (R, L))
    finally:
        ctx.prec, ctx.cap = precision, cap
    m = LogMatrix()
    assert m._right(terms - 2) == pytest.approx(right, rel=1e-11)
    assert m.coefficients(terms - 2) == pytest.approx(left, rel=1e-11)


def test_left_times_right_is_the_prefix_sum_for_a_quarter_million_steps() -> None:
    m, T = LogMatrix(), 2**18
    assert np.abs(series_product(m.coefficients(T), m._right(T), T) - 1.0).max() < 1e-9


def test_a_coefficient_never_changes_as_the_stream_grows() -> None:
    m = LogMatrix()
    early = m.coefficients(1000).copy()
    assert m.coefficients(5000)[:1000].tobytes() == early.tobytes()
    assert m.coefficients(10).tobytes() == early[:10].tobytes()
    assert early[0] == 1.0


def parseval_by_balls(gamma: float, delta: float) -> float:
    """The same integral by rigorous quadrature on other variables, without the last 1e-9 of the circle."""
    g, d, i, pi = acb(gamma), acb(delta), acb(0, 1), acb.pi()

    def near_minus_one(theta: Any, _: Any) -> Any:
        z, w = (i * theta).exp(), (-i * theta).exp()
        P, P_conjugate = -(1 - z).log() / z, -(1 - w).log() / w
        Q, Q_conjugate = 2 * P.log() / z, 2 * P_conjugate.log() / w
        return (P * P_conjugate).pow(g) * (Q * Q_conjugate).pow(d) / ((1 - z) * (1 - w)).sqrt()

    def near_one(v: Any, _: Any) -> Any:
        u = v.exp()
        half_chord = (-u).exp() / 2
        theta = 2 * half_chord.asin()
        z, w = (i * theta).exp(), (-i * theta).exp()
        P, P_conjugate = (u + i * (pi - theta) / 2) / z, (u - i * (pi - theta) / 2) / w
        Q, Q_conjugate = 2 * P.log() / z, 2 * P_conjugate.log() / w
        return (P * P_conjugate).pow(g) * (Q * Q_conjugate).pow(d) * u / (1 - half_chord**2).sqrt()

    split = -math.log(2 * math.sin(0.005))
    total = acb.integral(near_minus_one, acb("0.01"), pi * acb("0.999999999"))
    total += acb.integral(near_one, acb(math.log(split)), acb(14))
    return float((total / pi).real.mid())


def test_the_sensitivity_is_the_infinite_sum_and_never_less() -> None:
    m = LogMatrix()
    squared = m.sensitivity() ** 2
    balls = parseval_by_balls(-2.203, 3.169)
    assert balls < squared < balls * (1 + 1e-8)
    # A sum that stops too early gives 6.343; the variances agree with 6.3546.
    assert squared == pytest.approx(6.35455, abs=1e-5)


def test_the_partial_sums_leave_a_tail_of_the_size_that_the_asymptotics_predict() -> None:
    m, N = LogMatrix(), 2**18
    r = m._right(2 * N)
    tail = m.sensitivity() ** 2 - float(r[:N] @ r[:N])
    # r_k ~ (πk)^(-1/2) u^γ (2 ln u)^δ with u = ln k + shift: fitted at one point, it predicts the whole tail.
    last = 2 * N - 1

    def times_k(log_k: Any, shift: Any) -> Any:
        u = log_k + shift
        return u**-4.406 * (2 * np.log(u)) ** 6.338 / np.pi

    shifts = np.linspace(0.0, 6.0, 601)
    shift = shifts[np.argmin(np.abs(times_k(np.log(last), shifts) - last * r[-1] ** 2))]
    v = np.linspace(np.log(N), 3000.0, 3_000_001)
    assert tail == pytest.approx(float(np.trapezoid(times_k(v, shift), v)), rel=0.02)
    assert tail > float(r[N:] @ r[N:])


def test_the_sensitivity_covers_the_inverse_of_the_stored_doubles() -> None:
    m, T = LogMatrix(), 2**16
    r = inverse_in_long_double(m.coefficients(T))
    assert np.abs(r.astype(float) / m._right(T) - 1).max() < 1e-10


def test_variances() -> None:
    m = LogMatrix()
    assert [m.variance(2**k) for k in (10, 16)] == pytest.approx([16.36, 31.97], abs=0.01)
    assert m.max_variance(1024) == pytest.approx(m.variance(1024), rel=1e-12)
    with pytest.raises(HorizonRequired, match="LogMatrix has no horizon"):
        m.max_variance()


@pytest.mark.parametrize(("times", "separation"), [(2, 1), (3, 5), (5, 100), (40, 2000)])
def test_several_steps_cost_at_most_the_bound(times: int, separation: int) -> None:
    m, often = LogMatrix(), Participation(times, separation)
    r = m._right(2**18)
    column = np.zeros(r.size)
    for i in range(times):
        column[i * separation :] += r[: r.size - i * separation]
    assert float(column @ column) ** 0.5 < m.sensitivity(often) <= times * m.sensitivity() * (1 + 1e-12)
    assert not m.sensitivity_is_exact(often)
    if separation >= 100:
        assert m.sensitivity(often) < 0.9 * times * m.sensitivity()


def test_other_powers() -> None:
    m = LogMatrix(gamma=-1, delta=0)
    assert repr(m) == "LogMatrix(gamma=-1.0, delta=0.0)"
    assert m == LogMatrix(-1.0, 0.0) != LogMatrix()
    assert m.sensitivity() ** 2 == pytest.approx(1.06792, abs=1e-5)
    L, R = LogMatrix(-0.6, 6.0).factors(50)
    assert pytest.approx(np.tri(50), abs=1e-9) == L @ R


def test_refusals() -> None:
    with pytest.raises(NoiseLawError, match="LogMatrix has real coefficients"):
        LogMatrix(noise="laplace")
    for gamma in (-0.5, 0.0, float("nan"), True, "1"):
        with pytest.raises(InvalidArgument, match=r"gamma must be a number from -4\.0 to -0\.6"):
            LogMatrix(gamma=gamma)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r"delta must be a number from 0\.0 to 6\.0, got 7"):
        LogMatrix(delta=7)
