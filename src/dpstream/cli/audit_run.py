"""What `dpstream audit` does: try to break the guarantee, and say how far that got."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from functools import partial
from pathlib import Path

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dpstream.arguments import check_horizon
from dpstream.audit import table
from dpstream.audit.audit import Audit
from dpstream.audit.discovery import check_names
from dpstream.audit.plot import plot_trade_off
from dpstream.audit.promise import Promise
from dpstream.audit.row import Row
from dpstream.audit.threads import check_threads
from dpstream.audit.timing import time_counter
from dpstream.budget import Budget, zcdp
from dpstream.charts import require_matplotlib
from dpstream.cli.app import FOUND_WRONG
from dpstream.cli.budget_options import budget_of
from dpstream.cli.output import narrow_table, number, progress_bar, show_table
from dpstream.cli.own_mechanism import own_mechanism
from dpstream.errors import InvalidArgument
from dpstream.mechanisms.catalogue import mechanism_named

__all__ = ["run_audit"]

COLOURS = {"kept": "green", "violated": "bold red", "wasteful": "yellow", "unclear": "yellow"}


def run_audit(
    *,
    mechanism: str,
    lane: str,
    rho: float | None,
    epsilon: float | None,
    delta: float | None,
    steps: int | None,
    trials: int,
    confidence: float,
    plot: Path | None,
    door: str | None,
    everything: bool,
    jobs: int | None,
) -> None:
    """Audit what the options of `dpstream audit` ask for; raise typer.Exit if more leaks than was promised."""
    if plot is not None:
        require_matplotlib()  # before the work, not after it
    if everything:
        chosen = table.rows()
        found = _audit_all(chosen, trials, confidence, (os.cpu_count() or 1) if jobs is None else jobs)
    else:
        budget = budget_of(rho, epsilon, delta, default=zcdp(0.5))
        chosen = [_row(mechanism, lane, budget, steps) if door is None else _door(door)]
        found = [_audit_one(chosen[0], trials, confidence)]
    if plot is not None:
        for row, result in zip(chosen, found, strict=True):
            plot_trade_off(result, _path(plot, row, several=everything), f"{row}: {result.verdict}")
    console = Console()
    violated = any(result.verdict == "violated" for result in found)
    if everything:
        show_table(console, _table(chosen, found))
        console.print(_summary(found, confidence))
        for check in check_threads():
            violated |= check.repeated > 0
            console.print(str(check), style=COLOURS["violated" if check.repeated else "kept"])
        for attack in check_names(confidence=confidence):
            violated |= attack.violated
            console.print(str(attack), style=COLOURS["violated" if attack.violated else "kept"])
        console.print(str(time_counter(zcdp(0.5))))
    else:
        console.print(f"[{COLOURS[found[0].verdict]}]{escape(str(found[0]))}")
        more = ": --steps does, in fewer trials." if door is None and steps is None else "."
        looked_at = number(chosen[0].steps, "release")
        console.print(f"The verdict is about streams of {looked_at}. Longer ones were not looked at{more}")
    if violated:
        raise typer.Exit(FOUND_WRONG)


def _row(title: str, lane: str, budget: Budget, steps: int | None) -> Row:
    lanes: dict[str, table.LaneName] = {name: name for name in table.LANES}
    if lane not in lanes:
        raise InvalidArgument("lane", lane, f"one of {', '.join(table.LANES)}")
    possible = [subject for subject in table.SUBJECTS if subject.mechanism.noise == budget.noise]
    for subject in possible:
        if subject.title == title:
            chosen = subject if steps is None else replace(subject, steps=steps)
            return table.mechanism_row(chosen, lanes[lane], "", budget)
    length = table.STEPS if steps is None else check_horizon(steps)
    make = partial(own_mechanism, title) if ":" in title else partial(mechanism_named, title, noise=budget.noise)
    return table.mechanism_row(table.Subject(title, make, length), lanes[lane], "", budget)


def _door(title: str) -> Row:
    doors = table.all_doors()
    for row in doors:
        if row.title == title:
            return row
    raise InvalidArgument("door", title, f"one of {'; '.join(row.title for row in doors)}")


def _audit_one(row: Row, trials: int, confidence: float) -> Audit:
    with progress_bar() as progress:
        task = progress.add_task("auditing", total=1.0)
        report: Callable[[float], None] = lambda part: progress.update(task, completed=part)  # noqa: E731
        return row.audit(trials, confidence, report=report)


def _audit_all(chosen: list[Row], trials: int, confidence: float, jobs: int) -> list[Audit]:
    found: dict[int, Audit] = {}
    with progress_bar() as progress:
        task = progress.add_task("auditing", total=len(chosen))
        if jobs == 1:
            for i, row in enumerate(chosen):
                progress.update(task, description=str(row), completed=i)
                found[i] = row.audit(trials, confidence)
        else:
            with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
                # Doors come last in the table and take longest: they start first.
                futures = {pool.submit(table.audit_row, i, trials, confidence): i for i in reversed(range(len(chosen)))}
                for future in as_completed(futures):
                    found[futures[future]] = future.result()
                    progress.update(task, advance=1, description=str(chosen[futures[future]]))
    return [found[i] for i in range(len(chosen))]


def _path(plot: Path, row: Row, *, several: bool) -> Path:
    """One picture, or one a row beside it."""
    if not several:
        return plot
    name = "".join(c if c.isalnum() else "-" for c in str(row))
    return plot.with_name(f"{plot.stem}-{name}{plot.suffix}")


def _table(chosen: list[Row], found: list[Audit]) -> Table:
    headings = (
        "audited",
        "lane",
        "budget",
        "steps",
        "trials",
        "promised",
        "measured ≥",
        "ratio",
        "possible",
        "notices",
    )
    lines = narrow_table(
        (*headings, "verdict"), title="Certified lower bounds on what leaks", words=("lane", "budget", "verdict")
    )
    for row, result in zip(chosen, found, strict=True):
        too_small, too_large = result.notices
        lines.add_row(
            row.title,
            row.lane,
            row.kind,
            str(row.steps),
            f"{result.certificate.first_trials:,}",
            f"{Promise(row.budget).name} = {result.promised:.4g}",
            f"{result.measured:.4f}",
            f"{100 * result.ratio:.1f} %",
            f"{100 * result.possible:.1f} %",
            f"-{100 * too_small:.0f} %, +{100 * too_large:.0f} %",
            f"[{COLOURS[result.verdict]}]{result.verdict}",
        )
    return lines


def _summary(found: list[Audit], confidence: float) -> str:
    counts = {verdict: sum(result.verdict == verdict for result in found) for verdict in ("violated", "wasteful")}
    least = min(result.ratio for result in found)
    return (
        f"{len(found)} audits: {counts['violated']} violated, {counts['wasteful']} wasteful; the least certified part"
        f" of a promise is {100 * least:.1f} %. Each bound is wrong with a chance of at most {1 - confidence:.2g}."
        " `possible`: what so many releases can show at best of a promise that may cover more of them. `notices`: noise"
        " that is so much too small is called violated, so much too large wasteful, 999 times of 1000; what is less far"
        " off may pass."
    )
