"""The audit works out what is promised by itself: a wrong budget cannot talk it round."""

import math

import pytest

from dpstream import approx_dp, budget, pure_dp, zcdp
from dpstream.audit import audit, one_changed_step
from dpstream.audit.gaussian_curve import delta_of, epsilon_of, mu_of
from dpstream.audit.promise import Promise
from dpstream.errors import InvalidArgument, NoiseLawError
from dpstream.mechanisms import Binary

from . import subjects

#: As `tests/audit/test_negative_controls.py`: a sound release is called violated with a chance of at most this.
RISK = 1e-7


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 10.0, 100.0])
@pytest.mark.parametrize("delta", [0.3, 1e-6, 1e-30])
def test_the_two_computations_of_the_gaussian_curve_agree(epsilon, delta):
    mu = mu_of(epsilon, delta)
    assert mu == pytest.approx(budget.gaussian_mu(epsilon, delta), rel=1e-12)
    assert delta_of(mu, epsilon) == pytest.approx(delta, rel=1e-11)
    assert epsilon_of(mu, delta) == pytest.approx(epsilon, rel=1e-10)


def test_a_distance_below_every_epsilon_needs_none():
    assert epsilon_of(1e-9, 1e-6) == 0.0
    assert epsilon_of(0.0, 1e-6) == 0.0


def test_promises_are_the_numbers_that_were_given():
    assert (Promise(zcdp(0.5)).value, Promise(zcdp(0.5)).mu) == (0.5, 1.0)
    assert Promise(approx_dp(1.0, 1e-6)).value == 1.0
    assert Promise(approx_dp(1.0, 1e-6)).part(1.0) == pytest.approx(1.0)
    assert Promise(pure_dp(2.0)).value == 2.0
    with pytest.raises(NoiseLawError, match="no Gaussian mechanism"):
        _ = Promise(pure_dp(2.0)).mu
    with pytest.raises(InvalidArgument, match="no other can be audited"):
        Promise(budget.Budget)


@pytest.mark.parametrize(
    ("promised", "method"), [(zcdp(4.5), "mu"), (approx_dp(15.0, 1e-5), "mu"), (pure_dp(1.0), "scale")]
)
@pytest.mark.parametrize(("off", "size"), [(1.05, 61), (1 / 1.1, 67)])
def test_a_budget_that_is_off_by_a_few_percent_is_noticed(monkeypatch, promised, method, off, size):
    """μ 5 % (a pure ε: 10 %) too large is violated; 10 % too small, and the promise is certainly not spent.

    Scales are cached by settings: no other test uses these sizes, and would be given these wrong scales.
    """
    kind = type(promised)
    if method == "mu":
        right = kind.mu.fget
        monkeypatch.setattr(kind, "mu", property(lambda self: off * right(self)))
    else:
        off = 1.1 if off > 1 else off
        monkeypatch.setattr(kind, "scale", lambda self, sensitivity: sensitivity / (off * self.epsilon))
    settings = {"horizon": 3, "mechanism": Binary(3, noise=promised.noise), "budget": promised, "bound": size}
    found = audit(
        subjects.counters(f"off {off} {promised}", **settings),
        one_changed_step(3, size),
        promised,
        100_000 if method == "mu" else 300_000,
        1 - RISK,
    )
    if off > 1:
        assert found.verdict == "violated", str(found)
        assert math.isclose(found.promised, getattr(promised, "rho", getattr(promised, "epsilon", None)))
    else:
        assert found.at_most < found.promised, str(found)
