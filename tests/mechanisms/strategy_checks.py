"""Brute force against sensitivities: patterns of one person's steps, with contributions in any directions."""

from collections.abc import Iterator

import numpy as np

from dpstream import Participation
from dpstream.mechanisms.base import Mechanism


def patterns(horizon: int, participation: Participation) -> Iterator[tuple[int, ...]]:
    """Every choice of as many columns as fit, any two at least the separation apart."""

    def extend(chosen: tuple[int, ...], first: int, left: int) -> Iterator[tuple[int, ...]]:
        if left == 0:
            yield chosen
            return
        for j in range(first, horizon):
            yield from extend((*chosen, j), j + participation.separation, left - 1)

    yield from extend((), 0, participation.reach(horizon))


def worst_of_all_patterns(mechanism: Mechanism, participation: Participation) -> float:
    """The largest Σ |G_pq| over all patterns: no directions of the contributions can do worse (G = RᵀR)."""
    R = mechanism.factors()[1]
    G = np.abs(R.T @ R)
    return max(float(G[np.ix_(p, p)].sum()) for p in patterns(len(G), participation)) ** 0.5


def worst_of_random_patterns(
    mechanism: Mechanism, participation: Participation, count: int, rng: np.random.Generator
) -> float:
    """The largest ‖Σ_p R e_{j_p} ⊗ x_p‖ over random patterns, with random unit vectors x_p in the plane, and with the
    signs that are worst for each step after the one before."""
    T, b = mechanism.horizon, participation.separation
    assert T is not None
    k = participation.reach(T)
    R = mechanism.factors()[1]
    G = R.T @ R
    room = T - (k - 1) * b
    slack = np.sort(rng.integers(0, room, size=(count, k)), axis=1)
    slack[: count // 4] = np.sort(rng.integers(0, max(1, room // 8), size=(count // 4, k)), axis=1)
    columns = slack + b * np.arange(k)
    products = G[columns[:, :, None], columns[:, None, :]]
    angles = rng.uniform(0, 2 * np.pi, size=(count, k))
    angles[: count // 2] = np.pi * rng.integers(0, 2, size=(count // 2, k))
    # A chain of best answers: each contribution points so as to add to the first.
    angles[: count // 8] = np.where(products[: count // 8, 0, :] < 0, np.pi, 0.0)
    turned = np.cos(angles[:, :, None] - angles[:, None, :])
    return float((products * turned).sum(axis=(1, 2)).max()) ** 0.5
