"""Safe sensitivities under participation for strategies whose coefficients may change sign.

R is Toeplitz with coefficients r (or R D⁻¹, its columns divided by their norms). A person whose k contributions x_p of
norm at most 1 fall on the columns j_1 < … < j_k, any two at least b apart, moves what the noise protects by

    ‖Σ_p R e_{j_p} ⊗ x_p‖² = Σ_{p,q} G(j_p, j_q) ⟨x_p, x_q⟩ ≤ Σ_{p,q} |G(j_p, j_q)|,

G = RᵀR, whatever the directions of the x_p. Two columns l apart, the later one of M = T - j_q entries, have the product
S_M(l) = Σ_{j<M} r_j r_{j+l}; normalised, S_M(l) / √(S_M(0) S_{M+l}(0)). With e(l) at least the largest absolute product
of columns l or more apart, Δ² ≤ k·g(0) + 2 Σ_{m<k} (k - m) e(m b), since contributions p and p + m are at least m b
apart. If r more contributions follow the later of the two, it has M ≥ r b + 1 entries: with e(M, l) at least the
largest absolute product of columns l or more apart of which the later has M entries or more,

    Δ² ≤ k·g(0) + 2 Σ_{0≤r<k-1} Σ_{1≤m<k-r} e(r b + 1, m b),

for any number of contributions up to k, since no term is negative.

Every M matters: columns near the end are cut. For r a sum of exponentials S_M(l) is the value at whole numbers of a
smooth function of M and l, whose second derivatives are bounded by those of the exponentials. So it is evaluated on a
grid, and in a cell of the grid it exceeds its largest corner by at most h²/8 times the bound on the second derivative,
in each of the two directions; cells of a single step have nothing between their corners.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpstream import portable
from dpstream.mechanisms.exponential_sums import ExponentialSum

__all__ = ["lag_envelope_bound", "pattern_bound"]

RealArray = NDArray[np.float64]

#: How many contributions after a pair of them are told apart.
MOST_FOLLOWING = 256
#: Cells of the grid are this much longer than the one before, once they are longer than a step.
GROWTH = 1.0 / 96.0


def pattern_bound(times: int, separation: int, single: float, edges: RealArray, suprema: RealArray) -> float:
    """k·single + 2 Σ_{m<k} (k - m) e(m·b), where no product at a lag of cell i or beyond exceeds a suffix of `suprema`.

    Cell i covers the lags edges_i ≤ l < edges_{i+1}; lags from the last edge on have no product.
    """
    if times == 1 or not suprema.size:
        return times * single
    suffix = np.maximum.accumulate(suprema[::-1])[::-1]
    m = np.arange(1, times, dtype=np.float64)
    cell = np.searchsorted(edges, m * separation, side="right") - 1
    beyond = m * separation >= edges[-1]
    e = np.where(beyond, 0.0, suffix[np.clip(cell, 0, suffix.size - 1)])
    return float(times * single + 2.0 * portable.dot(times - m, e))


def lag_envelope_bound(
    r: ExponentialSum, horizon: int, times: int, separation: int, *, normalized: bool, growth: float = GROWTH
) -> float:
    """Bound Δ² for `times` > 1 columns of R (of R D⁻¹ if normalized), any two at least `separation` apart.

    The cost does not depend on the horizon but through the logarithm of it.
    """
    single = 1.0 if normalized else float(r.squares(np.array([float(horizon)]))[0])
    if separation >= horizon or times == 1:
        return times * single
    marks = separation * np.arange(1, min(times, 65), dtype=np.float64)
    lags = grid(separation, horizon - 1, growth, marks)
    counts = grid(1, horizon - separation, growth, np.empty(0))
    v = r.partial_weights(counts)
    decay = portable.exp(np.multiply.outer(r.logs.real, lags))
    cosine, sine = portable.cosine_sine(np.multiply.outer(r.logs.imag, lags))
    sums = np.zeros((counts.size, lags.size))
    between_lags, between_counts = np.zeros((counts.size, lags.size - 1)), np.zeros((counts.size - 1, lags.size - 1))
    # What interpolation between two lags, and between two counts, can miss.
    for b, log in enumerate(r.logs.tolist()):
        own = v[:, b]
        turned = np.multiply.outer(own.real, cosine[b]) - np.multiply.outer(own.imag, sine[b])
        sums += turned * decay[b]
        size = np.sqrt(np.square(own.real) + np.square(own.imag)) * (log.real * log.real + log.imag * log.imag)
        between_lags += np.multiply.outer(size, decay[b, :-1])
        fading = np.zeros(counts.size - 1)
        for a in range(r.logs.size):
            mu = complex(r.pair_logs[a, b])
            fading += r.bend(a, b) * portable.exp(mu.real * counts[:-1])
        between_counts += np.multiply.outer(fading, decay[b, :-1])
    products = np.abs(sums)
    between_lags *= _eighths(lags)
    between_counts *= _eighths(counts)[:, None]
    # A cell holds its first corner but not its last: one of a single step holds nothing else.
    rows = np.where(
        np.diff(lags) <= 1.0, products[:, :-1], np.maximum(products[:, :-1], products[:, 1:]) + between_lags
    )
    long = np.diff(counts)[:, None] > 1.0
    cells = np.where(long, np.maximum(rows[:-1], rows[1:]) + between_counts, rows[:-1])
    first_count, first_lag = counts[:-1, None], lags[None, :-1]
    if normalized:
        # Both norms only grow with M and l: the cell's first corner has the least, and a table may round M + l down.
        table = grid(1, horizon, growth / 8, np.empty(0))
        squares = r.squares(table)
        later = squares[np.searchsorted(table, first_count + first_lag, side="right") - 1]
        cells = cells / np.sqrt(r.squares(first_count) * later)
    inside = first_count + first_lag <= horizon
    return _followed_bound(times, separation, single, counts, lags, np.where(inside, cells, 0.0))


def _followed_bound(
    times: int, separation: int, single: float, counts: RealArray, lags: RealArray, cells: RealArray
) -> float:
    """k·single + 2 Σ_r Σ_m e(r b + 1, m b), with e the largest of the cells from there on.

    From `MOST_FOLLOWING` contributions on r counts as that many.
    """
    largest = np.maximum.accumulate(np.maximum.accumulate(cells[::-1, ::-1], axis=0), axis=1)[::-1, ::-1]
    m = np.arange(1.0, times)
    lag = m * separation
    column = np.clip(np.searchsorted(lags, lag, side="right") - 1, 0, lags.size - 2)
    r = np.arange(min(times - 1, MOST_FOLLOWING + 1), dtype=np.float64)
    row = np.clip(np.searchsorted(counts, r * separation + 1.0, side="right") - 1, 0, counts.size - 2)
    horizon = lags[-1]  # the last edge closes the cell of the largest lag, horizon - 1
    possible = (r[:, None] * separation + 1.0 + lag <= horizon) & (m < times - r[:, None])
    terms = np.where(possible, largest[row][:, column], 0.0)
    if times - 1 > r.size:
        terms[-1] *= np.maximum(times - m - r[-1], 0.0)
    return float(times * single + 2.0 * portable.total(terms))


def grid(first: int, last: int, growth: float, marks: RealArray) -> RealArray:
    """Return whole numbers from `first` to `last`, `marks` among them, growing by a share or by one; then last + 1.

    The last one closes the cell that holds `last` alone.
    """
    points = [float(first)]
    while points[-1] < last:
        points.append(min(points[-1] + max(1.0, np.floor(points[-1] * growth)), float(last)))
    points.append(last + 1.0)
    return np.union1d(np.array(points), marks[(marks >= first) & (marks <= last)])


def _eighths(points: RealArray) -> RealArray:
    """h²/8 for each cell; 0 for cells of one step, which hold no whole number but their corners."""
    h = np.diff(points)
    return np.where(h <= 1.0, 0.0, h * h / 8.0)
