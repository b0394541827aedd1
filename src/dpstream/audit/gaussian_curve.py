"""The privacy curve of a Gaussian mechanism, computed once more: the audit must not believe what it audits.

`dpstream.budget` decides how much noise is added, by formulas that avoid cancellation. Nothing here comes from there:
the textbook formula (Balle and Wang 2018, arXiv:1805.06530, Theorem 8)

    δ(ε) = Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ)

is evaluated as it stands, in ball arithmetic of so many bits that cancellation does not matter, and solved by
bisection.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from flint import arb, ctx

__all__ = ["delta_of", "epsilon_of", "mu_of"]

#: Bits of the arithmetic. The two terms agree to about e^-ε μ of their size: 300 bits leave more than 100 beyond that.
BITS = 300
#: Halvings of an interval of at most 2^12: what is left is below 2^-58 of it.
HALVINGS = 70


def delta_of(mu: float, epsilon: float) -> float:
    """Return δ(ε) of the Gaussian mechanism of distance μ.

    >>> delta_of(1.0, 1.0)
    0.12693673750664394
    """
    with ctx.workprec(BITS):
        m, e = arb(mu), arb(epsilon)
        difference = _cumulative(m / 2 - e / m) - e.exp() * _cumulative(-m / 2 - e / m)
        return float(difference.mid())


def epsilon_of(mu: float, delta: float) -> float:
    """Return the least ε ≥ 0 for which the Gaussian mechanism of distance μ is (ε, δ)-private.

    >>> round(epsilon_of(1.0, 1e-6), 10)
    4.8865541175
    """
    if mu <= 0 or delta_of(mu, 0.0) <= delta:
        return 0.0
    # Φ(-x) ≤ e^(-x²/2) for x ≥ 0, so that δ(ε) ≤ δ at this ε at the latest.
    high = mu * mu / 2 + mu * math.sqrt(-2 * math.log(delta))
    return _crossing(lambda epsilon: delta_of(mu, epsilon) > delta, 0.0, high)


def mu_of(epsilon: float, delta: float) -> float:
    """Return the largest μ whose Gaussian mechanism is (ε, δ)-private.

    >>> round(mu_of(1.0, 1e-6), 10)
    0.2367043807
    """
    high = 1.0
    while delta_of(high, epsilon) <= delta:
        high *= 2
    return _crossing(lambda mu: delta_of(mu, epsilon) <= delta, 0.0, high)


def _cumulative(x: arb) -> arb:
    """Φ(x)."""
    return (-x / arb(2).sqrt()).erfc() / 2


def _crossing(before: Callable[[float], bool], low: float, high: float) -> float:
    """Return where `before` turns from true (at low) to false (at high)."""
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if before(middle) else (low, middle)
    return low
