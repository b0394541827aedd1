"""`dpstream demo`: a year of a clinic, made up, counted and published the way a user would."""

from __future__ import annotations

import importlib.util
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from dpstream.errors import InvalidArgument
from dpstream.release.limit_words import row_limit_in_words

if TYPE_CHECKING:
    import polars as pl

FIRST_DAY, LAST_DAY = "2025-01-01", "2025-12-31"
DAYS = 365
#: "Try next" counts so many visits of one patient in the whole year: a limit that leaves out few of them.
MOST_VISITS = 30
#: Visits by day of the week, from Monday; wards and how they share the visits; the hours when people come.
WEEK = (1.25, 1.1, 1.05, 1.05, 1.1, 0.8, 0.65)
WARDS = {"emergency": 0.45, "maternity": 0.1, "outpatient": 0.35, "surgery": 0.1}
HOURS = (1, 1, 1, 1, 1, 2, 3, 6, 9, 10, 10, 9, 8, 8, 8, 7, 7, 6, 6, 5, 4, 3, 2, 1)
PATIENTS = 20_000
#: The last days that are shown beside the truth.
SHOWN = 10


def demo(
    folder: Annotated[Path, typer.Option(help="Where the files go.")] = Path("dpstream-demo"),
) -> None:
    """Make up a year of visits to a clinic and publish their running total.

    Example: dpstream demo
    """
    if folder.exists() and not folder.is_dir():
        raise InvalidArgument("--folder", str(folder), "a folder, or a name that is free")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        visits = make_visits()
        visits.write_csv(folder / "visits.csv", datetime_format="%Y-%m-%dT%H:%M:%S")
    except OSError as error:
        raise InvalidArgument("--folder", str(folder), f"a folder that can be written ({error.strerror})") from None
    console = Console(highlight=False)
    console.rule("[bold]A clinic publishes its running total of visits, every day")
    console.print(
        f"{visits.height:,} visits of {visits['patient'].n_unique():,} patients, made up: {folder}/visits.csv"
    )
    import polars as pl

    totals, plot = folder / "totals.csv", folder / "totals.svg"
    count = ["count", f"{folder}/visits.csv", "--time", "when", "--from", FIRST_DAY, "--through", LAST_DAY]
    count += ["--epsilon", "1", "--delta", "1e-6", "--horizon", str(DAYS), "--output", str(totals)]
    drawn = importlib.util.find_spec("matplotlib") is not None
    _run(console, [*count, "--plot", str(plot)] if drawn else count)
    console.print(_beside_truth(pl.read_csv(totals), visits))
    _run(console, ["plan", "--epsilon", "1", "--delta", "1e-6", "--horizon", str(DAYS)])
    console.rule("[bold]Look at")
    console.print(f"  {totals}" + (f"\n  {plot}" if drawn else "  (a picture, too: pip install 'dpstream[plot]')"))
    console.rule("[bold]Try next")
    for line in _try_next(folder, visits):
        console.print(line, soft_wrap=True)
    console.print(f"As a page, once these are done:\n  {_to_look(folder)}", soft_wrap=True)


def _to_look(folder: Path) -> str:
    """The command that shows the streams of "Try next" as a page."""
    return f"{_program()} serve {shlex.quote(f'{folder}/visits.db')}"


def _try_next(folder: Path, visits: pl.DataFrame) -> list[str]:
    """Commands that can be pasted where the demo was run, and what they leave out."""
    program = _program()
    log, store = shlex.quote(f"{folder}/visits.csv"), shlex.quote(f"{folder}/visits.db")
    a_year = f"--time when --from {FIRST_DAY} --until {LAST_DAY} --through {LAST_DAY} --epsilon 1 --delta 1e-6"
    by_ward = f"{program} count {log} {a_year} --by ward --values {','.join(WARDS)} --store {store}"
    people = f"--user patient --max-contributions {MOST_VISITS} --name patients --store {store}"
    a_patient = visits.group_by("patient").len()["len"]
    left_out = 1 - a_patient.clip(upper_bound=MOST_VISITS).sum() / visits.height
    return [
        f"  {by_ward}",
        f"  {program} count {log} {a_year} {people}",
        f"  {program} store verify {store}",
        f"(The second protects patients instead of single visits. {row_limit_in_words(MOST_VISITS)} Here it leaves out"
        f" {100 * left_out:.0f} % of the visits, and its noise is {MOST_VISITS} times as large.)",
    ]


def _program() -> str:
    """How this program is called from here."""
    beside = Path(sys.executable).with_name("dpstream")
    if not beside.exists():
        return f"{shlex.quote(sys.executable)} -m dpstream"
    if shutil.which("dpstream") and Path(shutil.which("dpstream") or "").samefile(beside):
        return "dpstream"
    return shlex.quote(str(beside.relative_to(Path.cwd()) if beside.is_relative_to(Path.cwd()) else beside))


def make_visits() -> pl.DataFrame:
    """A year of visits in order: busier on Mondays, in winter, and in a wave of influenza in February."""
    import numpy as np
    import polars as pl

    generator = np.random.default_rng(2025)
    day = np.arange(DAYS)
    begin = np.datetime64(FIRST_DAY, "D")
    weekday = (begin.astype(int) + 3 + day) % 7  # the first of January 1970 was a Thursday
    season = 1 + 0.15 * np.cos(2 * np.pi * day / 365) + 0.5 * np.exp(-(((day - 45) / 12) ** 2))
    per_day = generator.poisson(110 * season * np.array(WEEK)[weekday])
    total = int(per_day.sum())
    hour = generator.choice(24, size=total, p=np.array(HOURS) / sum(HOURS))
    second = np.repeat(day, per_day) * 86_400 + hour * 3600 + generator.integers(0, 3600, total)
    # Few people come often: a patient's share falls with the rank.
    share = 1 / np.arange(10, PATIENTS + 10) ** 0.7
    patient = generator.choice(PATIENTS, size=total, p=share / share.sum())
    return pl.DataFrame(
        {
            "when": (begin.astype("datetime64[s]") + np.sort(second)).astype("datetime64[us]"),
            "ward": generator.choice(list(WARDS), size=total, p=list(WARDS.values())),
            "patient": [f"p{number:05d}" for number in patient],
        }
    )


def _run(console: Console, arguments: list[str]) -> None:
    console.print(f"\n[bold]$ {_program()} {shlex.join(arguments)}", soft_wrap=True)
    sys.stdout.flush()
    # In a process of its own, as from a shell: what is shown is what a user sees.
    subprocess.run([sys.executable, "-m", "dpstream", *arguments], check=True)  # noqa: S603


def _beside_truth(releases: pl.DataFrame, visits: pl.DataFrame) -> Table:
    import polars as pl

    daily = visits.group_by(pl.col("when").dt.date().cast(pl.String).alias("start")).len().sort("start")
    both = releases.join(daily.with_columns(truth=pl.col("len").cum_sum()), on="start").tail(SHOWN)
    table = Table(
        title=f"The last {SHOWN} releases beside the truth (which only a demo may show)", title_justify="left"
    )
    for heading in ("day", "released", "truth", "off by", "95 % band", "inside"):
        table.add_column(heading, justify="right")
    for row in both.iter_rows(named=True):
        inside = row["low"] <= row["truth"] <= row["high"]
        table.add_row(
            row["start"],
            f"{row['value']:,}",
            f"{row['truth']:,}",
            f"{row['value'] - row['truth']:+,}",
            f"{row['low']:,} to {row['high']:,}",
            "yes" if inside else "no",
        )
    return table
