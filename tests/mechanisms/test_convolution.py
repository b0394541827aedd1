"""Online convolution: every pair of a draw and a later release is met once, in any shape."""

from __future__ import annotations

import numpy as np
import pytest

from dpstream.mechanisms.convolution import carry_forward, carry_size
from dpstream.mechanisms.log_matrix import LogMatrix
from dpstream.mechanisms.square_root import SquareRoot


def test_every_pair_is_met_exactly_once() -> None:
    T = 200
    met = np.zeros((2 * T, 2 * T), dtype=int)
    for t in range(1, T + 1):
        n = carry_size(t)
        met[t : t + n, t - n : t] += 1
    assert np.array_equal(met[:T, :T], np.tri(T, k=-1, dtype=int))


@pytest.mark.parametrize("n", [1, 2, 8, 32, 64, 256])
@pytest.mark.parametrize("missing", [0, 1, 10])
def test_carry_forward_is_the_sum_that_it_says(n: int, missing: int) -> None:
    rng = np.random.default_rng(n)
    coefficients = rng.normal(size=max(2 * n - missing, 1))
    block = rng.normal(size=(n, 3, 2))
    padded = np.concatenate([coefficients, np.zeros(2 * n)])
    expected = [sum(padded[n + i - j] * block[j] for j in range(n)) for i in range(n)]
    assert carry_forward(coefficients, block) == pytest.approx(np.array(expected), abs=1e-12)


@pytest.mark.parametrize("T", [1, 2, 63, 64, 65, 150])
@pytest.mark.parametrize("shape", [(), (3,), (2, 2)])
def test_the_stream_is_the_matrix_product(T: int, shape: tuple[int, ...]) -> None:
    m = SquareRoot(T, normalized=True)
    draws = np.random.default_rng(T).normal(size=(T, *shape))
    before = draws.copy()
    state, noise = m.start(), []
    for draw in draws:
        value, state = m.advance(state, [draw])
        noise.append(value)
    assert np.array(noise) == pytest.approx(np.tensordot(m.factors()[0], draws, axes=1), abs=1e-12)
    assert np.array_equal(draws, before)
    assert state.pending == ()  # nothing is owed past the horizon


def test_without_a_horizon_something_is_always_owed() -> None:
    m = LogMatrix()
    state = m.start()
    for t in range(1, 20):
        _, state = m.advance(state, [1.0])
        assert len(state.pending) >= carry_size(t)
