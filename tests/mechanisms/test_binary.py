"""The binary mechanism."""

import numpy as np
import pytest

from dpstream.errors import HorizonExceeded, InvalidArgument
from dpstream.mechanisms import Binary
from dpstream.mechanisms.binary import bit_counts, heaviest
from dpstream.participation import Participation
from tests.mechanisms.tree_checks import check_participation, check_walk


@pytest.mark.parametrize("horizon", [1, 2, 7, 8, 100, 255])
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_cursor_entries_moves_and_steps_agree(horizon, noise):
    check_walk(Binary(horizon, noise=noise), horizon)


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("horizon", [1, 6, 16])
def test_repeated_participation(horizon, noise):
    check_participation(Binary(horizon, noise=noise), horizon)


def test_participation_is_tighter_than_the_pairwise_bound():
    """Σ g(|i-j|s) with g(0) = h, g(d) = h - 1 - floor(log2 d) is safe, ours is smaller."""
    m, times, separation = Binary(1023), 64, 16
    pairwise = sum(
        10 if i == j else max(0, 9 - (abs(i - j) * separation).bit_length() + 1)
        for i in range(times)
        for j in range(times)
    )
    assert m.sensitivity(Participation(times, separation)) ** 2 < 0.4 * pairwise
    assert not m.sensitivity_is_exact(Participation(times, separation))


def test_laplace_variance_is_the_square_of_the_height():
    np.testing.assert_allclose(Binary(7, noise="laplace").variance(), [9, 9, 18, 9, 18, 18, 27])


def test_astronomic_horizon():
    m = Binary(10**12)
    assert m.max_variance() == pytest.approx(40 * 39)
    assert m.variance(2**39 - 1) == pytest.approx(40 * 39)
    assert m.moves(10**12 - 2, 3).pops.tolist() == [1, 0, 12]


def test_extremes_against_counting():
    for last in (1, 2, 12, 13, 64, 100, 127, 1000):
        t = np.arange(1, last + 1)
        bits = t[:, None] >> np.arange(10) & 1
        assert bit_counts(last) == bits.sum(axis=0)[: last.bit_length()].tolist()
        weights = 1 / np.arange(1, 11)
        assert heaviest(last, weights.tolist()) == pytest.approx((bits @ weights).max())


@pytest.mark.parametrize("horizon", [0, -1, 2.5, True, float("nan"), "10"])
def test_bad_horizon(horizon):
    with pytest.raises(InvalidArgument, match=r"horizon must be a whole number of at least 1, got"):
        Binary(horizon)


def test_bad_noise_and_steps():
    with pytest.raises(InvalidArgument, match=r"noise must be 'gaussian' or 'laplace', got 'uniform'"):
        Binary(10, noise="uniform")
    with pytest.raises(HorizonExceeded, match="step 11 is past the horizon"):
        Binary(10).moves(9, 3)
    with pytest.raises(InvalidArgument, match="first must be a whole number of at least 1, got 0"):
        Binary(10).moves(0, 3)
    assert Binary(10).moves(3, 0).pops.size == 0
