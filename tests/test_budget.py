"""Budgets: exact conversions, calibration, refusals."""

import math
from dataclasses import dataclass

import dp_accounting
import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

import dpstream as dp
from dpstream import gaussian_curve, mechanisms
from dpstream.budget import noise_scale
from dpstream.errors import BudgetError, InvalidArgument, NoiseLawError
from dpstream.gaussian_curve import gaussian_delta, gaussian_epsilon, gaussian_mu


def exact_delta(mu: float, epsilon: float) -> mpmath.mpf:
    """The formula of Balle and Wang, in 60 digits."""
    with mpmath.workdps(60):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        return mpmath.ncdf(-e / m + m / 2) - mpmath.exp(e) * mpmath.ncdf(-e / m - m / 2)


@pytest.mark.parametrize("mu", [1e-9, 1e-4, 0.1, 0.49, 0.51, 1.0, 5.0, 100.0, 1e4])
@pytest.mark.parametrize("deviations", [-20.0, -1.1, -0.9, 0.0, 1.0, 7.9, 8.1, 30.0])
def test_delta_agrees_with_sixty_digits(mu, deviations):
    epsilon = mu * (deviations + mu / 2)
    if epsilon > 0:
        expected = exact_delta(mu, epsilon)
        assert gaussian_delta(mu, epsilon) == pytest.approx(float(expected), rel=1e-10)


@settings(deadline=None)  # the first call loads what it compares with
@given(st.floats(-6, 2), st.floats(-30, -0.5))
def test_roots_are_those_of_scipy_to_the_last_bit(size, delta):
    """Brent's method stands in the library, since importing scipy.optimize takes half a second."""

    def by_scipy(f, a, b):
        return brentq(f, a, b, xtol=1e-300, rtol=1e-14, maxiter=500)

    with pytest.MonkeyPatch.context() as patched:
        ours = gaussian_mu(10**size, 10**delta), gaussian_epsilon(10**size, 10**delta)
        patched.setattr(gaussian_curve, "_root", by_scipy)
        assert ours == (gaussian_mu(10**size, 10**delta), gaussian_epsilon(10**size, 10**delta))


