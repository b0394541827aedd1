"""What Andersson and Pagh 2023 (arXiv:2306.09666) say, held against the code."""

from math import comb, log2

import numpy as np
import pytest

from dpstream.mechanisms import Binary, SmoothBinary
from dpstream.mechanisms.labels import lowest_run_of_ones


def test_figure_2_labels_and_nodes():
    m = SmoothBinary.paper(5)
    labels = [format(m.label(t), "04b") for t in range(1, 7)]
    assert labels == ["0011", "0101", "0110", "1001", "1010", "1100"]
    assert m.nodes(5) == [(1, 8), (9, 12)]


def test_figure_2_leaves_hold_what_the_factors_say():
    """x_t sits in leaf m(t) + 1; the nodes of release t together hold exactly x_1 .. x_t."""
    for horizon in (5, 19, 60):
        m = SmoothBinary.paper(horizon)
        leaves = np.array([m.label(t) + 1 for t in range(1, horizon + 1)])
        for t in range(1, horizon + 1):
            held = sum(((leaves >= first) & (leaves <= last)).astype(int) for first, last in m.nodes(t))
            np.testing.assert_array_equal(held, np.arange(1, horizon + 1) <= t)
            assert len(m.nodes(t)) == m.ones


@pytest.mark.parametrize("horizon", [2, 7, 250, 1023])
def test_theorem_3_3_exact_variance_of_the_binary_mechanism(horizon):
    expected = [int(np.ceil(log2(horizon + 1))) * t.bit_count() for t in range(1, horizon + 1)]
    np.testing.assert_allclose(Binary(horizon).variance(), expected, rtol=1e-11)


@pytest.mark.parametrize("horizon", [13, 250, 4096, 10**7, 10**12])
def test_lemma_3_4_variance_of_the_smooth_mechanism(horizon):
    """(1 + o(1)) log2(T)²/4 in V, with the paper's o(1); its height is even, hence the ceilings."""
    m = SmoothBinary.paper(horizon)
    log, loglog = log2(horizon), log2(log2(horizon))
    height = 2 * np.ceil((np.ceil(log) + loglog) / 2)
    assert m.max_variance() <= (height / 2) ** 2 * (1 + 1e-11)
    assert m.max_variance() >= log**2 / 4


@pytest.mark.parametrize("half", range(1, 8))
def test_lemma_3_5_replacements(half):
    """C(2k+1, k+1) - (2k+1) nodes are replaced from the first release to the last; two a release at most."""
    horizon = comb(2 * half, half) - 1
    m = SmoothBinary.paper(horizon)
    assert (m.zeros, m.ones) == (half, half)
    cost = sum(lowest_run_of_ones(m.label(t)) for t in range(2, horizon + 1))
    assert cost == comb(2 * half + 1, half + 1) - (2 * half + 1)
    assert cost <= 2 * horizon


def test_two_draws_a_step_in_the_worst_case_not_only_on_average():
    m = SmoothBinary.paper(10**6)
    assert m.draws_per_step.worst == 2
    assert m.draws_per_step.average < 2


@pytest.mark.parametrize("make", [Binary, SmoothBinary, SmoothBinary.paper])
def test_lemma_3_6_logarithmic_space(make):
    for exponent in range(4, 50, 5):
        m = make(2**exponent)
        assert m.memory <= 2 * exponent
    m = make(3000)
    state, deepest = m.start(), 0
    for t in range(1, 3001):
        _, state = m.advance(state, [0.0] * m.draws_at(t))
        deepest = max(deepest, len(state.stack))
    assert deepest <= m.memory


def test_errors_are_identically_distributed():
    """Every release of the padded tree sums as many independent unit draws as any other."""
    L, _ = SmoothBinary.paper(250).factors()
    np.testing.assert_allclose((L**2).sum(axis=1), 5)
    L, _ = SmoothBinary(250, noise="laplace", padded=True, zeros=5, ones=5).factors()
    assert set(np.unique(L)) == {0.0, 1.0}
    np.testing.assert_array_equal(L.sum(axis=1), 5)


def test_figure_4a_running_variance_at_250():
    np.testing.assert_allclose(SmoothBinary.paper(250).variance(), 25, rtol=1e-11)
    assert Binary(250).max_variance() == pytest.approx(56)


def test_figure_4b_factor_at_ten_million():
    binary, smooth = Binary(10**7).max_variance(), SmoothBinary.paper(10**7).max_variance()
    assert (binary, smooth) == (pytest.approx(552), pytest.approx(169))
    assert round(binary / smooth, 2) == 3.27


def test_better_than_the_paper():
    assert SmoothBinary(1023).max_variance() <= 25.49
    assert SmoothBinary.paper(1023).max_variance() == pytest.approx(49)
