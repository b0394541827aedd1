"""What `dpstream plan` does: say what accuracy a budget buys, and what budget an accuracy costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from dpstream.arguments import check_probability, check_whole
from dpstream.budget import Budget, noise_scale
from dpstream.cli.budget_options import budget_in_words, budget_of
from dpstream.cli.output import narrow_table, number, say, show_table
from dpstream.cli.pictures import check_picture, save_curves
from dpstream.cli.plan_picture import error_over_budget, error_over_steps
from dpstream.events.calendar import check_every
from dpstream.events.windows import Window, windows_of
from dpstream.release.error_bars import window_half_width
from dpstream.release.least_budget import (
    budget_kind,
    largest_error,
    least_budget,
    mean_rounded_variance,
    widest_noise,
)
from dpstream.release.limit_words import row_limit_in_words
from dpstream.release.noise_law import rounded_variance
from dpstream.release.plan import Plan
from dpstream.release.plan import plan as ranked
from dpstream.release.plan_rows import UNBOUNDED_STEPS, Objective
from dpstream.release.plan_text import mechanism_title, size_text, time_text
from dpstream.store.composition import budget_as_json

__all__ = ["run_plan"]


def run_plan(
    *,
    rho: float | None,
    epsilon: float | None,
    delta: float | None,
    horizon: int | None,
    unbounded: bool,
    per_person: int,
    max_contributions: int,
    categories: int | None,
    windows: str | None,
    every: str,
    confidence: float,
    target_error: int | None,
    pure: bool,
    objective: Objective,
    memory: int | None,
    optimal: bool,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Answer what the options of `dpstream plan` ask."""
    del unbounded  # the horizon is None then
    check_picture(plot)
    check_probability("confidence", confidence)
    distance = check_whole("--per-person", per_person) * check_whole("--max-contributions", max_contributions)
    shape = () if categories is None else (check_whole("--categories", categories),)
    steps = UNBOUNDED_STEPS if horizon is None else horizon
    asked_for = () if windows is None else windows_of(windows)
    in_steps = {window: _length(window, check_every(every), horizon) for window in asked_for}
    lengths = None if windows is None else tuple(sorted(set(in_steps.values())))
    wanted: dict[str, Any] = {
        "windows": lengths,
        "shape": shape,
        "objective": objective,
        "memory": memory,
        "optimal": optimal,
    }
    measured: dict[str, Any] = {"per_person": distance, "steps": steps, "confidence": confidence}
    if target_error is None:
        budget = budget_of(rho, epsilon, delta)
    else:
        kind = budget_kind(delta, pure=pure)
        # A budget scales all errors alike, so that any one tells which mechanism is first.
        first = ranked(horizon, kind(1.0), **wanted).mechanism
        budget = least_budget(first, kind, target_error, **measured)
    found = ranked(horizon, budget, **wanted)
    if plot is not None:
        asked = _settings_in_words(horizon, per_person, max_contributions, categories, found.windows)
        if target_error is None:
            words = f"{budget_in_words(budget)}; {asked}"
            figure = error_over_steps(found.mechanism, budget, words, **measured)
        else:
            figure = error_over_budget(found.mechanism, kind, budget, asked, **measured)
        save_curves(figure, plot, "What a budget buys" if target_error is None else "What accuracy costs")
    error = largest_error(found.mechanism, budget, distance, steps, confidence)
    sentence = _sentence(budget, horizon, error, confidence)
    within = {
        length: int(
            window_half_width(found.mechanism, budget, found.participation, found.lane, length, confidence, distance)
        )
        for length in found.windows
    }
    if as_json:
        settings = {
            "horizon": horizon,
            "per_person": per_person,
            "max_contributions": max_contributions,
            "categories": categories,
            "confidence": confidence,
            "objective": objective,
            "target_error": target_error,
            "windows": {str(length): off for length, off in within.items()},
        }
        answer = {"sentence": sentence, "error": error, "budget": budget_as_json(budget), "reason": found.reason}
        typer.echo(json.dumps(settings | answer | _as_json(found, measured), ensure_ascii=False))
        return
    console = Console()
    if target_error is not None:
        least = budget_in_words(budget)
        say(console, f"The least budget for ±{target_error:,} is {least}; 0.1 % less is not enough.")
    say(console, sentence, "bold")
    for window, length in in_steps.items():
        say(console, _window_sentence(window, within[length], confidence), "bold")
    if max_contributions > 1:
        say(console, f"Up to {max_contributions} rows of one person are covered as one row that adds {distance:,}.")
        say(console, row_limit_in_words(max_contributions))
    show_table(console, _table(found, measured))
    say(console, found.reason)
    for name, why in found.left_out.items():
        say(console, f"{name} is left out: {why.replace('optimal=True', '--optimal')}.")


