"""What `dpstream count` says on standard error: what is promised, what was taken from the data, what was left out."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.text import Text

from dpstream.budget import zcdp
from dpstream.cli.budget_options import budget_in_words
from dpstream.cli.option_words import words_in_options
from dpstream.cli.printable import printable
from dpstream.cli.store_open import promised
from dpstream.cli.whole_command import OPTIONS
from dpstream.events.counting import CountRun
from dpstream.events.findings import Finding, found_afterwards, found_before
from dpstream.events.number_words import number
from dpstream.release.change_errors import change_errors
from dpstream.release.counter import Counter
from dpstream.release.least_budget import largest_error
from dpstream.release.limit_words import row_limit_in_words
from dpstream.release.plan import plan

__all__ = ["Notes"]

#: Up to this horizon --verbose compares all mechanisms, which takes a moment.
PLAN_STEPS = 20_000


class Notes:
    """Prints notes, each once; --quiet silences them, but not warnings."""

    def __init__(self, run: CountRun, *, quiet: bool, verbose: bool = False) -> None:
        self._run = run
        self._quiet = quiet
        self._verbose = verbose
        self._console = Console(stderr=True, highlight=False)
        self.said = False
        self._recognised: list[str] = []

    def note(self, text: str) -> None:
        """Print a note; --quiet silences it."""
        if not self._quiet:
            self._console.print(Text(printable(text)))

    def warn(self, text: str) -> None:
        """Print a warning; --quiet does not silence it."""
        self._console.print(Text.assemble(("warning: ", "bold yellow"), printable(text)))

    def recognised(self, sentence: str) -> None:
        """Keep what was recognised in a file, to be said once the file is found in order: an error is one line."""
        self._recognised.append(words_in_options(sentence, OPTIONS))

    def before(self) -> None:
        """Say what is promised to whom, and what of the releases is not private."""
        if self.said:
            return
        self.said = True
        run = self._run
        for sentence in self._recognised:
            self.note(sentence)
        if self._verbose:
            self.note(self._choice())
        self.note(self._promise())
        error = run.options.measure.reader.shown(self._largest_error())
        self.note(f"Noise: at most ±{error} ({100 * run.options.confidence:g} %).")
        if run.options.windows and run.closed:
            self.note(self._windows())
        if run.created and run.store is not None and (spent := run.store.spent()).streams > 1:
            self.note(f"{promised(spent)} Someone who appears in several streams has this combined protection.")
        self._say(found_before(run))

    def after(self, report_dropped: float | None, output: Path | None, plot: Path | None) -> None:
        """Say what was read and released, and what was left out."""
        run = self._run
        tally, options = run.tally, run.options
        released = run.published - run.seen
        self.note(f"{number(tally.rows_read, 'row')} read (not for publication); {number(released, 'step')} released.")
        if run.seen:
            self.note(f"{number(run.seen, 'step')} {'was' if run.seen == 1 else 'were'} released in earlier runs.")
        self._say(found_afterwards(run))
        if tally.people is not None:
            self._dropped(report_dropped)
        if options.non_negative or options.monotone:
            self.note(self._views())
        for path in (output, plot):
            if path is not None:
                self.note(f"Written: {path}")
        if run.in_ledger and options.through is None:
            self._how_to_release()
        if options.store is None and released:
            self.note("The noise of this run is not kept (--store keeps it): publish the result of one run only.")

    def _how_to_release(self) -> None:
        """Say which commands release steps, in lines to paste."""
        run, calendar = self._run, self._run.tally.calendar
        assert run.store is not None and calendar is not None  # noqa: S101, PT018
        command = f"dpstream count --store {shlex.quote(str(run.options.store))}"
        if len(run.store.streams()) > 1:
            command += f" --name {shlex.quote(run.options.name)}"
        steps = min(max(run.present, run.seen + 1), run.tally.horizon)
        calendar.lay_out(steps)
        date = calendar.last_days(steps - 1, 1)[0].isoformat()
        if not self._quiet:
            self._console.print(
                Text(
                    "Nothing was released. To release every step that has ended, type\n"
                    f"    {command} --through now\n"
                    "or, to release the steps up to the last day that your files cover, such as\n"
                    f"    {command} --through {date}"
                ),
                soft_wrap=True,
            )

    def _say(self, findings: Iterable[Finding]) -> None:
        for text, warning in findings:
            (self.warn if warning else self.note)(words_in_options(text, OPTIONS))

    def _largest_error(self) -> int:
        """The largest error of any release, at the confidence asked for."""
        run = self._run
        settings = run.settings
        steps = run.horizon or max(run.closed, 1)
        bound = settings.distance
        return largest_error(settings.mechanism, settings.budget, bound, steps, run.options.confidence)

    def _windows(self) -> str:
        """How exact each window is where it is least so, among the releases of this run and those before."""
        return f"Windows: {self._window_errors()}; until enough steps exist, windows start at the first step."

    def _window_errors(self) -> str:
        run, shown = self._run, self._run.options.measure.reader.shown
        steps, calendar = run.closed, run.tally.calendar
        words = []
        for window in run.options.windows:
            since = window.since(calendar, 0, steps)
            _, off = change_errors(run.settings, np.arange(1, steps + 1), since, run.options.confidence)
            words.append(f"{window.name} at most ±{shown(int(off.max(initial=0)))}")
        return ", ".join(words)

    def _views(self) -> str:
        options = self._run.options
        named = [name for name in ("non_negative", "monotone") if getattr(options, name)]
        are = "is a view" if len(named) == 1 else "are views"
        return (
            f"{' and '.join(named)} {are} of the releases, without further budget; low and high are those of the"
            " releases: for the views they are not exact."
        )

    def _choice(self) -> str:
        run = self._run
        settings = run.settings
        name = type(settings.mechanism).__name__
        horizon = run.horizon
        if run.options.mechanism != "auto":
            return f"Mechanism: {name}, as asked."
        if horizon is None:
            return f"Mechanism: {name}, the best known without a last step."
        if horizon > PLAN_STEPS:
            return f"Mechanism: {name}, the least error known over {horizon:,} steps."
        found = plan(horizon, settings.budget, shape=settings.shape)
        reason = found.reason if type(found.mechanism) is type(settings.mechanism) else f"{name}."
        return f"Mechanism: {reason}"

    def _promise(self) -> str:
        options = self._run.options
        budget = f"Budget {budget_in_words(options.budget)} for all releases together protects"
        if options.user is not None:
            return f"{budget} every user. {row_limit_in_words(options.max_contributions)}"
        return f"{budget} every single row (for people with several rows: --user and --max-contributions)."

    def _dropped(self, report_dropped: float | None) -> None:
        people = self._run.tally.people
        assert people is not None  # noqa: S101
        if report_dropped is None:
            self.note(
                f"Rows beyond {people.limit.times:,} of each user are not counted. Their number is not shown, because"
                " it is a figure about people (--report-dropped spends budget on it)."
            )
            return
        # One user changes the number of users with dropped rows by one at most, however many rows they have.
        one = Counter(1, zcdp(report_dropped))
        users = one.add(people.limit.people_over)
        _, _, low, high = one.estimate(self._run.options.confidence)
        self.note(
            f"Users with rows left out: {users:,}, between {low:,} and {high:,} (not for publication: this run spent"
            f" ρ = {report_dropped:g} more on it)."
        )
