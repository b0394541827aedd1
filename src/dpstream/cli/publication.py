"""What `dpstream count` does: read events, add them up to steps, release the steps, remember them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpstream.budget import Budget
from dpstream.cli.mechanism_names import mechanism_named
from dpstream.errors import (
    HorizonExceeded,
    InputOutOfBound,
    InvalidArgument,
    SourceDamaged,
    SourceMissing,
    StoreMismatch,
)
from dpstream.events.calendar import parse_moment
from dpstream.events.measure import Measure
from dpstream.events.people import People
from dpstream.events.tally import Order, RowTally, TimeTally
from dpstream.events.timestamps import Timestamps
from dpstream.mechanisms.anytime_toeplitz import AnytimeToeplitz
from dpstream.mechanisms.base import Mechanism
from dpstream.mechanisms.growing_smooth import GrowingSmooth
from dpstream.release.accuracy import accuracy
from dpstream.release.contribution_limit import ContributionLimit
from dpstream.release.counter import Counter
from dpstream.release.terms import Neighbours
from dpstream.store import DurableCounter, Store, StreamInfo

__all__ = ["Publication", "Wanted"]

#: Without a horizon: so many steps at most. Noise does not depend on it; the room for sums does.
ENDLESS = 2**30
#: A step that adds up to more than this is a mistake in the data.
LARGEST_STEP = 2**40
#: Steps of one commit, and of one piece of output.
PIECE = 1 << 15
MOST_PEOPLE = 20_000_000


@dataclass(frozen=True)
class Wanted:
    """What the options ask for."""

    measure: Measure
    budget: Budget
    horizon: int | None = None
    until: str | None = None
    time: str | None = None
    every: str = "1d"
    time_format: str | None = None
    zone: str | None = None
    start: str | None = None
    order: Order = "sorted"
    user: str | None = None
    times: int = 1
    mechanism: str = "auto"
    neighbours: Neighbours = "add-remove"
    confidence: float = 0.95
    store: Path | None = None
    name: str = "count"

    def source(self, start: str | None) -> dict[str, Any]:
        """What must be the same in every run that goes on with a stream."""
        measure = self.measure
        return {
            "--time": self.time,
            "--every": self.every if self.time else None,
            "--time-zone": self.zone,
            "--from": start,
            "--value": measure.value,
            "--by": measure.by,
            "--values": list(measure.categories),
            "--undeclared": measure.undeclared if measure.by else None,
            "--user": self.user,
            "--max-contributions": self.times if self.user else None,
        }


@dataclass
class Publication:
    """One run of `count`.

    Attributes
    ----------
    seen
        How many steps had been released before this run.
    published
        How many steps are released by now.
    """

    wanted: Wanted
    seen: int = 0
    published: int = 0
    counter: Counter | DurableCounter | None = None
    store: Store | None = None
    _fingerprints: ContributionLimit | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        wanted = self.wanted
        info = self._stream()
        start = wanted.start
        if info is not None:
            self.seen = self.published = info.t
            stored = json.loads(info.source) if info.source else {}
            start = stored.get("--from", start) if wanted.start is None else wanted.start
            self._check_same(stored, wanted.source(start))
        self.tally = self._tally(start)
        if info is not None:
            self._open(start, self.horizon)
        if wanted.user is not None:
            # Those who were counted in earlier runs are counted on.
            limit = (
                self.counter.contribution_limit()
                if isinstance(self.counter, DurableCounter)
                else ContributionLimit(wanted.times, capacity=MOST_PEOPLE)
            )
            self.tally.people = People(wanted.user, limit, remember=wanted.store is not None)

    def _tally(self, start: str | None) -> RowTally | TimeTally:
        """What adds the rows up, nobody limited yet."""
        wanted = self.wanted
        horizon = ENDLESS if wanted.horizon is None else wanted.horizon
        if wanted.time is None:
            return RowTally(wanted.measure, None, horizon, self.seen)
        timestamps = Timestamps(wanted.time, wanted.time_format, wanted.zone)
        until = None if wanted.until is None else parse_moment("--until", wanted.until, wanted.zone, end_of_day=True)
        return TimeTally(
            wanted.measure,
            None,
            horizon,
            timestamps,
            wanted.every,
            start=None if start is None else parse_moment("--from", start, wanted.zone),
            until=until,
            order=wanted.order,
            seen=self.seen,
        )

    def close(self) -> None:
        """Give the store back."""
        if self.store is not None:
            self.store.close()

    # -- the store ----------------------------------------------------------------------------------------------------

    def _stream(self) -> StreamInfo | None:
        """The stream as an earlier run left it. A store that is not there is not made yet: input may be refused."""
        path = self.wanted.store
        if path is None or not path.exists():
            return None
        self.store = Store(path)
        return next((info for info in self.store.streams() if info.name == self.wanted.name), None)

    def _check_same(self, stored: dict[str, Any], given: dict[str, Any]) -> None:
        for option, value in given.items():
            if stored.get(option) != value:
                raise StoreMismatch(name=self.wanted.name, setting=option, stored=stored.get(option), given=value)

    def _open(self, start: str | None, horizon: int | None) -> Counter | DurableCounter:
        """The counter that all of this is for."""
        wanted = self.wanted
        last = ENDLESS if horizon is None else horizon
        largest = min(LARGEST_STEP, 2**62 // last)
        bound = wanted.measure.bound * wanted.times
        settings: dict[str, Any] = {
            "shape": (len(wanted.measure.names),) if wanted.measure.by else (),
            "per_person": bound,
            "per_step": max(largest, bound),
            "mechanism": self.mechanism(horizon),
            "neighbours": wanted.neighbours,
        }
        counter = Counter(last, wanted.budget, **settings)
        self._check_steps(counter)
        if wanted.store is None:
            self.counter = counter
        else:
            # Only now: what is refused leaves no store behind.
            self.store = self.store or Store(wanted.store)
            source = json.dumps(wanted.source(start), ensure_ascii=False)
            settings["rows_per_person"] = None if wanted.user is None else wanted.times
            self.counter = self.store.counter(wanted.name, last, wanted.budget, **settings, source=source)
        return self.counter

    def _check_steps(self, counter: Counter) -> None:
        """Refuse steps that are too large, all of them before any is released."""
        for first in range(self.published, self.tally.steps, PIECE):
            try:
                counter._checked_rows(self.tally.inputs(first, min(PIECE, self.tally.steps - first)))
            except InputOutOfBound as error:
                raise SourceDamaged(
                    where=f"one of the steps {first + 1:,} to {min(first + PIECE, self.tally.steps):,}",
                    what=f"adds up to {error.given:,}, but one step holds from {error.least:,} to {error.most:,}",
                ) from None

    def mechanism(self, horizon: int | None) -> Mechanism | str:
        """The mechanism asked for; without a horizon, the best that needs none."""
        wanted = self.wanted
        if wanted.mechanism != "auto":
            return mechanism_named(wanted.mechanism, horizon, wanted.budget.noise)
        if horizon is not None:
            return "auto"
        return AnytimeToeplitz() if wanted.budget.noise == "gaussian" else GrowingSmooth(noise="laplace")

    # -- releasing ----------------------------------------------------------------------------------------------------

    @property
    def horizon(self) -> int | None:
        """The last step there may be; None if there is none."""
        return None if self.wanted.horizon is None and self.wanted.until is None else self.tally.horizon

    def settle(self) -> Counter:
        """Everything was read and is in order: make the counter, if it was not there before. Returns its settings."""
        tally = self.tally
        if not tally.rows:
            raise SourceMissing(source="the input", reason="holds no events")
        if tally.steps > tally.horizon:
            raise HorizonExceeded(horizon=tally.horizon, step=tally.steps)
        if self.counter is not None:
            self._check_steps(self.settled)
        else:
            start = None
            if isinstance(tally, TimeTally):
                if tally.calendar is None:
                    raise InvalidArgument("--from", self.wanted.start, "before the data")
                start = self.wanted.start or tally.calendar.start.isoformat()
            self.counter = self._open(start, self.horizon)
        if isinstance(tally, RowTally) and self.seen and self.published == self.seen:
            self._recognise()
        return self.settled

    @property
    def settled(self) -> Counter:
        """The settings of the counter."""
        assert self.counter is not None  # noqa: S101
        return self.counter._settled if isinstance(self.counter, DurableCounter) else self.counter

    def release(self, closed: int) -> Iterator[NDArray[np.int64]]:
        """Release the steps up to `closed`, piece by piece. Steps of a store are durable when they come out of here."""
        counter = self.counter
        assert counter is not None  # noqa: S101
        while self.published < closed:
            count = min(PIECE, closed - self.published)
            inputs = self.tally.inputs(self.published, count)
            if isinstance(counter, DurableCounter):
                values = counter.extend(inputs, self.published, contributions=self._contributions(count))
            else:
                values = counter.extend(inputs)
            self.published += count
            yield values

    def _recognise(self) -> None:
        """Hold the rows that were released before against what was counted then."""
        counter = self.counter
        assert isinstance(counter, DurableCounter)  # noqa: S101
        if self.tally.people is not None:
            return
        for first in range(0, min(self.seen, self.tally.steps), PIECE):
            count = min(PIECE, self.seen - first, self.tally.steps - first)
            counter.extend(self.tally.inputs(first, count), first)

    def _contributions(self, count: int) -> dict[int, int] | None:
        """Who is counted in the next steps, by fingerprint."""
        people = self.tally.people
        if people is None:
            return None
        assert isinstance(self.counter, DurableCounter)  # noqa: S101
        if self._fingerprints is None:
            self._fingerprints = self.counter.contribution_limit()
        last = self.published + count
        kept: dict[int, int] = {}
        for found in self.tally.contributions:
            if found.step < last:
                person = self._fingerprints.fingerprint(found.user)
                kept[person] = kept.get(person, 0) + found.rows
        self.tally.contributions = [found for found in self.tally.contributions if found.step >= last]
        return kept

    def recorded(self) -> NDArray[np.int64]:
        """The releases of earlier runs."""
        assert self.store is not None  # noqa: S101
        rows = self.store.releases(self.wanted.name)[: self.seen]
        return np.array([row.value for row in rows], dtype=np.int64)

    def late(self) -> int | None:
        """How much the input adds to steps that were released before; None if that cannot be told.

        Rows of an earlier run may come again, all or some of them, and are not counted twice. What a step has more of
        than was counted came too late.
        """
        tally = self.tally
        if not isinstance(tally, TimeTally) or not self.seen or tally.people is not None:
            return None
        assert self.store is not None  # noqa: S101
        steps = min(self.seen, tally.steps)
        if not steps:
            return 0
        recorded = self.store.recorded_inputs(self.wanted.name, 1, steps)
        return int(np.maximum(tally.inputs(0, steps) - recorded, 0).sum())

    def rows(self, first: int, values: NDArray[np.int64]) -> pl.DataFrame:
        """Releases from step `first` (from 0) on as a table, with their error bars."""
        stddev, off = accuracy(self.settled, first + 1, len(values), self.wanted.confidence)
        columns: dict[str, Any] = {"step": np.arange(first + 1, first + len(values) + 1)}
        if isinstance(self.tally, TimeTally):
            assert self.tally.calendar is not None  # noqa: S101
            columns["start"] = self.tally.calendar.shown(first, len(values))
        names = self.wanted.measure.names
        frame = pl.DataFrame(columns).with_columns(stddev=pl.Series(stddev).round_sig_figs(5), off=pl.Series(off))
        if not names:
            frame = frame.with_columns(value=pl.Series(values))
        else:
            frame = pl.concat(
                [
                    frame.with_columns(category=pl.lit(name), value=pl.Series(values[:, i]), _order=pl.lit(i))
                    for i, name in enumerate(names)
                ]
            ).sort("step", "_order")
        shown = [name for name in ("step", "start", "category", "value", "stddev") if name in frame.columns]
        return frame.select(*shown, low=pl.col("value") - pl.col("off"), high=pl.col("value") + pl.col("off"))

    def frames(self, closed: int) -> Iterator[pl.DataFrame]:
        """All releases as tables, those of earlier runs first; if there are none, one table without rows."""
        if not closed:
            yield self.rows(0, np.zeros((0, *self.settled.shape), dtype=np.int64))
        if self.seen:
            earlier = self.recorded()
            if isinstance(self.tally, TimeTally) and self.tally.calendar is not None:
                self.tally.calendar.lay_out(self.seen)
            for first in range(0, self.seen, PIECE):
                yield self.rows(first, earlier[first : first + PIECE])
        for values in self.release(closed):
            yield self.rows(self.published - len(values), values)
