"""`dpstream plan`: its options. What they do is in plan_run.py, which is loaded when they make sense."""

from __future__ import annotations

from typing import Annotated, Any, Literal

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
    per_person: Annotated[
        int, typer.Option(help="How much one row can add to a count, as --per-person of count.", rich_help_panel=DATA)
    ] = 1,
    max_contributions: Annotated[
        int, typer.Option(help="How many rows of one person are counted in the whole stream.", rich_help_panel=DATA)
    ] = 1,
    categories: Annotated[
        int | None, typer.Option(help="The number of categories that are counted.", rich_help_panel=DATA)
    ] = None,
    discover: Annotated[
        bool,
        typer.Option(
            "--discover",
            help="Categories are names that nobody listed beforehand: from how many people on one is published.",
            rich_help_panel=DATA,
        ),
    ] = False,
    names_per_person: Annotated[
        int | None,
        typer.Option(help="With --discover: how many names one person may bring, in all.", rich_help_panel=DATA),
    ] = None,
    per_name: Annotated[
        int | None,
        typer.Option(
            help="With --discover: how much one person may add to one name, in all; 1 if left out.",
            rich_help_panel=DATA,
        ),
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

    Example: dpstream plan --epsilon 6 --delta 1e-9 --horizon 365 --discover --names-per-person 32

    Example: dpstream plan --epsilon 1 --unbounded --categories 10 --max-contributions 3
    """
    given = dict(locals())
    for option in ("discover", "names_per_person", "per_name"):
        del given[option]
    if discover:
        _plan_names(given, names_per_person, per_name)
        return
    for option, value in (("--names-per-person", names_per_person), ("--per-name", per_name)):
        if value is not None:
            raise InvalidArgument(option, value, "used with --discover")
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


def _plan_names(given: dict[str, Any], names_per_person: int | None, per_name: int | None) -> None:
    """Check the options that go with --discover, and answer."""
    if given["horizon"] is None:
        raise InvalidArgument("--horizon", None, "given with --discover: the threshold looks at every step")
    if names_per_person is None:
        raise InvalidArgument("--names-per-person", None, "given with --discover: how many names one person may bring")
    # Of everything else only budget, windows, confidence and the form of the answer have a meaning here.
    plain: dict[str, Any] = {
        "unbounded": False,
        "max_contributions": 1,
        "categories": None,
        "target_error": None,
        "pure": False,
    }
    plain |= {"objective": "max", "memory": None, "optimal": False, "plot": None, "per_person": 1}
    for name, value in plain.items():
        if given.get(name, value) != value:
            raise InvalidArgument(f"--{name.replace('_', '-')}", given[name], "left out with --discover")
    if given["rho"] is not None or given["epsilon"] is None or given["delta"] is None:
        raise BudgetError(
            "the budget",
            "--rho" if given["rho"] is not None else "no --delta" if given["epsilon"] is not None else "none",
            "given as --epsilon and --delta with --discover: no noise hides that a name was brought at all, only the"
            " small chance delta that it is published too early",
        )
    from dpstream.cli.budget_options import budget_of
    from dpstream.cli.plan_names import plan_names
    from dpstream.events.calendar import check_every
    from dpstream.events.windows import fitting_lengths, windows_of

    asked = () if given["windows"] is None else windows_of(given["windows"])
    plan_names(
        budget_of(given["rho"], given["epsilon"], given["delta"]),
        given["horizon"],
        names_per_person=names_per_person,
        per_name=1 if per_name is None else per_name,
        windows=fitting_lengths(asked, check_every(given["every"]), given["horizon"]),
        confidence=given["confidence"],
        as_json=given["as_json"],
    )
