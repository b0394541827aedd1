"""What is said about a count, besides its releases: what was taken from the data, left out, moved, or looks dangerous.

Sentences name settings as the library does (`start`, late='next'); the command line turns them into options.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import NamedTuple

from dpstream.budget import ApproxDP, Budget, PureDP
from dpstream.events import last_step as clock
from dpstream.events.before_release import steps_in_words, steps_without_rows
from dpstream.events.counting import CountRun
from dpstream.events.number_words import number
from dpstream.events.tally import TimeTally

__all__ = ["Finding", "dangers", "found_afterwards", "found_before"]

#: Beyond these a budget protects nobody in any sense that people would recognise.
LARGEST_EPSILON = LARGEST_RHO = 10
#: A δ like this is too large for any log that is worth publishing.
LARGEST_DELTA = 1e-4
#: A stream that ends so soon was probably given a wrong end.
SOON = dt.timedelta(days=7)
#: The dates of more steps than these are not worked out for a sentence.
LONGEST = 1 << 17


class Finding(NamedTuple):
    """A sentence, and whether it is a warning, which nobody should miss."""

    text: str
    warning: bool = True

    def for_the_owner(self) -> Finding:
        """Return it marked as not for publication: one row may have changed it."""
        return self._replace(text=f"{self.text} Not for publication.")


def found_before(run: CountRun) -> Iterator[Finding]:
    """Yield what is to be said before anything is released."""
    options, tally = run.options, run.tally
    if not run.seen:
        yield from dangers(options.budget, options.max_users if options.user and options.store else None)
    if tally.calendar is None:
        return
    if run.first_from_data:
        yield Finding(
            f"the first step ({tally.calendar.shown(0, 1)[0]}) was taken from the data: it shows when the first person"
            " came, which is not private. `start` avoids that."
        )
    if run.last_from_data and tally.steps:
        yield Finding(
            f"the last step ({tally.calendar.shown(tally.steps - 1, 1)[0]}) was taken from the data: it shows when the"
            " last person came, which is not private. `through` avoids that."
        )
    if tally.timestamps.recognised is not None:
        # It quotes a timestamp of the data.
        yield Finding(tally.timestamps.recognised, warning=False).for_the_owner()
    if tally.timestamps.offsets and tally.timestamps.zone is None:
        yield Finding(
            "Timestamps have offsets and there is no `time_zone`: steps are those of UTC. For local days, give a zone,"
            " such as time_zone='Europe/Vienna'.",
            warning=False,
        )
    if options.store is not None:
        yield from _gaps(run, tally)
    yield from _end(run, tally)


def dangers(budget: Budget, people: int | None = None) -> Iterator[Finding]:
    """Yield what is dangerous about a budget.

    The true number of people or rows is not looked at: whether a warning appears would tell something about it.

    Parameters
    ----------
    people
        How many people there may be, as the caller declared it; None: it was not said.
    """
    epsilon, rho, delta = (getattr(budget, part, None) for part in ("epsilon", "rho", "delta"))
    if isinstance(budget, (ApproxDP, PureDP)) and epsilon is not None and epsilon > LARGEST_EPSILON:
        yield Finding(f"ε = {epsilon:g} protects hardly anybody: ε = 1 is a usual choice, and 10 is much.")
    if rho is not None and rho > LARGEST_RHO:
        yield Finding(f"ρ = {rho:g} protects hardly anybody: ρ = 0.1 is a usual choice, and 1 is much.")
    if delta is not None and people is not None and delta * people > 1:
        yield Finding(
            f"δ = {delta:g} is more than one over {people:,}, the users there may be: it should be far less, since it"
            " is the chance with which the promise may fail."
        )
    elif delta is not None and delta >= LARGEST_DELTA:
        yield Finding(
            f"δ = {delta:g} is large: it should be far less than one over the number of people, since it is the chance"
            " with which the promise may fail; 1e-6 is a usual choice."
        )


def _gaps(run: CountRun, tally: TimeTally) -> Iterator[Finding]:
    """Steps without rows may be a file that was forgotten, and are final once they are released."""
    empty = steps_without_rows(run)
    if len(empty) and tally.calendar is not None:
        steps = steps_in_words(tally.calendar, empty)
        they = "it is" if len(empty) == 1 else "they are"
        yield Finding(f"no rows for {steps}: released as {they}.").for_the_owner()


def _end(run: CountRun, tally: TimeTally) -> Iterator[Finding]:
    """How many steps are left, from the last tenth on; and at the beginning, if the end is near."""
    calendar, horizon = tally.calendar, run.horizon
    if horizon is None or calendar is None or run.options.store is None:
        return
    left = horizon - run.closed
    if horizon > LONGEST or (run.seen and 10 * left > horizon):
        return
    calendar.lay_out(horizon)
    last = calendar.shown(horizon - 1, 1)[0]
    name = run.options.name
    if left == 0:
        extended = "dpstream store extend starts a stream that carries the total over."
        begun = "a stream with another `name` begins anew, with a budget of its own."
        yield Finding(
            f"the step of {last} is the last of {name!r}: {extended if run.options.discovery is None else begun}"
        )
    elif run.seen:
        are = "is" if left == 1 else "are"
        yield Finding(f"{number(left, 'step')} {are} left of {name!r}, the last that of {last}.")
    else:
        begin = calendar.begin(horizon - 1)
        ends = begin if begin.tzinfo else begin.replace(tzinfo=dt.UTC)
        if dt.timedelta(0) <= ends - clock.now() <= SOON:
            yield Finding(f"{name!r} ends within a week, with the step of {last}: nothing can be counted after it.")


def found_afterwards(run: CountRun) -> Iterator[Finding]:
    """Yield what is to be said after the releases: what was left out, moved, or counted otherwise than it stands.

    All of it is true data, for the owner only.
    """
    return (finding.for_the_owner() for finding in _found_in_rows(run))


def _found_in_rows(run: CountRun) -> Iterator[Finding]:
    tally = run.tally
    for source in run.known:
        yield Finding(f"{source} was counted before: nothing of it was counted again.")
    if tally.filter.outside:
        are = "is" if tally.filter.outside == 1 else "are"
        yield Finding(f"{number(tally.filter.outside, 'row')} {are} not of `where`.", warning=False)
    for column, skipped in tally.filter.skipped.items():
        are = "is" if skipped == 1 else "are"
        yield Finding(f"{number(skipped, 'row')} with an empty cell in {column!r} {are} not counted (missing='skip').")
    yield from _rows_elsewhere(run, tally)
    if tally.clipped:
        measure = run.options.measure
        least, most = measure.reader.shown(measure.least), measure.reader.shown(measure.most)
        yield Finding(
            f"{number(tally.clipped, 'row')} with an amount outside {least} to {most}"
            f" {'counts' if tally.clipped == 1 else 'count'} as the nearer of the two (`clip`); totals are those of the"
            " clipped amounts."
        )


def _rows_elsewhere(run: CountRun, tally: TimeTally) -> Iterator[Finding]:
    calendar = tally.calendar
    if tally.old and run.in_ledger:
        yield _late(run, tally)
    elif tally.old:
        yield from _old(run)
    if tally.before:
        were = "was" if tally.before == 1 else "were"
        yield Finding(f"{number(tally.before, 'row')} from before the first step {were} not counted.")
    if tally.after and calendar is not None:
        last = calendar.shown(run.published - 1, 1)[0] if run.published else "the first step"
        yield Finding(
            f"{number(tally.after, 'row')} after the last step released ({last})"
            f" {'was' if tally.after == 1 else 'were'} not counted: give them again when their steps are released."
        )
    if run.waiting:
        wait = "waits in the store until its step is" if run.waiting == 1 else "wait in the store until their steps are"
        yield Finding(f"{number(run.waiting, 'row')} {wait} released.", warning=False)
    if tally.timestamps.ambiguous:
        yield Finding(
            f"{number(tally.timestamps.ambiguous, 'timestamp')} without an offset fall into an hour that the clock"
            " showed twice, and were taken to be in the first."
        )


def _late(run: CountRun, tally: TimeTally) -> Finding:
    assert tally.calendar is not None  # noqa: S101
    came = f"{number(tally.old, 'row')} came late, for steps that were released before,"
    if run.options.late == "drop":
        return Finding(f"{came} and {'was' if tally.old == 1 else 'were'} left out (late='drop').")
    tally.calendar.lay_out(run.seen + 1)
    step = tally.calendar.shown(run.seen, 1)[0]
    return Finding(f"{came} and {'is' if tally.old == 1 else 'are'} counted in the step of {step} (late='next').")


def _old(run: CountRun) -> Iterator[Finding]:
    """Where rows come again in every run: whether they are those that were counted."""
    old = run.old_rows()
    are = "is" if old.rows == 1 else "are"
    it = "it is" if old.rows == 1 else "they are"
    found = f"{number(old.rows, 'row')} {are} for steps that were released before"
    if old.same:
        yield Finding(f"{found}, as many as were counted then: {it} not counted again.", warning=False)
    elif old.surplus:
        yield Finding(
            f"{found}; {it} not counted. At least {old.surplus:,} of them came late: there are more than were counted"
            " then."
        )
    else:
        yield Finding(f"{found}; {it} not counted. Whether they were counted then cannot be told.")
