"""What `dpstream compare` does: put all mechanisms side by side at one horizon."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import typer
from rich.console import Console

from dpstream.arguments import check_horizon
from dpstream.budget import Budget
from dpstream.cli.budget_options import budget_in_words, budget_of
from dpstream.cli.compare import OPTIMAL_AT_ONCE, OPTIMAL_LIMIT
from dpstream.cli.compare_picture import variance_over_time
from dpstream.cli.mechanism_speed import nanoseconds_a_release
from dpstream.cli.output import narrow_table, progress_bar, say, show_table
from dpstream.cli.own_mechanism import own_mechanism
from dpstream.cli.pictures import check_picture, save_curves
from dpstream.errors import DpstreamError, InvalidArgument
from dpstream.mechanisms.banded import Banded
from dpstream.mechanisms.banded_inverse import BandedInverse
from dpstream.mechanisms.base import Mechanism, NoiseLaw
from dpstream.mechanisms.catalogue import ENTRIES, Entry, entries_for, entry_named, mechanism_named
from dpstream.mechanisms.fitted_toeplitz import FittedToeplitz
from dpstream.participation import Participation

__all__ = ["run_compare"]

TITLES: dict[NoiseLaw, str] = {
    "gaussian": "Gaussian noise: variance of a release is V / (2ρ)",
    "laplace": "Laplace noise: variance of a release is 2V / ε²",
}
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
    windows: tuple[float, ...] = ()


@dataclass(frozen=True)
class Question:
    """What errors are compared under: how often one person may appear, and sums of how many last steps are wanted."""

    participation: Participation | None = None
    windows: tuple[int, ...] = ()

    def made(self, entry: Entry, horizon: int, law: NoiseLaw) -> Mechanism:
        """Make an entry's mechanism, one that can be fitted to the question for just that."""
        if self == Question():
            return entry.make(horizon, law)
        if entry.name == "FittedToeplitz":
            return FittedToeplitz.fit(horizon, participation=self.participation, windows=self.windows or None)
        if entry.name == "Banded" and self.participation is not None:
            bands = min(self.participation.separation, 64)
            return Banded.fit(horizon, participation=self.participation, bands=bands)
        if entry.name == "BandedInverse" and self.participation is not None:
            return BandedInverse.fit(horizon, participation=self.participation)
        return entry.make(horizon, law)


def run_compare(
    *,
    horizon: int,
    mechanism: list[str] | None,
    participation: str | None,
    windows: str | None,
    rho: float | None,
    epsilon: float | None,
    delta: float | None,
    plot: Path | None,
    speed: bool,
    optimal: bool,
    as_json: bool,
) -> None:
    """Compare what the options of `dpstream compare` ask for."""
    check_picture(plot)
    horizon = check_horizon(horizon)
    question = Question(_participation(participation), _windows(windows, horizon))
    given = any(value is not None for value in (rho, epsilon, delta))
    budget = budget_of(rho, epsilon, delta) if given else None
    if plot is not None and budget is not None and budget.noise == "laplace":
        raise InvalidArgument("--plot", str(plot), "left out with a pure budget: it shows Gaussian mechanisms")
    laws: list[NoiseLaw] = ["gaussian", "laplace"] if budget is None else [budget.noise]
    console = Console()
    answer: dict[str, object] = {"horizon": horizon, "budget": None if budget is None else repr(budget)}
    for law in laws:
        made, left_out = (
            _made(entries_for(horizon, law), law, horizon, question, optimal=optimal)
            if not mechanism
            else _asked_for(mechanism, law, horizon, question)
        )
        if not made and not left_out:
            continue
        rows = [_row(name, mechanism, horizon, budget, question) for name, mechanism in made.items()]
        if speed:
            taken = nanoseconds_a_release(list(made.values()), horizon)
            rows = [replace(row, nanoseconds=one) for row, one in zip(rows, taken, strict=True)]
        if plot is not None and law == "gaussian":
            figure = variance_over_time(made, horizon, budget, question.participation, chosen=bool(mechanism))
            save_curves(figure, plot, f"Error over {horizon:,} releases")
        if as_json:
            answer[law] = [asdict(row) for row in rows]
            answer[f"{law} left out"] = left_out
        else:
            _print_table(console, law, rows, left_out, horizon, budget, question.windows)
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
    entries: list[Entry], law: NoiseLaw, horizon: int, question: Question, *, optimal: bool
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
                mechanism = question.made(entry, horizon, law)
                mechanism.max_variance(horizon)  # what is slow to find is found here, and then remembered
            except DpstreamError as error:
                left_out[entry.name] = str(error)
            else:
                made[entry.name] = mechanism
    return made, left_out


