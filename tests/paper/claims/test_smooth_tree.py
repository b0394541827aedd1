from math import comb

import pytest

from dpstream.mechanisms import SmoothBinary
from dpstream.paper.claims.pure_privacy import _pure_dp
from dpstream.paper.claims.smooth_tree import _algorithm_2, _choice_of_k, best_fraction, leading_constant


class Understated(SmoothBinary):
    def _sensitivity(self, participation):
        stated, exact = super()._sensitivity(participation)
        return (stated**2 - 0.5) ** 0.5, exact


class ForgetsANode(SmoothBinary):
    def nodes(self, t):
        return super().nodes(t)[:-1] if t == self.horizon else super().nodes(t)


@pytest.mark.parametrize("broken", [Understated, ForgetsANode])
def test_a_broken_tree_differs(broken):
    assert _algorithm_2(True).verdict == "sharpened"

    def build(horizon, zeros, ones):
        return broken(horizon, padded=True, sensitivity_of="nodes", zeros=zeros, ones=ones)

    assert _algorithm_2(True, build).verdict == "differs"


def test_zeros_that_nobody_reads():
    """2^16 + 1 leaves fit into 9 zeros and 10 ones: every label of the paper's tree starts with a zero."""
    assert comb(19, 9) >= 2**16 + 1
    assert "2^16 (1 of 10 zeros) and 2^20 (1 of 12 zeros)" in _algorithm_2(True).sharper
    assert "90 instead of 100 and 132 instead of 144" in _algorithm_2(True).sharper


def test_the_best_zeros_and_ones_by_trying_all(claims):
    for row in claims["choice-of-k"].rows:
        T = int(row["T"])
        if T < 10**4:
            tried = [a * b for a in range(1, 40) for b in range(1, T + 1) if comb(a + b, a) >= T + 1 and a * b < 200]
            assert row["V"] == min(tried)


def test_half_is_not_best_for_another_sensitivity():
    assert _choice_of_k(True, 1.5).verdict == "differs"


def test_best_fractions():
    for cost, expected in ((1.0, 0.5), (2.0, 0.8396)):
        best, least = best_fraction(cost)
        assert best == pytest.approx(expected, abs=5e-5)
        assert all(leading_constant(best + step, cost) > least for step in (-0.01, 0.01))


def test_pure_dp_by_trying_all(claims):
    """With ℓ1 sensitivities V = a²b; the claim fails if zeros cost no more than ones."""
    for row in claims["pure-dp"].rows[:3]:
        T = int(row["T"])
        tried = [a**2 * b for a in range(1, 12) for b in range(1, 80) if comb(a + b, a) >= T + 1]
        assert row["V"] == min(tried) == row["zeros"] ** 2 * row["ones"]
    assert _pure_dp(True, 1.0).verdict == "differs"
