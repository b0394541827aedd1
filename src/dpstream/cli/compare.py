"""`dpstream compare`: its options. What they do is in compare_run.py, which is loaded when they make sense."""

from __future__ import annotations

from typing import Annotated

import typer

from dpstream.cli.budget_options import Delta, Epsilon, Rho, check_budget_options
from dpstream.cli.targets import Plot

__all__ = ["OPTIMAL_AT_ONCE", "OPTIMAL_LIMIT", "compare"]

#: The optimum takes a dense solver: a second up to the first size, a minute at the second, which must be asked for.
OPTIMAL_AT_ONCE, OPTIMAL_LIMIT = 512, 2048


def compare(
    horizon: Annotated[int, typer.Option(help="How many running totals are released.")] = 1000,
    mechanism: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this one: a name, or module:object for one of your own (a mechanism, or a class or function that"
            " makes one from a horizon). May be given several times."
        ),
    ] = None,
    participation: Annotated[
        str | None,
        typer.Option(
            metavar="TIMESxSEPARATION",
            help="How often one person may appear: 8x256 is at most 8 times, at least 256 steps apart.",
        ),
    ] = None,
    windows: Annotated[
        str | None,
        typer.Option(
            metavar="STEPS,STEPS,…", help="Sums of the last so many steps, such as 1,7,30: an error for each."
        ),
    ] = None,
    rho: Rho = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    plot: Plot = None,
    speed: Annotated[bool, typer.Option("--speed/--no-speed", help="Measure how long a release takes.")] = True,
    optimal: Annotated[
        bool, typer.Option("--optimal", help=f"Find the optimum also above {OPTIMAL_AT_ONCE} steps: slow.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compare all mechanisms at one horizon: error, sensitivity, draws, memory and speed.

    With a budget, errors are standard deviations of the mechanisms that can keep it.

    Example: dpstream compare --horizon 1000

    Example: dpstream compare --mechanism SmoothBinary --mechanism BalancedToeplitz --no-speed

    Example: dpstream compare --horizon 100 --epsilon 1 --delta 1e-6 --no-speed

    Example: dpstream compare --horizon 128 --participation 4x32 --windows 1,7 --no-speed
    """
    given = dict(locals())
    if any(part is not None for part in (rho, epsilon, delta)):
        check_budget_options(rho, epsilon, delta)
    from dpstream.cli.compare_run import run_compare

    run_compare(**given)
