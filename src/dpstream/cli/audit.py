"""`dpstream audit`: try to break the guarantee, and say how far that got."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dpstream.audit.audit import Audit
from dpstream.audit.catalogue import LANES, SUBJECTS, LaneName, Row, rows
from dpstream.audit.plot import plot_trade_off
from dpstream.audit.promise import Promise
from dpstream.audit.timing import time_counter
from dpstream.budget import Budget, zcdp
from dpstream.charts import require_matplotlib
from dpstream.cli.budget_options import Delta, Epsilon, Rho, budget_of
from dpstream.cli.group import FOUND_WRONG
from dpstream.cli.printed import progress_bar, show_table
from dpstream.errors import InvalidArgument

COLOURS = {"kept": "green", "violated": "bold red", "wasteful": "yellow", "unclear": "yellow"}


def audit(
    mechanism: Annotated[str, typer.Option(help="Which mechanism; its name in the table of --all.")] = "SmoothBinary",
    lane: Annotated[str, typer.Option(help="exact (Counter), float32 or float64 (RunningSum).")] = "exact",
    rho: Rho = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    steps: Annotated[int | None, typer.Option(help="How many releases; a few if left out.")] = None,
    trials: Annotated[int, typer.Option(help="How often each of the two streams is run.")] = 800_000,
    confidence: Annotated[float, typer.Option(help="The chance, at least, that a bound holds.")] = 1 - 1e-6,
    plot: Annotated[Path | None, typer.Option(help="Save the trade-off curve as a picture (extra: plot).")] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Audit every mechanism in every lane under every kind of budget.")
    ] = False,
) -> None:
    """Run real releases on neighbouring streams and certify how much of the promised budget they give away.

    Exit status 1 if more leaks than was promised. Without a budget: ρ = 0.5.

    Example: dpstream audit --mechanism SmoothBinary --rho 0.5 --trials 20000
    """
    if plot is not None:
        require_matplotlib()  # before the work, not after it
    budget = budget_of(rho, epsilon, delta, default=zcdp(0.5))
    chosen = rows() if everything else [_row(mechanism, lane, budget, steps)]
    found = _audit_all(chosen, trials, confidence)
    if plot is not None:
        for row, result in zip(chosen, found, strict=True):
            plot_trade_off(result, _path(plot, row, several=everything), f"{row}: {result.verdict}")
    console = Console()
    if everything:
        show_table(console, _table(chosen, found))
        console.print(_summary(found, confidence))
        console.print(str(time_counter(zcdp(0.5))))
    else:
        console.print(f"[{COLOURS[found[0].verdict]}]{escape(str(found[0]))}")
    if any(result.verdict == "violated" for result in found):
        raise typer.Exit(FOUND_WRONG)


def _row(title: str, lane: str, budget: Budget, steps: int | None) -> Row:
    lanes: dict[str, LaneName] = {name: name for name in LANES}
    if lane not in lanes:
        raise InvalidArgument("lane", lane, f"one of {', '.join(LANES)}")
    for subject in SUBJECTS:
        if subject.title == title and subject.mechanism.noise == budget.noise:
            return Row(subject if steps is None else replace(subject, steps=steps), lanes[lane], "", budget)
    titles = [subject.title for subject in SUBJECTS if subject.mechanism.noise == budget.noise]
    raise InvalidArgument("mechanism", title, f"one of {'; '.join(titles)} for {budget!r}")


def _audit_all(chosen: list[Row], trials: int, confidence: float) -> list[Audit]:
    found = []
    with progress_bar() as progress:
        task = progress.add_task("auditing", total=len(chosen))
        for i, row in enumerate(chosen):
            progress.update(task, description=str(row) if len(chosen) > 1 else "auditing")
            result = row.audit(
                trials,
                confidence,
                report=lambda part, i=i: progress.update(task, completed=i + part),  # type: ignore[misc]
            )
            found.append(result)
    return found


def _path(plot: Path, row: Row, *, several: bool) -> Path:
    """One picture, or one a row beside it."""
    if not several:
        return plot
    name = "".join(c if c.isalnum() else "-" for c in str(row))
    return plot.with_name(f"{plot.stem}-{name}{plot.suffix}")


def _table(chosen: list[Row], found: list[Audit]) -> Table:
    table = Table(title="Certified lower bounds on what leaks", title_justify="left", title_style="bold")
    table.add_column("mechanism", no_wrap=True)
    table.add_column("lane")
    table.add_column("budget", no_wrap=True)
    for heading in ("steps", "promised", "measured ≥", "ratio", "possible"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict")
    for row, result in zip(chosen, found, strict=True):
        name = Promise(row.budget).name
        table.add_row(
            row.subject.title,
            row.lane,
            row.kind,
            str(row.subject.steps),
            f"{name} = {result.promised:.4g}",
            f"{result.measured:.4f}",
            f"{100 * result.ratio:.1f} %",
            f"{100 * row.possible:.1f} %",
            f"[{COLOURS[result.verdict]}]{result.verdict}",
        )
    return table


def _summary(found: list[Audit], confidence: float) -> str:
    violated = sum(result.verdict == "violated" for result in found)
    wasteful = sum(result.verdict == "wasteful" for result in found)
    least = min(result.ratio for result in found)
    return (
        f"{len(found)} audits: {violated} violated, {wasteful} wasteful; the least certified part of a promise is"
        f" {100 * least:.1f} %. Each bound is wrong with a chance of at most {1 - confidence:.2g}. `possible`: what so"
        " many releases can show at best of a promise that may cover more of them."
    )
