"""`dpstream compare`: all mechanisms side by side at one horizon."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, replace
from typing import Annotated

import typer
from rich.console import Console

from dpstream.arguments import check_horizon
from dpstream.budget import Budget
from dpstream.cli.budget_options import Delta, Epsilon, Rho, budget_in_words, budget_of
from dpstream.cli.compare_picture import variance_over_time
from dpstream.cli.mechanism_speed import nanoseconds_a_release
from dpstream.cli.output import narrow_table, progress_bar, say, show_table
from dpstream.cli.own_mechanism import own_mechanism
from dpstream.cli.pictures import Plot, check_picture, save_picture
from dpstream.errors import DpstreamError, InvalidArgument
from dpstream.mechanisms.base import Mechanism, NoiseLaw
from dpstream.mechanisms.catalogue import ENTRIES, Entry, entries_for, entry_named, mechanism_named

TITLES: dict[NoiseLaw, str] = {
    "gaussian": "Gaussian noise: variance of a release is V / (2ρ)",
    "laplace": "Laplace noise: variance of a release is 2V / ε²",
}
#: The optimum takes a dense solver: a second up to the first size, a minute at the second, which must be asked for.
OPTIMAL_AT_ONCE, OPTIMAL_LIMIT = 512, 2048
#: A terminal of fewer columns gets the numbers only.
NOTES_FROM = 110


@dataclass(frozen=True)
class Row:
    """One mechanism: V, or standard deviations under a budget, and what it costs."""

    mechanism: str
    largest: float
    mean: float
    sensitivity: float
    draws_worst: int
    draws_mean: float
    memory: int
    nanoseconds: float | None = None


def compare(
    horizon: Annotated[int, typer.Option(help="How many running totals are released.")] = 1000,
    mechanism: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this one: a name, or module:object for one of your own (a mechanism, or a class or function that"
            " makes one from a horizon). May be given several times."
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
    """
    check_picture(plot)
    horizon = check_horizon(horizon)
    given = any(value is not None for value in (rho, epsilon, delta))
    budget = budget_of(rho, epsilon, delta) if given else None
    if plot is not None and budget is not None and budget.noise == "laplace":
        raise InvalidArgument("--plot", str(plot), "left out with a pure budget: it shows Gaussian mechanisms")
    laws: list[NoiseLaw] = ["gaussian", "laplace"] if budget is None else [budget.noise]
    console = Console()
    answer: dict[str, object] = {"horizon": horizon, "budget": None if budget is None else repr(budget)}
    for law in laws:
        made, left_out = (
            _made(entries_for(horizon, law), law, horizon, optimal=optimal)
            if not mechanism
            else _asked_for(mechanism, law, horizon)
        )
        if not made and not left_out:
            continue
        rows = [_row(name, mechanism, horizon, budget) for name, mechanism in made.items()]
        if speed:
            taken = nanoseconds_a_release(list(made.values()), horizon)
            rows = [replace(row, nanoseconds=one) for row, one in zip(rows, taken, strict=True)]
        if plot is not None and law == "gaussian":
            save_picture(variance_over_time(made, horizon, budget), plot, f"Error over {horizon:,} releases")
        if as_json:
            answer[law] = [asdict(row) for row in rows]
            answer[f"{law} left out"] = left_out
        else:
            _print_table(console, law, rows, left_out, horizon, budget)
    if as_json:
        typer.echo(json.dumps(answer, ensure_ascii=False))
        return
    what = "V is the normalised variance" if budget is None else "std is the standard deviation of a release"
    ns = "; ns is the time of a release's noise here, in nanoseconds, whole numbers in blocks" if speed else ""
    say(
        console,
        f"{what}; sensitivity is what the noise is scaled by; draws are those of a release at worst (on"
        " average); memory counts the vectors held between two releases (without a horizon: at a million steps)"
        f"{ns}.",
    )


def _made(
    entries: list[Entry], law: NoiseLaw, horizon: int, *, optimal: bool
) -> tuple[dict[str, Mechanism], dict[str, str]]:
    """The mechanisms that reach the horizon, solved; and why the others are left out."""
    made: dict[str, Mechanism] = {}
    left_out: dict[str, str] = {}
    with progress_bar() as progress:
        for entry in progress.track(entries, description="computing"):
            if entry.slow and horizon > OPTIMAL_LIMIT:
                left_out[entry.name] = f"a dense solver: up to {OPTIMAL_LIMIT:,} steps here"
                continue
            if entry.slow and horizon > OPTIMAL_AT_ONCE and not optimal:
                left_out[entry.name] = "it takes seconds to minutes to find; ask for it with --optimal"
                continue
            try:
                mechanism = entry.make(horizon, law)
                mechanism.max_variance(horizon)  # what is slow to find is found here, and then remembered
            except DpstreamError as error:
                left_out[entry.name] = str(error)
            else:
                made[entry.name] = mechanism
    return made, left_out


def _asked_for(names: list[str], law: NoiseLaw, horizon: int) -> tuple[dict[str, Mechanism], dict[str, str]]:
    """The mechanisms that were asked for, those of this noise law; names that nobody has are refused."""
    made: dict[str, Mechanism] = {}
    for text in names:
        if ":" in text:
            mechanism = own_mechanism(text, horizon)
            if mechanism.noise == law:
                made[text.partition(":")[2]] = mechanism
            continue
        entry = entry_named(text)
        if entry is None or law in entry.laws:
            made[entry.name if entry else text] = mechanism_named(text, horizon, law)
    return made, {}


def _row(name: str, mechanism: Mechanism, horizon: int, budget: Budget | None) -> Row:
    largest, mean = mechanism.max_variance(horizon), mechanism.mean_variance(horizon)
    if budget is not None:
        # V is the variance per squared scale of one draw of sensitivity 1.
        unit = budget.scale(1.0) * (math.sqrt(2) if budget.noise == "laplace" else 1.0)
        largest, mean = unit * math.sqrt(largest), unit * math.sqrt(mean)
    draws = mechanism.draws_per_step
    return Row(name, largest, mean, mechanism.sensitivity(), draws.worst, draws.average, mechanism.memory)


def _print_table(
    console: Console, law: NoiseLaw, rows: list[Row], left_out: dict[str, str], horizon: int, budget: Budget | None
) -> None:
    what = "V" if budget is None else "std"
    headings = ["mechanism", f"max {what}", f"mean {what}", "sensitivity", "draws", "memory"]
    timed = any(row.nanoseconds is not None for row in rows)
    headings += ["ns"] * timed
    notes = {entry.name: entry.note_for(law) for entry in ENTRIES if law in entry.laws}
    headings += ["note"] * (console.width >= NOTES_FROM)
    about = TITLES[law] if budget is None else budget_in_words(budget)
    table = narrow_table(headings, title=f"{horizon:,} releases. {about}", words=("note",))
    for row in rows:
        cells = [row.mechanism, f"{row.largest:.2f}", f"{row.mean:.2f}", f"{row.sensitivity:.3f}"]
        cells += [f"{row.draws_worst} ({row.draws_mean:.2f})", f"{row.memory:,}"]
        cells += [] if row.nanoseconds is None else [f"{row.nanoseconds:,.0f}"]
        table.add_row(*[*cells, notes.get(row.mechanism, "yours")][: len(headings)])
    for name in left_out:
        table.add_row(name, *["–"] * (len(headings) - 1))
    show_table(console, table)
    for name, why in left_out.items():
        say(console, f"{name} is left out: {why}.")
