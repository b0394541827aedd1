"""The growing smooth tree."""

import numpy as np
import pytest

from dpstream.errors import InvalidArgument
from dpstream.mechanisms import GrowingSmooth, SmoothBinary
from dpstream.participation import Participation
from tests.mechanisms.tree_checks import check_participation, check_walk, worst_pattern


def test_variance_at_powers_of_two():
    m = GrowingSmooth()
    assert [m.max_variance(2**e) for e in (10, 20, 30)] == pytest.approx([60, 204, 396])


@pytest.mark.parametrize(("noise", "factor"), [("gaussian", 1.72), ("laplace", 2.01)])
def test_not_knowing_the_horizon_costs_less_than_a_constant_factor(noise, factor):
    m = GrowingSmooth(noise=noise)
    for exponent in range(10, 31):
        known = SmoothBinary(2**exponent, noise=noise, padded=False).max_variance()
        assert m.max_variance(2**exponent) <= factor * known


@pytest.mark.parametrize(
    "mechanism",
    [GrowingSmooth(), GrowingSmooth(noise="laplace"), GrowingSmooth(2), GrowingSmooth(4, noise="laplace")],
    ids=repr,
)
def test_cursor_entries_moves_and_steps_agree(mechanism):
    check_walk(mechanism, 300)


def test_moments_over_many_epochs():
    m = GrowingSmooth(3)
    variance = m.sensitivity() ** 2 * m.squared_row_norms(5000)
    assert m.cursor_after(5000)[0] > 5
    for steps in (1, 2, 20, 21, 22, 80, 4999, 5000):
        assert m.max_variance(steps) == pytest.approx(variance[:steps].max())
        assert m.mean_variance(steps) == pytest.approx(variance[:steps].mean())
        assert m.variance(steps) == pytest.approx(variance[steps - 1])


def test_sensitivity_does_not_grow():
    m = GrowingSmooth(4)
    for steps in (1, 50, 700):
        _, R = m.factors(steps)
        assert (R**2).sum(axis=0).max() <= 4
    assert (R**2).sum(axis=0).max() == 4


def test_repeated_participation():
    for m in (GrowingSmooth(3), GrowingSmooth(3, noise="laplace")):
        check_participation(m, 20)


def test_repeated_participation_is_attained_late_in_the_stream():
    m, participation = GrowingSmooth(3), Participation(2, 3)
    assert m.sensitivity_is_exact(participation)
    assert m.sensitivity(participation) == pytest.approx(worst_pattern(m, 70, participation))


def test_memory_and_moves_of_a_million_steps():
    m = GrowingSmooth()
    depths = np.cumsum(1 - m.moves(1, 10**6).pops.astype(int))
    assert depths.max() == m.memory == 17


@pytest.mark.parametrize("zeros", [0, 1, -2, 2.5, True, "3"])
def test_bad_zeros(zeros):
    with pytest.raises(InvalidArgument, match="zeros must be a whole number of at least 2, got"):
        GrowingSmooth(zeros)
