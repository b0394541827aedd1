"""Privacy budgets: how much may be learned about one person, and what noise that takes.

A mechanism of this library with Gaussian noise is, all releases together, *one* Gaussian mechanism with
``μ = sensitivity · per_person / scale``; with Laplace noise it is one Laplace mechanism. So conversions need no
composition theorem and lose nothing: ρ = μ²/2, and (ε, δ) follows from the exact formula of Balle and Wang 2018
(arXiv:1805.06530, Theorem 8), far below the general bound ε = ρ + 2√(ρ ln(1/δ)) that holds for every zCDP mechanism.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx, log_ndtr

from dpstream.errors import BudgetError, InvalidArgument, NoiseLawError
from dpstream.mechanisms.base import Mechanism, NoiseLaw
from dpstream.participation import Participation

__all__ = ["ZCDP", "ApproxDP", "Budget", "PureDP", "approx_dp", "noise_scale", "pure_dp", "zcdp"]

_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
#: Gauss-Legendre nodes on [0, 1], for differences that cancel when they are taken directly.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_NODES, _WEIGHTS = (_NODES + 1) / 2, _WEIGHTS / 2


class Budget(ABC):
    """A promise about every person in the data; see `zcdp`, `approx_dp` and `pure_dp`."""

    noise: NoiseLaw

    @abstractmethod
    def scale(self, sensitivity: float) -> float:
        """The scale of each draw that keeps this promise at the given sensitivity (times `per_person`).

        The standard deviation σ of Gaussian draws, the parameter b (standard deviation √2·b) of Laplace draws.
        """


class _GaussianBudget(Budget):
    noise: NoiseLaw = "gaussian"

    @property
    @abstractmethod
    def mu(self) -> float:
        """The μ of the Gaussian mechanism that spends this budget exactly: distance over standard deviation."""

    def scale(self, sensitivity: float) -> float:
        return _positive("sensitivity", sensitivity, InvalidArgument) / self.mu

    def to_zcdp(self) -> ZCDP:
        """The zCDP budget of the same Gaussian noise: ρ = μ²/2."""
        return ZCDP(self.mu**2 / 2)

    def to_approx_dp(self, *, delta: float | None = None, epsilon: float | None = None) -> ApproxDP:
        """The (ε, δ) budget of the same Gaussian noise, at the given δ or at the given ε; exact."""
        if (delta is None) == (epsilon is None):
            raise BudgetError("delta, epsilon", (delta, epsilon), "exactly one of the two")
        if delta is not None:
            return ApproxDP(gaussian_epsilon(self.mu, _probability("delta", delta)), delta)
        assert epsilon is not None  # noqa: S101
        return ApproxDP(epsilon, gaussian_delta(self.mu, _positive("epsilon", epsilon)))


@dataclass(frozen=True)
class ZCDP(_GaussianBudget):
    """ρ-zero-concentrated differential privacy (Bun and Steinke 2016)."""

    rho: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", _positive("rho", self.rho))

    @property
    def mu(self) -> float:
        return math.sqrt(2 * self.rho)


@dataclass(frozen=True)
class ApproxDP(_GaussianBudget):
    """(ε, δ)-differential privacy, met by Gaussian noise with equality."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _positive("epsilon", self.epsilon))
        object.__setattr__(self, "delta", _probability("delta", self.delta))

    @property
    def mu(self) -> float:
        return gaussian_mu(self.epsilon, self.delta)


@dataclass(frozen=True)
class PureDP(Budget):
    """Pure ε-differential privacy, met by Laplace noise."""

    epsilon: float
    noise: NoiseLaw = "laplace"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _positive("epsilon", self.epsilon))
        if self.noise != "laplace":
            raise BudgetError("noise", self.noise, "'laplace' for a pure budget")

    def __repr__(self) -> str:
        return f"PureDP(epsilon={self.epsilon!r})"

    def scale(self, sensitivity: float) -> float:
        return _positive("sensitivity", sensitivity, InvalidArgument) / self.epsilon

    def to_zcdp(self) -> ZCDP:
        """What pure ε implies for any mechanism: ρ = ε²/2 (Bun and Steinke 2016, Proposition 1.4)."""
        return ZCDP(self.epsilon**2 / 2)


