import numpy as np
import pytest

from dpstream.mechanisms import SmoothBinary
from dpstream.paper.claims.sensitivity_of_releases import _exact_squared_sensitivity, _sensitivity_of_releases


class Understated(SmoothBinary):
    """One part in a thousand too cheap."""

    def _sensitivity(self, participation):
        stated, exact = super()._sensitivity(participation)
        return 0.999 * stated, exact


def test_v_at_250(claims):
    row = next(row for row in claims["sensitivity-of-releases"].rows if row["T"] == 250)
    assert row["V, paper"] == pytest.approx(25)
    assert row["V, same tree"] == pytest.approx(
        float(5 * _exact_squared_sensitivity(SmoothBinary.paper(250))), rel=1e-11
    )
    assert round(row["V, same tree"], 2) == 16.76


def test_the_exact_squared_sensitivity_against_dense_matrices():
    L, _ = SmoothBinary.paper(69).factors()
    A = np.tri(69)
    dense = (A * np.linalg.solve(L @ L.T, A)).sum(axis=0).max()
    assert float(_exact_squared_sensitivity(SmoothBinary.paper(69))) == pytest.approx(dense, rel=1e-10)


def test_a_sensitivity_a_thousandth_too_low_differs():
    def build(horizon, zeros, ones):
        return Understated(horizon, padded=True, sensitivity_of="releases", zeros=zeros, ones=ones)

    assert _sensitivity_of_releases(True, build).verdict == "differs"


def test_the_same_sensitivity_for_other_noise_differs():
    """Without padding the noise is another, and the low sensitivity does not hold."""

    class Unpadded(SmoothBinary):
        def _sensitivity(self, participation):
            return SmoothBinary(self.horizon, padded=True, zeros=self.zeros, ones=self.ones)._sensitivity(participation)

    def build(horizon, zeros, ones):
        return Unpadded(horizon, padded=False, sensitivity_of="releases", zeros=zeros, ones=ones)

    claim = _sensitivity_of_releases(True, build)
    assert claim.verdict == "differs"
    assert claim.sharper == ""