def _asked_for(
    names: list[str], law: NoiseLaw, horizon: int, question: Question
) -> tuple[dict[str, Mechanism], dict[str, str]]:
    """The mechanisms that were asked for, those of this noise law; names that nobody has are refused."""
    made: dict[str, Mechanism] = {}
    for text in names:
        if ":" in text:
            mechanism = own_mechanism(text, horizon)
            if mechanism.noise == law:
                made[text.partition(":")[2]] = mechanism
            continue
        entry = entry_named(text)
        if entry is None:
            made[text] = mechanism_named(text, horizon, law)
        elif law in entry.laws:
            made[entry.name] = question.made(entry, horizon, law)
    return made, {}


def _row(name: str, mechanism: Mechanism, horizon: int, budget: Budget | None, question: Question) -> Row:
    person = question.participation
    errors = [
        mechanism.max_variance(horizon, participation=person),
        mechanism.mean_variance(horizon, participation=person),
    ]
    errors += [mechanism.max_variance(horizon, window=w, participation=person) for w in question.windows]
    if budget is not None:
        # V is the variance per squared scale of one draw of sensitivity 1.
        unit = budget.scale(1.0) * (math.sqrt(2) if budget.noise == "laplace" else 1.0)
        errors = [unit * math.sqrt(error) for error in errors]
    draws, (largest, mean, *windows) = mechanism.draws_per_step, errors
    return Row(
        name,
        largest,
        mean,
        mechanism.sensitivity(person),
        draws.worst,
        draws.average,
        mechanism.memory,
        windows=tuple(windows),
    )


def _participation(text: str | None) -> Participation | None:
    """Read TIMESxSEPARATION."""
    if text is None:
        return None
    times, x, separation = text.lower().partition("x")
    if not (x and times.isdecimal() and separation.isdecimal() and int(times) and int(separation)):
        raise InvalidArgument("--participation", text, "TIMESxSEPARATION, such as 8x256")
    return Participation(int(times), int(separation))


def _windows(text: str | None, horizon: int) -> tuple[int, ...]:
    """Read lengths of windows, separated by commas."""
    if text is None:
        return ()
    parts = text.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise InvalidArgument("--windows", text, "whole numbers separated by commas, such as 1,7,30")
    lengths = [int(part) for part in parts]
    rising = sorted({length for length in lengths if length > 0})
    if lengths != rising:
        raise InvalidArgument(
            "--windows", text, f"lengths from 1 on in rising order, each once: give {','.join(map(str, rising))}"
        )
    if lengths[-1] > horizon:
        raise InvalidArgument("--windows", text, f"no longer than the horizon, {horizon} steps")
    return tuple(lengths)


def _print_table(
    console: Console,
    law: NoiseLaw,
    rows: list[Row],
    left_out: dict[str, str],
    horizon: int,
    budget: Budget | None,
    windows: tuple[int, ...],
) -> None:
    what = "V" if budget is None else "std"
    headings = ["mechanism", f"max {what}", f"mean {what}", *(f"last {w}" for w in windows), "sensitivity", "draws"]
    headings += ["memory"]
    timed = any(row.nanoseconds is not None for row in rows)
    headings += ["ns"] * timed
    notes = {entry.name: entry.note_for(law) for entry in ENTRIES if law in entry.laws}
    headings += ["note"] * (console.width >= NOTES_FROM)
    about = TITLES[law] if budget is None else budget_in_words(budget)
    table = narrow_table(headings, title=f"{horizon:,} releases. {about}", words=("note",))
    for row in rows:
        cells = [row.mechanism, *(f"{error:.2f}" for error in (row.largest, row.mean, *row.windows))]
        cells += [f"{row.sensitivity:.3f}"]
        cells += [f"{row.draws_worst} ({row.draws_mean:.2f})", f"{row.memory:,}"]
        cells += [] if row.nanoseconds is None else [f"{row.nanoseconds:,.0f}"]
        table.add_row(*[*cells, notes.get(row.mechanism, "yours")][: len(headings)])
    for name in left_out:
        table.add_row(name, *["–"] * (len(headings) - 1))
    show_table(console, table)
    for name, why in left_out.items():
        say(console, f"{name} is left out: {why}.")
