"""What a store has promised in all: the budgets of its streams, composed.

All streams are taken to be about the same people, the worst case. Gaussian streams compose to one Gaussian mechanism
with μ² = Σ μ², also when later ones are chosen by what earlier ones showed (Dong, Roth and Su 2019, arXiv:1905.02383,
Corollary 3.3): nothing is lost. Pure ones add their ε. Streams of names are Gaussian but for the chance, a part of
their δ, that a name is published which one person alone has brought: these chances add up (docs/discovery.md, "Several
streams"). A stream counts in full from the day it is created: its budget covers all its releases, also those to come,
and retiring it takes nothing back.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dpstream.budget import ZCDP, ApproxDP, Budget, PureDP
from dpstream.errors import BudgetError, StoreDamaged
from dpstream.gaussian_curve import gaussian_epsilon

__all__ = ["NamesPromise", "Spent", "budget_as_json", "budget_from_json", "compose", "in_words", "promise_of"]


@dataclass(frozen=True)
class Spent:
    """The total budget of some streams.

    Attributes
    ----------
    streams
        How many streams.
    gaussian_rho
        ρ of all Gaussian streams together, as one Gaussian mechanism.
    pure_epsilon
        ε of all pure streams together.
    rho
        ρ-zCDP of all streams together: a pure stream counts ε²/2 (Bun and Steinke 2016, Proposition 1.4).
    name_delta
        The chance that a name is published which only one person has brought, of all streams of names together. If
        there are any, no zCDP or pure budget describes the total.
    """

    streams: int
    gaussian_rho: float
    pure_epsilon: float
    rho: float
    name_delta: float = 0.0

    def epsilon(self, delta: float) -> float:
        """The ε at which all streams together are (ε, δ)-differentially private.

        Exact if all streams are Gaussian or all are pure. If both kinds are there: the smaller of ε(δ) of the Gaussian
        ones plus the others' ε, and the bound ρ + 2√(ρ ln(1/δ)) that holds for every zCDP mechanism.
        """
        if not 0 < delta < 1:
            raise BudgetError("delta", delta, "a number strictly between 0 and 1")
        delta -= self.name_delta
        if delta <= 0:
            return math.inf
        gaussian = gaussian_epsilon(math.sqrt(2 * self.gaussian_rho), delta) if self.gaussian_rho else 0.0
        added = gaussian + self.pure_epsilon
        return min(added, self.rho + 2 * math.sqrt(self.rho * math.log(1 / delta)))

    def within(self, limit: Budget) -> bool:
        """Whether all streams together keep this promise; a billionth of it is left to rounding."""
        room = 1 + 1e-9
        if isinstance(limit, PureDP):
            return self.gaussian_rho == 0 and self.pure_epsilon <= limit.epsilon * room
        if isinstance(limit, ApproxDP):
            return self.streams == 0 or self.epsilon(limit.delta) <= limit.epsilon * room
        assert isinstance(limit, ZCDP)  # noqa: S101
        return not self.name_delta and self.rho <= limit.rho * room

    def in_terms_of(self, limit: Budget) -> str:
        """Return the total as a figure that can be held against this limit.

        >>> from dpstream import approx_dp, pure_dp, zcdp
        >>> spent = compose([zcdp(0.25), zcdp(0.25)])
        >>> [spent.in_terms_of(limit) for limit in (zcdp(1), approx_dp(2, 1e-6), pure_dp(2))]
        ['rho = 0.5', 'epsilon = 4.887 at delta = 1e-06', 'rho = 0.5, which no pure budget covers']
        """
        if isinstance(limit, ApproxDP):
            return f"epsilon = {self.epsilon(limit.delta) if self.streams else 0:.4g} at delta = {limit.delta:g}"
        if isinstance(limit, PureDP) and not self.gaussian_rho:
            return f"epsilon = {self.pure_epsilon:.6g}"
        if self.name_delta:
            return f"rho = {self.rho:.6g} and a chance of {self.name_delta:.3g} for names, which needs a delta"
        return f"rho = {self.rho:.6g}" + (", which no pure budget covers" if isinstance(limit, PureDP) else "")

    def __str__(self) -> str:
        pure = f", of which pure streams have epsilon = {self.pure_epsilon:.6g}" if self.pure_epsilon else ""
        names = f", and a chance of {self.name_delta:.3g} that a name appears too early" if self.name_delta else ""
        return f"rho = {self.rho:.6g} over {self.streams} stream{'' if self.streams == 1 else 's'}{pure}{names}"


@dataclass(frozen=True)
class NamesPromise:
    """What a stream of names promises: ρ for its noise, and the chance δ that a name is published too early."""

    rho: float
    delta: float

    @classmethod
    def of(cls, budget: Budget, threshold_share: float) -> NamesPromise:
        """Return the promise of a stream with this budget, of whose δ the threshold takes this part."""
        assert isinstance(budget, ApproxDP)  # noqa: S101
        noise = ApproxDP(budget.epsilon, budget.delta * (1 - threshold_share))
        return cls(noise.mu**2 / 2, budget.delta * threshold_share)


def compose(budgets: Iterable[Budget | NamesPromise]) -> Spent:
    """The total of these budgets.

    Examples
    --------
    >>> from dpstream import approx_dp, zcdp
    >>> total = compose([zcdp(0.25), zcdp(0.25)])
    >>> total.rho, round(total.epsilon(1e-6), 3)   # the same as one stream with rho = 0.5
    (0.5, 4.887)
    """
    all_of_them = list(budgets)
    gaussian = math.fsum(
        [b.rho for b in all_of_them if isinstance(b, ZCDP)]
        + [b.mu**2 / 2 for b in all_of_them if isinstance(b, ApproxDP)]
        + [b.rho for b in all_of_them if isinstance(b, NamesPromise)]
    )
    names = math.fsum(b.delta for b in all_of_them if isinstance(b, NamesPromise))
    pure = [b.epsilon for b in all_of_them if isinstance(b, PureDP)]
    return Spent(len(all_of_them), gaussian, math.fsum(pure), gaussian + math.fsum(e * e / 2 for e in pure), names)


def promise_of(settings: Mapping[str, Any], path: str) -> Budget | NamesPromise:
    """Return what the stream of these settings, as JSON has them, promises."""
    budget = budget_from_json(settings["budget"], path)
    return NamesPromise.of(budget, settings["threshold_share"]) if settings["lane"] == "names" else budget


def in_words(budget: Budget) -> str:
    """Return a budget in letters: rho = 0.5, or epsilon = 1 at delta = 1e-06."""
    if isinstance(budget, ZCDP):
        return f"rho = {budget.rho:g}"
    assert isinstance(budget, (ApproxDP, PureDP))  # noqa: S101
    return f"epsilon = {budget.epsilon:g}" + (f" at delta = {budget.delta:g}" if isinstance(budget, ApproxDP) else "")


def budget_as_json(budget: Budget) -> dict[str, object]:
    """A budget for a stream's configuration."""
    if isinstance(budget, ZCDP):
        return {"kind": "zcdp", "rho": budget.rho}
    if isinstance(budget, ApproxDP):
        return {"kind": "approx_dp", "epsilon": budget.epsilon, "delta": budget.delta}
    assert isinstance(budget, PureDP)  # noqa: S101
    return {"kind": "pure_dp", "epsilon": budget.epsilon}


def budget_from_json(kept: dict[str, object], path: str) -> Budget:
    """Undo `budget_as_json`."""
    kinds: dict[object, type[Budget]] = {"zcdp": ZCDP, "approx_dp": ApproxDP, "pure_dp": PureDP}
    values = dict(kept)
    kind = kinds.get(values.pop("kind", None))
    if kind is None:
        raise StoreDamaged(path=path, what="a stream has a budget of a kind that this dpstream does not know")
    return kind(**values)