def zcdp(rho: float) -> ZCDP:
    """A ρ-zCDP budget.

    Examples
    --------
    >>> zcdp(rho=0.5).to_approx_dp(delta=1e-6)
    ApproxDP(epsilon=4.88655..., delta=1e-06)
    """
    return ZCDP(rho)


def approx_dp(epsilon: float, delta: float) -> ApproxDP:
    """An (ε, δ) budget.

    Examples
    --------
    >>> approx_dp(epsilon=1, delta=1e-6).to_zcdp()
    ZCDP(rho=0.02801...)
    """
    return ApproxDP(epsilon, delta)


def pure_dp(epsilon: float) -> PureDP:
    """A pure ε budget.

    Examples
    --------
    >>> pure_dp(epsilon=1).scale(sensitivity=6)
    6.0
    """
    return PureDP(epsilon)


def noise_scale(
    mechanism: Mechanism, budget: Budget, *, per_person: float = 1.0, participation: Participation | None = None
) -> float:
    """The scale of the draws that `mechanism` needs to keep `budget`.

    Guarantee
    ---------
    Releasing ``A x + scale · L z`` keeps `budget` for neighbouring streams that differ in the steps of one person
    (`participation`), each step by at most `per_person` in ℓ2 (ℓ1 for pure ε); all releases together, up to the
    mechanism's horizon, also when later inputs depend on earlier releases. Assumed: the draws are independent and
    secret.

    Examples
    --------
    >>> from dpstream.mechanisms import Binary
    >>> noise_scale(Binary(7), zcdp(rho=0.5))  # three nodes: sensitivity √3, and √(2ρ) = 1
    1.732050...
    """
    if mechanism.noise != budget.noise:
        raise NoiseLawError(
            f"{budget!r} needs {budget.noise} noise, but {mechanism!r} is built and priced for {mechanism.noise} noise"
        )
    return budget.scale(mechanism.sensitivity(participation) * _positive("per_person", per_person, InvalidArgument))


# -- the exact curve of the Gaussian mechanism ----------------------------------------------------------------------


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
    return float(brentq(lambda e: _log_delta(mu, e) - target, 0.0, high, xtol=1e-300, rtol=1e-14, maxiter=500))


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest μ whose Gaussian mechanism is (ε, δ)-private."""
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
    y = epsilon / mu - mu / 2
    if y < -1:  # the first term is near 1 and the second is smaller: nothing cancels
        first, second = float(log_ndtr(-y)), epsilon + float(log_ndtr(-y - mu))
        return first + math.log1p(-math.exp(min(second - first, -1e-300)))
    if mu > 0.5:
        drop = _mills(y) - _mills(y + mu)
    else:  # the integral of -m'(x) = 1 - x·m(x) over [y, y + μ]
        x = y + mu * _NODES
        drop = mu * float(np.dot(_WEIGHTS, _mills_slope(x)))
    if drop <= 0.0:
        return -math.inf
    return -0.5 * y * y - _LOG_SQRT_2PI + math.log(drop)


def _mills(x: float) -> float:
    return math.sqrt(math.pi / 2) * float(erfcx(x / math.sqrt(2)))


def _mills_slope(x: np.ndarray[tuple[int], np.dtype[np.float64]]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """1 - x·m(x); by its continued fraction where the subtraction would cancel."""
    direct = 1 - x * math.sqrt(math.pi / 2) * erfcx(x / math.sqrt(2))
    if not np.any(x > 8):
        return np.asarray(direct)
    big = np.maximum(x, 8.0)
    tail = np.zeros_like(big)
    for k in range(60, 0, -1):  # m(x) = 1/(x + 1/(x + 2/(x + 3/(x + ...))))
        tail = k / (big + tail)
    return np.where(x > 8, tail / (big + tail), direct)


def _positive(name: str, value: float, error: type[InvalidArgument] = BudgetError) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise error(name, value, "a positive, finite number")
    if not (value > 0 and math.isfinite(value)):
        raise error(name, value, "a positive, finite number")
    return float(value)


def _probability(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)) or not 0 < value < 1:
        raise BudgetError(name, value, "a number strictly between 0 and 1")
    return float(value)
