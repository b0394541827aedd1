"""`dpstream plan`: what accuracy a budget buys, and what budget an accuracy costs."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from dpstream.arguments import check_probability, check_whole
from dpstream.budget import Budget, noise_scale
from dpstream.cli.budget_options import Delta, Epsilon, Rho, budget_in_words, budget_of
from dpstream.cli.output import narrow_table, say, show_table
from dpstream.cli.pictures import Plot, check_picture, error_over_budget, error_over_steps, save_picture
from dpstream.errors import BudgetError, InvalidArgument
from dpstream.release.error_bars import rounded_variance
from dpstream.release.least_budget import (
    budget_kind,
    largest_error,
    least_budget,
    mean_rounded_variance,
    widest_noise,
)
from dpstream.release.plan import UNBOUNDED_STEPS, Objective, Plan, _size, _time, _title
from dpstream.release.plan import plan as ranked
from dpstream.store.composition import budget_as_json

__all__ = ["plan"]

ACCURACY = "Accuracy"
DATA = "Data: what one person can change"


def plan(
    rho: Rho = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    horizon: Annotated[int | None, typer.Option(help="How many running totals are released at most.")] = None,
    unbounded: Annotated[bool, typer.Option("--unbounded", help="There is no last release.")] = False,
    bound: Annotated[int, typer.Option(help="How much one row can add to a count.", rich_help_panel=DATA)] = 1,
    max_contributions: Annotated[
        int, typer.Option(help="How many rows of one person are counted, anywhere.", rich_help_panel=DATA)
    ] = 1,
    categories: Annotated[
        int | None, typer.Option(help="The number of categories that are counted.", rich_help_panel=DATA)
    ] = None,
    confidence: Annotated[
        float,
        typer.Option(help="The chance that a release is within the error that is printed.", rich_help_panel=ACCURACY),
    ] = 0.95,
    target_error: Annotated[
        int | None,
        typer.Option(
            help="Find the least budget for this error instead: ρ, or ε with --delta, or a pure ε with --pure.",
            rich_help_panel=ACCURACY,
        ),
    ] = None,
    pure: Annotated[
        bool, typer.Option("--pure", help="With --target-error: a pure ε.", rich_help_panel=ACCURACY)
    ] = False,
    objective: Annotated[Objective, typer.Option(help="What mechanisms are ranked by.")] = "max",
    memory: Annotated[int | None, typer.Option(help="The most bytes that the noise may keep.")] = None,
    optimal: Annotated[bool, typer.Option("--optimal", help="Consider the certified optimum: slow to find.")] = False,
    plot: Plot = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say what accuracy a budget buys, with which mechanism; or what budget an accuracy costs.

    Example: dpstream plan --epsilon 1 --delta 1e-6 --horizon 365

    Example: dpstream plan --horizon 365 --target-error 20 --delta 1e-6

    Example: dpstream plan --epsilon 1 --unbounded --categories 10 --max-contributions 3
    """
    check_picture(plot)
    check_probability("confidence", confidence)
    if (horizon is None) != unbounded:
        given = "neither" if horizon is None else "both"
        raise InvalidArgument("the horizon", given, "given as --horizon N, or as --unbounded")
    distance = check_whole("--bound", bound) * check_whole("--max-contributions", max_contributions)
    shape = () if categories is None else (check_whole("--categories", categories),)
    steps = UNBOUNDED_STEPS if horizon is None else horizon
    wanted: dict[str, Any] = {"shape": shape, "objective": objective, "memory": memory, "optimal": optimal}
    measured: dict[str, Any] = {"bound": distance, "steps": steps, "confidence": confidence}
    if target_error is None:
        if pure:
            raise InvalidArgument(
                "--pure", True, "used with --target-error; a pure budget is --epsilon without --delta"
            )
        budget = budget_of(rho, epsilon, delta)
    else:
        if rho is not None or epsilon is not None:
            raise BudgetError("the budget", "--rho or --epsilon", "left out with --target-error, which finds it")
        kind = budget_kind(delta, pure=pure)
        # A budget scales all errors alike, so that any one tells which mechanism is first.
        first = ranked(horizon, kind(1.0), **wanted).mechanism
        budget = least_budget(first, kind, target_error, **measured)
    found = ranked(horizon, budget, **wanted)
    if plot is not None:
        figure = (
            error_over_steps(found.mechanism, budget, **measured)
            if target_error is None
            else error_over_budget(found.mechanism, kind, budget, **measured)
        )
        save_picture(figure, plot, "What a budget buys")
    error = largest_error(found.mechanism, budget, distance, steps, confidence)
    sentence = _sentence(budget, horizon, error, confidence)
    if as_json:
        settings = {
            "horizon": horizon,
            "bound": bound,
            "max_contributions": max_contributions,
            "categories": categories,
            "confidence": confidence,
            "objective": objective,
            "target_error": target_error,
        }
        answer = {"sentence": sentence, "error": error, "budget": budget_as_json(budget), "reason": found.reason}
        typer.echo(json.dumps(settings | answer | _as_json(found, measured), ensure_ascii=False))
        return
    console = Console()
    if target_error is not None:
        least = budget_in_words(budget)
        say(console, f"The least budget for ±{target_error:,} is {least}; 0.1 % less is not enough.")
    say(console, sentence, "bold")
    if max_contributions > 1:
        say(console, f"Up to {max_contributions} rows of one person are priced as one row that adds {distance:,}.")
    show_table(console, _table(found, measured))
    say(console, found.reason)
    for name, why in found.left_out.items():
        say(console, f"{name} is left out: {why.replace('optimal=True', '--optimal')}.")


def _sentence(budget: Budget, horizon: int | None, error: int, confidence: float) -> str:
    over = (
        f"without a last step each of the first {UNBOUNDED_STEPS:,} published counts"
        if horizon is None
        else f"over {horizon:,} step{'s' * (horizon > 1)} each published count"
    )
    words, often = budget_in_words(budget), f"{100 * confidence:.10g} % of the time"
    return f"With {words} {over} is within ±{error:,} of the truth, {often}."


def _rows(found: Plan, measured: dict[str, Any]) -> list[tuple[str, int, float, float]]:
    """Return of each mechanism its title, error, and largest and mean standard deviation, for the bound asked."""
    rows = []
    bound, steps, confidence = measured["bound"], measured["steps"], measured["confidence"]
    for row in found.rows:
        one = row.mechanism
        scale = noise_scale(one, found.budget, per_person=bound)
        mean = mean_rounded_variance(one, scale, steps) ** 0.5
        largest = rounded_variance(widest_noise(one, scale, steps)) ** 0.5
        rows.append((_title(one), largest_error(one, found.budget, bound, steps, confidence), largest, mean))
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
            _size(row.memory) + ("" if row.fits else " *"),
            _time(row.nanoseconds),
        )
    return table
