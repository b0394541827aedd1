"""What `dpstream plan --discover` does: say from how many people on a name is published, and how exact counts are."""

from __future__ import annotations

import json

import typer
from rich.console import Console

from dpstream.arguments import check_probability
from dpstream.budget import Budget
from dpstream.cli.output import say
from dpstream.release.limit_words import names_limit_in_words
from dpstream.release.open_settings import OpenSettings

__all__ = ["plan_names"]


def plan_names(
    budget: Budget,
    horizon: int,
    *,
    names_per_person: int,
    per_name: int,
    windows: tuple[int, ...],
    confidence: float,
    as_json: bool,
) -> None:
    """Print what an OpenCounter with these settings publishes."""
    check_probability("confidence", confidence)
    settings = OpenSettings.of(horizon, budget, names_per_person=names_per_person, per_name=per_name, windows=windows)
    appears, half = settings.appears_from(confidence), settings.half_width(horizon, confidence)
    changes = {
        window: settings.change(horizon, horizon - window, confidence)[1] for window in windows if window < horizon
    }
    if as_json:
        answer = {
            "threshold": settings.threshold,
            "appears_from": appears,
            "error": half,
            "windows": {str(window): off for window, off in changes.items()},
            "confidence": confidence,
            "delta_noise": settings.delta_noise,
            "delta_threshold": settings.delta_threshold,
            "settings": settings.as_json(),
        }
        typer.echo(json.dumps(answer, ensure_ascii=False))
        return
    console, often = Console(), f"{100 * confidence:.10g} % of the time"
    people = "person has" if appears == 1 else "people have"
    say(console, f"A name that {appears:,} {people} brought is published by the last step, {often}.", "bold")
    say(console, f"The count of a published name is then within ±{half:,} of the counted number, {often}.", "bold")
    for window, off in changes.items():
        steps = "its last step alone" if window == 1 else f"its last {window:,} steps"
        say(console, f"From the same releases, what was counted in {steps} is within ±{off:,}, {often}.", "bold")
    say(console, names_limit_in_words(names_per_person, per_name))
    say(
        console,
        f"Threshold: a noisy number of {settings.threshold:,} people. Of delta, {settings.delta_noise:.3g} is for the"
        f" noise and {settings.delta_threshold:.3g} for the chance that a name is published that only one person has"
        " brought.",
    )
