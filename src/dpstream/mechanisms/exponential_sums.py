"""Sequences that are sums of real and complex exponentials, and closed forms for their partial sums.

A rational power series Π (1 - ζ_i x) / Π (1 - π_i x) with distinct poles has the coefficients

    f_0 = 1,   f_j = Σ_a w_a π_a^j  (j ≥ 1),   w_a = Π_i (1 - ζ_i/π_a) / Π_{i≠a} (1 - π_i/π_a).

Σ_{j<n} f_j f_{j+l} and its likes are then sums over pairs of poles of geometric series: no cost grows with n. Poles
near 1 are held by their distance from 1, which is an exact difference of doubles, so that log π keeps all its digits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstream import portable
from dpstream.balls import rounded

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
            size = portable.exp(log.real * alive)
            if log.imag == 0.0:
                term = weight.real * size
            else:
                cosine, sine = portable.cosine_sine(log.imag * alive)
                term = size * (weight.real * cosine - weight.imag * sine)
            total += np.where(index > alive, 0.0, term)
        return np.where(index == 0, self.first, total)

    def partial_weights(self, count: RealArray) -> ComplexArray:
        """v_b(M), one row for each M in `count`: Σ_{j<M} f_j f_{j+l} = Re Σ_b v_b(M) π_b^l for every l ≥ 1."""
        found = np.empty((count.size, self.logs.size), dtype=np.complex128)
        for b, own in enumerate(self.weights.tolist()):
            real, imag = np.full(count.shape, self.first), np.zeros(count.shape)
            for a, weight in enumerate(self.weights.tolist()):
                series = _geometric_parts(complex(self.pair_logs[a, b]), count - 1.0)
                real, imag = real + _real(weight, series), imag + _imag(weight, series)
            found[:, b].real, found[:, b].imag = _real(own, (real, imag)), _imag(own, (real, imag))
        return found

    def squares(self, count: RealArray) -> RealArray:
        """Σ_{j<M} f_j² for each M ≥ 1 in `count`."""
        total = np.full(count.shape, self.first * self.first)
        for a, b in zip(*np.triu_indices(self.logs.size), strict=True):
            term = _real(complex(self.pair_weights[a, b]), _geometric_parts(complex(self.pair_logs[a, b]), count - 1.0))
            total += term if a == b else 2.0 * term
        return total

    @cached_property
    def pair_logs(self) -> ComplexArray:
        """Log π_a + log π_b."""
        return self.logs[:, None] + self.logs[None, :]

    @cached_property
    def pair_weights(self) -> ComplexArray:
        """w_a w_b."""
        weights = self.weights.tolist()
        return np.array([[_product((v, w)) for w in weights] for v in weights], dtype=np.complex128).reshape(
            len(weights), len(weights)
        )

    def bend(self, a: int, b: int) -> float:
        """|w_a w_b μ²/(e^μ - 1)|, μ = log π_a + log π_b."""
        mu, weight = complex(self.pair_logs[a, b]), complex(self.pair_weights[a, b])
        grown = _expm1_parts(np.asarray(mu.real), np.asarray(mu.imag))
        below = complex(float(grown[0]), float(grown[1]))
        return _size(weight) * (mu.real * mu.real + mu.imag * mu.imag) / _size(below)

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
        weight = _quotient(_product((pole - zeros).tolist()), _product((pole - others).tolist()))
        own = complex(pole)
        weights[a] = _quotient(weight, own) if extra == 0 else _product((weight, *[own] * (extra - 1)))
    return ExponentialSum(log_of(poles), weights)


def log_of(poles: ComplexArray) -> ComplexArray:
    """Natural logarithms of points of the unit disc, accurate near 1."""
    real, imag = poles.real, poles.imag
    gap = 1.0 - np.abs(real)
    missing = gap * (1.0 + np.abs(real)) - np.square(imag)  # 1 - |π|²
    logs = np.zeros(poles.shape, dtype=np.complex128)
    logs.real = 0.5 * portable.log1p(-missing)
    logs.imag = [_angle(complex(pole)) for pole in poles]
    return logs


@lru_cache(maxsize=4096)
def _angle(pole: complex) -> float:
    """The angle of a point, the double nearest to it."""
    if pole.imag == 0.0:
        return 0.0 if pole.real > 0.0 else math.pi
    import flint

    return rounded(lambda: flint.arb.atan2(flint.arb(pole.imag), flint.arb(pole.real)))


def _product(factors: Iterable[complex]) -> complex:
    """The product from the first factor to the last, each multiplication and addition rounded by itself.

    Compilers may fuse the two in a language's own complex numbers.
    """
    real, imag = 1.0, 0.0
    for factor in factors:
        if factor.imag == 0.0 and imag == 0.0:
            real = real * factor.real
            continue
        left, right = real * factor.real, imag * factor.imag
        turned, crossed = real * factor.imag, imag * factor.real
        real, imag = left - right, turned + crossed
    return complex(real, imag)


def _quotient(above: complex, below: complex) -> complex:
    """Above / below, as `_product` multiplies."""
    if below.imag == 0.0:
        return complex(above.real / below.real, above.imag / below.real)
    size = below.real * below.real + below.imag * below.imag
    scaled = _product((above, below.conjugate()))
    return complex(scaled.real / size, scaled.imag / size)


def _size(z: complex) -> float:
    return math.sqrt(z.real * z.real + z.imag * z.imag)


_Parts = tuple[RealArray, RealArray]


def _real(weight: complex, parts: _Parts) -> RealArray:
    """The real part of weight · parts."""
    return weight.real * parts[0] if weight.imag == 0.0 else weight.real * parts[0] - weight.imag * parts[1]


def _imag(weight: complex, parts: _Parts) -> RealArray:
    """The imaginary part of weight · parts."""
    return weight.real * parts[1] if weight.imag == 0.0 else weight.real * parts[1] + weight.imag * parts[0]


def _geometric_parts(log: complex, count: RealArray) -> _Parts:
    """Real and imaginary part of Σ_{1 ≤ j ≤ count} exp(log · j), as `geometric` has it, from portable operations."""
    if log == 0.0:
        return count, np.zeros(count.shape)
    power = np.maximum(log.real * count, -700.0)
    above = _expm1_parts(power, log.imag * np.where(power > -700.0, count, 0.0)) if log.imag else None
    if above is None:
        grown = portable.expm1(power) * float(portable.exp(log.real)) / float(portable.expm1(log.real))
        return grown, np.zeros(count.shape)
    one = _expm1_parts(np.asarray(log.real), np.asarray(log.imag))
    step = complex(float(one[0]), float(one[1]))
    factor = _quotient(complex(step.real + 1.0, step.imag), step)
    return _real(factor, above), _imag(factor, above)


def _expm1_parts(real: RealArray, imag: RealArray) -> _Parts:
    """Exp(real + i·imag) - 1: e^a cos b - 1 = (e^a - 1) cos b - 2 sin²(b/2)."""
    cosine, sine = portable.cosine_sine(imag)
    half = portable.cosine_sine(0.5 * imag)[1]
    size = portable.expm1(real)
    return size * cosine - 2.0 * np.square(half), (size + 1.0) * sine


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
