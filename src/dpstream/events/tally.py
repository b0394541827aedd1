"""Adds rows up to one input for each step, which is a stretch of time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpstream.errors import RowRefused, SourceDamaged
from dpstream.events.calendar import Calendar
from dpstream.events.measure import Measure
from dpstream.events.people import CONTRIBUTIONS, People
from dpstream.events.row_rules import RowFilter, RowRules
from dpstream.events.tables import Table
from dpstream.events.timestamps import Timestamps

__all__ = ["Late", "Part", "TimeTally"]

#: Far above what a step may hold, far enough below 2^63 that one more table cannot pass it unseen.
FARTHEST = 1 << 61
#: What becomes of rows whose steps were released in an earlier run: counted in the first step that is not, refused, or
#: left out.
Late = Literal["next", "refuse", "drop"]


@dataclass
class Part:
    """What a file adds to steps: `tallies` and the number of `rows` of each from step `first` (from 0) on, and who."""

    first: int
    tallies: NDArray[np.int64]
    rows: NDArray[np.int64]
    contributions: pl.DataFrame


class TimeTally:
    """Adds rows up to steps; steps without rows add nothing.

    Parameters
    ----------
    measure, people
        What a row adds; and who is limited, if anybody is.
    horizon
        How many steps there may be.
    timestamps, every
        How to read a row's time, and how long a step is.
    start
        A moment of the first step, or the calendar that begins with it; None: the first row's moment, or with
        `any_order` the earliest row's.
    until
        A moment of the last step there may be, instead of a horizon.
    through
        Says how many steps are to be released once the calendar is known, whatever the data hold; None: up to the
        last row's step. Rows of later steps are left out, and nobody's limit is used up by them.
    any_order
        Whether rows come in any order; otherwise a row of an earlier step than the row before it is a mistake.
    seen, late
        So many steps were released before, and what becomes of their rows. They are also added up apart, to be
        recognised.
    series_start
        When the first of the streams began that this one goes on with: rows since then are late, too.
    past_the_end
        What can be done about rows after the last step there may be, for the message.
    row_filter
        Leaves out the rows that are not to be counted, before anything else looks at them.

    Attributes
    ----------
    rows
        How many rows were taken; those that `filter` leaves out are not included.
    clipped
        How many rows had an amount beyond the limit, and count as the limit.
    contributions
        Whose rows were counted in which step, since it was last emptied.
    before, after
        How many rows were left out because their step is before the first, or after the last that is to be released.
    old
        How many rows are of steps that were released in an earlier run.
    parts
        What was cut off, see `cut`.
    """

    def __init__(
        self,
        measure: Measure,
        people: People | None,
        horizon: int,
        timestamps: Timestamps,
        every: str,
        *,
        start: pl.Series | Calendar | None = None,
        until: pl.Series | None = None,
        through: Callable[[Calendar, int], int] | None = None,
        any_order: bool = False,
        seen: int = 0,
        late: Late = "drop",
        past_the_end: str = "",
        series_start: pl.Series | None = None,
        row_filter: RowFilter | None = None,
    ) -> None:
        self.measure = measure
        self.filter = row_filter or RowFilter(RowRules(), measure)
        self.people = people
        self.horizon = horizon
        self.rows = self.clipped = 0
        self.contributions = CONTRIBUTIONS.to_frame()
        self._past_the_end = past_the_end
        self._series_start = None if series_start is None or late == "drop" else series_start
        self._old_rows = late
        self.parts: list[Part] = []
        self._timestamps = timestamps
        self._every = every
        self._any_order = any_order
        self.seen = seen
        self._fixed = start is not None
        self._until = until
        self._through = through
        self._most: int | None = None
        self.calendar = Calendar(every, start) if isinstance(start, pl.Series) else start
        self._width = max(len(measure.names), 1)
        self._sums = np.zeros((0, self._width), dtype=np.int64)
        self._rows_of = np.zeros(0, dtype=np.int64)
        self._steps = 0
        self._last = 0
        self.before = self.after = self.old = 0
        self._limit()

    @property
    def columns(self) -> list[str]:
        """The columns that are read."""
        return [self._timestamps.column, *self._columns(), *self.filter.columns]

    @property
    def rows_read(self) -> int:
        """How many rows were read, those that are left out included."""
        return self.rows + self.filter.outside + self.filter.skipped.total()

    @property
    def timestamps(self) -> Timestamps:
        """What reads the times."""
        return self._timestamps

    @property
    def steps(self) -> int:
        """How many steps there are so far."""
        return self._steps if self._most is None else self._most

    def take(self, table: Table) -> None:
        """Add some rows, all of them or, with an error, none."""
        table = self.filter.apply(table)
        if not table.frame.height:
            return
        moments = self._timestamps.read(table)
        amounts, places = self._amounts_of(table), self.measure.places(table)
        if self.calendar is None:
            self.calendar = Calendar(self._every, _earliest(moments) if self._any_order else moments[:1])
            self._limit()
        height = table.frame.height
        if not self._columns() and self._take_sorted(moments):
            self.rows += height
            return
        steps = self._placed(table, moments)
        rows = self._since_the_start(steps, moments) if steps.min() < 0 else np.arange(height)
        self.before += height - rows.size
        if rows.size and not self._any_order:
            self._check_order(table, steps, rows, moments)
        if self._old_rows == "refuse":
            self._refuse_old(table, steps, rows, moments)
        rows = self._to_release(steps, rows)
        if rows.size < height:
            steps = steps[rows]
            amounts = None if amounts is None else amounts[rows]
            places = None if places is None else places[rows]
        self.rows += height
        if not rows.size:
            return
        steps = self._late_rows(steps, amounts, places)
        if self.people is not None:
            new = steps >= self.seen
            kept = self._kept(table, steps[new], rows[new])
            if kept is not None:
                counts = ~new
                counts[new] = kept
                amounts = counts.astype(np.int64) if amounts is None else amounts * counts
        self._reach(int(steps.max()) + 1)
        if self._counts_rows:
            self._rows_of += np.bincount(steps, minlength=self._rows_of.size)
        cells = steps if places is None else steps * self._width + places
        self._add(cells, amounts)

    def inputs(self, first: int, count: int) -> NDArray[np.int64]:
        """The inputs of these steps (the first is 0): one row each, one entry a category if there are any."""
        inputs = self._sums[first : first + count]
        return inputs if self.measure.by else inputs[:, 0]

    def rows_in(self, first: int, count: int) -> NDArray[np.int64]:
        """How many rows each of these steps has, counted or not."""
        if self._counts_rows:
            return self._rows_of[first : first + count]
        return np.asarray(self._sums[first : first + count].sum(axis=1))

    def cut(self) -> None:
        """Put what was added since the last cut to steps that were not released before into a part of its own."""
        count = max(self._steps - self.seen, 0)
        self.parts.append(
            Part(
                self.seen,
                self.inputs(self.seen, count).copy(),
                self.rows_in(self.seen, count).copy(),
                self.contributions,
            )
        )
        self._sums[self.seen :] = 0
        self._rows_of[self.seen :] = 0
        self.contributions = CONTRIBUTIONS.to_frame()

    # -- inside -------------------------------------------------------------------------------------------------------

    def _columns(self) -> list[str]:
        return self.measure.columns + ([self.people.column] if self.people else [])

    def _amounts_of(self, table: Table) -> NDArray[np.int64] | None:
        """What each row adds, None if each adds 1; those that were clipped are counted."""
        amounts = self.measure.amounts(table)
        if amounts is None:
            return None
        self.clipped += amounts.clipped
        return amounts.units

    def _kept(self, table: Table, steps: NDArray[np.int64], rows: NDArray[np.intp]) -> NDArray[np.bool_] | None:
        """Which of these rows count, if people are limited."""
        if self.people is None or not rows.size:
            return None
        kept, found = self.people.kept(table, steps, rows)
        self.contributions = self.contributions.vstack(found)
        return kept

    def _take_sorted(self, moments: pl.Series) -> bool:
        """Count rows that are in order by looking for the steps among them: a look a step, not one a row.

        False, and nothing is counted, if they are not, or if any of them needs a closer look.
        """
        assert self.calendar is not None  # noqa: S101
        if not moments.is_sorted():
            return False
        first, last = self.calendar.steps(moments.gather([0, moments.len() - 1])).tolist()
        if self._old_rows == "refuse" and first < self.seen:
            return False
        if first < 0 or last >= self._end or (not self._any_order and first < self._last):
            return False
        self._reach(last + 1)
        counts = self.calendar.counts(moments, first, last)
        self._sums[first : last + 1, 0] += counts
        old = int(counts[: max(self.seen - first, 0)].sum())
        self.old += old
        if old and self._old_rows == "next":
            self._reach(self.seen + 1)
            self._sums[self.seen, 0] += old
        self._last = last
        return True

    @property
    def _counts_rows(self) -> bool:
        """Whether the sums of steps do not say how many rows they have."""
        return self.people is not None or self.measure.value is not None

    def _late_rows(
        self, steps: NDArray[np.int64], amounts: NDArray[np.int64] | None, places: NDArray[np.int64] | None
    ) -> NDArray[np.int64]:
        """The steps in which rows are counted: late ones in the first that was not released before."""
        old = steps < self.seen
        late = int(old.sum())
        self.old += late
        if not late or self._old_rows != "next":
            return steps
        self._reach(self.seen + 1)
        old &= steps >= 0
        if old.any():
            cells = steps[old] if places is None else steps[old] * self._width + places[old]
            self._add(cells, None if amounts is None else amounts[old])
        return np.maximum(steps, self.seen)

    def _refuse_old(self, table: Table, steps: NDArray[np.int64], rows: NDArray[np.intp], moments: pl.Series) -> None:
        old = steps[rows] < self.seen
        if old.any():
            assert self.calendar is not None  # noqa: S101
            row = int(rows[old.argmax()])
            open_from = self._first_open()
            raise RowRefused(
                where=table.where(row),
                column=self._timestamps.column,
                given=str(moments[row]),
                allowed=f"a row of a step that is not released yet (from {open_from} on)",
                remedy="late='next' counts late rows in the next step, late='drop' leaves them out",
            )

    def _since_the_start(self, steps: NDArray[np.int64], moments: pl.Series) -> NDArray[np.intp]:
        """The rows that are not from before the first step, of this stream or of those that it goes on with."""
        if self._series_start is None:
            return np.flatnonzero(steps >= 0)
        start = self._series_start.cast(moments.dtype).to_physical()[0]
        return np.flatnonzero((steps >= 0) | (moments.to_physical().to_numpy() >= start))

    def _first_open(self) -> str:
        """When the first step begins that was not released before."""
        assert self.calendar is not None  # noqa: S101
        self.calendar.lay_out(self.seen + 1)
        return str(self.calendar.shown(self.seen, 1)[0])

    @property
    def _end(self) -> int:
        """The number of steps that rows are counted for."""
        return self.horizon if self._most is None else self._most

    def _to_release(self, steps: NDArray[np.int64], rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """The rows whose steps are not after the last that is to be released."""
        after = steps[rows] >= self._end
        self.after += int(after.sum())
        return rows[~after] if after.any() else rows

    def _placed(self, table: Table, moments: pl.Series) -> NDArray[np.int64]:
        """The step of each row, within the horizon."""
        assert self.calendar is not None  # noqa: S101
        if self._any_order and not self._fixed:
            self._back_to(_earliest(moments))
        steps = self.calendar.steps(moments)
        if steps.max() >= self.horizon:
            row = int((steps >= self.horizon).argmax())
            raise RowRefused(
                where=table.where(row),
                column=self._timestamps.column,
                given=str(moments[row]),
                allowed=f"one of the {self.horizon:,} steps from {self.calendar.start} on",
                remedy=self._past_the_end,
            )
        return steps

    def _back_to(self, earliest: pl.Series) -> None:
        assert self.calendar is not None  # noqa: S101
        if self.calendar.steps(earliest)[0] < 0:
            moved = self.calendar.back_to(earliest)
            self._sums = np.concatenate([np.zeros((moved, self._width), dtype=np.int64), self._sums])
            self._rows_of = np.concatenate([np.zeros(moved, dtype=np.int64), self._rows_of])
            self._steps += moved
            for part in self.parts:
                part.first += moved
                part.contributions = part.contributions.with_columns(pl.col("step") + moved)
            self.contributions = self.contributions.with_columns(pl.col("step") + moved)
            self._limit()

    def _limit(self) -> None:
        """Count the steps up to the last there may be and the last to be released, once the first one is known."""
        if self.calendar is None:
            return
        if self._until is not None:
            self.horizon = self.calendar.reach(self._until)
        if self._through is not None:
            self._most = max(min(self._through(self.calendar, self.horizon), self.horizon), self.seen)
            self.calendar.lay_out(self._most)
            self._make_room(self._most)

    def _check_order(self, table: Table, steps: NDArray[np.int64], rows: NDArray[np.intp], moments: pl.Series) -> None:
        """Refuse a row of an earlier step than the row before it."""
        theirs = steps[rows]
        early = theirs < np.concatenate([[self._last], theirs[:-1]])
        if early.any():
            row = int(rows[early.argmax()])
            raise RowRefused(
                where=table.where(row),
                column=self._timestamps.column,
                given=str(moments[row]),
                allowed="rows in order, none of an earlier step than the row before it (any_order=True takes them as"
                " they come)",
            )
        self._last = int(theirs[-1])

    def _reach(self, steps: int) -> None:
        """Know that there are rows up to this number of steps."""
        self._make_room(steps)
        self._steps = max(self._steps, steps)

    def _make_room(self, steps: int) -> None:
        if steps > len(self._sums):
            room = np.zeros((max(steps, 2 * len(self._sums)), self._width), dtype=np.int64)
            room[: len(self._sums)] = self._sums
            self._sums = room
            self._rows_of = np.concatenate([self._rows_of, np.zeros(len(room) - self._rows_of.size, dtype=np.int64)])

    def _add(self, cells: NDArray[np.int64], amounts: NDArray[np.int64] | None) -> None:
        flat = self._sums.reshape(-1)
        first = int(cells.min())
        last = int(cells.max()) + 1
        if amounts is None and last - first <= 16 * cells.size + 1024:
            flat[first:last] += np.bincount(cells - first, minlength=last - first)
            return
        added = np.ones(cells.size, dtype=np.int64) if amounts is None else amounts
        # Polars adds whole numbers as such; NumPy's bincount would make them float64.
        sums = pl.DataFrame({"cell": cells, "sum": added}).group_by("cell").sum()
        flat[sums["cell"].to_numpy()] += sums["sum"].to_numpy()
        if np.abs(flat[first:last]).max() > FARTHEST:
            raise SourceDamaged(where=f"column {self.measure.value!r}", what=f"one step adds up beyond {FARTHEST:,}")


def _earliest(moments: pl.Series) -> pl.Series:
    return moments.gather([int(moments.arg_min() or 0)])
