"""Variances of L = A · diag(D) · G when the coefficients of G are sums of exponentials: O(T · buffers).

With g_0 = 1, g_j = Σ_i w_i ζ_i^j the noise of increment t is D_t y_t, y_t = z_t + Σ_i w_i s_i(t), where the buffers
s_i(t + 1) = ζ_i (s_i(t) + z_t) start at 0. The sum N_t = N_{t-1} + D_t y_t therefore has

    Var N_t = Var N_{t-1} + 2 D_t Σ_i w_i h_i(t) + D_t² Var y_t,    h_i(t) = Cov(N_{t-1}, s_i(t)),
    h_i(t + 1) = ζ_i (h_i(t) + D_t Cov(y_t, s_i(t) + z_t)),

and a later increment u > t has Cov(N_t, y_u) = Σ_i w_i ζ_i^(u-t-1) h_i(t + 1), so that windows need no more:

    Var(N_t - N_s) = Var N_t - Var N_s - 2 Σ_i w_i h_i(s + 1) Σ_{s<u≤t} D_u ζ_i^(u-s-1).
"""

from __future__ import annotations

from functools import cached_property
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from dpstream.mechanisms.exponential_sums import ComplexArray, ExponentialSum, geometric

__all__ = ["IncrementRows"]

RealArray = NDArray[np.float64]


class IncrementRows:
    """Variances of sums of increments, for unit draws; `increments` are the coefficients of G and `scale` is D."""

    def __init__(self, increments: ExponentialSum, scale: RealArray) -> None:
        self.g = increments
        self.D = scale

    @cached_property
    def norms(self) -> RealArray:
        """Var N_t for t = 1..T."""
        steps = np.arange(self.D.size, dtype=np.float64)
        rises = self.D**2 * self.g.squares(steps + 1.0)
        for weight, h in zip(self.g.weights, self._covariances, strict=True):
            rises += 2.0 * self.D * (weight * h[:-1]).real
        return np.cumsum(rises)

    @cached_property
    def _covariances(self) -> ComplexArray:
        """h_i(t + 1) at column t, for t = 0..T."""
        T = self.D.size
        steps = np.arange(T, dtype=np.float64)
        found = np.zeros((self.g.logs.size, T + 1), dtype=np.complex128)
        for i, log in enumerate(self.g.logs.tolist()):
            seen = np.ones(T, dtype=np.complex128)
            for other, weight in zip(self.g.logs.tolist(), self.g.weights.tolist(), strict=True):
                seen += weight * geometric(np.asarray(log + other), steps, start=1)
            zeta = complex(np.exp(log))
            found[i, 1:] = _decaying_sums([zeta * x for x in (self.D * seen).tolist()], zeta)
        return found

    def windows(self, length: int) -> RealArray:
        """Var(N_t - N_{t-length}) for t = 1..T; where t < length, Var N_t."""
        T, w = self.D.size, length
        if w >= T:
            return self.norms
        late = np.zeros(T - w)
        for weight, log, h in zip(self.g.weights.tolist(), self.g.logs.tolist(), self._covariances, strict=True):
            # Σ_{i ≥ 0} D_{s+1+i} ζ^i for s = 0..T, of which a window keeps the first `length` terms.
            ahead = np.append(_decaying_sums(self.D[::-1].tolist(), complex(np.exp(log)))[::-1], 0.0)
            inside = ahead[1 : T - w + 1] - np.exp(log * w) * ahead[w + 1 :]
            late += 2.0 * (weight * h[1 : T - w + 1] * inside).real
        return np.append(self.norms[:w], self.norms[w:] - self.norms[: T - w] - late)

    def window(self, t: int, s: int) -> float:
        """Var(N_t - N_s) for s < t."""
        if s == 0:
            return float(self.norms[t - 1])
        later = np.arange(t - s, dtype=np.float64)
        late = 0.0
        for weight, log, h in zip(self.g.weights.tolist(), self.g.logs.tolist(), self._covariances, strict=True):
            late += 2.0 * float((weight * h[s] * (self.D[s:t] * np.exp(log * later)).sum()).real)
        return float(self.norms[t - 1] - self.norms[s - 1]) - late


def _decaying_sums(x: list[complex], zeta: complex) -> ComplexArray:
    """Return y_t = x_t + ζ y_{t-1}: scipy.signal.lfilter to the last bit, without its import, which takes a second."""
    return np.fromiter(accumulate(x, lambda y, new: new + zeta * y), dtype=np.complex128, count=len(x))
