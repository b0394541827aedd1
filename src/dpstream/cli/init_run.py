"""What `dpstream init` does: look at a file, show what was found, ask, and write the settings."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from dpstream.budget import approx_dp
from dpstream.cli.option_words import words_in_options
from dpstream.cli.output import narrow_table, number, say, show_table
from dpstream.cli.targets import Target
from dpstream.cli.whole_command import OPTIONS
from dpstream.errors import DpstreamError, InvalidArgument
from dpstream.events import last_step as clock
from dpstream.events.calendar import Calendar, check_every, parse_moment
from dpstream.events.file_options import FileOptions
from dpstream.events.findings import dangers
from dpstream.events.guess import Guess, as_toml, error_of, guess, likely_dates
from dpstream.events.timestamps import Timestamps

__all__ = ["InitCommand"]

DELTA = 1e-6
EPSILONS = (0.1, 0.5, 1.0, 2.0, 5.0)
#: How many rows of one user are counted, if nobody says otherwise.
TIMES = 3
#: Up to which day is published, by the last letter of a step's length: steps are published when they are over.
LAST_DAY = {"w": "a Sunday", "o": "the last day of a month", "q": "the last day of a quarter"}
#: Error bars are worked out for so many steps at most.
STEPS = 20_000
_COMMENTS = {
    "time": "The column that says when a row happened.",
    "time_zone": "Whose days, and whose clock.",
    "start": "The first step and the last there will ever be.",
    "by": "One total for each category. Their owner said that the list is public.",
    "name": "What the stream is called in the store.",
    "user": "Whom a row is about: of each, so many rows are counted, and the user is protected.",
    "epsilon": "What all releases together may reveal about one person.",
    "store": "Remembers rows, releases and settings; keep it, and the files beside it, secret.",
}


@dataclass(frozen=True)
class InitCommand:
    """The options of `dpstream init`; `init.py` describes them."""

    file: str
    output: Path | None
    yes: bool
    force: bool
    file_format: str | None
    delimiter: str | None
    encoding: str | None
    sheet: str | None

    def run(self) -> None:
        """Ask, and write the settings."""
        console = Console(highlight=False)
        output = self.output or Path(f"{Path(self.file).name.split('.')[0]}.toml")
        if output.suffix != ".toml":
            raise InvalidArgument("--output", str(output), "a file ending in .toml")
        if output.exists() and not self.force:
            raise InvalidArgument("--output", str(output), "a file that is not there yet; or --force writes over it")
        if not self.yes and not somebody_to_ask():
            raise DpstreamError("there is nobody to ask: --yes takes what is guessed")
        files = FileOptions(self.file_format, self.delimiter, self.encoding, self.sheet)
        found = guess(self.file, files)
        _show(console, found)
        settings = {
            "name": output.stem,
            "file_format": self.file_format,
            "delimiter": self.delimiter,
            "encoding": self.encoding,
        }
        settings |= {"sheet": self.sheet, **self._steps(found), **self._people(console, found)}
        settings |= self._budget(console, settings)
        settings["store"] = self._asked("A file that remembers what was counted and released", f"{output.stem}.db")
        target = Target("--output", output)
        target.file.write(as_toml(settings, _COMMENTS).encode())
        target.finish()
        command = shlex.join(["dpstream", "count", self.file, "--settings", str(output)])
        say(console, f"Written: {output}. Look at it, then publish: {command} --through DATE")
        day = LAST_DAY.get(str(settings["every"])[-1], "yesterday")
        say(
            console,
            f"DATE is the last day that the file covers, such as {day}. Without --through the store keeps the"
            " rows and releases nothing. A release is final.",
        )

    def _asked(self, question: str, default: str) -> str:
        return default if self.yes else str(typer.prompt(question, default=default)).strip()

    def _steps(self, found: Guess) -> dict[str, Any]:
        """Ask when rows happened, and which steps there are."""
        if self.yes and not found.times:
            raise DpstreamError(
                f"no column of timestamps was recognised among {', '.join(found.columns)}: give --time and"
                " --time-format to dpstream count"
            )
        time = self._asked("The column that says when a row happened", found.times[0] if found.times else "")
        if time not in found.columns:
            raise InvalidArgument("the column", time, f"one of {', '.join(found.columns)}")
        time_format = found.time_format if time in found.times[:1] else None
        if not self.yes and time not in found.times:
            time_format = self._asked("How timestamps are written, such as dd/mm/yyyy or ms", "dd/mm/yyyy")
        every = check_every(self._asked("How long a step is: 1h, 1d, 1w, 1mo, ...", "1d"))
        zone = self._asked("Whose days: a zone such as Europe/Vienna", "UTC") if found.offsets else None
        Timestamps(time, time_format, zone)
        start, until = likely_dates(found, clock.now().date())
        start = self._asked("The date of the first step", start)
        until = self._asked("The date of the last step there will ever be", until)
        steps = Calendar(every, parse_moment("start", start, zone)).reach(
            parse_moment("until", until, zone, end_of_day=True)
        )
        if steps < 1:
            raise InvalidArgument("the last step", until, f"not before the first, {start}")
        return {"time": time, "time_format": time_format, "every": every, "time_zone": zone} | {
            "start": start,
            "until": until,
            "horizon": steps,
        }

    def _people(self, console: Console, found: Guess) -> dict[str, Any]:
        """Ask for categories, and for whom a row is about."""
        chosen: dict[str, Any] = {}
        if found.categories:
            names = ", ".join(found.categories)
            if self.yes:
                say(
                    console,
                    f"No categories are taken: {names} could be one. Which categories there are comes from the data and"
                    " may tell something about people; if the list is public, give --by and --values.",
                )
            else:
                by = self._asked(f"One total for each category in a column ({names})? none, or its name", "none")
                if by in found.categories:
                    values = found.categories[by]
                    say(console, f"In the first rows it holds {', '.join(values)}.", "bold")
                    if typer.confirm(
                        "This list comes from the data. Is it public, and complete, whoever is in the data?"
                    ):
                        chosen |= {"by": by, "categories": values, "undeclared": "other"}
                elif by != "none":
                    raise InvalidArgument("the column", by, f"none or one of {names}")
        user = self._asked(
            "The column that says whom a row is about; none, if each row is another person",
            found.users[0] if found.users else "none",
        )
        if user != "none":
            if user not in found.columns:
                raise InvalidArgument("the column", user, f"none or one of {', '.join(found.columns)}")
            times = self._asked("How many rows of one user are counted (noise grows with it)", str(TIMES))
            if not times.isdecimal() or not int(times):
                raise InvalidArgument("the number of rows", times, "a whole number from 1 on")
            chosen |= {"user": user, "max_contributions": int(times)}
        return chosen

    def _budget(self, console: Console, settings: dict[str, Any]) -> dict[str, Any]:
        """Show what a budget means, and ask for it; the number of steps is not a setting, the last date is."""
        steps = min(settings.pop("horizon"), STEPS)
        times = settings.get("max_contributions", 1)
        window = 7 if settings["every"] == "1d" else 1
        heads = ("epsilon", "a running total", "seven days" if window == 7 else f"each {settings['every']}")
        table = narrow_table(heads, title=f"Error bars (95 %), δ = {DELTA:g}")
        for epsilon in EPSILONS:
            total, week = error_of(approx_dp(epsilon, DELTA), steps, times, window)
            table.add_row(f"{epsilon:g}", f"±{total:,}", f"±{week:,}")
        show_table(console, table)
        say(
            console,
            f"Over {number(steps, 'step')}{f', {times} rows of a user' if times > 1 else ''}. A smaller ε protects"
            " better; 1 is a usual choice.",
        )
        text = self._asked("ε", "1")
        try:
            budget = approx_dp(float(text), DELTA)
        except ValueError:
            raise InvalidArgument("ε", text, "a positive number, such as 1") from None
        for finding in dangers(budget):
            say(console, f"warning: {finding.text}", "yellow")
        return {"epsilon": budget.epsilon, "delta": DELTA}


def somebody_to_ask() -> bool:
    """Whether there is a terminal to ask at."""
    return sys.stdin.isatty()


def _show(console: Console, found: Guess) -> None:
    for sentence in found.recognised:
        say(console, words_in_options(sentence, OPTIONS))
    say(console, f"Columns: {', '.join(found.columns)} ({number(found.rows, 'row')} looked at).")
    if found.times and found.first is not None:
        form = f", written {found.time_format}" if found.time_format else ""
        say(console, f"Times: {', '.join(found.times)}{form}; rows from {found.first} to {found.last}.")
