"""CountRun: from a log of events to private running totals, in one run or over many with a store."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpstream.budget import Budget
from dpstream.errors import HorizonExceeded, InputOutOfBound, InvalidArgument, SourceDamaged, StoreMismatch
from dpstream.events.calendar import parse_moment
from dpstream.events.last_step import last_step
from dpstream.events.measure import Measure
from dpstream.events.old_rows import OldRows, compare_with_recorded
from dpstream.events.people import People
from dpstream.events.tally import Order, RowTally, TimeTally
from dpstream.events.timestamps import Timestamps
from dpstream.mechanisms.base import Mechanism, NoiseLaw
from dpstream.release.contribution_limit import ContributionLimit
from dpstream.release.counter import Counter
from dpstream.release.error_bars import error_bars
from dpstream.release.secret_state import SecretState
from dpstream.release.settings import Neighbours, StreamSettings
from dpstream.store import DurableCounter, Store, StreamInfo

__all__ = ["ROW", "CountOptions", "CountRun"]

#: The length of a step that makes every row a step.
ROW = "row"
#: The largest value that a row may have.
MOST_PER_ROW = 2**40
#: Rows are counted for so many steps at most where there is no horizon.
ENDLESS = 2**30
#: Steps of one commit, and of one piece of output.
PIECE = 1 << 15
#: Without a store, so many users can be told apart.
MOST_PEOPLE = 20_000_000


@dataclass(frozen=True)
class CountOptions:
    """What is counted, in which steps, for whom, and where it is kept.

    Attributes
    ----------
    measure, budget
        What a row adds, and what all releases together may give away.
    time, every
        The column of timestamps and how long a step is; or None and "row": every row is a step.
    time_format, time_zone
        See `Timestamps`.
    start
        A date of the first step; None: the stored stream's, or else the first row's.
    through
        A date of the last step to release in this run, "now" or "yesterday" (see `last_step`). None: with a store or
        with `until` the last step that has ended by the clock; else the last row's step.
    horizon, until
        How many steps there will ever be, or the date of the last; None and None: there is no last step.
    order
        See `Order`.
    user, max_contributions, max_users, fold_case
        The column of user ids, how many rows of one user are counted, how many users a store has room for, and whether
        ids that differ in letter case only are one user.
    mechanism
        "auto", a mechanism, or a function that makes one for a horizon and a noise law.
    store, name
        The file that remembers the stream, and the stream's name in it.
    """

    measure: Measure
    budget: Budget
    time: str | None = None
    every: str = "1d"
    time_format: str | None = None
    time_zone: str | None = None
    start: str | None = None
    through: str | None = None
    horizon: int | None = None
    until: str | None = None
    order: Order = "sorted"
    user: str | None = None
    max_contributions: int = 1
    max_users: int = 1_000_000
    fold_case: bool = False
    mechanism: str | Mechanism | Callable[[int | None, NoiseLaw], Mechanism] = "auto"
    neighbours: Neighbours = "add-remove"
    confidence: float = 0.95
    store: Path | None = None
    name: str = "count"

    def __post_init__(self) -> None:
        if (self.time is None) != (self.every == ROW):
            raise InvalidArgument("every", self.every, "'row' without `time`, and a length of time with it")
        if self.time is None:
            for argument in ("start", "through", "until"):
                if getattr(self, argument) is not None:
                    raise InvalidArgument(argument, getattr(self, argument), "used with `time`: rows have no dates")

    @property
    def end(self) -> str | None:
        """Which step is the last to be released, in the words of `through`; None: the data decide."""
        if self.through is not None or self.time is None or self.order == "late":
            return self.through
        return "now" if self.store is not None or self.until is not None else None

    def source(self, start: str | None) -> dict[str, Any]:
        """What must be the same in every run that goes on with a stream."""
        measure = self.measure
        return {
            "time": self.time,
            "every": self.every,
            "time_zone": self.time_zone,
            "start": start,
            "value": measure.value,
            "unit": f"{measure.reader.unit:f}" if measure.value else None,
            "clip": measure.clip if measure.value else None,
            "by": measure.by,
            "categories": list(measure.categories),
            "undeclared": measure.undeclared if measure.by else None,
            "user": self.user,
            "max_contributions": self.max_contributions if self.user else None,
            "fold_case": self.fold_case if self.user else None,
        }


@dataclass
class CountRun:
    """One run: `tally` takes the rows, `open` makes the counter, `release` and `frames` give the releases.

    Attributes
    ----------
    seen
        How many steps had been released before this run.
    published
        How many steps are released by now.

    Guarantee
    ---------
    That of `Counter` (or `DurableCounter`) for whoever `options` protect: a row, or a user of whom at most
    `max_contributions` rows are counted. Which steps are released does not depend on the data if `options.start` and
    `options.end` are not None; `first_from_data` and `last_from_data` say whether that is so.
    """

    options: CountOptions
    seen: int = 0
    published: int = 0
    counter: Counter[Any] | DurableCounter | None = None
    store: Store | None = None
    _fingerprints: ContributionLimit | None = field(default=None, repr=False)
    #: How many rows and steps the tally had when its steps were checked.
    _checked: tuple[int, int] = field(default=(0, 0), repr=False)

    def __post_init__(self) -> None:
        options = self.options
        info = self._stream()
        self._start = options.start
        if info is not None:
            self.seen = self.published = info.t
            stored = json.loads(info.source) if info.source else {}
            if options.start is None:
                self._start = stored.get("start")
            self._check_same(stored, options.source(self._start))
        self.first_from_data = options.time is not None and self._start is None
        self.tally = self._tally()
        if info is not None:
            self._open_counter()
        if options.user is not None:
            # Continue the per-person counts of earlier runs.
            limit = (
                self.counter.contribution_limit()
                if isinstance(self.counter, DurableCounter)
                else ContributionLimit(
                    options.max_contributions, capacity=MOST_PEOPLE if options.store is None else options.max_users
                )
            )
            self.tally.people = People(
                options.user, limit, remember=options.store is not None, fold_case=options.fold_case
            )

    def _tally(self) -> RowTally | TimeTally:
        """What adds the rows up, nobody limited yet."""
        options = self.options
        horizon = ENDLESS if options.horizon is None else options.horizon
        if options.time is None:
            return RowTally(options.measure, None, horizon, self.seen)
        zone, until, end = options.time_zone, options.until, options.end
        timestamps = Timestamps(options.time, options.time_format, zone)
        return TimeTally(
            options.measure,
            None,
            horizon,
            timestamps,
            options.every,
            start=None if self._start is None else parse_moment("start", self._start, zone),
            until=None if until is None else parse_moment("until", until, zone, end_of_day=True),
            # A step that is open until the clock closes it takes rows until then.
            through=None if end is None or options.order == "open" else last_step(end, zone),
            order=options.order,
            seen=self.seen,
        )

    def close(self) -> None:
        """Give the store back."""
        if self.store is not None:
            self.store.close()

    # -- the store ----------------------------------------------------------------------------------------------------

    def _stream(self) -> StreamInfo | None:
        """The stream as an earlier run left it. A store that is not there is not made yet: input may be refused."""
        path = self.options.store
        if path is None or not path.exists():
            return None
        self.store = Store(path)
        return next((info for info in self.store.streams() if info.name == self.options.name), None)

    def _check_same(self, stored: dict[str, Any], given: dict[str, Any]) -> None:
        for setting, value in given.items():
            if stored.get(setting) != value:
                raise StoreMismatch(name=self.options.name, setting=setting, stored=stored.get(setting), given=value)

    def _open_counter(self) -> None:
        """Make the counter, or go on with the stored one. Settings are built and steps are checked once, here."""
        options, horizon = self.options, self.horizon
        settings = StreamSettings.for_counter(
            horizon,
            options.budget,
            shape=(len(options.measure.names),) if options.measure.by else (),
            per_person=options.measure.most * options.max_contributions,
            mechanism=self._mechanism(horizon),
            neighbours=options.neighbours,
        )
        self._check_steps(settings)
        if options.store is None:
            self.counter = Counter.resume(settings, settings.noise_stream(), SecretState.start(settings))
            return
        # Only now: what is refused leaves no store behind.
        self.store = self.store or Store(options.store)
        self.counter = self.store.open_counter(
            options.name,
            settings,
            source=json.dumps(options.source(self._start), ensure_ascii=False),
            rows_per_person=None if options.user is None else options.max_contributions,
            people=options.max_users,
        )

    def _check_steps(self, settings: StreamSettings) -> None:
        """Refuse steps that are too large, all of them before any is released; what was checked is not again."""
        tally = self.tally
        if (tally.rows, tally.steps) == self._checked:
            return
        for first in range(self.published, tally.steps, PIECE):
            last = min(first + PIECE, tally.steps)
            try:
                settings.check_rows(tally.inputs(first, last - first))
            except InputOutOfBound as error:
                raise SourceDamaged(
                    where=f"one of the steps {first + 1:,} to {last:,}",
                    what=f"adds up to {error.given:,}, but one step holds from {error.least:,} to {error.most:,}",
                ) from None
        self._checked = tally.rows, tally.steps

    def _mechanism(self, horizon: int | None) -> Mechanism | str:
        chosen = self.options.mechanism
        return chosen if isinstance(chosen, (str, Mechanism)) else chosen(horizon, self.options.budget.noise)

    # -- releasing ----------------------------------------------------------------------------------------------------

    @property
    def horizon(self) -> int | None:
        """The last step there may be; None if there is none."""
        return None if self.options.horizon is None and self.options.until is None else self.tally.horizon

    @property
    def last_from_data(self) -> bool:
        """Whether the rows decide how many steps are released."""
        return self.options.end is None

    @property
    def closed(self) -> int:
        """How many steps are to be released, those of earlier runs included."""
        return max(self.tally.steps, self.seen)

    def open(self) -> StreamSettings:
        """Make the counter, if it was not there before, once the rows are read. Returns its settings.

        Raises
        ------
        InvalidArgument
            If there are no rows to take the first step from.
        SourceDamaged
            If a step adds up to more than it may.
        """
        tally = self.tally
        if isinstance(tally, TimeTally) and tally.calendar is None:
            raise InvalidArgument("start", None, "given where there are no rows: a date of the first step")
        if tally.steps > tally.horizon:
            raise HorizonExceeded(horizon=tally.horizon, step=tally.steps)
        if self.counter is not None:
            self._check_steps(self.settings)
        else:
            if isinstance(tally, TimeTally) and tally.calendar is not None and self._start is None:
                self._start = tally.calendar.start.isoformat()
            self._open_counter()
        if isinstance(tally, RowTally) and self.seen and self.published == self.seen:
            self._recognise()
        return self.settings

    @property
    def settings(self) -> StreamSettings:
        """The settings of the counter."""
        assert self.counter is not None  # noqa: S101
        return self.counter.settings

    def release(self, closed: int) -> Iterator[NDArray[np.int64]]:
        """Release the steps up to `closed`, piece by piece. Steps of a store are durable when they come out of here."""
        counter = self.counter
        assert counter is not None  # noqa: S101
        self._check_steps(counter.settings)
        while self.published < closed:
            count = min(PIECE, closed - self.published)
            inputs = self.tally.inputs(self.published, count)
            if isinstance(counter, DurableCounter):
                values = counter.extend_checked(inputs, self.published, contributions=self._contributions(count))
            else:
                values = counter.extend_checked(inputs)
            self.published += count
            yield values

    def _recognise(self) -> None:
        """Compare the rows that were released before with what was counted then."""
        counter = self.counter
        assert isinstance(counter, DurableCounter)  # noqa: S101
        if self.tally.people is not None:
            return
        for first in range(0, min(self.seen, self.tally.steps), PIECE):
            count = min(PIECE, self.seen - first, self.tally.steps - first)
            counter.extend(self.tally.inputs(first, count), first)

    def _contributions(self, count: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]] | None:
        """Who is counted in the next steps, by fingerprint, and how many of their rows."""
        if self.tally.people is None:
            return None
        assert isinstance(self.counter, DurableCounter)  # noqa: S101
        if self._fingerprints is None:
            self._fingerprints = self.counter.contribution_limit()
        last = self.published + count
        now = self.tally.contributions.filter(pl.col("step") < last).group_by("user").agg(pl.col("rows").sum())
        self.tally.contributions = self.tally.contributions.filter(pl.col("step") >= last)
        return self._fingerprints.fingerprints(now["user"].to_list()), now["rows"].cast(pl.Int64).to_numpy()

    def recorded(self) -> NDArray[np.int64]:
        """The releases of earlier runs."""
        assert self.store is not None  # noqa: S101
        rows = self.store.releases(self.options.name)[: self.seen]
        return np.array([row.value for row in rows], dtype=np.int64)

    def old_rows(self) -> OldRows:
        """What is known about rows whose steps were released in earlier runs; they are not counted (again)."""
        tally = self.tally
        if not isinstance(tally, TimeTally) or not tally.old:
            return OldRows(0)
        assert self.store is not None  # noqa: S101
        return compare_with_recorded(
            tally.old,
            tally.inputs(0, self.seen),
            self.store.true_data.inputs(self.options.name, 1, self.seen),
            limited=tally.people is not None,
            sums=self.options.measure.value is not None,
        )

    # -- tables -------------------------------------------------------------------------------------------------------

    def rows(self, first: int, values: NDArray[np.int64]) -> pl.DataFrame:
        """Releases from step `first` (from 0) on as a table, with their error bars."""
        stddev, off = error_bars(self.settings, first + 1, len(values), self.options.confidence)
        columns: dict[str, Any] = {"step": np.arange(first + 1, first + len(values) + 1)}
        if isinstance(self.tally, TimeTally):
            assert self.tally.calendar is not None  # noqa: S101
            columns["start"] = self.tally.calendar.shown(first, len(values))
        # By way of text: rounding to figures in floating point would give 6.846299999999999e-79.
        shown = pl.Series([float(f"{one:.5g}") for one in stddev.tolist()], dtype=pl.Float64)
        frame = pl.DataFrame(columns).with_columns(stddev=shown, off=pl.Series(off))
        names = self.options.measure.names
        if names:
            frame = frame[np.repeat(np.arange(len(values)), len(names))]
            frame = frame.with_columns(category=pl.Series(names)[np.tile(np.arange(len(names)), len(values))])
        frame = frame.with_columns(value=pl.Series(values.reshape(-1)))
        present = [name for name in ("step", "start", "category", "value", "stddev") if name in frame.columns]
        frame = frame.select(*present, low=pl.col("value") - pl.col("off"), high=pl.col("value") + pl.col("off"))
        return self.options.measure.in_unit(frame)

    def frames(self, closed: int) -> Iterator[pl.DataFrame]:
        """All releases as tables, those of earlier runs first; if there are none, one table without rows."""
        if not closed:
            yield self.rows(0, np.zeros((0, *self.settings.shape), dtype=np.int64))
        if self.seen:
            earlier = self.recorded()
            if isinstance(self.tally, TimeTally) and self.tally.calendar is not None:
                self.tally.calendar.lay_out(self.seen)
            for first in range(0, self.seen, PIECE):
                yield self.rows(first, earlier[first : first + PIECE])
        for values in self.release(closed):
            yield self.rows(self.published - len(values), values)
