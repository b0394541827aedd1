"""What to publish beside counts by discovered names: who is protected, in plain words and for a registry."""

from __future__ import annotations

import math
import re
from typing import Any

import dpstream
from dpstream.release.open_settings import OpenSettings
from dpstream.release.protection import TO_FILL_IN

__all__ = ["names_paragraph", "names_registry_entry"]


def names_paragraph(settings: OpenSettings) -> str:
    """Return a paragraph for everyone who reads the figures."""
    budget, last = settings.budget, settings.horizon
    times = f"{math.exp(budget.epsilon):,.3g}" if budget.epsilon < 500 else f"e^{budget.epsilon:.3g}"
    return (
        "These names and figures are published with differential privacy. Random noise was added to each figure, and a"
        f" name is shown only once about {settings.threshold:,} people have brought it, which limits what anybody can"
        " learn about whether any one person was counted. In numbers: all of them together"
        f" ({last:,} {'step' if last == 1 else 'steps'} at most) have ε = {budget.epsilon:g} and δ = {budget.delta:g};"
        f" whatever they show is at most {times} times as likely as it would be without that person, but for a chance"
        f" of {budget.delta:g}. {_limit(settings)} {_exactness(settings)} The noise makes a figure too high as often as"
        " too low. A name that is missing was brought by few people, or by nobody. Not protected are facts about"
        " people in general, and what other publications tell about the same people. Made with dpstream"
        f" {dpstream.__version__}: {_method(settings)}."
    )


def names_registry_entry(settings: OpenSettings, name: str) -> dict[str, Any]:
    """Return a draft for OpenDP's registry of deployments; "(to fill in)" where only the publisher knows."""
    budget = settings.budget
    return {
        "url_slug": re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "to-fill-in",
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": {
                "name": name,
                "data_curators": [TO_FILL_IN],
                "intended_use": TO_FILL_IN,
                "data_product_type": "Summary statistics",
                "data_product_region": TO_FILL_IN,
                "description": names_paragraph(settings),
                "publication_date": TO_FILL_IN,
            },
            "dp_variant": {
                "variant_name": "Approximate DP",
                "data_domain": "Logs of who brought which name, each with a time.",
                "unprotected_quantities": "The dates of steps, declared names and the settings, which do not depend on"
                " the data.",
            },
            "privacy_loss": {
                "privacy_unit": "Person level",
                "privacy_unit_details": f"Adjacent are data sets that differ in one person more or less."
                f" {_limit(settings)}",
                "privacy_parameters": {"epsilon": budget.epsilon, "delta": budget.delta},
                "privacy_parameters_details": f"For all names and releases together: ε = {budget.epsilon:g} and"
                f" δ = {budget.delta:g}, of which {settings.delta_threshold:.3g} is for names that one person brought.",
            },
            "deployment_model": {
                "model_name": "Central",
                "release_type": "Many releases",
                "release_type_details": "One budget for all releases, which is never renewed;"
                f" {settings.horizon:,} at most.",
                "data_source_type": "Dynamic",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": "Figures of windows are differences of released totals.",
                "composition": "None: the releases are one mechanism, whose guarantee holds for all of them together,"
                " also if later data depend on earlier releases.",
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": _limit(settings),
                "mechanisms": f"dpstream {dpstream.__version__}: {_method(settings)}; names by a threshold of"
                f" {settings.threshold:,} people, with noise. {_exactness(settings)}",
                "justification": TO_FILL_IN,
            },
            "administrative": {"registry_authors": [TO_FILL_IN]},
        },
    }


def _limit(settings: OpenSettings) -> str:
    names, rows = settings.names_per_person, settings.per_name
    of_each = "once each" if rows == 1 else f"up to {rows:,} times each"
    return f"Of each person at most {names:,} {'name is' if names == 1 else 'names are'} counted, {of_each}."


def _exactness(settings: OpenSettings) -> str:
    off = settings.half_width(settings.horizon, 0.95)
    return f"How exact they are: in 95 of 100 cases the last total of a name is within ±{off:,} of the true one."


def _method(settings: OpenSettings) -> str:
    kind = type(settings.mechanism).__name__
    return f"Gaussian noise shared over time ({kind} mechanism), rounded to whole numbers without floating-point error"
