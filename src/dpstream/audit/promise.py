"""Promises: what a budget says about the two error rates of any test, and in which unit it is counted.

A Gaussian budget promises a Gaussian mechanism of distance μ, so it is held against the certified μ: as ρ = μ²/2, or as
the ε of that μ at the budget's δ. A pure budget promises ε to every test.

Only the numbers that the user gave to the budget (ρ, ε, δ) are read. What follows from them is computed here and in
`gaussian_curve`, never by the budget's own methods: these decide the noise, and are under audit themselves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtr, ndtri

from dpstream.audit.certificate import LossCertificate
from dpstream.audit.gaussian_curve import epsilon_of, mu_of
from dpstream.budget import ZCDP, ApproxDP, Budget, PureDP
from dpstream.errors import InvalidArgument, NoiseLawError

__all__ = ["Promise", "predicted_bounds"]

#: Of many thresholds, those that look best on pilot trials were lucky; this much doubt keeps to the well-measured ones.
PESSIMISM = 0.99
#: Stands for an infinite loss where an infinity would not do.
ENDLESS = 99.0


@dataclass(frozen=True)
class Promise:
    """A budget, as an auditor sees it.

    Examples
    --------
    >>> from dpstream import zcdp
    >>> promise = Promise(zcdp(0.5))
    >>> promise.name, promise.value
    ('ρ', 0.5)
    >>> promise.least_errors(np.array([0.5])).round(4).tolist()  # Φ(Φ⁻¹(0.5) - 1)
    [0.1587]
    """

    budget: Budget

    def __post_init__(self) -> None:
        if not isinstance(self.budget, (ZCDP, ApproxDP, PureDP)):
            raise InvalidArgument(
                "budget",
                self.budget,
                "zcdp(rho), approx_dp(epsilon, delta) or pure_dp(epsilon); no other can be audited",
            )

    @property
    def pure(self) -> bool:
        """Whether every test is held against ε, with no law of the noise assumed."""
        return isinstance(self.budget, PureDP)

    @cached_property
    def mu(self) -> float:
        """The promised distance μ of the Gaussian mechanism."""
        if isinstance(self.budget, ZCDP):
            return math.sqrt(2 * self.budget.rho)
        if isinstance(self.budget, ApproxDP):
            return mu_of(self.budget.epsilon, self.budget.delta)
        raise NoiseLawError(f"{self.budget!r} promises ε to every test, and no Gaussian mechanism")

    @property
    def name(self) -> str:
        """The letter of what is promised."""
        return "ε" if isinstance(self.budget, (ApproxDP, PureDP)) else "ρ"

    @property
    def proviso(self) -> str:
        """The δ at which ε is promised, in words that follow the number; nothing for other budgets."""
        return f" at δ = {self.budget.delta:g}" if isinstance(self.budget, ApproxDP) else ""

    @property
    def value(self) -> float:
        """What is promised."""
        if isinstance(self.budget, (ApproxDP, PureDP)):
            return self.budget.epsilon
        assert isinstance(self.budget, ZCDP)  # noqa: S101
        return self.budget.rho

    def measured(self, certificate: LossCertificate) -> float:
        """What a certificate proves, in the same unit."""
        if isinstance(self.budget, PureDP):
            return certificate.epsilon()
        if isinstance(self.budget, ApproxDP):
            return max(certificate.gaussian_epsilon(self.budget.delta), certificate.epsilon(self.budget.delta))
        return certificate.rho

    def at_rates(self, alpha: float, beta: float) -> float:
        """What error rates, if they were known exactly, would prove."""
        loss = float(self.strength(np.array([alpha]), np.array([beta]))[0])
        if loss >= ENDLESS or self.pure:
            return loss if loss < ENDLESS else math.inf
        if isinstance(self.budget, ApproxDP):
            return epsilon_of(loss, self.budget.delta)
        return loss**2 / 2

    @property
    def strength_promised(self) -> float:
        """The promise in the unit of `strength`: ε if pure, else μ."""
        return self.value if self.pure else self.mu

    def strength_of(self, value: float) -> float:
        """Turn a loss in the unit of the promise (ρ or ε) into the unit of `strength`; huge losses count alike."""
        if self.pure:
            return value
        if not value < ENDLESS**2:
            return ENDLESS
        if isinstance(self.budget, ApproxDP):
            return mu_of(value, self.budget.delta) if value > 0 else 0.0
        return math.sqrt(2 * value)

    def part(self, of_sensitivity: float) -> float:
        """The part of the promise that is spent when this part of the squared sensitivity (or of a pure ε) is."""
        if not isinstance(self.budget, ApproxDP):
            return of_sensitivity
        return epsilon_of(self.mu * of_sensitivity**0.5, self.budget.delta) / self.budget.epsilon

    def strength(self, alpha: NDArray[np.float64], beta: NDArray[np.float64]) -> NDArray[np.float64]:
        """How much each pair of error rates proves: ε if pure, else μ. For choosing a threshold."""
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.pure:
                found = np.maximum(np.log((1 - beta) / alpha), np.log((1 - alpha) / beta))
            else:
                found = -ndtri(alpha) - ndtri(beta)
        known = np.nan_to_num(found, nan=0.0, posinf=ENDLESS, neginf=0.0)
        return np.asarray(np.where(alpha + beta < 1, known, 0.0), dtype=np.float64)

    def least_errors(self, alpha: NDArray[np.float64]) -> NDArray[np.float64]:
        """The promised trade-off curve: no test with this α has a β below."""
        if not self.pure:
            return np.asarray(ndtr(-ndtri(alpha) - self.mu))
        e = math.exp(self.value)
        least: NDArray[np.float64] = np.maximum(0.0, np.maximum(1 - e * alpha, (1 - alpha) / e))
        return least


def predicted_bounds(errors: NDArray[np.int64], seen: int, later: int, risk: float) -> NDArray[np.float64]:
    """The error-rate bound to expect of `later` trials, from the errors in `seen` ones, on the pessimistic side."""
    rate = np.where(errors < seen, betaincinv(errors + 1, np.maximum(seen - errors, 1), PESSIMISM), 1.0)
    expected = rate * later
    bound = betaincinv(expected + 1, np.maximum(later - expected, 1e-9), 1 - risk)
    return np.where(errors < seen, bound, 1.0)
