"""Several steps of one person: the sensitivity against brute force over all patterns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from dpstream import Participation
from dpstream.mechanisms.buffered_toeplitz import BufferedToeplitz
from dpstream.mechanisms.optimal import Optimal
from dpstream.mechanisms.square_root import SquareRoot
from dpstream.mechanisms.toeplitz_participation import lag_bound, squared_norm_of_first_columns

EXACT = [
    SquareRoot,
    lambda T: SquareRoot(T, normalized=True),
    BufferedToeplitz,
    lambda T: BufferedToeplitz(T, normalized=False),
    lambda T: BufferedToeplitz(T, buffers=1),
]


def patterns(T: int, times: int, separation: int) -> Iterator[list[int]]:
    """All ways to choose at most `times` of T steps, each two at least `separation` apart."""

    def extend(chosen: list[int], first: int) -> Iterator[list[int]]:
        yield chosen
        if len(chosen) < times:
            for step in range(first, T):
                yield from extend([*chosen, step], step + separation)

    return extend([], 0)


def worst_pattern(m: Any, T: int, often: Participation) -> float:
    """The largest ‖Σ ±R e_j‖ over all patterns, read off |RᵀR|: scalar products may be negative."""
    R = m.factors()[1]
    gram = np.abs(R.T @ R)
    return max(float(gram[np.ix_(p, p)].sum()) ** 0.5 for p in patterns(T, often.times, often.separation) if p)


@pytest.mark.parametrize("build", EXACT)
@pytest.mark.parametrize("T", [1, 2, 5, 9, 12])
def test_exact_sensitivities_are_the_worst_pattern(build: Any, T: int) -> None:
    m = build(T)
    for times in (1, 2, 3, 5, 20):
        for separation in (1, 2, 4, 30):
            often = Participation(times, separation)
            worst = worst_pattern(m, T, often)
            assert m.sensitivity_is_exact(often)
            assert worst <= m.sensitivity(often) <= worst * (1 + 1e-8)
            assert m.sensitivity(often) <= times * m.sensitivity() * (1 + 1e-12)


@pytest.mark.parametrize("T", [1, 2, 5, 10])
def test_the_bound_of_the_optimal_mechanism_holds(T: int) -> None:
    m = Optimal(T)
    for times in (1, 2, 3, 20):
        for separation in (1, 3):
            often = Participation(times, separation)
            worst = worst_pattern(m, T, often)
            assert worst <= m.sensitivity(often) <= min(times, T) * m.sensitivity() * (1 + 1e-12)
            if m.sensitivity_is_exact(often):
                assert m.sensitivity(often) <= worst * (1 + 1e-8)
            else:  # one or two steps of a person are never bounded from above only
                assert often.reach(T) > 2


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("build", [SquareRoot, BufferedToeplitz])
def test_the_first_columns_are_the_worst_also_on_longer_streams(build: Any, normalized: bool) -> None:
    """The two monotonicities of the proof, entry by entry."""
    R = build(150, normalized=normalized).factors()[1]
    gram = R.T @ R
    for lag in range(150):
        diagonal = gram.diagonal(lag)
        assert np.all(diagonal > 0)
        assert np.all(np.diff(diagonal) <= 1e-12)
    for column in range(150):
        assert np.all(np.diff(gram[column, column:]) <= 1e-12)


def test_the_summed_column_is_found_by_strides() -> None:
    rng = np.random.default_rng(1)
    for T, times, separation in ((1, 1, 1), (10, 3, 2), (10, 5, 2), (50, 4, 7), (50, 50, 1), (9, 3, 4)):
        r, w = rng.random(T), rng.random(T)
        column = np.zeros(T)
        for i in range(times):
            if i * separation < T:
                column[i * separation :] += r[: T - i * separation]
        assert squared_norm_of_first_columns(r, None, times, separation) == pytest.approx(column @ column)
        assert squared_norm_of_first_columns(r, w, times, separation) == pytest.approx(column**2 @ w)


def test_the_bound_by_lags_skips_lags_only_upwards() -> None:
    def product(lag: int) -> float:
        return 1.0 / (1.0 + lag)

    for times in (1, 2, 3, 17, 100):
        every = sum(product(abs(a - b) * 3) for a in range(times) for b in range(times))
        assert every <= lag_bound(product, times, 3) * (1 + 1e-12)
        assert lag_bound(product, times, 3) <= 1.02 * every
