"""`dpstream audit`: its options. What they do is in audit_run.py, which is loaded when they make sense."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpstream.cli.budget_options import Delta, Epsilon, Rho, check_budget_options

__all__ = ["audit"]


def audit(
    mechanism: Annotated[
        str,
        typer.Option(
            help="Which mechanism: its name in the table of --all or of compare, or module:object for one of your own."
        ),
    ] = "SmoothBinary",
    lane: Annotated[str, typer.Option(help="exact (Counter), float32 or float64 (RunningSum).")] = "exact",
    rho: Rho = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    steps: Annotated[int | None, typer.Option(help="How many releases; a few if left out.")] = None,
    trials: Annotated[int, typer.Option(help="How often each of the two streams is run.")] = 200_000,
    confidence: Annotated[float, typer.Option(help="The chance, at least, that a bound holds.")] = 1 - 1e-6,
    plot: Annotated[Path | None, typer.Option(help="Save the trade-off curve as a picture (extra: plot).")] = None,
    door: Annotated[
        str | None, typer.Option(help="Audit one door instead of a mechanism; its name in the table of --all.")
    ] = None,
    everything: Annotated[
        bool,
        typer.Option(
            "--all", help="Audit every mechanism in every lane under every kind of budget, every door, and threads."
        ),
    ] = False,
    jobs: Annotated[int | None, typer.Option(help="Processes for --all; as many as processors if left out.")] = None,
) -> None:
    """Run real releases on neighbouring streams and certify how much of the promised budget they give away.

    Exit status 1 if more leaks than was promised. Without a budget: ρ = 0.5.

    Example: dpstream audit --mechanism SmoothBinary --rho 0.5
    """
    given = dict(locals())
    if any(part is not None for part in (rho, epsilon, delta)):
        check_budget_options(rho, epsilon, delta)
    from dpstream.cli.audit_run import run_audit

    run_audit(**given)
