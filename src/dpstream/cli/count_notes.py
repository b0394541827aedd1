"""What `dpstream count` says on standard error: what is promised, what was taken from the data, what was left out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.console import Console
from rich.text import Text

from dpstream.budget import zcdp
from dpstream.cli.budget_options import budget_in_words
from dpstream.cli.option_words import in_options
from dpstream.cli.output import number
from dpstream.errors import DpstreamError
from dpstream.events.counting import CountRun
from dpstream.events.tally import TimeTally
from dpstream.release.change_errors import change_errors
from dpstream.release.counter import Counter
from dpstream.release.least_budget import largest_error
from dpstream.release.plan import plan

__all__ = ["Notes"]

#: Up to this horizon --verbose compares all mechanisms, which takes a moment.
PLAN_STEPS = 20_000
#: The options for what is recognised if they are left out.
_RECOGNISED = {name: f"--{name.replace('_', '-')}" for name in ("delimiter", "encoding", "sheet", "time_format")}


class Notes:
    """Prints notes, each once; --quiet silences them, but not warnings."""

    def __init__(self, run: CountRun, *, quiet: bool, verbose: bool = False) -> None:
        self._run = run
        self._quiet = quiet
        self._verbose = verbose
        self._console = Console(stderr=True, highlight=False)
        self.said = False

    def note(self, text: str) -> None:
        """Print a note; --quiet silences it."""
        if not self._quiet:
            self._console.print(Text(text))

    def warn(self, text: str) -> None:
        """Print a warning; --quiet does not silence it."""
        self._console.print(Text.assemble(("warning: ", "bold yellow"), text))

    def recognised(self, sentence: str) -> None:
        """Print what was recognised in a file, in the words of the command line."""
        self.note(in_options(DpstreamError(sentence), _RECOGNISED))

    def before(self) -> None:
        """Say what is promised to whom, and what of the releases is not private."""
        if self.said:
            return
        self.said = True
        run = self._run
        options, tally = run.options, run.tally
        if self._verbose:
            self.note(self._choice())
        self.note(self._promise())
        error = options.measure.reader.shown(self._largest_error())
        self.note(f"Noise: at most ±{error} ({100 * options.confidence:g} %).")
        if options.windows:
            self.note(self._windows())
        if options.time is None:
            counts = options.measure.value is None and options.measure.by is None
            self.warn(
                "every row is a step and counts 1, so that the steps are the true total: nothing is protected."
                if counts
                else "every row is a step: how many rows there are is published, and only what they say is protected."
            )
        if run.first_from_data and isinstance(tally, TimeTally) and tally.calendar is not None:
            self.warn(
                f"the first step ({tally.calendar.shown(0, 1)[0]}) was taken from the data: it shows when the first"
                " person came. --from DATE avoids that."
            )
        if isinstance(tally, TimeTally):
            self._last_step(tally)
            if tally.timestamps.recognised is not None:
                self.recognised(tally.timestamps.recognised)
            if tally.timestamps.offsets and tally.timestamps.zone is None:
                self.note(
                    "Timestamps have offsets and there is no --time-zone: steps are those of UTC. For local days, give"
                    " a zone, such as --time-zone Europe/Vienna."
                )

    def after(self, report_dropped: float | None, output: Path | None, plot: Path | None) -> None:
        """Say what was read and released, and what was left out."""
        run = self._run
        tally, options = run.tally, run.options
        released = run.published - run.seen
        self.note(f"{number(tally.rows_read, 'row')} read; {number(released, 'step')} released.")
        if run.seen:
            self.note(f"{number(run.seen, 'step')} {'was' if run.seen == 1 else 'were'} released in earlier runs.")
        self._not_selected()
        if isinstance(tally, TimeTally):
            self._left_out(tally)
        if tally.clipped:
            self._clipped(tally.clipped)
        if tally.people is not None:
            self._dropped(report_dropped)
        if options.non_negative or options.monotone:
            self.note(self._views())
        for path in (output, plot):
            if path is not None:
                self.note(f"Written: {path}")
        if options.store is None and released:
            self.note("The noise of this run is not kept (--store keeps it): publish the result of one run only.")

    def _last_step(self, tally: TimeTally) -> None:
        run = self._run
        if run.options.order == "late":
            self.warn(
                "steps are released when a row of a later one arrives: when releases appear and how many there are"
                " shows when people came. --through now lets the clock close steps."
            )
        elif run.last_from_data and tally.calendar is not None and tally.steps:
            self.warn(
                f"the last step ({tally.calendar.shown(tally.steps - 1, 1)[0]}) was taken from the data: it shows when"
                " the last person came. --through DATE avoids that."
            )

    def _left_out(self, tally: TimeTally) -> None:
        run = self._run
        old = run.old_rows()
        if old.rows:
            are = "is" if old.rows == 1 else "are"
            found = f"{number(old.rows, 'row')} {are} for steps that were released before"
            if old.same:
                self.note(f"{found}, as many as were counted then: {are} not counted again.")
            elif old.surplus:
                self.warn(
                    f"{found}; they are not counted. At least {old.surplus:,} of them came late: there are more than"
                    " were counted then."
                )
            else:
                self.warn(f"{found}; they are not counted. Whether they were counted then cannot be told.")
        if tally.late:
            self.warn(f"{number(tally.late, 'row')} came too late, for steps already released, and were not counted.")
        if tally.before:
            self.warn(f"{number(tally.before, 'row')} from before the first step were not counted.")
        if tally.after:
            assert tally.calendar is not None  # noqa: S101
            last = tally.calendar.shown(run.published - 1, 1)[0] if run.published else "the first step"
            self.warn(
                f"{number(tally.after, 'row')} after the last step released ({last}) were not counted: give them again"
                " when their steps are released."
            )
        if tally.timestamps.ambiguous:
            self.warn(
                f"{number(tally.timestamps.ambiguous, 'timestamp')} without an offset fall into an hour that the clock"
                " showed twice, and were taken to be in the first."
            )
        self._empty_steps(tally)

    def _not_selected(self) -> None:
        """Say how many rows --where and --missing left out."""
        rows = self._run.tally.filter
        if rows.outside:
            self.note(f"{number(rows.outside, 'row')} {'is' if rows.outside == 1 else 'are'} not of --where.")
        for column, skipped in rows.skipped.items():
            self.warn(
                f"{number(skipped, 'row')} with an empty cell in {column!r} {'is' if skipped == 1 else 'are'} not"
                " counted (--missing skip)."
            )

    def _clipped(self, rows: int) -> None:
        measure = self._run.options.measure
        least, most = measure.reader.shown(measure.least), measure.reader.shown(measure.most)
        count = "counts" if rows == 1 else "count"
        self.warn(
            f"{number(rows, 'row')} with an amount outside {least} to {most} {count} as the nearer of the two (--clip);"
            " totals are those of the clipped amounts. How many rows it was is a figure about people: do not publish"
            " it."
        )

    def _empty_steps(self, tally: TimeTally) -> None:
        """With a store, a step without rows may be a file that was forgotten, and it is final."""
        run = self._run
        if run.options.store is None or tally.calendar is None or tally.people is not None:
            return
        new = tally.inputs(run.seen, run.published - run.seen)
        empty = np.flatnonzero(~new.reshape(len(new), -1).any(axis=1)) if len(new) else new
        if len(empty):
            first = tally.calendar.shown(run.seen + int(empty[0]), 1)[0]
            self.note(f"{number(len(empty), 'step')} without rows released as empty, the first {first}.")

    def _largest_error(self) -> int:
        """The largest error of any release, at the confidence asked for."""
        run = self._run
        settings = run.settings
        steps = run.horizon or max(run.closed, 1)
        bound = settings.distance
        return largest_error(settings.mechanism, settings.budget, bound, steps, run.options.confidence)

    def _windows(self) -> str:
        """How exact each window is where it is least so, among the releases of this run and those before."""
        run, shown = self._run, self._run.options.measure.reader.shown
        steps, calendar = run.closed, run.tally.calendar if isinstance(run.tally, TimeTally) else None
        words = []
        for window in run.options.windows:
            since = window.since(calendar, 0, steps)
            _, off = change_errors(run.settings, np.arange(1, steps + 1), since, run.options.confidence)
            words.append(f"{window.name} at most ±{shown(int(off.max(initial=0)))}")
        return f"Windows: {', '.join(words)}; as long as there are fewer steps, since the first."

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
        if options.user is not None:
            are = "is" if options.max_contributions == 1 else "are"
            who = f"every user, of whom at most {number(options.max_contributions, 'row')} {are} counted"
        else:
            who = "every single row (for people with several rows: --user and --max-contributions)"
        return f"Budget {budget_in_words(options.budget)} for all releases together protects {who}."

    def _dropped(self, report_dropped: float | None) -> None:
        people = self._run.tally.people
        assert people is not None  # noqa: S101
        if report_dropped is None:
            self.note(
                f"Rows beyond {people.limit.times:,} for each user are left out of all totals. How many is withheld:"
                " it would be a figure about people (--report-dropped spends budget on it)."
            )
            return
        # One user changes the number of users with dropped rows by one at most, however many rows they have.
        one = Counter(1, zcdp(report_dropped))
        users = one.add(people.limit.people_over)
        _, _, low, high = one.estimate(self._run.options.confidence)
        self.note(
            f"Users with rows left out (private, ρ = {report_dropped:g} more): {users:,}, between {low:,} and {high:,}."
        )
