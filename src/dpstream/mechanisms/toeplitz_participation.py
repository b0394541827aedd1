"""The sensitivity to one person in several steps, for Toeplitz mechanisms.

With R = diag(1/q) · Toeplitz(r) and w_i = 1/q_i², columns j and j + d of R have the scalar product

    G(j, j + d) = Σ_{i < n} r_i r_{i+d} w_{j+d+i},   n = T - j - d.

If r is nonnegative and decreasing, G is nonnegative and falls as d grows. It also falls as j grows with d
fixed: without normalisation (w = 1) because n does; with it (w_{T-1-m} = u_m, `toeplitz.column_weights`)
because G = Σ_i π_n(i) · r_{i+d}/r_i, where π_n(i) = r_i² u_{n-1-i} adds up to 1 over i < n: G is the mean
of a function that rises with i (r is log-convex) under a law that moves to the right as n grows (u falls, so
π_n{i ≤ m} does). Hence any k columns, each two of them s apart, have pairwise products at most those of the
columns 0, s, 2s, …, (k-1)s, and since these are nonnegative the worst case is exactly ‖Σ_{i<k} R e_{is}‖².
Without normalisation this is Kalinin and Lampert 2024, arXiv:2405.13763; with it, it is ours.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpstream import portable

__all__ = ["lag_bound", "squared_norm_of_first_columns"]


def squared_norm_of_first_columns(
    r: NDArray[np.float64], weights: NDArray[np.float64] | None, times: int, separation: int
) -> float:
    """‖Σ_{i<k} R e_{is}‖² in O(T), from the T coefficients `r` and w = 1/q² in step order (None for ones).

    >>> squared_norm_of_first_columns(np.array([1.0, 0.5, 0.25]), None, times=2, separation=1)  # 1² + 1.5² + 0.75²
    3.8125
    """
    T = r.size
    rows = -(-T // separation)
    padded = np.zeros(rows * separation)
    padded[:T] = r
    # Entry n of the summed column is Σ_{i<k} r_{n-is}: a running sum along the steps n, n - s, n - 2s, … of
    # at most k.
    summed = np.cumsum(padded.reshape(rows, separation), axis=0)
    if times < rows:
        summed[times:] -= summed[:-times].copy()
    column = summed.ravel()[:T]
    squares = column * column
    return portable.total(squares if weights is None else squares * weights)


def lag_bound(product_at: Callable[[int], float], times: int, separation: int) -> float:
    """Σ_{a,b<k} g(|a-b|·s), where g(d) bounds the scalar product of any two columns at least d apart.

    Beyond a few lags g is evaluated at a growing grid only: g may be taken to fall, so the value at a smaller
    lag is safe for the lags up to the next grid point.
    """
    total = times * product_at(0)
    lag = 1
    while lag < times:
        end = min(times, max(lag + 1, lag + lag // 16))
        # Σ_{m=lag}^{end-1} 2 (k - m)
        pairs = (end - lag) * (2 * times - lag - end + 1)
        total += pairs * product_at(lag * separation)
        lag = end
    return total
