"""Exact laws of rounded releases at tiny horizons: the promise is checked by computing it, without a single draw.

A Counter publishes S_t + (integer nearest to G_t) with G = scale · L z. For one to three releases the probability of
every outcome is an integral over a box of side 1: of a normal density (iterated Gauss–Legendre, the last dimension in
closed form), or of two Laplace draws. Neighbouring streams shift this law by whole numbers, so the Rényi divergences
and the largest ratio of probabilities are plain sums over outcomes.

Outcomes further than `reach` standard deviations from every mean that matters are left out. They add less than 1e-14 to
the sums below; the quadrature errs by less than 1e-10.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, logsumexp

from dpstream.errors import InvalidArgument
from dpstream.mechanisms.base import Mechanism

__all__ = ["RoundedLaw", "largest_ratio", "renyi_divergence", "rounded_law"]

#: Nodes in a box of side 1, and in the half box that Laplace draws need.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)


@dataclass(frozen=True)
class RoundedLaw:
    """ln P[rounded noise = k] for k in a box around 0: entry (i, j, …) is for k = (i - half_0, j - half_1, …)."""

    log_chance: NDArray[np.float64]


def rounded_law(mechanism: Mechanism, scale: float, steps: int, reach: tuple[int, ...]) -> RoundedLaw:
    """The law of the first `steps` rounded noises, each from -reach to +reach."""
    L, _ = mechanism.factors(steps)
    if mechanism.noise == "laplace":
        return RoundedLaw(_laplace(L, scale, reach))
    C: NDArray[np.float64] = np.linalg.cholesky(scale**2 * L @ L.T).astype(np.float64)
    return RoundedLaw(_gaussian(C, reach))


def renyi_divergence(law: RoundedLaw, shift: tuple[int, ...], order: float) -> float:
    """D_order between the law and the same law shifted; both ways alike, since the law is symmetric.

    >>> from dpstream.mechanisms import Binary
    >>> law = rounded_law(Binary(1), 1.0, 1, (40,))  # one normal draw, rounded; a change by 1 costs ρ = 1/2
    >>> 0.4 < renyi_divergence(law, (1,), 2.0) / 2 < 0.5
    True
    """
    here, there = _overlap(law, shift)
    return float(logsumexp(order * here + (1 - order) * there)) / (order - 1)


def largest_ratio(law: RoundedLaw, shift: tuple[int, ...]) -> float:
    """The largest |ln ratio| of the chances of an outcome: pure ε."""
    here, there = _overlap(law, shift)
    return float(np.abs(here - there).max())


def _overlap(law: RoundedLaw, shift: tuple[int, ...]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Log chances of outcome k, and of k - shift, for all k where both are known."""
    here = tuple(slice(max(d, 0), n + min(d, 0)) for d, n in zip(shift, law.log_chance.shape, strict=True))
    there = tuple(slice(max(-d, 0), n + min(-d, 0)) for d, n in zip(shift, law.log_chance.shape, strict=True))
    return law.log_chance[here], law.log_chance[there]


def _gaussian(C: NDArray[np.float64], reach: tuple[int, ...]) -> NDArray[np.float64]:
    """Iterated integrals over the standard normals u with C u inside a box; C is lower triangular."""
    *outer, last = reach
    # Nodes of all dimensions but the last: their releases, their log weights, and which box they lie in.
    grids = [(np.arange(-n, n + 1)[:, None] + _NODES / 2).ravel() for n in outer]
    points = (
        np.stack(np.meshgrid(*grids, indexing="ij"), axis=-1).reshape(-1, len(outer)) if outer else np.zeros((1, 0))
    )
    u = np.linalg.solve(C[:-1, :-1], points.T).T
    log_weight = -0.5 * (u**2).sum(axis=1) - 0.5 * len(outer) * math.log(2 * math.pi)
    log_weight -= np.log(np.diag(C)[:-1]).sum()
    centre = u @ C[-1, :-1]
    sizes = [2 * n + 1 for n in outer]
    box_weight = np.log(_WEIGHTS / 2)
    result = np.empty((*sizes, 2 * last + 1))
    for k in range(-last, last + 1):
        cell = _log_interval((k - 0.5 - centre) / C[-1, -1], (k + 0.5 - centre) / C[-1, -1])
        parts = (log_weight + cell).reshape([side for n in sizes for side in (n, _NODES.size)])
        for axis in range(len(outer)):  # after each sum the next dimension's nodes move one place to the left
            shape = [1] * parts.ndim
            shape[axis + 1] = _NODES.size
            parts = logsumexp(parts + box_weight.reshape(shape), axis=axis + 1)
        result[..., k + last] = parts
    return result


def _log_interval(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ln(Φ(b) - Φ(a)) for a < b, also far out."""
    flip = a > 0
    low, high = np.where(flip, -b, a), np.where(flip, -a, b)
    top = log_ndtr(high)
    found: NDArray[np.float64] = top + np.log1p(-np.exp(log_ndtr(low) - top))
    return found


def _laplace(L: NDArray[np.float64], scale: float, reach: tuple[int, ...]) -> NDArray[np.float64]:
    """One Laplace draw, or two with r₁ = b z₁ and r₂ = ±r₁ + b z₂ (or b z₂ alone): no kink inside a half box."""
    if L.shape == (1, 1):
        k, b = np.arange(-reach[0], reach[0] + 1, dtype=np.float64), scale * abs(float(L[0, 0]))
        return _log_laplace_interval((k - 0.5) / b, (k + 0.5) / b)
    if L.shape != (2, 2) or L[0, 1] != 0 or not np.isin(L, (-1.0, 0.0, 1.0)).all():
        raise InvalidArgument("mechanism", L.tolist(), "one release, or two whose L is lower triangular of 0, 1 and -1")
    first, last = reach
    k = np.arange(-first, first + 1, dtype=np.float64)
    halves = np.stack([k - 0.25, k + 0.25], axis=1)[:, :, None] + _NODES / 4
    log_weight = np.log(_WEIGHTS / 4) - np.abs(halves) / scale - math.log(2 * scale)
    result = np.empty((len(k), 2 * last + 1))
    for j in range(-last, last + 1):
        centre = L[1, 0] * L[0, 0] * halves
        cell = _log_laplace_interval((j - 0.5 - centre) / scale, (j + 0.5 - centre) / scale)
        result[:, j + last] = logsumexp(log_weight + cell, axis=(1, 2))
    return result


def _log_laplace_interval(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ln of the chance that a standard Laplace draw lies between a < b."""
    flip = a + b > 0
    low, high = np.where(flip, -b, a), np.where(flip, -a, b)
    # Now the middle is not above 0. Below 0 altogether: (e^high - e^low)/2; else 1 - (e^low + e^-high)/2.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        below = high + np.log(-np.expm1(low - high)) - math.log(2)
        across = np.log(-np.expm1(low) / 2 - np.expm1(-high) / 2)
    return np.where(high <= 0, below, across)
