"""Optimal mechanism: the least possible max V, with a certificate.

Guarantee: rho-zCDP for streams that differ in one element by at most `per_person`,
all releases together, adaptive inputs.
Error: V = γ₂(A)² to within `tolerance`, nearly the same at every step.
Cost: about 20 eigenproblems of size T to build (0.2 s at T = 250, 4 s at 1,023, minutes at 4,096), then
T vectors of memory and O(t) time a step.
Denisov, McMahan, Rush, Smith, Thakurta 2022, arXiv:2202.08312, state the problem; the iteration is ours.

γ₂(A) = max over u, v in the simplex of ‖√u A √v‖_* (nuclear norm), and A is symmetric under reversal of time,
so v is u reversed. With H = √u (A J) √u = Q Λ Qᵀ, J the reversal, and d = diag(Q|Λ|Qᵀ):

    Σ|Λ| ≤ γ₂ ≤ max d/u   for every u > 0 with sum 1,

and C = |H|/√(u uᵀ) has max diag(C) = max diag(AᵀC⁻¹A) = max d/u. The bounds meet where
d is proportional to u.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar

import numpy as np
import scipy  # its parts are loaded when they are first used
from numpy.typing import NDArray

from dpstream.arguments import check_whole
from dpstream.errors import InvalidArgument
from dpstream.mechanisms.base import DENSE_LIMIT, NoiseLaw, check_noise_law
from dpstream.mechanisms.dense import DenseMechanism

__all__ = ["Certificate", "Optimal"]

#: Far more than a sensible tolerance needs; where rounding stops the bounds from meeting, the certificate
#: says so.
MOST_ITERATIONS = 500


@dataclass(frozen=True)
class Certificate:
    """No factorisation of any kind has a max V below `lower`; this one has `upper`."""

    lower: float
    upper: float
    iterations: int


@dataclass(frozen=True)
class Optimal(DenseMechanism):
    """L is the Cholesky factor of the noise covariance with the least max V; R = L⁻¹A.

    Parameters
    ----------
    horizon
        The number of releases, at most 4,096. Building takes time of order horizon³ and memory of order
        horizon²; it happens at first use, once for equal mechanisms.
    tolerance
        The largest relative gap between the two bounds on the least max V, from 1e-9 to 0.1.

    Examples
    --------
    >>> m = Optimal(64)
    >>> round(m.max_variance(), 3), round(m.certificate.lower, 3)
    (4.458, 4.458)
    """

    horizon: int
    tolerance: float = 1e-4
    noise: NoiseLaw = field(default="gaussian", kw_only=True, repr=False, compare=False)

    reference: ClassVar[str] = "Denisov, McMahan, Rush, Smith, Thakurta 2022, arXiv:2202.08312"

    def __post_init__(self) -> None:
        horizon = check_whole("horizon", self.horizon)
        if horizon > DENSE_LIMIT:
            raise InvalidArgument(
                "horizon",
                self.horizon,
                f"at most {DENSE_LIMIT} (building costs horizon³; BufferedToeplitz has no such limit)",
            )
        object.__setattr__(self, "horizon", horizon)
        tolerance = self.tolerance
        number = isinstance(tolerance, (int, float)) and not isinstance(tolerance, bool)
        if not (number and 1e-9 <= tolerance <= 0.1):
            raise InvalidArgument("tolerance", tolerance, "a number from 1e-9 to 0.1")
        object.__setattr__(self, "tolerance", float(tolerance))
        check_noise_law("Optimal", self.noise, allowed=("gaussian",))

    @property
    def certificate(self) -> Certificate:
        """Lower and upper bound on the least max V of any factorisation."""
        return _solve(self.horizon, self.tolerance)[0]

    @property
    def left(self) -> NDArray[np.float64]:
        """The Cholesky factor; found at first use."""
        return _solve(self.horizon, self.tolerance)[1]


@lru_cache(maxsize=8)
def _solve(horizon: int, tolerance: float) -> tuple[Certificate, NDArray[np.float64]]:
    """Return the certificate and L."""
    lower, upper, iterations, _, L = _iterate(horizon, tolerance)
    L.flags.writeable = False
    return Certificate(lower**2, upper**2, iterations), L


def _iterate(T: int, tolerance: float) -> tuple[float, float, int, NDArray[np.float64], NDArray[np.float64]]:
    """Iterate u from the solution of a quarter of the size; return bounds on γ₂, iterations, u and L."""
    u = np.full(T, 1.0 / T) if T < 32 else _stretch(_iterate(T // 4, max(tolerance, 1e-4))[3], T)
    lower, iterations = 0.0, 0
    while True:
        iterations += 1
        root = np.sqrt(u)
        H = np.tri(T)[:, ::-1] * root[:, None] * root[None, :]
        values, Q = scipy.linalg.eigh(H, driver="evd", overwrite_a=True, check_finite=False)
        size = np.abs(values)
        d = (Q * Q) @ size
        lower, upper = max(lower, float(size.sum())), float((d / u).max())
        if upper**2 <= lower**2 * (1.0 + tolerance) or iterations == MOST_ITERATIONS:
            break
        # The plain step is the power 1; near 2 it still converges and is twice as fast, beyond 2 it does not.
        u = u * (d / u) ** 1.9
        u /= u.sum()
    half = (Q * np.sqrt(size)) / root[:, None]
    return lower, upper, iterations, u, scipy.linalg.cholesky(half @ half.T, lower=True, check_finite=False)


def _stretch(u: NDArray[np.float64], T: int) -> NDArray[np.float64]:
    """Carry u over to T steps: log u is interpolated in the log-odds of time, and continued straight."""
    old, new = (np.log((np.arange(n) + 0.5) / (n - np.arange(n) - 0.5)) for n in (u.size, T))
    height = np.log(u)
    stretched = np.interp(new, old, height)
    for end, inner, outside in ((0, 4, new < old[0]), (-1, -5, new > old[-1])):
        slope = (height[inner] - height[end]) / (old[inner] - old[end])
        stretched[outside] = height[end] + slope * (new[outside] - old[end])
    weights = np.exp(stretched - stretched.max())
    return np.asarray(weights / weights.sum(), dtype=np.float64)
