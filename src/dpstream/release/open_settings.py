"""OpenSettings: everything that decides an OpenCounter's noise and its threshold, checked once, in one spelling.

docs/discovery.md proves what is promised here. In short: all names together are one Gaussian mechanism, of which one
person moves at most `names_per_person` names; that takes a part of δ. The other part is the chance that a name that
only one person has brought reaches the threshold at any step.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dpstream.arguments import check_horizon, check_probability, check_text, check_whole, check_windows
from dpstream.balls import working_precision
from dpstream.budget import ApproxDP, Budget, budget_as_json, budget_from_json, check_budget, noise_scale, zcdp
from dpstream.errors import (
    BudgetError,
    DpstreamError,
    FitNotConverged,
    HorizonExceeded,
    InputTypeError,
    InvalidArgument,
    SumsTooLarge,
)
from dpstream.mechanisms import BalancedToeplitz, FittedToeplitz
from dpstream.mechanisms.as_json import mechanism_from_json, mechanism_to_json
from dpstream.mechanisms.base import Mechanism
from dpstream.noise.keystream import check_key, derive_key, fresh_key
from dpstream.noise.named import NamedNoise, serves_names
from dpstream.release.change_law import change_between, change_half_width, change_variance
from dpstream.release.error_bars import half_width
from dpstream.release.lane import Lane
from dpstream.release.mechanism_argument import check_mechanism
from dpstream.release.name_spelling import check_name
from dpstream.release.noise_law import RealNoise, noise_at, rounded_stddev
from dpstream.release.settings import LARGEST_SUM, NOISE_ROOM

__all__ = ["OpenSettings", "mechanism_for_names"]

#: Sums of tails that are this close to what is allowed, relative to it, are decided by ball arithmetic.
UNDECIDED = 1e-9
#: The threshold looks at the noise of every step.
MOST_STEPS = 2**20
#: Floating point computes a tail of the normal law to 1e-13 of itself, a row's norm to 1e-9.
TAIL_ERROR = 1e-6


@dataclass(frozen=True)
class OpenSettings:
    """The settings of one `OpenCounter`, checked and complete. Built by `of` or `from_json`.

    Attributes
    ----------
    horizon, budget, mechanism, windows, name
        As for a `Counter`; the budget is always (ε, δ).
    names_per_person
        C: how many names one person may bring, over all steps.
    per_name
        m: how much one person may add to one name, over all steps.
    threshold_share
        The part of δ that the threshold takes; the noise takes the rest.
    people_share
        With `per_name` above 1: the part of the Gaussian mechanism's ρ that the numbers of people take, by which names
        are chosen; the counts take the rest. With `per_name` 1 both are the same number, and nothing is split.
    declared
        Names that are public beforehand: released from the first step on.
    """

    horizon: int
    budget: ApproxDP
    names_per_person: int
    per_name: int
    mechanism: Mechanism
    windows: tuple[int, ...]
    threshold_share: float
    people_share: float
    declared: tuple[str, ...]
    name: str
    #: One person more or less.
    neighbours: ClassVar[Literal["add-remove"]] = "add-remove"

    @classmethod
    def of(
        cls,
        horizon: int,
        budget: Budget,
        *,
        names_per_person: int,
        per_name: int = 1,
        windows: Sequence[int] = (),
        mechanism: Mechanism | str = "auto",
        threshold_share: float = 0.5,
        people_share: float = 0.5,
        declared: Sequence[str] = (),
        name: str = "",
    ) -> OpenSettings:
        """Check the settings of an `OpenCounter`; its docstring explains them."""
        if horizon is None:
            raise InvalidArgument("horizon", horizon, "a number of steps: the threshold looks at each of them")
        horizon, budget = check_horizon(horizon, most=MOST_STEPS), _check_budget(budget)
        windows = check_windows(windows, horizon)
        found = check_mechanism(mechanism, horizon, budget)
        if found is None:
            found = mechanism_for_names(horizon, windows)
        elif not serves_names(found):
            raise InvalidArgument(
                "mechanism",
                found,
                "'auto', a tree such as SmoothBinary, or a recurrence such as BalancedToeplitz: only their noise can be"
                " made for a name that comes up late",
            )
        made = cls(
            horizon,
            budget,
            check_whole("names_per_person", names_per_person),
            check_whole("per_name", per_name),
            found,
            windows,
            check_probability("threshold_share", threshold_share),
            check_probability("people_share", people_share),
            _check_declared(declared),
            check_text("name", name),
        )
        _ = made.threshold, made.most
        return made

    # -- what follows from the settings -------------------------------------------------------------------------------

    @property
    def delta_noise(self) -> float:
        """The part of δ that all noisy counts together take, as one Gaussian mechanism."""
        return self.budget.delta * (1 - self.threshold_share)

    @property
    def delta_threshold(self) -> float:
        """The part of δ that the threshold takes."""
        return self.budget.delta * self.threshold_share

    @cached_property
    def rho(self) -> float:
        """The ρ of the Gaussian mechanism: μ²/2, with μ the largest that keeps (ε, `delta_noise`)."""
        return ApproxDP(self.budget.epsilon, self.delta_noise).mu ** 2 / 2

    @property
    def splits(self) -> bool:
        """Whether people and counts are two numbers with noise of their own."""
        return self.per_name > 1

    @cached_property
    def scale(self) -> float:
        """The scale of the draws of the released counts."""
        return self._scale(self.per_name, 1 - self.people_share if self.splits else 1.0)

    @cached_property
    def people_scale(self) -> float:
        """The scale of the draws of the numbers of people, by which names are chosen."""
        return self._scale(1, self.people_share) if self.splits else self.scale

    def _scale(self, per_name: int, share: float) -> float:
        # A person moves at most C names, each by per_name times a column of R; columns of different names are
        # orthogonal. The root is rounded up.
        moved = per_name * math.nextafter(math.sqrt(self.names_per_person), math.inf)
        return noise_scale(self.mechanism, zcdp(self.rho * share), per_person=moved)

    @cached_property
    def threshold(self) -> int:
        """The least whole τ with C · Σ_t P(1 + rounded noise of step t ≥ τ) ≤ `delta_threshold`."""
        sigma = self.people_scale * np.sqrt(self.mechanism.squared_row_norms(self.horizon))
        return _least_threshold(sigma, self.delta_threshold / self.names_per_person / (1 + TAIL_ERROR))

    @cached_property
    def most(self) -> int:
        """The largest count of a name in one step, so that sums and noise fit into 64 bits."""
        widest = math.sqrt(self.mechanism.max_squared_row_norm(self.horizon))
        noise = math.ceil(NOISE_ROOM * max(self.scale, self.people_scale) * widest)
        most = (LARGEST_SUM - 1 - noise) // self.horizon
        if most < self.per_name:
            raise SumsTooLarge(horizon=self.horizon, per_step=self.per_name, noise=noise, most=LARGEST_SUM)
        return most

    @property
    def lane(self) -> Lane:
        """Counts are whole numbers, and so are releases."""
        return "exact"

    @property
    def last(self) -> int:
        """The last step that can ever be made."""
        return self.horizon

    def noise_at(self, t: int) -> RealNoise:
        """Return the law of the noise of a count at step t, before it is rounded."""
        return noise_at(self.mechanism, self.scale, self._checked(t))

    def stddev(self, t: int) -> float:
        """Return the standard deviation of a released count at step t, rounding included."""
        return rounded_stddev(self.noise_at(t))

    def half_width(self, t: int, confidence: float) -> int:
        """Return how far a released count is from the truth at most, with this confidence."""
        return half_width(self.noise_at(t), confidence)

    def change(self, t: int, since: int, confidence: float) -> tuple[float, int]:
        """Return the standard deviation and the half width of the change from release `since` ≥ 1 to t."""
        noise = change_between(self.mechanism, self.scale, self._checked(t), since)
        return math.sqrt(change_variance(noise)), change_half_width(noise, confidence)

    def appears_from(self, probability: float = 0.95, t: int | None = None) -> int:
        """Return how many people must have brought a name for it to be published at step t with this probability.

        For the last step if t is left out. A name has a chance at each step, so that fewer may do.
        """
        from scipy.special import ndtri

        step = self.horizon if t is None else self._checked(t)
        sigma = self.people_scale * math.sqrt(self.mechanism.squared_row_norm(step))
        needed = self.threshold - 0.5 + float(ndtri(check_probability("probability", probability))) * sigma
        return max(1, math.ceil(needed))

    def _checked(self, t: int) -> int:
        t = check_whole("t", t)
        if t > self.horizon:
            raise HorizonExceeded(horizon=self.horizon, step=t)
        return t

    # -- noise and spelling -------------------------------------------------------------------------------------------

    def noise(self, key: bytes | None = None) -> tuple[NamedNoise, NamedNoise | None]:
        """Return the noise of the counts, and that of the numbers of people if it is another one."""
        master = fresh_key() if key is None else check_key(key)

        def named(what: str, scale: float) -> NamedNoise:
            own = derive_key(master, purpose=f"open counter, {what}", configuration=self.as_json())
            return NamedNoise(self.mechanism, scale, key=own)

        return named("counts", self.scale), named("people", self.people_scale) if self.splits else None

    def as_json(self) -> dict[str, Any]:
        """Return all settings as JSON has them: what keys are derived from, and what a store keeps."""
        return {
            "lane": "names",
            "horizon": self.horizon,
            "budget": budget_as_json(self.budget),
            "names_per_person": self.names_per_person,
            "per_name": self.per_name,
            "mechanism": mechanism_to_json(self.mechanism),
            "identity": self.mechanism.identity,
            "windows": list(self.windows),
            "threshold_share": self.threshold_share,
            "people_share": self.people_share,
            "declared": list(self.declared),
            "name": self.name,
            "scale": self.scale,
            "people_scale": self.people_scale,
            "threshold": self.threshold,
        }

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> OpenSettings:
        """Build the settings that `as_json` wrote.

        Raises
        ------
        InvalidArgument
            If a setting is unknown, missing or wrong, or if noise or threshold would be others in this dpstream.
        """
        settings = dict(given)
        try:
            if settings.pop("lane") != "names":
                raise InvalidArgument("lane", given["lane"], "'names'")
            implied = {name: settings.pop(name) for name in ("identity", "scale", "people_scale", "threshold")}
            settings["budget"] = budget_from_json(settings["budget"])
            settings["mechanism"] = mechanism_from_json(settings["mechanism"])
            made = cls.of(settings.pop("horizon"), settings.pop("budget"), **settings)
        except (KeyError, TypeError, AttributeError) as error:
            raise InvalidArgument("settings", given, f"what as_json() wrote ({error!r})") from None
        now = made.as_json()
        for name, value in implied.items():
            if now[name] != value:
                raise InvalidArgument(name, value, f"{now[name]!r}, that of these settings in this dpstream")
        return made


def _check_declared(declared: object) -> tuple[str, ...]:
    """Return names in their one spelling, each once."""
    if isinstance(declared, str) or not isinstance(declared, Sequence):
        raise InvalidArgument("declared", declared, "a list of names, such as declared=['home', 'search']")
    try:
        return tuple(dict.fromkeys(check_name(one) for one in declared))
    except InputTypeError as error:
        raise InvalidArgument("declared", error.given, error.allowed) from None


def _check_budget(budget: object) -> ApproxDP:
    checked = check_budget(budget)
    if not isinstance(checked, ApproxDP):
        raise BudgetError(
            "budget",
            checked,
            "approx_dp(epsilon, delta): that a name was brought at all can be hidden by no noise, only by the small"
            " chance delta that it is published too early, which zCDP and pure epsilon do not allow",
        )
    return checked


@lru_cache(maxsize=64)
def mechanism_for_names(horizon: int, windows: tuple[int, ...]) -> Mechanism:
    """Return the mechanism of least error among those that names can have.

    For totals that is BalancedToeplitz: a third to two fifths of a smooth tree's variance, and a step costs less. With
    windows it is what is fitted to them and to the total.
    """
    lengths = tuple(sorted({*windows, horizon}))
    if len(lengths) > 1:
        # Plain columns and real poles, of which alone a recurrence with positive weights is made.
        with warnings.catch_warnings(), contextlib.suppress(DpstreamError):
            warnings.simplefilter("ignore", FitNotConverged)  # as private, and its error is told
            fitted = FittedToeplitz.fit(horizon, windows=lengths, complex_pairs=False, normalized=False)
            if serves_names(fitted):
                return fitted
    return BalancedToeplitz(horizon)


@lru_cache(maxsize=64)
def _threshold_of(sigmas: tuple[float, ...], counts: tuple[int, ...], most: float) -> int:
    from scipy.special import ndtr

    sigma, times = np.array(sigmas), np.array(counts, dtype=np.float64)

    def is_too_low(threshold: int) -> bool:
        # A rounded noise n satisfies 1 + n ≥ τ exactly if the noise is at least τ - 1 - 1/2.
        reached = float((times * ndtr((1.5 - threshold) / sigma)).sum())
        if abs(reached - most) > UNDECIDED * most:
            return reached > most
        return _exceeds(sigmas, counts, threshold, most)

    low, high = 1, 2
    while is_too_low(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if is_too_low(middle):
            low = middle
        else:
            high = middle
    return high


def _exceeds(sigmas: tuple[float, ...], counts: tuple[int, ...], threshold: int, most: float) -> bool:
    """Whether Σ_t P(noise of step t ≥ τ - 3/2) > most, in ball arithmetic: the last digit of ndtr decides nothing."""
    import flint

    bits = 128
    while bits <= 2**12:
        with working_precision(bits):
            root, total = flint.arb(2).sqrt(), flint.arb(0)
            for sigma, count in zip(sigmas, counts, strict=True):
                total += count * ((flint.arb(threshold) - flint.arb(1.5)) / (flint.arb(sigma) * root)).erfc() / 2
            if total > most or total < most:
                return bool(total > most)
        bits *= 2
    return True


def _least_threshold(sigma: NDArray[np.float64], most: float) -> int:
    """Return the least whole τ > 1 with Σ_t P(1 + nearest integer to N(0, σ_t²) ≥ τ) ≤ most."""
    sigmas, counts = np.unique(sigma, return_counts=True)
    return _threshold_of(tuple(sigmas.tolist()), tuple(counts.tolist()), most)
