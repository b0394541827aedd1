"""LossCertificate: what the errors of a test prove about the privacy loss, at a stated confidence.

A test looks at the releases and says which of two neighbouring streams they came from. If it is wrong less often than
a promise allows, the promise is broken, whatever the test. From counted errors the two error rates are bounded by
Clopper and Pearson (1934), each at half of what the confidence leaves; every other number here follows from these two:

* ε at δ: an (ε, δ)-private mechanism has 1 - β ≤ e^ε α + δ, and the same with α and β changed round (Kairouz, Oh,
  Viswanath 2015, arXiv:1311.0776, Theorem 2.1). Holds for every mechanism.
* ρ for every mechanism: whether the test says "second" is a function of the releases, so its Rényi divergence of
  order a is at most ρa for every a.
* μ: a Gaussian mechanism with distance μ has Φ⁻¹(1 - α) - Φ⁻¹(β) ≤ μ (Dong, Roth, Su 2019, arXiv:1905.02383).
  All releases of dpstream under a Gaussian budget are *one* Gaussian mechanism, so this is the promise to hold them
  against, and ρ = μ²/2 the equivalent ρ. It is far tighter: one threshold sees at most 2/π of a small ρ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, ndtri

from dpstream.audit.gaussian_curve import epsilon_of
from dpstream.errors import InvalidArgument

__all__ = ["LossCertificate", "check_confidence", "error_rate_bound"]

#: Orders at which the Rényi divergence of a test's answer is looked at.
ORDERS = np.concatenate([1 + np.geomspace(1e-3, 1, 25), np.geomspace(2, 256, 40)[1:]])


@dataclass(frozen=True)
class LossCertificate:
    """Errors of one test, fixed before it was counted, and what they prove.

    Attributes
    ----------
    false_positives, first_trials
        How often the test said "second" of the first stream, and out of how many.
    false_negatives, second_trials
        How often it said "first" of the second, and out of how many.
    confidence
        The chance, at least, that all bounds hold at once.

    Examples
    --------
    >>> certificate = LossCertificate(0, 10_000, 9_000, 10_000, confidence=0.999999)
    >>> round(certificate.epsilon(), 2), round(certificate.mu, 2)
    (4.08, 1.61)
    """

    false_positives: int
    first_trials: int
    false_negatives: int
    second_trials: int
    confidence: float

    @property
    def false_positive_bound(self) -> float:
        """α is at most this."""
        return error_rate_bound(self.false_positives, self.first_trials, (1 - self.confidence) / 2)

    @property
    def false_negative_bound(self) -> float:
        """β is at most this."""
        return error_rate_bound(self.false_negatives, self.second_trials, (1 - self.confidence) / 2)

    def epsilon(self, delta: float = 0.0) -> float:
        """No mechanism that is (ε, δ)-private with a smaller ε would have been told apart so well."""
        return max(
            epsilon_bound(self.false_positive_bound, self.false_negative_bound, delta),
            epsilon_bound(self.false_negative_bound, self.false_positive_bound, delta),
        )

    @property
    def mu(self) -> float:
        """No Gaussian mechanism with a smaller μ would have been told apart so well."""
        return mu_bound(self.false_positive_bound, self.false_negative_bound)

    @property
    def rho(self) -> float:
        """The ρ of that Gaussian mechanism."""
        return self.mu**2 / 2

    @property
    def rho_of_any(self) -> float:
        """No mechanism at all that is ρ-zCDP with a smaller ρ would have been told apart so well."""
        alpha, beta = self.false_positive_bound, self.false_negative_bound
        if alpha + beta >= 1:
            return 0.0
        return max(_two_point_rho(1 - beta, alpha), _two_point_rho(1 - alpha, beta))

    def gaussian_epsilon(self, delta: float) -> float:
        """The ε at δ of the Gaussian mechanism with the certified μ."""
        return epsilon_of(self.mu, delta)


def error_rate_bound(errors: int, trials: int, risk: float) -> float:
    """The upper end of Clopper and Pearson's interval: a rate above it gives so few errors with chance `risk` at most.

    >>> round(error_rate_bound(0, 1000, 0.05), 6)  # the "rule of three"
    0.002991
    """
    if errors >= trials:
        return 1.0
    return float(betaincinv(errors + 1, trials - errors, 1 - risk))


def epsilon_bound(alpha: float, beta: float, delta: float = 0.0) -> float:
    """The least ε ≥ 0 with 1 - β ≤ e^ε α + δ."""
    gain = 1 - beta - delta
    return math.log(gain / alpha) if gain > alpha else 0.0


def mu_bound(alpha: float, beta: float) -> float:
    """The least μ ≥ 0 with Φ⁻¹(1 - α) - Φ⁻¹(β) ≤ μ."""
    if alpha + beta >= 1:
        return 0.0
    return float(-ndtri(alpha) - ndtri(beta))


def _two_point_rho(p: float, q: float) -> float:
    """The largest D_a / a over orders a > 1, of a coin with chance p against one with chance q."""
    a = ORDERS
    logs = np.logaddexp(
        a * math.log(p) + (1 - a) * math.log(q), a * _log_or_least(1 - p) + (1 - a) * _log_or_least(1 - q)
    )
    return max(0.0, float((logs / (a - 1) / a).max()))


def _log_or_least(x: float) -> float:
    return math.log(x) if x > 0 else -745.0


def check_confidence(confidence: object) -> float:
    """A confidence that proves something: from one half up to, but not including, 1."""
    if isinstance(confidence, (float, np.floating)) and 0.5 <= confidence < 1:
        return float(confidence)
    raise InvalidArgument("confidence", confidence, "a number from 0.5 to below 1")
