"""`dpstream plan`: its options. What they do is in plan_run.py, which is loaded when they make sense."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from dpstream.cli.budget_options import Delta, Epsilon, Rho, check_budget_options
from dpstream.cli.targets import Plot
from dpstream.errors import BudgetError, InvalidArgument

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
    windows: Annotated[
        str | None,
        typer.Option(
            metavar="LENGTH,LENGTH,…",
            help="Also figures of the last so many days, weeks, months or steps, such as 1d,7d,1mo or 1,7,30: how exact"
            " each is.",
            rich_help_panel=ACCURACY,
        ),
    ] = None,
    every: Annotated[
        str, typer.Option(help="How long a step is, for --windows: 1h, 1d, 1w, ...", rich_help_panel=ACCURACY)
    ] = "1d",
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
    objective: Annotated[
        Literal["max", "mean", "speed", "uniform"], typer.Option(help="What mechanisms are ranked by.")
    ] = "max",
    memory: Annotated[int | None, typer.Option(help="The most bytes that the noise may keep.")] = None,
    optimal: Annotated[bool, typer.Option("--optimal", help="Consider the certified optimum: slow to find.")] = False,
    plot: Plot = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say what accuracy a budget buys, with which mechanism; or what budget an accuracy costs.

    Example: dpstream plan --epsilon 1 --delta 1e-6 --horizon 365

    Example: dpstream plan --horizon 365 --target-error 20 --delta 1e-6

    Example: dpstream plan --epsilon 1 --delta 1e-6 --horizon 90 --windows 1d,7d,1mo

    Example: dpstream plan --epsilon 1 --unbounded --categories 10 --max-contributions 3
    """
    given = dict(locals())
    if (horizon is None) != unbounded:
        raise InvalidArgument(
            "the horizon", "neither" if horizon is None else "both", "given as --horizon N, or as --unbounded"
        )
    if target_error is None:
        if pure:
            raise InvalidArgument(
                "--pure", True, "used with --target-error; a pure budget is --epsilon without --delta"
            )
        check_budget_options(rho, epsilon, delta)
    elif windows is not None:
        raise InvalidArgument("--windows", windows, "left out with --target-error, which is the error of a total")
    elif rho is not None or epsilon is not None:
        raise BudgetError("the budget", "--rho or --epsilon", "left out with --target-error, which finds it")
    from dpstream.cli.plan_run import run_plan

    run_plan(**given)
