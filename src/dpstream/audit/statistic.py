"""Statistics: numbers computed from the releases that are large under the second stream and small under the first.

No choice of statistic can make a certificate wrong, only weak. The best one is the logarithm of the likelihood ratio
(Neyman and Pearson 1933):

* Gaussian noise of covariance C and a shift d of the mean: the matched filter wᵀr with C w = d. Its distance is
  μ = √(dᵀC⁻¹d), which for d = A e_j is √(2ρ) · ‖R* e_j‖ / Δ with R* = L⁺A (docs/mathematics.md).
* Laplace noise: `laplace_likelihood`.
* What floating point gives away, no likelihood of real-valued noise sees: `LowBits` looks at it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["LowBits", "MatchedFilter", "Statistic", "learned_filter"]

Statistic = Callable[[NDArray[Any]], NDArray[np.float64]]

#: A part of the mean variance that is added to the learned covariance: noise-free directions get finite, huge weights.
RIDGE = 1e-10


@dataclass(frozen=True)
class MatchedFilter:
    """wᵀ(r - centre), for releases r in rows."""

    weights: NDArray[np.float64]
    centre: NDArray[np.float64]

    def __call__(self, releases: NDArray[Any]) -> NDArray[np.float64]:
        """One number a trial."""
        scores: NDArray[np.float64] = (releases - self.centre) @ self.weights
        return scores

    def __str__(self) -> str:
        return "matched filter"


@dataclass(frozen=True)
class LowBits:
    """How many zero bits end release number `step`: the place of the lowest bit that is set, as a power of two.

    Noise in floating point leaves gaps that depend on its size; the sum of data and noise then shows, in its last
    bits, how large the noise was (Mironov 2012, "On significance of the least significant bits for differential
    privacy"). `sign` turns the statistic round.
    """

    step: int
    sign: int = 1

    def __call__(self, releases: NDArray[Any]) -> NDArray[np.float64]:
        """One number a trial; 99 for a release of 0."""
        r = np.ascontiguousarray(releases[:, self.step])
        if r.dtype.kind in "iu":
            low = (r & -r).astype(np.float64)
            place = np.where(low != 0, np.log2(np.abs(np.where(low != 0, low, 1.0))), 99.0)
        else:
            fraction, exponent = np.frexp(r.astype(np.float64))
            whole = np.abs(fraction * 2.0**53).astype(np.int64)
            low = (whole & -whole).astype(np.float64)
            place = np.where(whole != 0, exponent - 53 + np.log2(np.where(whole != 0, low, 1.0)), 99.0)
        scores: NDArray[np.float64] = self.sign * place
        return scores

    def __str__(self) -> str:
        return f"low bits of release {self.step + 1}"


def learned_filter(
    first: NDArray[Any], second: NDArray[Any], shift: NDArray[np.float64] | None = None
) -> MatchedFilter:
    """The matched filter for a covariance, and unless given a shift, that are estimated from trials."""
    mean0, mean1 = first.mean(axis=0, dtype=np.float64), second.mean(axis=0, dtype=np.float64)
    covariance = pooled_covariance(first - mean0, second - mean1)
    d = mean1 - mean0 if shift is None else shift
    return MatchedFilter(solve(covariance, d), (mean0 + mean1) / 2)


def pooled_covariance(*residuals: NDArray[np.float64]) -> NDArray[np.float64]:
    """The covariance over trials, of residuals that already have mean 0."""
    total: NDArray[np.float64] = np.sum([r.T @ r for r in residuals], axis=0)
    return total / sum(len(r) for r in residuals)


def solve(covariance: NDArray[np.float64], shift: NDArray[np.float64]) -> NDArray[np.float64]:
    """C⁻¹d, also where C is singular because two releases share their noise."""
    n = len(covariance)
    ridge = RIDGE * max(float(np.trace(covariance)) / n, 1e-30)
    return np.asarray(np.linalg.solve(covariance + ridge * np.eye(n), shift), dtype=np.float64)
