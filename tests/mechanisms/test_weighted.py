"""The weighted tree."""

import numpy as np
import pytest

from dpstream.errors import NoiseLawError
from dpstream.mechanisms import SmoothBinary, WeightedTree
from dpstream.mechanisms.weighted import _value
from tests.mechanisms.tree_checks import check_participation, check_walk


def test_known_values():
    known = (
        (7, 4.81156),
        (250, 23.8325),
        (1023, 35.3087),
        (4096, 48.7578),
        (65536, 81.8515),
        (2**20, 123.171),
    )
    for horizon, variance in known:
        assert WeightedTree(horizon).max_variance() == pytest.approx(variance, rel=1e-5)


def test_both_budgets_are_tight():
    """The largest squared row and column norms are both √v, at every horizon."""
    for horizon in [*range(1, 40), 100, 255, 256, 300]:
        L, R = WeightedTree(horizon).factors()
        root = np.sqrt(_value(horizon + 1))
        assert (L**2).sum(axis=1).max() == pytest.approx(root, rel=1e-12)
        assert (R**2).sum(axis=0).max() == pytest.approx(root, rel=1e-12)


def test_balanced_splits_are_nearly_the_best():
    """Within 1.2 % of the best of all ways to split, found by dynamic programming."""
    best = np.zeros(200)
    for n in range(2, 200):
        left = best[1:n]
        right = left[::-1]
        split = ((left + right + 1) + np.sqrt((left - right) ** 2 + 2 * (left + right) + 1)) / 2
        best[n] = split.min()
        assert best[n] * (1 - 1e-12) <= _value(n) <= 1.012 * best[n]


@pytest.mark.parametrize("horizon", [1, 2, 3, 9, 64, 130])
def test_cursor_entries_moves_and_steps_agree(horizon):
    check_walk(WeightedTree(horizon), horizon)


@pytest.mark.parametrize("horizon", [1, 6, 16])
def test_repeated_participation(horizon):
    check_participation(WeightedTree(horizon), horizon)


def test_moments_of_a_part():
    m = WeightedTree(1000)
    variance = m.variance()
    for steps in (1, 2, 7, 500, 501, 999):
        assert m.mean_variance(steps) == pytest.approx(variance[:steps].mean(), rel=1e-12)
        assert m.max_variance(steps) == pytest.approx(variance[:steps].max(), rel=1e-12)


def test_astronomic_horizon():
    m = WeightedTree(10**12)
    assert m.max_variance() == pytest.approx(449.689, abs=1e-3)
    assert m.max_variance() < SmoothBinary(10**12, padded=False).max_variance()
    assert m.variance(10**11) <= m.max_variance()
    moves = m.moves(10**12 - 99, 100)
    assert moves.push[-1] == m.entries(10**12)[-1].weight


def test_gaussian_only():
    with pytest.raises(NoiseLawError, match="WeightedTree has real coefficients and takes Gaussian noise only"):
        WeightedTree(10, noise="laplace")
