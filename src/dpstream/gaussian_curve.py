"""The exact (ε, δ) curve of the Gaussian mechanism (Balle and Wang 2018, arXiv:1805.06530, Theorem 8).

δ(ε) = Φ(-ε/μ + μ/2) - e^ε Φ(-ε/μ - μ/2), with μ the distance of neighbours over the standard deviation. SciPy is
imported when a curve is first asked for: its import takes longer than that of all the rest.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["gaussian_delta", "gaussian_epsilon", "gaussian_mu"]

_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)


def gaussian_delta(mu: float, epsilon: float) -> float:
    """δ(ε) of the Gaussian mechanism: Φ(-ε/μ + μ/2) - e^ε Φ(-ε/μ - μ/2)."""
    return math.exp(_log_delta(mu, epsilon))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The least ε ≥ 0 with δ(ε) ≤ delta."""
    from scipy.optimize import brentq

    if delta >= gaussian_delta(mu, 0.0):
        return 0.0
    target = math.log(delta)
    # ε = μ²/2 + μ·y with Φ(-y) = δ is too large by the subtracted term only; it brackets the root from above.
    high = mu * mu / 2 + mu * math.sqrt(-2 * target) + 1e-300
    return float(brentq(lambda e: _log_delta(mu, e) - target, 0.0, high, xtol=1e-300, rtol=1e-14, maxiter=500))


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest μ whose Gaussian mechanism is (ε, δ)-private."""
    from scipy.optimize import brentq

    target = math.log(delta)
    low, high = 0.0, 1.0
    while _log_delta(high, epsilon) < target:
        low, high = high, 2 * high
    while low == 0.0:
        if _log_delta(high / 2, epsilon) < target:
            low = high / 2
        else:
            high /= 2
    return float(brentq(lambda m: _log_delta(m, epsilon) - target, low, high, xtol=1e-300, rtol=1e-14, maxiter=500))


def _log_delta(mu: float, epsilon: float) -> float:
    """Ln δ(ε), to nearly full relative precision also where δ is tiny or the two terms nearly cancel.

    With y = ε/μ - μ/2 both terms carry the factor φ(y):  δ = φ(y)·(m(y) - m(y + μ)),  m(x) = Φ(-x)/φ(x) Mills' ratio.
    """
    from scipy.special import log_ndtr

    y = epsilon / mu - mu / 2
    if y < -1:  # the first term is near 1 and the second is smaller: nothing cancels
        first, second = float(log_ndtr(-y)), epsilon + float(log_ndtr(-y - mu))
        return first + math.log1p(-math.exp(min(second - first, -1e-300)))
    if mu > 0.5:
        drop = _mills(y) - _mills(y + mu)
    else:  # the integral of -m'(x) = 1 - x·m(x) over [y, y + μ]
        nodes, weights = _gauss_legendre()
        drop = mu * float(np.dot(weights, _mills_slope(y + mu * nodes)))
    if drop <= 0.0:
        return -math.inf
    return -0.5 * y * y - _LOG_SQRT_2PI + math.log(drop)


@lru_cache(maxsize=1)
def _gauss_legendre() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nodes and weights on [0, 1], for differences that cancel when they are taken directly."""
    nodes, weights = np.polynomial.legendre.leggauss(20)
    return (nodes + 1) / 2, weights / 2


def _mills(x: float) -> float:
    from scipy.special import erfcx

    return math.sqrt(math.pi / 2) * float(erfcx(x / math.sqrt(2)))


def _mills_slope(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 - x·m(x); by its continued fraction where the subtraction would cancel."""
    from scipy.special import erfcx

    direct = 1 - x * math.sqrt(math.pi / 2) * erfcx(x / math.sqrt(2))
    if not np.any(x > 8):
        return np.asarray(direct)
    big = np.maximum(x, 8.0)
    tail = np.zeros_like(big)
    for k in range(60, 0, -1):  # m(x) = 1/(x + 1/(x + 2/(x + 3/(x + ...))))
        tail = k / (big + tail)
    return np.where(x > 8, tail / (big + tail), direct)
