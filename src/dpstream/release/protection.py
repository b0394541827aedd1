"""What to publish beside figures: how they are protected and how exact they are, for readers and for a registry.

`ProtectionText.paragraph` is in plain words. `ProtectionText.registry_entry` is the same in the schema of OpenDP's
registry of deployments (github.com/opendp/deployments-registry-data, schemas/deployments-schema.yaml at 3e9c812), with
what only the publisher can know marked as such.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from dpstream.budget import ZCDP, ApproxDP, PureDP
from dpstream.release.error_bars import half_width, window_half_width
from dpstream.release.least_budget import widest_noise
from dpstream.release.limit_words import row_limit_in_words
from dpstream.release.plan_rows import UNBOUNDED_STEPS
from dpstream.release.settings import StreamSettings

__all__ = ["TO_FILL_IN", "ProtectionText"]

TO_FILL_IN = "(to fill in)"
#: The δ at which a zCDP budget is said as an ε, too.
USUAL_DELTA = 1e-6


@dataclass(frozen=True)
class ProtectionText:
    """Says how published figures are protected.

    Attributes
    ----------
    settings
        Those of the stream.
    counted
        What is counted, in a word: visits.
    rows_per_person
        How many rows of one person are counted at most, in the whole stream; None: each row is protected by itself.
    confidence
        Of the errors that are named.
    windows
        Windows that are published beside the totals: words for each ("7 days"), and its length in steps.
    unit
        What a whole number stands for: 0.01 where cents are counted.
    dates_from_data
        What the data decided: "the first step", "the last step".
    earlier_releases
        How many releases of earlier streams, with budgets of their own, these go on with.

    Examples
    --------
    >>> import dpstream as dp
    >>> settings = dp.Counter(365, dp.approx_dp(1, 1e-6), mechanism=dp.mechanisms.SmoothBinary(365)).settings
    >>> print(ProtectionText(settings, "visits", rows_per_person=1).paragraph())
    These figures are published with differential privacy. Random noise was added to each of them, which limits what
    anybody can learn from them about whether any one person was counted. ...
    """

    settings: StreamSettings
    counted: str = "rows"
    rows_per_person: int | None = None
    confidence: float = 0.95
    windows: Mapping[str, int] = field(default_factory=dict)
    unit: Decimal = Decimal(1)
    dates_from_data: tuple[str, ...] = ()
    earlier_releases: int = 0

    # -- in words -----------------------------------------------------------------------------------------------------

    def paragraph(self) -> str:
        """Return a paragraph for everyone who reads the figures."""
        who = "person" if self.rows_per_person else "row"
        return (
            "These figures are published with differential privacy. Random noise was added to each of them, which"
            f" limits what anybody can learn from them about {self._hidden(who)}. {self._promise(who)} {self._limits()}"
            f"{self._exactness()} {self._too_high()} This does not protect facts about groups of people, or what other"
            f" publications tell about the same people.{self._other_rows()}"
            f"{self._earlier()} Made with dpstream {_version()}: {self._method()}."
        )

    def _hidden(self, who: str) -> str:
        return {
            "add-remove": f"whether any one {who} was counted",
            "replace": f"what any one {who} added (when is not protected)",
            "replace-anywhere": f"what any one {who} added, and when",
        }[self.settings.neighbours]

    def _promise(self, who: str) -> str:
        budget, horizon = self.settings.budget, self.settings.horizon
        many = "however many there will be" if horizon is None else f"{horizon:,} {_plural(horizon, 'step')} at most"
        strength = f"In numbers: all of them together ({many}) have {self._guarantee()}"
        epsilon, but = _epsilon(self.settings), ""
        if not isinstance(budget, PureDP):
            delta = budget.delta if isinstance(budget, ApproxDP) else USUAL_DELTA
            but = f", except with probability {delta:g}"
        times = f"{math.exp(epsilon):,.3g}" if epsilon < 500 else "e^" + f"{epsilon:.3g}"
        other = f"without that {who}" if self.settings.neighbours == "add-remove" else f"with other data of that {who}"
        return f"{strength}; any result is at most {times} times as likely as it would be {other}{but}."

    def _guarantee(self) -> str:
        budget = self.settings.budget
        if isinstance(budget, PureDP):
            return f"ε = {budget.epsilon:g}"
        if isinstance(budget, ApproxDP):
            return f"ε = {budget.epsilon:g} and δ = {budget.delta:g}"
        return f"ρ = {budget.rho:g}, which is ε = {_epsilon(self.settings):.3g} at δ = {USUAL_DELTA:g}"  # type: ignore[attr-defined]

    @property
    def limit(self) -> str:
        """The sentence on what of a person counts in the whole stream; "" where each row is protected by itself."""
        return "" if self.rows_per_person is None else row_limit_in_words(self.rows_per_person)

    def _limits(self) -> str:
        return f"{self.limit} " if self.limit else ""

    def _exactness(self) -> str:
        often = f"{100 * self.confidence:.10g} of 100 cases"
        until = f" (of the first {UNBOUNDED_STEPS:,})" if self.settings.horizon is None else ""
        # Rows beyond the limit are not counted, so the interval says nothing about all rows.
        held = "the true one" if not self.limit else "the total of the counted rows"
        parts = [f"each published total{until} is within ±{self._shown(self.total_error())} of {held}"]
        parts += [f"each figure of {words} within ±{self._shown(off)}" for words, off in self.window_errors().items()]
        return f"How exact they are: in {often} {', '.join(parts)}."

    def _too_high(self) -> str:
        return "The noise raises a figure as often as it lowers one."

    def _other_rows(self) -> str:
        if self.rows_per_person is not None:
            return ""
        return f" Each row is protected by itself: a person with several {self.counted} is protected less."

    def _earlier(self) -> str:
        if not self.earlier_releases:
            return ""
        return f" The figures go on from {self.earlier_releases:,} earlier ones, which had a budget of their own."

    def _method(self) -> str:
        law = "Gaussian" if self.settings.budget.noise == "gaussian" else "Laplace"
        return (
            f"{law} noise shared over time ({type(self.settings.mechanism).__name__} mechanism), rounded to whole"
            " numbers without floating-point error"
        )

    def _shown(self, units: int) -> str:
        places = max(-int(self.unit.normalize().as_tuple().exponent), 0)
        return f"{units * self.unit:,.{places}f}"

    # -- in numbers ---------------------------------------------------------------------------------------------------

    def total_error(self) -> int:
        """By how much a published total is off at most, in units, with the confidence asked for."""
        settings = self.settings
        noise = widest_noise(settings.mechanism, settings.scale, settings.horizon or UNBOUNDED_STEPS)
        return half_width(noise, self.confidence)

    def window_errors(self) -> dict[str, int]:
        """By how much the figure of each window is off at most, in units, with the confidence asked for."""
        settings, found = self.settings, {}
        for words, length in self.windows.items():
            if settings.horizon is not None:
                asked = (settings.participation, settings.lane, min(length, settings.horizon), self.confidence)
                found[words] = int(window_half_width(settings.mechanism, settings.budget, *asked, settings.distance))
        return found

    # -- for a registry -----------------------------------------------------------------------------------------------

    def registry_entry(self, *, name: str = "", published: dt.date | None = None) -> dict[str, Any]:
        """Return a draft for OpenDP's registry of deployments; "(to fill in)" where only the publisher knows.

        Parameters
        ----------
        name
            What the figures are called.
        published
            When the first of them was published; None: today.
        """
        settings = self.settings
        title = name or f"Running totals of {self.counted}"
        who = "person" if self.rows_per_person else "row"
        return {
            "url_slug": re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "to-fill-in",
            "status": "Draft",
            "tier": 3,
            "deployment": {
                "basic": {
                    "name": title,
                    "data_curators": [TO_FILL_IN],
                    "intended_use": TO_FILL_IN,
                    "data_product_type": "Summary statistics",
                    "data_product_region": TO_FILL_IN,
                    "description": self.paragraph(),
                    "publication_date": (published or dt.datetime.now(dt.UTC).date()).isoformat(),
                },
                "dp_variant": {
                    "variant_name": _variant(settings),
                    "data_domain": self._domain(),
                    "unprotected_quantities": self._unprotected(),
                },
                "privacy_loss": {
                    "privacy_unit": f"{who.capitalize()} level",
                    "privacy_unit_details": self._unit_details(who),
                    "privacy_parameters": _parameters(settings),
                    "privacy_parameters_details": f"For all releases together: {self._guarantee()}.",
                },
                "deployment_model": {
                    "model_name": "Central",
                    "release_type": "Many releases",
                    "release_type_details": (
                        "One budget for all releases, which is never renewed; "
                        + ("there is no last one." if settings.horizon is None else f"{settings.horizon:,} at most.")
                    ),
                    "data_source_type": "Dynamic",
                    "access_type": "Non-interactive",
                },
                "accounting": {
                    "post_processing": "Figures of windows are differences of released totals.",
                    "composition": "None: the releases are one mechanism, whose guarantee holds for all of them"
                    f" together, also if later data depend on earlier releases.{self._earlier()}",
                },
                "implementation": {
                    "preprocessing_and_hyperparameter_tuning": self._limits().strip() or "None.",
                    "mechanisms": f"dpstream {_version()}: {self._method()}. {self._exactness()}",
                    "justification": TO_FILL_IN,
                },
                "administrative": {"registry_authors": [TO_FILL_IN]},
            },
        }

    def _domain(self) -> str:
        return f"Logs of {self.counted}, each with a time."

    def _fixed(self) -> str:
        return "The dates of steps, the categories and the settings, which do not depend on the data."

    def _unprotected(self) -> str:
        fixed = self._fixed()
        if not self.dates_from_data:
            return fixed
        return f"{fixed} But {' and '.join(self.dates_from_data)} was taken from the data."

    def _unit_details(self, who: str) -> str:
        settings = self.settings
        adjacent = {
            "add-remove": f"one {who} more or less",
            "replace": f"another amount of one {who} in the same steps",
            "replace-anywhere": f"another amount of one {who}, or in other steps",
        }[settings.neighbours]
        times = settings.participation.times
        adds = f"which adds at most {self._shown(int(settings.per_person))} in all"
        if times > 1:
            adds = f"which adds at most {self._shown(int(settings.per_person))} to each of at most {times} steps"
        return f"Adjacent are data sets that differ in {adjacent}, {adds}. {self._limits()}".strip()


def _epsilon(settings: StreamSettings) -> float:
    budget = settings.budget
    if isinstance(budget, ZCDP):
        return budget.to_approx_dp(delta=USUAL_DELTA).epsilon
    return float(budget.epsilon)  # type: ignore[attr-defined]


def _variant(settings: StreamSettings) -> str:
    budget = settings.budget
    names = ((PureDP, "Pure DP"), (ApproxDP, "Approximate DP"), (ZCDP, "Zero-concentrated DP"))
    return next(name for kind, name in names if isinstance(budget, kind))


def _parameters(settings: StreamSettings) -> dict[str, float]:
    return {
        part: float(getattr(settings.budget, part))
        for part in ("epsilon", "delta", "rho")
        if hasattr(settings.budget, part)
    }


def _plural(count: int, noun: str) -> str:
    return noun if count == 1 else f"{noun}s"


def _version() -> str:
    from importlib.metadata import version  # here, because it is slow to load

    return version("dpstream")
