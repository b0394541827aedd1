"""Scales of increments that are fitted to two contributions a person.

With normalised columns every step costs a person the same, D_t = ‖R e_t‖, and releases in the middle have the most
noise. But a contribution to a late step can only come with one to an early step, so that steps are not alike: with
D_t = c_t ‖R e_t‖ and contributions to steps i and j,

    Δ² = max over i + b ≤ j of 1/c_i² + 1/c_j² + 2 |ĝ_ij| / (c_i c_j),

ĝ the product of normalised columns. c is linear between a few knots, and what is made least is the largest of all
releases' variances and all pairs' Δ², both on a logarithmic scale: multiplying c by a number moves one against the
other, so that at the optimum they meet, and their product is least. (Ours.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpstream.mechanisms.fitting import Task
from dpstream.mechanisms.increment_rows import IncrementRows
from dpstream.mechanisms.minimax import minimax

if TYPE_CHECKING:
    from dpstream.mechanisms.fitted_toeplitz import FittedToeplitz

__all__ = ["fit_scales", "scale_factors"]

RealArray = NDArray[np.float64]

#: How many knots a fit has.
KNOTS = 9
#: Releases and columns are looked at in so many groups, of which the largest counts.
GROUPS = 24
#: How many columns, and how many distances, are looked at while fitting.
COLUMNS, DISTANCES = 96, 64


def scale_factors(scales: tuple[float, ...], horizon: int, steps: RealArray) -> RealArray:
    """Return c at these steps: the knots stand at equal distances from step 1 to the last, and c is linear between.

    >>> scale_factors((1.0, 0.5), 5, np.arange(1.0, 6.0)).tolist()
    [1.0, 0.875, 0.75, 0.625, 0.5]
    """
    knots = np.array(scales, dtype=np.float64)
    if knots.size == 1 or horizon == 1:
        return np.full(steps.shape, knots[0])
    place = (steps - 1.0) * float(knots.size - 1) / float(horizon - 1)
    before = np.minimum(np.floor(place), float(knots.size - 2)).astype(np.intp)
    return knots[before] + (knots[before + 1] - knots[before]) * (place - before)


def fit_scales(mechanism: FittedToeplitz, task: Task) -> tuple[float, ...]:
    """Return knots of c that lower the error of a mechanism with normalised columns for two contributions a person."""
    T, b, r = task.horizon, task.separation, mechanism._strategy
    steps = np.arange(1.0, T + 1.0)
    norms = mechanism.increment_scale(1, T)
    first = np.unique(np.round(np.linspace(0, T - 1 - b, COLUMNS)))
    distance = b + np.unique(np.round(np.linspace(0, T - 1 - b, DISTANCES)))
    second = first[:, None] + distance[None, :]
    possible = second < T
    second = np.where(possible, second, T - 1.0)
    i, j = first.astype(np.intp), second.astype(np.intp)
    turned = np.exp(np.multiply.outer(distance, r.logs))
    shared = r.partial_weights(T - second.ravel()).reshape(*second.shape, -1)
    products = np.abs((shared * turned).sum(axis=2).real) / (norms[i][:, None] * norms[j])

    def functions(logs: RealArray) -> RealArray:
        c = scale_factors(tuple(np.exp(logs).tolist()), T, steps)
        rows = IncrementRows(mechanism._increments, c * norms)
        found = []
        for window, reference in zip(task.windows, task.references, strict=True):
            variances = rows.windows(window) / reference
            found += [variances.mean()] if task.objective == "mean" else [g.max() for g in _groups(variances)]
        pairs = c[i][:, None] ** -2.0 + c[j] ** -2.0 + 2.0 * products / (c[i][:, None] * c[j])
        found += [g.max() for g in _groups(np.where(possible, pairs, 0.0))]
        logarithms: RealArray = np.log(np.array(found))
        return logarithms

    start = np.zeros(KNOTS)
    values = functions(start)
    # With fewer than GROUPS pairs this is not quite where they begin. Only the start depends on it, and fits stay as
    # they were, to the last bit.
    pairs_from = max(1, values.size - GROUPS)
    start += (values[pairs_from:].max() - values[:pairs_from].max()) / 4.0
    logs = minimax(functions, start)
    return tuple(round(float(c), 12) for c in np.exp(logs - logs[0]))


def _groups(values: RealArray) -> list[RealArray]:
    return np.array_split(values, min(GROUPS, len(values)))