def _settings_in_words(
    horizon: int | None, per_person: int, max_contributions: int, categories: int | None, windows: tuple[int, ...]
) -> str:
    """Say everything that the errors depend on but the budget, in two lines."""
    parts = [number(horizon or UNBOUNDED_STEPS, "release") + ("" if horizon else " of a stream without end")]
    parts += [f"a row adds at most {per_person:,}", f"at most {number(max_contributions, 'row')} of one person"]
    if categories is not None:
        parts.append(f"{categories:,} categor{'y' if categories == 1 else 'ies'}")
    if windows:
        parts.append(f"fitted to windows of {', '.join(map(str, windows))} steps")
    return f"{parts[0]}\n{'; '.join(parts[1:])}"


def _sentence(budget: Budget, horizon: int | None, error: int, confidence: float) -> str:
    over = (
        f"without a last step each of the first {UNBOUNDED_STEPS:,} published counts"
        if horizon is None
        else f"over {horizon:,} step{'s' * (horizon > 1)} each published count"
    )
    words, often = budget_in_words(budget), f"{100 * confidence:.10g} % of the time"
    return f"With {words} {over} is within ±{error:,} of the count without noise, {often}."


def _length(window: Window, every: str, horizon: int | None) -> int:
    """How many steps a window has at most: a year of a stream of 365 days has 365."""
    longest = window.longest(every)
    return min(longest, horizon) if horizon is not None and window.unit in ("mo", "q", "y") else longest


def _window_sentence(window: Window, off: int, confidence: float) -> str:
    nouns = {"1h": "hour", "1d": "day", "7d": "week", "1w": "week", "1mo": "month", "1q": "quarter", "1y": "year"}
    if window.text in nouns:
        steps = f"each {nouns[window.text]}'s figure"
    elif window.unit is None:
        steps = "each step's own count" if window.count == 1 else f"each sum of {window.words} in a row"
    else:
        steps = f"each figure of {window.words}"
    often = f"{100 * confidence:.10g} % of the time"
    return f"From the same releases, {steps} is within ±{off:,} of the count without noise, {often}."


def _rows(found: Plan, measured: dict[str, Any]) -> list[tuple[str, int, float, float]]:
    """Return of each mechanism its title, error, and largest and mean standard deviation, for what was asked."""
    rows = []
    per_person, steps, confidence = measured["per_person"], measured["steps"], measured["confidence"]
    for row in found.rows:
        one = row.mechanism
        scale = noise_scale(one, found.budget, per_person=per_person)
        mean = mean_rounded_variance(one, scale, steps) ** 0.5
        largest = rounded_variance(widest_noise(one, scale, steps)) ** 0.5
        error = largest_error(one, found.budget, per_person, steps, confidence)
        rows.append((mechanism_title(one), error, largest, mean))
    return rows


def _as_json(found: Plan, measured: dict[str, Any]) -> dict[str, Any]:
    rows = [
        {
            "mechanism": repr(row.mechanism),
            "error": error,
            "max_stddev": largest,
            "mean_stddev": mean,
            "draws": row.draws,
            "memory_bytes": row.memory,
            "nanoseconds": row.nanoseconds,
            "fits": row.fits,
        }
        for row, (_, error, largest, mean) in zip(found.rows, _rows(found, measured), strict=True)
    ]
    return {"mechanism": repr(found.mechanism), "mechanisms": rows, "left_out": found.left_out}


def _table(found: Plan, measured: dict[str, Any]) -> Table:
    table = narrow_table(("mechanism", "error", "max std", "mean std", "draws", "memory", "time"))
    if not all(row.fits for row in found.rows):
        table.caption, table.caption_justify = "* more memory than may be kept", "left"
    for row, (title, error, largest, mean) in zip(found.rows, _rows(found, measured), strict=True):
        table.add_row(
            title,
            f"±{error:,}",
            f"{largest:.4g}",
            f"{mean:.4g}",
            f"{row.draws:.3g}",
            size_text(row.memory) + ("" if row.fits else " *"),
            time_text(row.nanoseconds),
        )
    return table
