"""Sequences that are sums of real and complex exponentials, and closed forms for their partial sums.

A rational power series Π (1 - ζ_i x) / Π (1 - π_i x) with distinct poles has the coefficients

    f_0 = 1,   f_j = Σ_a w_a π_a^j  (j ≥ 1),   w_a = Π_i (1 - ζ_i/π_a) / Π_{i≠a} (1 - π_i/π_a).

Σ_{j<n} f_j f_{j+l} and its likes are then sums over pairs of poles of geometric series: no cost grows with n. Poles
near 1 are held by their distance from 1, which is an exact difference of doubles, so that log π keeps all its digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ComplexArray", "ExponentialSum", "geometric", "log_of", "rational_series", "triangular"]

ComplexArray = NDArray[np.complex128]
RealArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ExponentialSum:
    """The real sequence f_0 = `first`, f_j = Re Σ_a weights_a exp(logs_a · j) for j ≥ 1."""

    logs: ComplexArray
    weights: ComplexArray
    first: float = 1.0

    def at(self, index: RealArray) -> RealArray:
        """Return the terms at these whole indices."""
        total = np.zeros(index.shape)
        # Pole by pole, so that an entry does not depend on which others are asked for with it.
        for log, weight in zip(self.logs.tolist(), self.weights.tolist(), strict=True):
            alive = np.minimum(index, _last_alive(log.real))
            total += np.where(index > alive, 0.0, (weight * np.exp(log * alive)).real)
        return np.where(index == 0, self.first, total)

    def partial_weights(self, count: RealArray) -> ComplexArray:
        """v_b(M), one row for each M in `count`: Σ_{j<M} f_j f_{j+l} = Re Σ_b v_b(M) π_b^l for every l ≥ 1."""
        past = np.einsum("a,mab->mb", self.weights, geometric(self.pair_logs, count[:, None, None] - 1, start=1))
        found: ComplexArray = self.weights * (self.first + past)
        return found

    def squares(self, count: RealArray) -> RealArray:
        """Σ_{j<M} f_j² for each M ≥ 1 in `count`."""
        total = np.full(count.shape, self.first**2)
        for log, weight in zip(self.pair_logs.ravel().tolist(), self.pair_weights.ravel().tolist(), strict=True):
            total += (weight * geometric(np.asarray(log), count - 1, start=1)).real
        return total

    @cached_property
    def pair_logs(self) -> ComplexArray:
        """Log π_a + log π_b."""
        return self.logs[:, None] + self.logs[None, :]

    @cached_property
    def pair_weights(self) -> ComplexArray:
        """w_a w_b."""
        return self.weights[:, None] * self.weights[None, :]

    @cached_property
    def cancellation(self) -> float:
        """By how much the terms of Σ_j f_j² exceed their sum: what rounding errors are multiplied by."""
        if not self.logs.size:
            return 1.0
        reach = float((np.abs(self.pair_weights) / -np.expm1(self.pair_logs.real)).sum())
        whole = float(self.squares(np.array([2.0**60]))[0])
        return 1.0 + reach / whole if whole > 0.5 * self.first**2 else np.inf  # less cannot be: all is lost in rounding


def rational_series(zeros: ComplexArray, poles: ComplexArray) -> ExponentialSum:
    """Return the coefficients of Π (1 - zeros_i x) / Π (1 - poles_i x): distinct poles, no more zeros than poles.

    A pole of exactly 1 is allowed.
    """
    weights = np.empty(poles.size, dtype=np.complex128)
    for a, pole in enumerate(poles):
        # Differences of doubles that are near each other are exact; everything else is a product.
        others = np.delete(poles, a)
        extra = poles.size - zeros.size  # powers of the pole that the two products do not share
        weights[a] = np.prod(pole - zeros) / np.prod(pole - others) * pole ** (extra - 1)
    return ExponentialSum(log_of(poles), weights)


def log_of(poles: ComplexArray) -> ComplexArray:
    """Natural logarithms of points of the unit disc, accurate near 1."""
    real, imag = poles.real, poles.imag
    gap = 1.0 - np.abs(real)
    missing = gap * (1.0 + np.abs(real)) - imag**2  # 1 - |π|²
    return 0.5 * np.log1p(-missing) + 1j * np.arctan2(imag, real)


def geometric(log: NDArray[Any], count: RealArray, *, start: int = 0) -> NDArray[Any]:
    """Σ_{start ≤ j < start + count} exp(log · j), real or complex as `log` is; `count` terms of 1 where it is 0."""
    flat = log == 0
    safe = np.where(flat, -1.0, log)
    power = safe * count
    # exp of less than -745 is 0; NumPy gets there slowly and with warnings.
    power = np.where(power.real < -700.0, -700.0, power)
    total = np.expm1(power) / np.expm1(safe)
    if start:
        total = total * np.exp(safe * start)
    return np.where(flat, count, total)


def triangular(log: NDArray[Any], count: float) -> NDArray[Any]:
    """Σ_{0 ≤ j < n} (n - j) exp(log · j): the sum of the first n partial sums of a geometric series."""
    n = float(count)
    small = np.abs(log) * n < 1e-2
    safe = np.where(small, -1.0, log)
    ratio = np.exp(safe)
    exact = (n - ratio * geometric(safe, np.asarray(n))) / -np.expm1(safe)
    # Σ (n - j) (1 + log j + log² j²/2 + …): five terms leave 1e-14 where |log| n < 1e-2.
    powers = [n * (n + 1) / 2, (n - 1) * n * (n + 1) / 6, (n - 1) * n**2 * (n + 1) / 12]
    powers.append((n - 1) * n * (n + 1) * (3 * n**2 - 2) / 60)
    powers.append((n - 1) * n**2 * (n + 1) * (2 * n**2 - 3) / 60)
    series = powers[0] + log * (powers[1] + log * (powers[2] / 2 + log * (powers[3] / 6 + log * powers[4] / 24)))
    return np.where(small, series, exact)


def _last_alive(rate: float) -> float:
    """The index beyond which exp(rate · index) is 0 in doubles."""
    return 740.0 / -rate if rate < 0.0 else np.inf
