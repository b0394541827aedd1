"""The exact (ε, δ) curve of the Gaussian mechanism (Balle and Wang 2018, arXiv:1805.06530, Theorem 8).

δ(ε) = Φ(-ε/μ + μ/2) - e^ε Φ(-ε/μ - μ/2), with μ the distance of neighbours over the standard deviation. What of SciPy
is needed is imported when a curve is first asked for, and roots are found here: importing scipy.optimize takes half a
second, which every command would pay.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpstream.balls import working_precision

__all__ = ["gaussian_delta", "gaussian_epsilon", "gaussian_mu"]

#: A larger ε gets the noise of this one: nothing is promised by either, and e^ε stays within what balls can hold.
LARGEST_EPSILON = 1e9

_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)


def gaussian_delta(mu: float, epsilon: float) -> float:
    """δ(ε) of the Gaussian mechanism: Φ(-ε/μ + μ/2) - e^ε Φ(-ε/μ - μ/2)."""
    return math.exp(_log_delta(mu, epsilon))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The least ε ≥ 0 with δ(ε) ≤ delta."""
    if delta >= gaussian_delta(mu, 0.0):
        return 0.0
    target = math.log(delta)
    # ε = μ²/2 + μ·y with Φ(-y) = δ is too large by the subtracted term only; it brackets the root from above.
    high = mu * mu / 2 + mu * math.sqrt(-2 * target) + 1e-300
    return _root(lambda e: _log_delta(mu, e) - target, 0.0, high)


@lru_cache(maxsize=1024)
def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest double μ whose Gaussian mechanism is (ε, δ)-private: decided in ball arithmetic, the same everywhere.

    Scales of noise are made of it, and neither the search nor a library of special functions may move its last digit.
    """
    epsilon = min(epsilon, LARGEST_EPSILON)
    low, high = 1.0, 2.0
    while _is_private(high, epsilon, delta):
        low, high = high, 2 * high
    while not _is_private(low, epsilon, delta):
        low, high = low / 2, low
    while (middle := low + (high - low) / 2) not in (low, high):  # neighbours: 53 halvings at most
        low, high = (middle, high) if _is_private(middle, epsilon, delta) else (low, middle)
    return low


def _is_private(mu: float, epsilon: float, delta: float) -> bool:
    """Whether δ(ε) ≤ delta, in ball arithmetic with as many bits as it takes to tell."""
    import flint

    bits = 128
    while True:
        with working_precision(bits):
            m, e = flint.arb(mu), flint.arb(epsilon)
            root = m * flint.arb(2).sqrt()
            # Φ(-x) = erfc(x/√2)/2
            first, second = ((e - m * m / 2) / root).erfc(), ((e + m * m / 2) / root).erfc()
            excess = (first - e.exp() * second) / 2 - flint.arb(delta)
            if excess < 0 or excess > 0:
                return bool(excess < 0)
        if bits > 2**16:  # equal, as far as anybody can tell: on the safe side
            return False
        bits *= 2


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


def _root(f: Callable[[float], float], a: float, b: float) -> float:
    """Return where f changes its sign between a and b, to 1e-14 of it: scipy.optimize.brentq, to the last bit.

    Brent 1973, Algorithms for Minimization without Derivatives, chapter 4: `x` is the best guess so far, `other` is on
    the other side of the root, `before` is the guess before; a step is a secant or an inverse quadratic one, or half of
    the interval where those do not help.
    """
    before, x, other = a, b, a
    f_before, f_x, f_other = f(a), f(b), f(a)
    step = step_before = 0.0
    if f_before == 0 or f_x == 0:
        return before if f_before == 0 else x
    for _ in range(500):
        if f_before != 0 and (f_before < 0) != (f_x < 0):
            other, f_other = before, f_before
            step = step_before = x - before
        if abs(f_other) < abs(f_x):
            before, x, other = x, other, x
            f_before, f_x, f_other = f_x, f_other, f_x
        near, half = (1e-300 + 1e-14 * abs(x)) / 2, (other - x) / 2
        if f_x == 0 or abs(half) < near:
            break
        trial = math.inf
        if abs(step_before) > near and abs(f_x) < abs(f_before):
            if before == other:
                trial = -f_x * (x - before) / (f_x - f_before)
            else:
                slope, slope_other = (f_before - f_x) / (before - x), (f_other - f_x) / (other - x)
                trial = -f_x * (f_other * slope_other - f_before * slope)
                trial /= slope_other * slope * (f_other - f_before)
        helps = 2 * abs(trial) < min(abs(step_before), 3 * abs(half) - near)
        step_before, step = (step, trial) if helps else (half, half)
        before, f_before = x, f_x
        x += step if abs(step) > near else near if half > 0 else -near
        f_x = f(x)
    return x


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
