"""Mistakes planted on purpose, in a small pipeline of plain Python and in dpstream: the guard finds each of them."""

from collections import Counter
from dataclasses import replace
from unittest import mock

import pytest

from dpstream.distance import Append, Close, Outcome, WayIn, check_distance
from dpstream.errors import InvalidArgument
from dpstream.events import ingest, row_rules
from dpstream.release.contribution_limit import ContributionLimit
from dpstream.store.batch_memory import BatchMemory
from tests.distance.ways import Frames, Ingest


class Pipeline(WayIn):
    """Append stores, close computes, each person alone: the rows of a person in the order of their steps, two count."""

    most, categories, kinds = 2, ("a", "b"), ("filtered",)

    def __init__(self):
        self.stored, self.used, self.done = {}, Counter(), 0
        self.out, self.answers = {}, {}

    def unit(self, row):
        return row.person

    def run(self, acts):
        self.__init__()
        for act in acts:
            if isinstance(act, Append):
                self.append(act)
            elif isinstance(act, Close):
                self.close(act.through)
            else:
                self.restart()
        return Outcome(self.out, self.seen(), self.answers)

    def append(self, act):
        if act.batch not in self.stored:
            self.stored[act.batch] = [(self.step(row), row) for row in act.rows if self.counts(row)]
        self.answers.setdefault(act.batch, len(act.rows))

    def counts(self, row):
        return row.kind == "plain" and row.step > 0

    def step(self, row):
        return max(row.step, self.done + 1)

    def restart(self):
        pass

    def waiting(self):
        rows = [(step, row) for batch in self.stored.values() for step, row in batch if step > self.done]
        return sorted(rows, key=lambda one: (one[0], one[1].category))

    def close(self, through):
        for step, row in self.waiting():
            if step <= through and self.keep(row):
                cell = (step, row.category)
                self.out[cell] = self.out.get(cell, 0) + 1
        self.done = max(self.done, through)

    def keep(self, row):
        self.used[row.person] += 1
        return self.used[row.person] <= 2

    def seen(self):
        return {"steps": self.done}


class ByContent(Pipeline):
    """A batch is recognised by what it holds, without the column that nobody reads."""

    def append(self, act):
        content = sorted(row[1:] for row in act.rows)
        if not any(content == sorted(row[1:] for _, row in rows) for rows in self.stored.values()):
            super().append(act)


class Watermark(Pipeline):
    """Rows behind the latest one are late, and dropped."""

    def __init__(self):
        super().__init__()
        self.latest = 0

    def append(self, act):
        self.latest = max([self.latest, *(row.step for row in act.rows)])
        super().append(Append(act.batch, tuple(row for row in act.rows if row.step >= self.latest - 1)))


class Suppressed(Pipeline):
    """Cells with fewer than two rows are not published."""

    def run(self, acts):
        made = super().run(acts)
        return Outcome({cell: total for cell, total in made.totals.items() if total > 1}, made.seen)


class TwoWorkers(Pipeline):
    """Each of two workers counts the rows of a person up to the limit."""

    def keep(self, row):
        worker = (row.person, row.category)
        self.used[worker] += 1
        return self.used[worker] <= 2


class LimitForgotten(Pipeline):
    """Who was counted is kept in memory only."""

    def restart(self):
        self.used.clear()


class SharedLimit(Pipeline):
    """A step counts nothing once more than three rows wait for it."""

    def close(self, through):
        rows = Counter(step for step, _ in self.waiting())
        self.full = {step for step, number in rows.items() if number > 3}
        super().close(through)

    def keep(self, row):
        return super().keep(row) and row.step not in self.full


class RetryCounts(Pipeline):
    """A batch that comes again after a restart counts again."""

    def restart(self):
        self.stored = {f"{name} before": rows for name, rows in self.stored.items()}


class LateLost(Pipeline):
    """Late rows count in the step of the newest row that waits."""

    def step(self, row):
        newest = max((step for step, _ in self.waiting()), default=1)
        return row.step if row.step > self.done else max(self.done + 1, newest)


class RefusedBySums(Pipeline):
    """A batch is refused when too many rows wait already, and its sender is told."""

    def append(self, act):
        if len(self.waiting()) > 3:
            self.answers.setdefault(act.batch, "full")
        else:
            super().append(act)


class StepsFromRows(Pipeline):
    """Steps after the last row are not released."""

    def seen(self):
        return {"steps": max((step for step, _ in self.out), default=0)}


class BatchDropped(Pipeline):
    """A batch with a row that is filtered out is left out as a whole, without a word."""

    def append(self, act):
        if all(self.counts(row) for row in act.rows):
            super().append(act)


class Capacity(Pipeline):
    """There is room for three people; others are not counted."""

    def keep(self, row):
        return (row.person in self.used or len(self.used) < 3) and super().keep(row)


class LimitTooLarge(Pipeline):
    """Three rows of a person count, and two are promised."""

    def keep(self, row):
        self.used[row.person] += 1
        return self.used[row.person] <= 3


class AnswerTellsOthers(Pipeline):
    """The answer to a sender says how many rows wait."""

    def append(self, act):
        super().append(act)
        self.answers[act.batch] = len(self.waiting())


FLAWS = [
    ByContent,
    Watermark,
    Suppressed,
    TwoWorkers,
    LimitForgotten,
    SharedLimit,
    RetryCounts,
    LateLost,
    RefusedBySums,
    StepsFromRows,
    BatchDropped,
    Capacity,
    LimitTooLarge,
    AnswerTellsOthers,
]


def test_the_pipeline_without_a_mistake_passes():
    check_distance(Pipeline(), examples=300)


@pytest.mark.parametrize("flaw", FLAWS, ids=lambda flaw: flaw.__name__)
def test_a_planted_mistake_is_found(flaw):
    with pytest.raises(AssertionError):
        check_distance(flaw(), examples=1000, shrink=False)


# -- in dpstream ------------------------------------------------------------------------------------------------------


def halved(self, groups, present):
    """Ask for the people of all batches at once, and in halves where one needs a closer look: some are asked twice."""
    parts = []
    together = [batch for group in groups for batch in group]
    for group in [together, *groups] if groups else []:
        try:
            parts.append(self._added_together(group, present, self._tally(limited=True))[0])
        except InvalidArgument:
            continue
        if group is together:
            break
    return parts, []


def all_or_nothing(self, table):
    """Leave out all rows of a file that has a row which is left out."""
    kept = REALLY_APPLIED(self, table)
    return kept if kept.frame.height == table.frame.height else replace(kept, frame=kept.frame.clear())


REALLY_APPLIED = row_rules.RowFilter.apply


IN_DPSTREAM = {
    "a limit asked twice": (Ingest, "people", mock.patch.object(ingest.StreamIngest, "_limited", halved)),
    "a row that is filtered out takes others along": (
        Frames,
        "people",
        mock.patch.object(row_rules.RowFilter, "apply", all_or_nothing),
    ),
    "a retry counts twice": (Ingest, "rows", mock.patch.object(BatchMemory, "knows", return_value=False)),
    "a limit one too large": (
        Frames,
        "people",
        mock.patch.object(ContributionLimit, "_take_all", lambda self, people, asked: asked),
    ),
}


@pytest.mark.parametrize("mistake", list(IN_DPSTREAM))
def test_a_mistake_planted_in_dpstream_is_found(mistake):
    kind, variant, patched = IN_DPSTREAM[mistake]
    with patched, pytest.raises(AssertionError):
        check_distance(kind(variant), examples=200, shrink=False)
