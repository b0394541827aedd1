"""The exact likelihood ratio of releases with Laplace noise.

The releases are r = A x + scale · L z with independent draws z of density e^-|z|/2. If L is square, r gives z away,
and the logarithm of the likelihood ratio of two streams is a sum over draws. If L has one column more than rows, one
dimension is integrated out: along it the exponent is linear between the points where a draw changes sign, so the
integral is a sum of exponentials. With more columns than that the likelihood is not computed. (Rounding is neglected:
it is the better statistic, not the certificate, that suffers from that.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from dpstream.errors import InvalidArgument
from dpstream.mechanisms.base import Mechanism

__all__ = ["LaplaceLikelihood", "laplace_likelihood"]


@dataclass(frozen=True)
class LaplaceLikelihood:
    """ln p(r | second) - ln p(r | first), for releases in rows."""

    inverse: NDArray[np.float64]
    hidden: NDArray[np.float64] | None
    first_sums: NDArray[np.float64]
    second_sums: NDArray[np.float64]

    def __call__(self, releases: NDArray[Any]) -> NDArray[np.float64]:
        """One number a trial."""
        return self._log_density(releases - self.second_sums) - self._log_density(releases - self.first_sums)

    def _log_density(self, noise: NDArray[np.float64]) -> NDArray[np.float64]:
        z = noise @ self.inverse.T
        if self.hidden is None:
            density: NDArray[np.float64] = -np.abs(z).sum(axis=1)
            return density
        return log_line_integral(z, self.hidden)

    def __str__(self) -> str:
        return "Laplace likelihood"


def laplace_likelihood(
    mechanism: Mechanism, scale: float, first: NDArray[Any], second: NDArray[Any]
) -> LaplaceLikelihood:
    """The likelihood ratio for two streams of the same length."""
    L, _ = mechanism.factors(len(first))
    rows, columns = L.shape
    if columns > rows + 1:
        raise InvalidArgument("mechanism", mechanism, "one whose L has at most one column more than rows")
    hidden = None if rows == columns else scipy.linalg.null_space(L)[:, 0]
    inverse = np.asarray(np.linalg.pinv(L) / scale, dtype=np.float64)
    return LaplaceLikelihood(inverse, hidden, np.cumsum(first, dtype=np.float64), np.cumsum(second, dtype=np.float64))


def log_line_integral(z: NDArray[np.float64], direction: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ln ∫ exp(-‖z + t·direction‖₁) dt, for each row of z.

    >>> value = log_line_integral(np.array([[0.0, 3.0]]), np.array([1.0, 0.0]))  # e^-3 ∫ e^-|t| dt = 2 e^-3
    >>> round(float(value[0]), 6)  # ln 2 - 3
    -2.306853
    """
    moving = np.abs(direction) > 1e-12
    still = np.abs(z[:, ~moving]).sum(axis=1)
    z, d = z[:, moving], direction[moving]
    knots = np.sort(-z / d, axis=1)
    at = -np.abs(z[:, None, :] + knots[:, :, None] * d).sum(axis=2)  # the exponent at each knot
    steepest = np.abs(d).sum()
    parts = [at[:, 0] - np.log(steepest), at[:, -1] - np.log(steepest)]  # the two ends
    for i in range(knots.shape[1] - 1):
        width = knots[:, i + 1] - knots[:, i]
        high, fall = np.maximum(at[:, i], at[:, i + 1]), np.abs(at[:, i + 1] - at[:, i])
        # ∫ over a piece of slope -fall/width: width · (1 - e^-fall)/fall, which tends to width as fall does to 0.
        ratio = np.where(fall > 1e-9, -np.expm1(-fall) / np.where(fall > 1e-9, fall, 1.0), 1.0)
        with np.errstate(divide="ignore"):
            parts.append(high + np.log(width * ratio))
    total: NDArray[np.float64] = np.logaddexp.reduce(parts, axis=0) - still
    return total
