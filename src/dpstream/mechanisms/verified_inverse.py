"""R = L⁻¹A in doubles, with a proven bound on how far its columns are from the true ones.

Let R̂ be computed, E = A - L R̂ and M̂ = R̂ A⁻¹ (differences of neighbouring columns), so that I - L M̂ = E A⁻¹. If
δ = ‖I - L M̂‖ < 1, then ‖L⁻¹‖ ≤ ‖M̂‖/(1 - δ), and column j of R is within ‖L⁻¹‖ ‖E e_j‖ of that of R̂. E is computed, too;
its own rounding is bounded entry by entry and added. All norms are rounded up.
"""

from __future__ import annotations

import math

import numpy as np
import scipy  # its parts are loaded when they are first used
from numpy.typing import NDArray

from dpstream import portable
from dpstream.errors import InvalidArgument

__all__ = ["verified_right", "verified_series"]

#: Unit roundoff of float64.
UNIT = 2.0**-53
#: Covers the rounding of the norms themselves, sums of up to 2^24 terms.
ROUND_UP = 1.0 + 1e-8
#: A bound on the columns' error above this part of the largest column is refused.
LARGEST_PART = 1e-3


def verified_right(left: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Return R for a lower-triangular L, and a bound on the distance of any of its columns from the true one.

    Raises
    ------
    InvalidArgument
        If L is so ill-conditioned that the bound is above a thousandth of the largest column.
    """
    T = left.shape[0]
    with np.errstate(all="ignore"):
        A = np.tri(T)
        R: NDArray[np.float64] = scipy.linalg.solve_triangular(left, A, lower=True, check_finite=False)
        rounding = (T + 3) * UNIT * ROUND_UP
        residual = np.abs(A - left @ R) + rounding * (np.abs(left) @ np.abs(R) + A)
        M = R.copy()
        M[:, :-1] -= R[:, 1:]
        inverse = float(np.linalg.norm(M)) * ROUND_UP
        delta = 2 * float(np.linalg.norm(residual)) + 2 * UNIT * float(np.linalg.norm(left)) * inverse
        columns = float(np.sqrt((residual**2).sum(axis=0).max()))
        error = _error(inverse, delta * ROUND_UP, columns * ROUND_UP)
        largest = float(np.sqrt((R**2).sum(axis=0).max()))
    _check("left", f"a matrix of {T} rows", error, largest)
    R.flags.writeable = False
    return R, error


def verified_series(coefficients: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Return the first column of R for a Toeplitz L, and a bound on its distance from the true one.

    Raises
    ------
    InvalidArgument
        As for `verified_right`.
    """
    T = coefficients.size
    with np.errstate(all="ignore"):
        r = np.cumsum(portable.reciprocal_series(coefficients))
        lost = portable.series_product_error(coefficients, r)
        residual = np.abs(1.0 - portable.series_product(coefficients, r, T)) + (lost + UNIT) * ROUND_UP
        m = np.diff(r, prepend=0.0)
        inverse = portable.total(np.abs(m)) * ROUND_UP
        delta = 2 * portable.total(residual) + 2 * UNIT * portable.total(np.abs(coefficients)) * inverse
        error = _error(inverse, delta * ROUND_UP, math.sqrt(portable.dot(residual, residual)) * ROUND_UP)
        largest = math.sqrt(portable.dot(r, r))
    _check("coefficients", f"{T} coefficients", error, largest)
    r.flags.writeable = False
    return r, error


def _error(inverse: float, delta: float, residual: float) -> float:
    return inverse / (1 - delta) * residual * ROUND_UP if delta < 0.5 else math.inf


def _check(name: str, given: str, error: float, largest: float) -> None:
    if not error <= LARGEST_PART * largest:  # also if something is NaN
        raise InvalidArgument(
            name, given, "well-conditioned: L⁻¹A could not be computed to a thousandth, and the sensitivity rests on it"
        )
