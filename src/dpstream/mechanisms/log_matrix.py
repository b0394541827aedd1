"""Log-matrix mechanism: no horizon, an error that grows like log³, memory that grows with the stream.

Guarantee: rho-zCDP for streams that differ in one element by at most `per_person`,
all releases together, adaptive inputs.
Error: V = 16.4, 32.0, 49.5 at 2^10, 2^16, 2^20 steps.
Cost: one draw a step, amortised O(log² t) time, 2t vectors of memory.
Jacobsen, Fawaz 2025, arXiv:2506.15018; γ and δ are ours, chosen for streams of a thousand to a
million steps.

With P = (1/z) ln(1/(1-z)) and Q = (2/z) ln P, both 1 at z = 0,

    R(z) = (1 - z)^(-1/2) P^γ Q^δ,   L(z) = (1 - z)^(-1/2) P^(-γ) Q^(-δ),   L(z) R(z) = 1/(1 - z).

For γ < -1/2 the coefficients of R are square-summable: one sensitivity serves a stream without end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
import scipy  # its parts are loaded when they are first used
from numpy.typing import NDArray

from dpstream import portable
from dpstream.errors import InvalidArgument
from dpstream.mechanisms.base import NoiseLaw, check_noise_law
from dpstream.mechanisms.convolution import ConvolutionMechanism
from dpstream.mechanisms.toeplitz import SENSITIVITY_MARGIN, lower_toeplitz
from dpstream.mechanisms.toeplitz_participation import lag_bound
from dpstream.participation import Participation

__all__ = ["LogMatrix"]

_Complex = tuple[NDArray[np.float64], NDArray[np.float64]]
LN10 = 2.302585092994046
#: Points at a time, so that all stays in the cache.
PIECE = 2**12

#: Coefficients of R that the bound for several steps of one person looks at one by one.
PARTICIPATION_TERMS = 2**16


@dataclass(frozen=True)
class LogMatrix(ConvolutionMechanism):
    """L and R Toeplitz, each the square root of A times powers of logarithms that make R square-summable.

    Parameters
    ----------
    gamma
        The power of P, from -4 to -0.6: nearer to -1/2 favours ever longer streams.
    delta
        The power of Q, from 0 to 6.

    Examples
    --------
    >>> m = LogMatrix()
    >>> round(m.sensitivity() ** 2, 3), [round(m.variance(2**k), 1) for k in (10, 16)]
    (6.355, [16.4, 32.0])
    """

    gamma: float = -2.203
    delta: float = 3.169
    horizon: None = field(default=None, init=False, repr=False, compare=False)
    noise: NoiseLaw = field(default="gaussian", kw_only=True, repr=False, compare=False)

    reference: ClassVar[str] = "Jacobsen, Fawaz 2025, arXiv:2506.15018"

    def __post_init__(self) -> None:
        for name, low, high in (("gamma", -4.0, -0.6), ("delta", 0.0, 6.0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
                raise InvalidArgument(name, value, f"a number from {low} to {high}")
            object.__setattr__(self, name, float(value))
        check_noise_law("LogMatrix", self.noise, allowed=("gaussian",))

    def coefficients(self, count: int) -> NDArray[np.float64]:
        """Return l_0 .. l_{count-1}."""
        return _series(-self.gamma, -self.delta, max(64, 1 << (count - 1).bit_length()))[:count]

    def _right(self, count: int) -> NDArray[np.float64]:
        return _series(self.gamma, self.delta, max(64, 1 << (count - 1).bit_length()))[:count]

    def _factors(self, steps: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return lower_toeplitz(self.coefficients(steps)), lower_toeplitz(self._right(steps))

    @cached_property
    def _squared_norm(self) -> float:
        """Σ_k r_k² over all k, rounded up."""
        return _square_sum(self.gamma, self.delta)

    def _sensitivity(self, participation: Participation) -> tuple[float, bool]:
        k, s = participation.times, participation.separation
        single = self._squared_norm**0.5
        if k == 1:
            return SENSITIVITY_MARGIN * single, True
        r = np.abs(self._right(PARTICIPATION_TERMS))
        beyond = max(self._squared_norm - float(r @ r), 0.0) ** 0.5
        envelope = np.maximum.accumulate(r[::-1])[::-1]

        def product_bound(lag: int) -> float:
            # Σ_i r_i r_{i+d} for any d ≥ lag. While i + d is among the terms at hand, r_{i+d} is at most the
            # envelope at i + lag; what is left pairs r with its own tail, and Cauchy and Schwarz bound that
            # without knowing it.
            if lag == 0:
                return self._squared_norm
            paired = float(r[:-lag] @ envelope[lag:]) if lag < r.size else 0.0
            return paired + float(single * beyond)

        return SENSITIVITY_MARGIN * min(lag_bound(product_bound, k, s) ** 0.5, k * single), False

    def squared_row_norm(self, t: int) -> float:
        coefficients = self.coefficients(t)
        return float(coefficients @ coefficients)

    def squared_row_norms(self, steps: int) -> NDArray[np.float64]:
        return np.cumsum(self.coefficients(steps) ** 2)


@lru_cache(maxsize=32)
def _series(gamma: float, delta: float, count: int) -> NDArray[np.float64]:
    """Return the first `count` (a power of two, at least 64) coefficients of (1-z)^(-1/2) P^γ Q^δ.

    Every octave keeps the doubles of the run that first reached it, so that a coefficient never changes as a
    stream grows.
    """
    series = _by_contour(gamma, delta, count)
    if count > 64:
        series[: count // 2] = _series(gamma, delta, count // 2)
    series[0] = 1.0
    series.flags.writeable = False
    return series


def _by_contour(gamma: float, delta: float, count: int) -> NDArray[np.float64]:
    """Cauchy's integral over the circle of radius e^(-a) by FFT with 8 points a coefficient.

    Coefficients alias with e^(-8 count a) = 1e-15; rounding grows by at most e^(count a) = 75.
    """
    points = 8 * count
    a = 15.0 * LN10 / points
    real, imag = np.empty(points // 2 + 1), np.empty(points // 2 + 1)
    for first in range(0, real.size, PIECE):
        here = slice(first, min(first + PIECE, real.size))
        angle = np.arange(here.start, here.stop, dtype=np.float64) * (2.0 * math.pi / points)
        real[here], imag[here] = _on_circle(gamma, delta, a, angle)
    return portable.real_sequence(real, -imag)[:count] * portable.exp(a * np.arange(count))


def _on_circle(gamma: float, delta: float, a: float, angle: NDArray[np.float64]) -> _Complex:
    """(1-z)^(-1/2) P^γ Q^δ at z = e^(-a + i·angle): real and imaginary parts, the same bits on every machine."""
    (shrunk,), (grown,), (lost,) = portable.exp([-a]), portable.exp([a]), portable.expm1([-a])
    cosine, sine = portable.cosine_sine(angle)
    _, half = portable.cosine_sine(0.5 * angle)
    # 1 - z without cancellation where z is near 1: there the function is largest.
    log_gap = _logarithm(2.0 * half * half - lost * cosine, -shrunk * sine)
    inverse = grown * cosine, -grown * sine
    log_P = _logarithm(*_product((-log_gap[0], -log_gap[1]), inverse))
    log_Q = _logarithm(*_product((2.0 * log_P[0], 2.0 * log_P[1]), inverse))
    size, turn = (gamma * p + delta * q - 0.5 * g for p, q, g in zip(log_P, log_Q, log_gap, strict=True))
    cosine, sine = portable.cosine_sine(turn)
    size = portable.exp(size)
    return size * cosine, size * sine


def _product(x: _Complex, y: _Complex) -> _Complex:
    return x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]


def _logarithm(real: NDArray[np.float64], imag: NDArray[np.float64]) -> _Complex:
    return 0.5 * portable.log(real * real + imag * imag), portable.arctan2(imag, real)


def _square_sum(gamma: float, delta: float) -> float:
    """Σ_k r_k² = (1/π) ∫_0^π |R(e^(iθ))|² dθ (Parseval), rounded up.

    |R|² dθ has a pole 1/θ tamed only by logarithms, so the integral runs over v with 2 sin(θ/2) = e^(-u), and
    u = e^v where u > 1. On that circle ln(1/(1-z)) = u + i(π-θ)/2, |1-z| = e^(-u).
    Far out the integrand is e^(-bv) (2v)^m, b = -2γ - 1, m = 2δ; what is beyond `last` is bounded in closed
    form.
    """

    def magnitude(u: float) -> float:
        theta = 2.0 * math.asin(min(0.5 * math.exp(-u), 1.0))
        inverse = complex(math.cos(theta), -math.sin(theta))
        P = complex(u, 0.5 * (math.pi - theta)) * inverse
        Q = 2.0 * np.log(P) * inverse
        return float(abs(P) ** (2.0 * gamma) * abs(Q) ** (2.0 * delta))

    def over_angle(theta: float) -> float:
        chord = 2.0 * math.sin(0.5 * theta)
        return magnitude(-math.log(chord)) / chord

    def over_logarithm(v: float) -> float:
        # dθ/|1-z| = du/cos(θ/2), du = u dv
        u = math.exp(v)
        return magnitude(u) * u / math.sqrt(1.0 - 0.25 * math.exp(-2.0 * u))

    b, m = -(2.0 * gamma + 1.0), 2.0 * delta
    last = 20.0
    for _ in range(50):
        last = max(20.0, (40.0 + m * math.log(2.0 * last)) / b)
    last = math.ceil(last)
    parts: list[tuple[Callable[[float], float], float, float]] = [(over_angle, 2.0 * math.asin(0.5 / math.e), math.pi)]
    parts += [(over_logarithm, float(v), float(v) + 1.0) for v in range(last)]
    total = error = 0.0
    for integrand, low, high in parts:
        value, slack = scipy.integrate.quad(integrand, low, high, epsabs=1e-13, epsrel=1e-11, limit=200)
        total, error = total + value, error + slack
    # ∫_v^∞ e^(-bx) (2x)^m dx ≤ e^(-bv) (2v)^m / (b - m/v), since (x/v)^m ≤ e^(m(x-v)/v).
    total += 1.01 * math.exp(-b * last) * (2.0 * last) ** m / (b - m / last)
    return float((total + error) / math.pi * (1.0 + 1e-10))
