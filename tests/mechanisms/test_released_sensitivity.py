"""The exact sensitivity of the padded smooth tree's releases, held against dense matrices."""

from math import comb

import numpy as np
import pytest

from dpstream.mechanisms import SmoothBinary
from dpstream.mechanisms.labels import least_ones_for
from dpstream.mechanisms.released_sensitivity import best_tree_shape
from dpstream.mechanisms.released_sensitivity import squared_sensitivity_of_releases as of_releases


def dense_sensitivity(mechanism, steps):
    L, _ = mechanism.factors(steps)
    A = np.tri(steps)
    return np.einsum("ij,ij->j", A, np.linalg.solve(L @ L.T, A)).max()


@pytest.mark.parametrize("horizon", [*range(1, 40), 63, 64, 100, 125, 126, 127, 199, 251, 252, 300])
def test_chosen_tree_at_every_cut(horizon):
    m = SmoothBinary(horizon)
    assert of_releases(m.zeros, m.ones, horizon + 1) == pytest.approx(dense_sensitivity(m, horizon), rel=1e-9)


@pytest.mark.parametrize(("zeros", "ones"), [(1, 1), (1, 30), (30, 1), (2, 7), (7, 2), (3, 4), (4, 3), (4, 4), (9, 9)])
def test_given_tree_at_every_cut(zeros, ones):
    """Every number of steps of small trees, and the first of a tree with room to spare."""
    whole = min(comb(zeros + ones, zeros) - 1, 69)
    for horizon in range(1, whole + 1):
        m = SmoothBinary(horizon, zeros=zeros, ones=ones)
        assert m.sensitivity() ** 2 == pytest.approx(dense_sensitivity(m, horizon), rel=1e-9)


def test_never_above_the_nodes():
    for zeros in range(1, 9):
        for ones in range(1, 9):
            capacity = comb(zeros + ones, zeros)
            for leaves in {2, (capacity + 2) // 2, capacity}:
                needed = least_ones_for(ones, leaves)
                assert of_releases(zeros, ones, leaves) <= needed * (1 + 1e-12)
    assert of_releases(5, 5, 252) < 0.7 * 5


def test_a_cut_costs_no_more_than_the_whole():
    found = [of_releases(4, 5, leaves) for leaves in range(2, comb(9, 4) + 1)]
    assert all(np.diff(found) >= -1e-12)


@pytest.mark.parametrize(
    ("horizon", "shape", "variance"),
    [
        (250, (5, 5), 16.76),
        (1023, (5, 8), 25.48),
        (4096, (5, 11), 33.99),
        (2**16, (6, 16), 60.27),
        (2**20, (8, 17), 91.76),
    ],
)
def test_known_values(horizon, shape, variance):
    assert best_tree_shape(horizon + 1) == shape
    assert 0.995 * variance <= SmoothBinary(horizon).max_variance() <= variance


def test_the_papers_trees_with_the_sensitivity_of_releases():
    for half, variance in ((5, 16.76), (7, 34.0), (12, 108.4)):
        assert half * of_releases(half, half, comb(2 * half, half)) == pytest.approx(variance, abs=0.06)


@pytest.mark.parametrize("horizon", [1, 2, 3, 4, 5, 6, 7, 10, 20, 37, 100, 251, 252, 1000])
def test_no_other_tree_is_better(horizon):
    """Against all pairs with at most as many ones as steps, also those that the search leaves out."""
    shapes = [(least_ones_for(ones, horizon + 1), ones) for ones in range(1, min(horizon, 80) + 1)]
    best = min((round(ones * of_releases(zeros, ones, horizon + 1), 9), zeros) for zeros, ones in shapes if zeros <= 80)
    zeros, ones = best_tree_shape(horizon + 1)
    assert round(ones * of_releases(zeros, ones, horizon + 1), 9) == best[0]
    assert zeros <= best[1]


def test_a_given_number_of_zeros_gets_the_best_ones():
    m = SmoothBinary(1000, zeros=3)
    others = [SmoothBinary(1000, zeros=3, ones=ones).max_variance() for ones in range(17, 40)]
    assert m.max_variance() == pytest.approx(min(others), rel=1e-12)
