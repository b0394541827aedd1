"""Privacy budgets: how much may be learned about one person, and what noise that takes.

A mechanism of this library with Gaussian noise is, all releases together, *one* Gaussian mechanism with
``μ = sensitivity · per_person / scale``; with Laplace noise it is one Laplace mechanism. So conversions need no
composition theorem and lose nothing: ρ = μ²/2, and (ε, δ) follows from the exact formula of Balle and Wang 2018
(arXiv:1805.06530, Theorem 8), far below the general bound ε = ρ + 2√(ρ ln(1/δ)) that holds for every zCDP mechanism.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpstream.arguments import check_positive, check_probability
from dpstream.errors import BudgetError, InvalidArgument, NoiseLawError
from dpstream.gaussian_curve import gaussian_delta, gaussian_epsilon, gaussian_mu
from dpstream.mechanisms.base import Mechanism, NoiseLaw
from dpstream.participation import Participation

__all__ = [
    "ZCDP",
    "ApproxDP",
    "Budget",
    "PureDP",
    "approx_dp",
    "budget_as_json",
    "budget_from_json",
    "check_budget",
    "noise_scale",
    "pure_dp",
    "zcdp",
]

#: Significant bits of a scale. Rounding up to them adds at most 5e-10 to the noise, and hides a difference of 1e-13 in
#: the sensitivity between two computers in all but one case of 2,000; a store refuses to go on in that one.
SCALE_BITS = 32


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
        return check_positive("sensitivity", sensitivity) / self.mu

    def to_zcdp(self) -> ZCDP:
        """The zCDP budget of the same Gaussian noise: ρ = μ²/2."""
        return ZCDP(self.mu**2 / 2)

    def to_approx_dp(self, *, delta: float | None = None, epsilon: float | None = None) -> ApproxDP:
        """The (ε, δ) budget of the same Gaussian noise, at the given δ or at the given ε; exact."""
        if (delta is None) == (epsilon is None):
            raise BudgetError("delta, epsilon", (delta, epsilon), "exactly one of the two")
        if delta is not None:
            return ApproxDP(gaussian_epsilon(self.mu, check_probability("delta", delta, BudgetError)), delta)
        assert epsilon is not None  # noqa: S101
        return ApproxDP(epsilon, gaussian_delta(self.mu, check_positive("epsilon", epsilon, BudgetError)))


@dataclass(frozen=True)
class ZCDP(_GaussianBudget):
    """ρ-zero-concentrated differential privacy (Bun and Steinke 2016)."""

    rho: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", check_positive("rho", self.rho, BudgetError))

    @property
    def mu(self) -> float:
        return math.sqrt(2 * self.rho)


@dataclass(frozen=True)
class ApproxDP(_GaussianBudget):
    """(ε, δ)-differential privacy, met by Gaussian noise with equality."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_positive("epsilon", self.epsilon, BudgetError))
        object.__setattr__(self, "delta", check_probability("delta", self.delta, BudgetError))

    @property
    def mu(self) -> float:
        return gaussian_mu(self.epsilon, self.delta)


@dataclass(frozen=True)
class PureDP(Budget):
    """Pure ε-differential privacy, met by Laplace noise."""

    epsilon: float
    noise: NoiseLaw = "laplace"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_positive("epsilon", self.epsilon, BudgetError))
        if self.noise != "laplace":
            raise BudgetError("noise", self.noise, "'laplace' for a pure budget")

    def __repr__(self) -> str:
        return f"PureDP(epsilon={self.epsilon!r})"

    def scale(self, sensitivity: float) -> float:
        return check_positive("sensitivity", sensitivity) / self.epsilon

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


def budget_as_json(budget: Budget) -> dict[str, Any]:
    """Return a budget as JSON has it; a budget of a kind of your own by its repr, which cannot be read back."""
    for kind, known in _KINDS.items():
        if type(budget) is known:
            return {"kind": kind} | {name: getattr(budget, name) for name in _KIND_FIELDS[kind]}
    return {"kind": "other", "repr": repr(budget)}


def budget_from_json(given: Mapping[str, Any]) -> Budget:
    """Build the budget that `budget_as_json` wrote.

    Examples
    --------
    >>> budget_from_json({"kind": "approx_dp", "epsilon": 1.0, "delta": 1e-06})
    ApproxDP(epsilon=1.0, delta=1e-06)
    """
    fields = _KIND_FIELDS.get(given.get("kind", ""))
    if fields is None or set(given) != {"kind", *fields}:
        raise BudgetError("budget", dict(given), "what budget_as_json() wrote")
    made: Budget = _KINDS[given["kind"]](**{name: given[name] for name in fields})
    return made


_KINDS: dict[str, type[Any]] = {"zcdp": ZCDP, "approx_dp": ApproxDP, "pure_dp": PureDP}
_KIND_FIELDS = {"zcdp": ("rho",), "approx_dp": ("epsilon", "delta"), "pure_dp": ("epsilon",)}


def check_budget(budget: object) -> Budget:
    """Return `budget`; refuse anything but a budget."""
    if not isinstance(budget, Budget):
        raise InvalidArgument("budget", budget, "a budget: zcdp(rho), approx_dp(epsilon, delta) or pure_dp(epsilon)")
    return budget


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

    Notes
    -----
    The scale is rounded up to 32 significant bits. Sensitivities and μ come out of linear algebra and root search,
    whose last digits differ from one computer to another; a stream's key and noise must not.
    """
    if mechanism.noise != budget.noise:
        raise NoiseLawError(
            f"{budget!r} needs {budget.noise} noise, but {mechanism!r} is built for {mechanism.noise} noise"
        )
    return _round_up(budget.scale(mechanism.sensitivity(participation) * check_positive("per_person", per_person)))


def _round_up(x: float) -> float:
    """Return the least number ≥ x > 0 with SCALE_BITS significant bits, or x where that is beyond the doubles.

    >>> _round_up(1.0), _round_up(1.0 + 1e-15) - 1.0 == 2.0**-31
    (1.0, True)
    """
    if not 2.0**-900 < x < 2.0**900:
        return x
    fraction, exponent = math.frexp(x)
    return math.ldexp(math.ceil(math.ldexp(fraction, SCALE_BITS)), exponent - SCALE_BITS)
