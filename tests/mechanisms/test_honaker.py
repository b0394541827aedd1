"""Honaker's tree."""

import numpy as np
import pytest

from dpstream.errors import NoiseLawError
from dpstream.mechanisms import Binary, Honaker
from tests.mechanisms.tree_checks import check_participation, check_walk


def estimate_from_below(horizon):
    """Honaker's estimator from its definition: every node of the tree noisy, combined bottom-up."""
    height = horizon.bit_length()
    size = 2**height
    count = 2 * size - 1  # level l has size / 2^l nodes, numbered level by level

    def number(level, index):
        return sum(size >> i for i in range(level)) + index

    def estimate(level, index):
        row = np.zeros(count)
        own = 2.0**level / (2.0 ** (level + 1) - 1)
        row[number(level, index)] = own
        if level:
            children = estimate(level - 1, 2 * index) + estimate(level - 1, 2 * index + 1)
            row += (1 - own) * children
        return row

    rows = []
    for t in range(1, horizon + 1):
        row, position = np.zeros(count), 0
        for level in reversed(range(height)):
            if t >> level & 1:
                row += estimate(level, position >> level)
                position += 1 << level
        rows.append(row)
    return np.array(rows)


@pytest.mark.parametrize("horizon", [1, 2, 3, 7, 13, 32])
def test_one_draw_a_step_gives_the_covariance_of_the_whole_tree(horizon):
    full = estimate_from_below(horizon)
    L, _ = Honaker(horizon).factors()
    np.testing.assert_allclose(L @ L.T, full @ full.T, atol=1e-12)


def test_sensitivity_against_dense_matrices():
    for horizon in [*range(1, 34), 63, 64, 127, 200, 255, 256]:
        m = Honaker(horizon)
        L, R = m.factors()
        np.testing.assert_allclose(R, np.linalg.solve(L, np.tri(horizon)), atol=1e-9)
        assert m.sensitivity() == pytest.approx(np.linalg.norm(R, axis=0).max(), rel=1e-11)


def test_sensitivity_is_that_of_the_height_and_below_it():
    assert Honaker(512).sensitivity() == Honaker(1023).sensitivity()
    for height in range(2, 41):
        assert 0.8 * height < Honaker(2**height - 1).sensitivity() ** 2 < height


def test_known_values():
    m = Honaker(1023)
    assert m.sensitivity() ** 2 == pytest.approx(8.557, abs=5e-4)
    assert m.max_variance() == pytest.approx(49.6554, rel=1e-5)
    assert m.mean_variance() == pytest.approx(24.852, rel=1e-5)


def test_better_than_binary_by_at_most_two_with_the_sensitivity_of_nodes():
    for horizon in (7, 100, 10**6):
        rows = Binary(horizon).max_squared_row_norm(horizon) / Honaker(horizon).max_squared_row_norm(horizon)
        assert 1 < rows < 2


@pytest.mark.parametrize("horizon", [1, 2, 9, 64, 130])
def test_cursor_moves_and_steps_agree(horizon):
    m = Honaker(horizon)
    check_walk(m, horizon)
    assert m.entries(horizon) is None
    moves = m.moves(1, horizon)
    for t in range(1, horizon + 1):
        move, _ = m.next_move(t - 1)
        assert tuple(moves.mix[move.pops, : move.pops]) == move.mix


@pytest.mark.parametrize("horizon", [1, 6, 16])
def test_repeated_participation(horizon):
    check_participation(Honaker(horizon), horizon)


def test_astronomic_horizon():
    m = Honaker(10**12)
    assert 600 < m.max_variance() < 40 * 39
    assert m.mean_variance() < m.max_variance()


def test_gaussian_only():
    with pytest.raises(NoiseLawError, match="Honaker has real coefficients and takes Gaussian noise only"):
        Honaker(10, noise="laplace")
