"""What `dpstream init` does: look at a file, show what was found, ask, and write the settings."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import polars as pl
import typer
from rich.console import Console

from dpstream.budget import ApproxDP, approx_dp
from dpstream.cli.option_words import words_in_options
from dpstream.cli.output import narrow_table, number, say, show_table
from dpstream.cli.targets import Target
from dpstream.cli.whole_command import OPTIONS
from dpstream.errors import DpstreamError, InvalidArgument, SourceError
from dpstream.events import last_step as clock
from dpstream.events.calendar import Calendar, check_every, parse_moment
from dpstream.events.file_options import FileOptions
from dpstream.events.file_rows import left_out, read_rows, rows_each
from dpstream.events.findings import dangers
from dpstream.events.guess import Guess, as_toml, errors_of, guess, likely_dates
from dpstream.events.time_formats import Undecided, check_time_format, form_in_words
from dpstream.events.timestamps import Timestamps
from dpstream.release.limit_words import row_limit_in_words

__all__ = ["InitCommand"]

DELTA = 1e-6
EPSILONS = (0.1, 0.5, 1.0, 2.0, 5.0)
#: Up to which day is published, by the last letter of a step's length: steps are published when they are over.
LAST_DAY = {"w": "a Sunday", "o": "the last day of a month", "q": "the last day of a quarter"}
#: Error bars are worked out for so many steps at most.
STEPS = 20_000
#: The sizes of so many categories are shown.
SHOWN = 12
_OTHER_CHOICE = (
    "A person with several rows is protected less. To protect each person instead, choose how many of their rows are"
    " counted at most in the whole stream; figures then fall behind as people use up that limit"
)
T = TypeVar("T")
_COMMENTS = {
    "time": "The column that says when a row happened.",
    "time_zone": "Whose days, and whose clock.",
    "start": "The first step and the last there will ever be.",
    "by": "One total for each category. Their owner said that the list is public.",
    "name": "What the stream is called in the store.",
    "user": "Whom a row is about: at most so many rows of each person in the whole stream are counted.",
    "windows": "Figures that are published beside the totals; the noise is fitted to them.",
    "epsilon": "What all releases together may reveal about one row; with a user, about one person.",
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
        found = guess(self.file, self._files)
        _show(console, found)
        settings = {
            "name": output.stem,
            "file_format": self.file_format,
            "delimiter": self.delimiter,
            "encoding": self.encoding,
        }
        settings |= {"sheet": self.sheet, **self._steps(found), **self._categories(console, found)}
        settings |= self._people(console, found, settings)
        settings |= self._budget(console, settings)
        settings["store"] = self._asked("A file that remembers what was counted and released", f"{output.stem}.db", str)
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

    def _asked(self, question: str, default: str | None, check: Callable[[str], T]) -> T:
        """Return an answer as `check` reads it; ask again as long as it is refused."""
        if self.yes and default is not None:
            return check(default)
        while True:
            answer = str(typer.prompt(question, default=default)).strip()
            try:
                return check(answer)
            except DpstreamError as error:
                say(Console(highlight=False), words_in_options(str(error), OPTIONS), "yellow")

    def _steps(self, found: Guess) -> dict[str, Any]:
        """Ask when rows happened, and which steps there are."""
        if self.yes and (not found.times or found.times[0] in found.undecided):
            raise DpstreamError(_no_times(found))
        time = self._asked(
            "The column that says when a row happened", found.times[0] if found.times else None, _one_of(found.columns)
        )
        time_format = found.time_format if time in found.times[:1] else None
        if time in found.undecided:
            forms = [form_in_words(form) for form in found.undecided[time].forms]
            say(Console(highlight=False), _two_readings(found.undecided[time]))
            time_format = self._asked(f"How timestamps are written: {' or '.join(forms)}", None, _one_of(forms))
        elif time not in found.times:
            time_format = self._asked("How timestamps are written, such as dd/mm/yyyy or ms", None, _a_time_format)
        every = self._asked("How long a step is: 1h, 1d, 1w, 1mo, ...", "1d", check_every)
        zone = self._asked("Whose days: a zone such as Europe/Vienna", "UTC", _a_zone) if found.offsets else None
        first, last = likely_dates(found, clock.now().date())

        def calendar_from(date: str) -> tuple[str, Calendar]:
            return date, Calendar(every, parse_moment("start", date, zone))

        def steps_until(date: str) -> tuple[str, int]:
            steps = calendar.reach(parse_moment("until", date, zone, end_of_day=True))
            if steps < 1:
                raise InvalidArgument("the last step", date, f"not before the first, {start}")
            return date, steps

        start, calendar = self._asked("The date of the first step", first, calendar_from)
        until, steps = self._asked("The date of the last step there will ever be", last, steps_until)
        dates = {"start": start, "until": until, "horizon": steps}
        return {"time": time, "time_format": time_format, "every": every, "time_zone": zone} | dates

    def _categories(self, console: Console, found: Guess) -> dict[str, Any]:
        """Ask for categories, which are never taken from the data unasked."""
        if not found.categories:
            return {}
        names = ", ".join(found.categories)
        if self.yes:
            say(
                console,
                f"No categories are taken: {names} could be one. Which categories there are comes from the data and"
                " may tell something about people; if the list is public, give --by and --values.",
            )
            return {}
        question = f"One total for each category in a column ({names})? none, or its name"
        by = self._asked(question, "none", _one_of(["none", *found.categories]))
        if by == "none":
            return {}
        values = found.categories[by]
        say(console, f"In the first rows it holds {', '.join(values)}.", "bold")
        if not typer.confirm("This list comes from the data. Is it public, and complete, whoever is in the data?"):
            say(
                console,
                f"Then {by} is not used, and one total is published. With a list that is public, add by = "
                f'"{by}" and values = [...] to the settings.',
            )
            return {}
        return {"by": by, "categories": values, "undeclared": "other"}

    def _people(self, console: Console, found: Guess, settings: dict[str, Any]) -> dict[str, Any]:
        """Ask what is protected. No limit per person is proposed: it would make figures fall behind."""
        column = found.users[0] if found.users else "COLUMN"
        if self.yes:
            say(console, f"Each row is protected by itself. {_OTHER_CHOICE} (--user {column} --max-contributions K).")
            return {}
        say(console, f"dpstream can protect each row by itself. {_OTHER_CHOICE}.")
        columns = ", ".join(found.users) or "its column"
        question = f"What is protected: each row, or each person ({columns})? row, or the column of people"
        user = self._asked(question, "row", _one_of(["row", *found.columns]))
        if user == "row":
            return {}
        rows = self._rows(console, settings, [user])
        while True:
            times = self._asked("How many rows of one person are counted in the whole stream", None, _from_one_on)
            say(console, row_limit_in_words(times))
            if rows is not None:
                _show_left_out(console, left_out(rows, user, times), times)
            if typer.confirm("Take this limit? Choose it from what you know about people: it is published", True):
                return {"user": user, "max_contributions": times}

    def _budget(self, console: Console, settings: dict[str, Any]) -> dict[str, Any]:
        """Show what a budget means, and ask for it; the number of steps is not a setting, the last date is."""
        steps, times = min(settings.pop("horizon"), STEPS), settings.get("max_contributions", 1)
        windows = {"1d": 1, "7d": 7} if settings["every"] == "1d" and steps >= 7 else {settings["every"]: 1}
        table = narrow_table(("epsilon", "a running total", *windows), title=f"Error bars (95 %), δ = {DELTA:g}")
        for epsilon in EPSILONS:
            offs = errors_of(approx_dp(epsilon, DELTA), steps, times, tuple(windows.values()))
            table.add_row(f"{epsilon:g}", *(f"±{off:,}" for off in offs))
        show_table(console, table)
        say(
            console,
            f"Over {number(steps, 'step')}{f', {times} rows of a person' if times > 1 else ''}. A smaller ε protects"
            " better; 1 is a usual choice.",
        )
        budget = self._asked("ε", "1", _a_budget)
        for finding in dangers(budget):
            say(console, f"warning: {finding.text}", "yellow")
        self._compare(console, settings, errors_of(budget, steps, times, tuple(windows.values()))[1])
        return {"windows": list(windows), "epsilon": budget.epsilon, "delta": DELTA}

    def _compare(self, console: Console, settings: dict[str, Any], off: int) -> None:
        """Hold the error bar of a step against how many rows a step of the file has."""
        by = settings.get("by")
        rows = self._rows(console, settings, [] if by is None else [by], first=True)
        if rows is None:
            return
        sizes = rows_each(rows, by, settings["every"])
        small = [name for name, size in sizes.items() if size < off]
        about = ", ".join(f"{name + ' ' if name else ''}{size:,.3g}" for name, size in list(sizes.items())[:SHOWN])
        say(
            console,
            f"A step of {settings['every']} has about so many rows in this file (not for publication): {about}.",
        )
        if small:
            of = "The figure of a step" if by is None else f"{len(small)} of {len(sizes)} figures of a step"
            are = "is" if by is None or len(small) == 1 else "are"
            say(
                console,
                f"warning: {of} {are} smaller than the error bar, ±{off:,}: take longer steps, fewer categories or a"
                " larger ε.",
                "yellow",
            )

    def _rows(
        self, console: Console, settings: dict[str, Any], columns: list[str], *, first: bool = False
    ) -> pl.DataFrame | None:
        """Return rows of the file; None, with a warning, if one cannot be read: the answers so far are not lost."""
        timestamps = Timestamps(settings["time"], settings["time_format"], settings["time_zone"])
        try:
            return read_rows(self.file, timestamps, columns, self._files, first=first)
        except SourceError as error:
            say(
                console,
                f"warning: dpstream count will refuse this file. {words_in_options(str(error), OPTIONS)}",
                "yellow",
            )
            return None

    @property
    def _files(self) -> FileOptions:
        return FileOptions(self.file_format, self.delimiter, self.encoding, self.sheet)


def somebody_to_ask() -> bool:
    """Whether there is a terminal to ask at."""
    return sys.stdin.isatty()


def _show(console: Console, found: Guess) -> None:
    say(console, "What this command says about the file is for you, not for publication.")
    for sentence in found.recognised:
        say(console, words_in_options(sentence, OPTIONS))
    say(console, f"Columns: {', '.join(found.columns)} ({number(found.rows, 'row')} looked at).")
    if found.times and found.first is not None:
        form = f", written {found.time_format}" if found.time_format else ""
        say(console, f"Times: {', '.join(found.times)}{form}; rows from {found.first} to {found.last}.")


def _show_left_out(console: Console, found: pl.DataFrame, times: int) -> None:
    title = f"Rows that a limit of {times:,} leaves out of this file (not for publication)"
    table = narrow_table(("", "rows", "left out"), title=title)
    for period, rows, dropped in found.iter_rows():
        table.add_row(period, f"{rows:,}", f"{dropped:,} ({dropped / rows:.0%})")
    show_table(console, table)


def _no_times(found: Guess) -> str:
    if found.times:
        return f"{_two_readings(found.undecided[found.times[0]])}. Without --yes, dpstream init asks for the form"
    columns = ", ".join(found.columns)
    return f"no column of timestamps was recognised among {columns}: without --yes, dpstream init asks for it"


def _two_readings(undecided: Undecided) -> str:
    readings = words_in_options(undecided.remedy(), OPTIONS)
    return f"No row tells the day from the month, such as {undecided.given}: {readings}"


# -- answers ----------------------------------------------------------------------------------------------------------


def _one_of(allowed: Sequence[str]) -> Callable[[str], str]:
    def check(answer: str) -> str:
        if answer not in allowed:
            raise InvalidArgument("the answer", answer, f"one of {', '.join(allowed)}")
        return answer

    return check


def _a_time_format(answer: str) -> str:
    check_time_format(answer)
    return answer


def _a_zone(answer: str) -> str:
    Timestamps("", None, answer)
    return answer


def _from_one_on(answer: str) -> int:
    if not answer.isdecimal() or not int(answer):
        raise InvalidArgument("the number of rows", answer, "a whole number from 1 on")
    return int(answer)


def _a_budget(answer: str) -> ApproxDP:
    try:
        return approx_dp(float(answer), DELTA)
    except ValueError:
        raise InvalidArgument("ε", answer, "a positive number, such as 1") from None
