"""What `dpstream count` says on standard error: what was chosen and why, what is promised, what was left out."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.text import Text

from dpstream.budget import zcdp
from dpstream.cli.budget_options import budget_in_words
from dpstream.cli.publication import Publication
from dpstream.events.tally import TimeTally
from dpstream.release.accuracy import accuracy
from dpstream.release.counter import Counter
from dpstream.release.plan import plan

__all__ = ["Notes"]

#: Up to here all mechanisms are priced to say why the first is first.
PLAN_STEPS = 20_000


class Notes:
    """Says things once, unless told to be quiet; warnings always."""

    def __init__(self, publication: Publication, *, quiet: bool) -> None:
        self._publication = publication
        self._quiet = quiet
        self._console = Console(stderr=True, highlight=False)
        self.said = False

    def note(self, text: str) -> None:
        """Say something."""
        if not self._quiet:
            self._console.print(Text(text))

    def warn(self, text: str) -> None:
        """Say something even to those who want to hear nothing."""
        self._console.print(Text.assemble(("warning: ", "bold yellow"), text))

    def before(self, settled: Counter) -> None:
        """What was chosen, and what is promised to whom."""
        if self.said:
            return
        self.said = True
        self.note(self._choice(settled))
        self.note(self._promise(settled))
        wanted = self._publication.wanted
        if wanted.time is None and wanted.measure.value is None and wanted.measure.by is None:
            self.warn("every row is a step and counts 1, so the true total is the step; give --time, --value or --by.")
        if wanted.time is not None and wanted.start is None and not self._publication.seen:
            self.note(
                "The first step was taken from the data; --from makes it your choice and keeps it out of the data."
            )

    def after(self, report_dropped: float | None, output: Path | None, plot: Path | None) -> None:
        """What was read and released, and what was left out."""
        publication = self._publication
        tally, wanted = publication.tally, publication.wanted
        released = publication.published - publication.seen
        self.note(f"{tally.rows:,} rows read; {released:,} steps released.")
        if publication.seen:
            self.note(f"{publication.seen:,} steps had been released before; their rows were not counted again.")
            late = publication.late()
            if late:
                unit = "rows" if wanted.measure.value is None else f"in {wanted.measure.value!r}"
                self.warn(f"{late:,} {unit} came too late, for steps already released, and were not counted.")
        if isinstance(tally, TimeTally):
            if tally.late:
                self.warn(f"{tally.late:,} rows came too late, for steps already released, and were not counted.")
            if tally.before:
                self.warn(f"{tally.before:,} rows from before the first step were not counted.")
        if tally.people is not None:
            self._dropped(report_dropped)
        for path in (output, plot):
            if path is not None:
                self.note(f"Written: {path}")
        if wanted.store is None and released:
            self.note("The noise of this run is not kept (--store keeps it): publish the result of one run only.")

    def _choice(self, settled: Counter) -> str:
        publication = self._publication
        name = type(settled.mechanism).__name__
        if publication.wanted.mechanism != "auto":
            return f"Mechanism: {name}, as asked."
        horizon = publication.horizon
        if horizon is None:
            return f"Mechanism: {name}, the best known without a last step."
        if horizon > PLAN_STEPS:
            return f"Mechanism: {name}, the least error known over {horizon:,} steps."
        found = plan(horizon, settled.budget, shape=settled.shape)
        reason = found.reason if type(found.mechanism) is type(settled.mechanism) else f"{name}."
        return f"Mechanism: {reason}"

    def _promise(self, settled: Counter) -> str:
        publication = self._publication
        wanted = publication.wanted
        step = max(publication.tally.steps, publication.seen, 1)
        _, off = accuracy(settled, step, 1, wanted.confidence)
        if wanted.user is not None:
            who = f"every user, of whom at most {wanted.times:,} rows are counted"
        else:
            who = "every single row (for people with several rows: --user and --max-contributions)"
        return (
            f"Budget {budget_in_words(wanted.budget)} for all releases together protects {who}. Release {step:,} is"
            f" within ±{off[0]:,} of the true total {'of the rows counted ' if wanted.user else ''}with"
            f" {100 * wanted.confidence:g} % confidence."
        )

    def _dropped(self, report_dropped: float | None) -> None:
        people = self._publication.tally.people
        assert people is not None  # noqa: S101
        if report_dropped is None:
            self.note(
                f"Rows beyond {people.limit.times:,} a user were dropped. How many is withheld: it would be a figure"
                " about people (--report-dropped spends budget on it)."
            )
            return
        # One user changes the number of users with dropped rows by one at most, however many rows they have.
        one = Counter(1, zcdp(report_dropped))
        users = one.add(people.limit.people_over)
        low, high = one.interval(self._publication.wanted.confidence)
        self.note(
            f"Users with dropped rows (private, ρ = {report_dropped:g} more): {users:,}, between {low:,} and {high:,}."
        )