@pytest.mark.parametrize("rho", [1e-8, 1e-4, 0.01, 0.5, 5.0, 50.0, 500.0])
@pytest.mark.parametrize("delta", [1e-15, 1e-9, 1e-6, 1e-3])
def test_epsilon_agrees_with_dp_accounting(rho, delta):
    ours = dp.zcdp(rho).to_approx_dp(delta=delta).epsilon if delta < gaussian_delta(math.sqrt(2 * rho), 0) else 0.0
    theirs = dp_accounting.get_epsilon_gaussian(1 / math.sqrt(2 * rho), delta)
    # Their root search stops at an absolute error of about 1e-12 in log delta terms and 1e-10 in epsilon.
    assert ours == pytest.approx(theirs, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("delta", [1e-15, 1e-9, 1e-6, 1e-3])
def test_sigma_agrees_with_dp_accounting(epsilon, delta):
    ours = dp.approx_dp(epsilon, delta).scale(sensitivity=1.0)
    assert ours == pytest.approx(dp_accounting.get_sigma_gaussian(epsilon, delta), rel=1e-6)


@given(st.floats(1e-6, 1e3), st.floats(1e-15, 0.5))
def test_conversion_goes_both_ways(rho, delta):
    mu = math.sqrt(2 * rho)
    epsilon = gaussian_epsilon(mu, delta)
    if epsilon > 1e-12:
        assert gaussian_delta(mu, epsilon) == pytest.approx(delta, rel=1e-8)
        assert gaussian_mu(epsilon, delta) == pytest.approx(mu, rel=1e-8)


def test_the_tight_formula_beats_the_general_one():
    rho, delta = 0.5, 1e-6
    general = rho + 2 * math.sqrt(rho * math.log(1 / delta))
    assert dp.zcdp(rho).to_approx_dp(delta=delta).epsilon < 0.9 * general


def test_scale_of_each_budget():
    assert dp.zcdp(rho=2).scale(3.0) == pytest.approx(1.5)
    assert dp.pure_dp(epsilon=2).scale(3.0) == pytest.approx(1.5)
    assert dp.zcdp(rho=0.5).to_approx_dp(epsilon=1.0).delta == pytest.approx(float(exact_delta(1.0, 1.0)))


def test_noise_scale_follows_per_person_and_participation():
    mechanism = dp.mechanisms.Binary(1000)
    once = noise_scale(mechanism, dp.zcdp(0.5))
    assert once == pytest.approx(math.sqrt(10))
    assert noise_scale(mechanism, dp.zcdp(0.5), per_person=7.0) == pytest.approx(7 * once)
    thrice = noise_scale(mechanism, dp.zcdp(0.5), participation=dp.Participation(times=3))
    assert once < thrice <= 3 * once * (1 + 1e-9)


def test_noise_law_must_fit_the_budget():
    with pytest.raises(NoiseLawError, match=r"PureDP\(epsilon=1.0\) needs laplace noise"):
        noise_scale(dp.mechanisms.Binary(10), dp.pure_dp(1))


@pytest.mark.parametrize("rho", [0, -1, math.nan, math.inf, "1", None, True])
def test_bad_rho(rho):
    with pytest.raises(BudgetError, match=r"rho must be a positive, finite number, got"):
        dp.zcdp(rho)


@pytest.mark.parametrize("delta", [0, 1, 1.5, -1e-9, math.nan, "small", True])
def test_bad_delta(delta):
    with pytest.raises(BudgetError, match=r"delta must be a number strictly between 0 and 1, got"):
        dp.approx_dp(1.0, delta)


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, "1", True])
@pytest.mark.parametrize("make", [dp.pure_dp, lambda e: dp.approx_dp(e, 1e-6)])
def test_bad_epsilon(make, epsilon):
    with pytest.raises(BudgetError, match=r"epsilon must be a positive, finite number, got"):
        make(epsilon)


def test_bad_per_person():
    with pytest.raises(InvalidArgument, match=r"per_person must be a positive, finite number, got nan"):
        noise_scale(dp.mechanisms.Binary(10), dp.zcdp(1), per_person=math.nan)


def test_one_of_epsilon_and_delta():
    with pytest.raises(BudgetError, match="exactly one of the two"):
        dp.zcdp(1).to_approx_dp()


@dataclass(frozen=True)
class Nudged(mechanisms.SquareRoot):
    """A mechanism whose sensitivity another computer finds a little different."""

    nudge: float = 0.0

    def _sensitivity(self, participation):
        value, exact = super()._sensitivity(participation)
        return value * (1 + self.nudge), exact


@pytest.mark.parametrize("budget", [dp.zcdp(0.5), dp.approx_dp(1, 1e-6), dp.zcdp(1e-7)])
@pytest.mark.parametrize("horizon", [7, 100, 1000])
def test_the_scale_does_not_depend_on_last_digits(budget, horizon):
    exact = budget.scale(mechanisms.SquareRoot(horizon).sensitivity() * 3)
    for nudge in (-4e-15, 0.0, 4e-15):
        scale = noise_scale(Nudged(horizon, nudge=nudge), budget, per_person=3)
        assert scale == noise_scale(mechanisms.SquareRoot(horizon), budget, per_person=3)
        assert exact <= scale <= exact * (1 + 2**-31)
        assert (scale * 2.0**31 / 2.0 ** (math.frexp(scale)[1] - 1)).is_integer()


@pytest.mark.parametrize("per_person", [1e-300, 1e300])
def test_scales_at_the_ends_of_the_doubles_are_left_alone(per_person):
    scale = noise_scale(mechanisms.Binary(7), dp.zcdp(0.5), per_person=per_person)
    assert scale == pytest.approx(math.sqrt(3) * per_person, rel=1e-9)
    assert scale >= math.sqrt(3) * per_person
