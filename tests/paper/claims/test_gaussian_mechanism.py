import math

import pytest
from dp_accounting import rdp

from dpstream.paper.claims.gaussian_mechanism import _any_zcdp, _conversion, _divergence, _lemma_2_5


@pytest.mark.parametrize("order", [1.01, 2.0, 20.0])
def test_divergence_is_the_closed_form(order):
    assert _divergence(order, 3.0, 2.0) == pytest.approx(order * 9 / 8, rel=1e-9)


def test_too_little_noise_differs():
    assert _lemma_2_5(True).verdict == "agrees"
    assert _lemma_2_5(True, lambda rho, move: 0.999 * move / math.sqrt(2 * rho)).verdict == "differs"


def test_a_conversion_that_promises_too_much_differs():
    broken = _conversion(True, lambda rho, delta: rho + math.sqrt(rho * math.log(1 / delta)))
    assert broken.verdict == "differs"


@pytest.mark.parametrize(("rho", "delta"), [(0.5, 1e-6), (0.01, 1e-9), (4.0, 1e-3)])
def test_the_best_order_against_an_independent_accountant(rho, delta):
    orders = [1 + math.exp(x / 200) for x in range(-1000, 1600)]
    epsilon, _ = rdp.compute_epsilon(orders, [rho * order for order in orders], delta)
    assert _any_zcdp(rho, delta) == pytest.approx(epsilon, rel=1e-4)


def test_known_numbers(claims):
    row = next(row for row in claims["zcdp-to-approx-dp"].rows if row["ρ"] == 10 and row["δ"] == 1e-6)
    assert row["stated ε"] == pytest.approx(10 + 2 * math.sqrt(10 * math.log(1e6)))
    assert row["Gaussian ε"] < row["any zCDP ε"] < row["stated ε"]
