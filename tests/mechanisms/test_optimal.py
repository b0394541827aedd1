"""The optimal mechanism: certificates, speed, sensitivity, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from dpstream import Participation
from dpstream.errors import InvalidArgument, NoiseLawError
from dpstream.mechanisms.buffered_toeplitz import BufferedToeplitz
from dpstream.mechanisms.optimal import Optimal
from dpstream.mechanisms.square_root import SquareRoot


def test_the_certificate_of_250_steps() -> None:
    m = Optimal(250)
    assert 6.3777 < m.certificate.lower < 6.3779
    assert m.certificate.lower < m.certificate.upper < m.certificate.lower * (1 + 1e-4)
    assert m.max_variance() == pytest.approx(6.378, abs=1e-3)
    assert m.max_variance() == pytest.approx(m.certificate.upper, rel=1e-8)


@pytest.mark.heavy
def test_a_thousand_steps() -> None:
    c = Optimal(1023).certificate
    assert 8.7683 < c.lower < c.upper < 8.7702
    assert c.upper / c.lower - 1 < 2e-4


@pytest.mark.parametrize("T", [1, 2, 3, 7, 31, 32, 33, 100])
def test_no_other_mechanism_beats_the_lower_bound(T: int) -> None:
    m = Optimal(T)
    assert m.certificate.lower <= m.max_variance() <= m.certificate.upper * (1 + 1e-8)
    for other in (SquareRoot(T), SquareRoot(T, normalized=True), BufferedToeplitz(T)):
        assert m.certificate.lower <= other.max_variance() * (1 + 1e-12)
    L, R = m.factors()
    assert pytest.approx(np.tri(T), abs=1e-10) == L @ R
    assert np.linalg.norm(R, axis=0).max() < m.sensitivity()


def test_two_steps_by_hand() -> None:
    assert Optimal(2, tolerance=1e-9).max_variance() == pytest.approx(4 / 3, rel=1e-8)


def test_a_tighter_tolerance_tightens_the_bounds() -> None:
    c = Optimal(60, tolerance=1e-8).certificate
    assert c.upper / c.lower - 1 < 1.1e-8
    assert Optimal(60).certificate.lower <= c.upper


def test_equal_mechanisms_share_the_solution() -> None:
    assert Optimal(90).left is Optimal(90).left
    assert not Optimal(90).left.flags.writeable
    assert Optimal(90) == Optimal(90, tolerance=1e-4) != Optimal(90, tolerance=1e-3)
    assert repr(Optimal(90)) == "Optimal(horizon=90, tolerance=0.0001)"


def test_refusals() -> None:
    with pytest.raises(
        InvalidArgument, match=r"horizon must be at most 4096 \(building costs horizon³; Buff.*got 4097"
    ):
        Optimal(4097)
    for tolerance in (0.0, -1.0, float("nan"), 1.0, True, "1e-4"):
        with pytest.raises(InvalidArgument, match=r"tolerance must be a number from 1e-9 to 0\.1"):
            Optimal(10, tolerance=tolerance)  # type: ignore[arg-type]
    with pytest.raises(NoiseLawError, match="Optimal has real coefficients"):
        Optimal(10, noise="laplace")


def test_several_steps_are_bounded_by_lag() -> None:
    m = Optimal(100)
    often = Participation(times=3, separation=30)
    assert m.sensitivity() < m.sensitivity(often) < 0.8 * 3 * m.sensitivity()
    assert not m.sensitivity_is_exact(often)
