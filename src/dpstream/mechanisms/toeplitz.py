"""What the Toeplitz mechanisms share: dense matrices, power series, sums over long smooth sequences.

**Column normalisation.** For L = F · diag(q) with F a Toeplitz matrix, R = diag(1/q) · F⁻¹A, and column j of
R has the squared norm Σ_{i ≥ j} r²_{i-j} / q_i². It is 1 for *every* j exactly if 1/q_j² = u_{T-j} with
Σ_{i ≤ n} r_i² u_{n-i} = 1 for all n: `column_weights`. Since r² is log-convex, its reciprocal series is
1, -, -, -, … (Kaluza 1928), so u, the prefix sums of that series, is positive and decreasing: draws are
scaled up most at the start.

Henzinger, Kalinin, Upadhyay 2025 (arXiv:2509.14334) divide the columns of R by their norms D instead, which
makes L = A D F A⁻¹; it has 0.4 % (T = 2^20) to 1.5 % (T = 250) less variance, but is no longer a Toeplitz
matrix times a diagonal one and does not stream as one. (F · diag(D) is *not* that mechanism: its
sensitivity is 1.03, not 1.)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import scipy  # its parts are loaded when they are first used
from numpy.typing import NDArray

from dpstream import portable
from dpstream.balls import rounded

__all__ = [
    "SENSITIVITY_MARGIN",
    "column_weights",
    "long_sum",
    "lower_toeplitz",
    "reciprocal_series",
    "series_product",
]

#: The stored coefficients of L are doubles, and R = L⁻¹A is their exact inverse, not the formula that gives
#: R. The two agree to about 1e-12; the sensitivity stated is this much above the formula. Tests hold it against
#: inverted coefficients.
SENSITIVITY_MARGIN = 1.0 + 1e-9

#: Sums of at most this many terms are added up term by term.
DIRECT_TERMS = 2**14

#: Points of a rule of Gauss and Legendre.
NODES = 24


def lower_toeplitz(coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
    """Lower-triangular Toeplitz matrix with these coefficients as first column."""
    matrix: NDArray[np.float64] = np.tril(scipy.linalg.toeplitz(coefficients))
    return matrix


def series_product(a: NDArray[np.float64], b: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Return the first `count` coefficients of the product of two power series."""
    a, b = a[:count], b[:count]
    length = scipy.fft.next_fast_len(a.size + b.size - 1, real=True)
    spectrum = scipy.fft.rfft(a, length) * scipy.fft.rfft(b, length)
    product: NDArray[np.float64] = scipy.fft.irfft(spectrum, length)
    return product[:count]


def reciprocal_series(a: NDArray[np.float64]) -> NDArray[np.float64]:
    """Invert the power series a to as many terms as it has, by Newton's iteration.

    >>> reciprocal_series(np.array([1.0, 0.5, 0.375])).round(12).tolist()
    [1.0, -0.5, -0.125]
    """
    b = np.array([1.0 / a[0]])
    while b.size < a.size:
        count = min(2 * b.size, a.size)
        correction = -series_product(a, b, count)
        correction[0] += 2.0
        b = series_product(b, correction, count)
    return b


def column_weights(r: NDArray[np.float64]) -> NDArray[np.float64]:
    """Find u with Σ_{i ≤ n} r_i² u_{n-i} = 1 for every n: 1/q², last step first; see the module's text."""
    return np.cumsum(portable.reciprocal_series(r * r))


def long_sum(term: Callable[[NDArray[np.float64]], NDArray[np.float64]], count: int) -> float:
    """Σ_{0 ≤ i < count} term(i) for a term that is smooth on the scale of i, in O(log count).

    The first terms are added up; the rest is integrated over [i - 1/2, i + 1/2), octave by octave, by Gauss
    and Legendre. Adding a block of m terms by an integral errs by about 1/(24 m²) of it: 2e-10 at 2^14.
    """
    head = min(count, DIRECT_TERMS)
    total = portable.total(term(np.arange(head, dtype=np.float64)))
    first = head
    while first < count:
        end = min(2 * first, count)
        half = 0.5 * (end - first)
        nodes, weights = _gauss_legendre()
        total += half * portable.dot(weights, term(first - 0.5 + half * (1.0 + nodes)))
        first = end
    return total


@cache
def _gauss_legendre() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nodes and weights on [-1, 1], each the double nearest to it."""
    import flint

    found = [
        [rounded(lambda k=k, part=part: flint.arb.legendre_p_root(NODES, k, weight=True)[part]) for part in (0, 1)]  # type: ignore[misc]
        for k in range(NODES)
    ]
    nodes, weights = np.array(found, dtype=np.float64).T
    return nodes, weights
