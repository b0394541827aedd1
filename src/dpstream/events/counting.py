"""CountRun: from a log of events to private running totals, in one run or over many with a store."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpstream.errors import HorizonExceeded, InputOutOfBound, InvalidArgument, SourceDamaged, StoreMismatch
from dpstream.events.calendar import Calendar, parse_moment
from dpstream.events.count_options import CountOptions
from dpstream.events.count_settings import BUDGET, SETTINGS, continued
from dpstream.events.last_step import last_step
from dpstream.events.old_rows import OldRows, compare_with_recorded
from dpstream.events.people import People
from dpstream.events.release_table import ReleaseTable
from dpstream.events.tally import Order, RowTally, TimeTally
from dpstream.events.timestamps import Timestamps
from dpstream.events.windows import fitting_lengths
from dpstream.mechanisms.base import Mechanism
from dpstream.release.contribution_limit import ContributionLimit
from dpstream.release.counter import Counter
from dpstream.release.secret_state import SecretState
from dpstream.release.settings import StreamSettings
from dpstream.store import DurableCounter, Store, StreamInfo

__all__ = ["CountRun"]

#: Rows are counted for so many steps at most where there is no horizon.
ENDLESS = 2**30
#: Steps of one commit, and of one piece of output.
PIECE = 1 << 15
#: Without a store, so many users can be told apart.
MOST_PEOPLE = 20_000_000


class CountRun:
    """One run: `tally` takes the rows, `open` makes the counter, `release` and `frames` give the releases.

    Parameters
    ----------
    options
        What is counted.
    store
        The store of `options.store`, if it is open already; the run closes it.

    Attributes
    ----------
    options
        What is counted; `start` is what the stream keeps, if there is one.
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

    def __init__(self, options: CountOptions, store: Store | None = None) -> None:
        self.counter: Counter[Any] | DurableCounter | None = None
        self._fingerprints: ContributionLimit | None = None
        self._table: ReleaseTable | None = None
        #: How many rows and steps the tally had when its steps were checked.
        self._checked = (0, 0)
        self.store = store or _store_at(options.store)
        info = None if self.store is None else _stream_named(self.store, options.name)
        self.seen = self.published = 0 if info is None else info.t
        kept = {} if info is None else kept_settings(info)
        start = _first_step(options) or kept.get("start") if options.time else None
        self.options = replace(options, start=start)
        if info is not None:
            _check_same(info.name, _fixed(kept), _fixed(self.options.kept()))
        self.first_from_data = options.time is not None and self.options.start is None
        self.tally = self._tally()
        if info is not None:
            self._open_counter(info)
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

    @classmethod
    def of(cls, settings: Mapping[str, Any], order: Order | None = None) -> CountRun:
        """Begin a run from settings by name; what is not given comes from the stream in the store, if it is there.

        Parameters
        ----------
        settings, order
            See `CountOptions.of`. Without a name it is the only stream of the store.

        Raises
        ------
        SettingsMissing, InvalidArgument
            As `CountOptions.of`; or if there are several streams and no name.
        StoreMismatch
            If a setting is given that the stream has otherwise.
        """
        given = {name: value for name, value in settings.items() if value is not None}
        store = _store_at(None if given.get("store") is None else Path(given["store"]))
        if store is None:
            return cls(CountOptions.of(given, order))
        try:
            given["name"] = given.get("name") or _only_stream(store)
            info = _stream_named(store, given["name"])
            stored = {} if info is None else stream_settings(store, info)
            return cls(CountOptions.of(continued(given, stored), order), store)
        except BaseException:
            store.close()
            raise

    def _tally(self) -> RowTally | TimeTally:
        """What adds the rows up, nobody limited yet."""
        options = self.options
        horizon = ENDLESS if options.horizon is None else options.horizon
        if options.time is None:
            return RowTally(options.measure, None, horizon, self.seen, options.row_filter())
        zone, until, end = options.time_zone, options.until, options.end
        timestamps = Timestamps(options.time, options.time_format, zone)
        return TimeTally(
            options.measure,
            None,
            horizon,
            timestamps,
            options.every,
            start=None if options.start is None else parse_moment("start", options.start, zone),
            until=None if until is None else parse_moment("until", until, zone, end_of_day=True),
            # A step that is open until the clock closes it takes rows until then.
            through=None if end is None or options.order == "open" else last_step(end, zone),
            order=options.order,
            seen=self.seen,
            row_filter=options.row_filter(),
        )

    def close(self) -> None:
        """Give the store back."""
        if self.store is not None:
            self.store.close()

    # -- the store ----------------------------------------------------------------------------------------------------

    def _open_counter(self, info: StreamInfo | None = None) -> None:
        """Make the counter, or go on with the stored one. Settings are built and steps are checked once, here."""
        options, horizon = self.options, self.horizon
        if info is not None:
            # Before the stream's mechanism is asked to serve another horizon or another kind of noise.
            _check_same(info.name, {"horizon": info.horizon}, {"horizon": horizon})
            _check_same(info.name, {"budget": info.budget}, {"budget": options.budget})
        settings = StreamSettings.for_counter(
            horizon,
            options.budget,
            shape=(len(options.measure.names),) if options.measure.by else (),
            per_person=options.measure.most * options.max_contributions,
            mechanism=self._mechanism(horizon),
            neighbours=options.neighbours,
            windows=self._windows(info),
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
            # As it was: some of it (how files are read) may be otherwise in this run.
            source=json.dumps(options.kept(), ensure_ascii=False) if info is None else info.source,
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

    def _windows(self, info: StreamInfo | None) -> tuple[int, ...]:
        """The windows that the mechanism is fitted to: those of the stream, or of the first run if it is new."""
        if info is not None and self.store is not None:
            return self.store.settings(info.name).windows
        return fitting_lengths(self.options.windows, self.options.step, self.horizon)

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
            if isinstance(tally, TimeTally) and tally.calendar is not None:
                first = tally.calendar.shown(0, 1)[0].isoformat()
                self.options = replace(self.options, start=first, time_format=tally.timestamps.time_format)
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
        """Releases from step `first` (from 0) on as a table, with their error bars; steps are given in order."""
        if self._table is None:
            options, tally = self.options, self.tally
            self._table = ReleaseTable(
                self.settings,
                tally.calendar if isinstance(tally, TimeTally) else None,
                options.measure.names,
                confidence=options.confidence,
                windows=options.windows,
                non_negative=options.non_negative,
                monotone=options.monotone,
            )
        if self._table.t < first:
            self._table.skip(self.recorded()[self._table.t : first])
        return self.options.measure.in_unit(self._table.rows(values))

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


# -- a stream that is there -------------------------------------------------------------------------------------------


def _store_at(path: Path | None) -> Store | None:
    """Open the store at a path. One that is not there is not made yet: input may be refused."""
    return None if path is None or not path.exists() else Store(path)


def _stream_named(store: Store, name: str) -> StreamInfo | None:
    return next((info for info in store.streams() if info.name == name), None)


def _only_stream(store: Store) -> str:
    names = [info.name for info in store.streams() if info.kind == "counter" and not info.retired]
    if len(names) > 1:
        raise InvalidArgument("name", None, f"given where there are several streams: {', '.join(names)}, or a new one")
    return names[0] if names else "count"


def kept_settings(info: StreamInfo) -> dict[str, Any]:
    """Return what a stream's creator said is counted, by the names of settings; nothing, if `count` did not."""
    try:
        kept = json.loads(info.source or "{}")
    except ValueError:
        return {}
    return kept if isinstance(kept, dict) else {}


def stream_settings(store: Store, info: StreamInfo) -> dict[str, Any]:
    """Return all settings of a stream, by name: what it counts, its end, its budget, its mechanism."""
    settings = store.settings(info.name)
    budget = {part: getattr(info.budget, part) for part in BUDGET if hasattr(info.budget, part)}
    end = {"unbounded": True} if info.horizon is None else {"horizon": info.horizon}
    kept = {name: value for name, value in kept_settings(info).items() if name in SETTINGS}
    room = {} if info.people is None else {"max_users": info.people}
    return kept | budget | end | room | {"mechanism": settings.mechanism, "neighbours": settings.neighbours}


def _fixed(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name in SETTINGS and SETTINGS[name].kept == "same"}


def _check_same(name: str, stored: dict[str, Any], given: dict[str, Any]) -> None:
    for setting in {**stored, **given}:
        if stored.get(setting) != given.get(setting):
            raise StoreMismatch(name=name, setting=setting, stored=stored.get(setting), given=given.get(setting))


def _first_step(options: CountOptions) -> str | None:
    """The date, or moment, at which the first step begins, written in one way whatever was given."""
    if options.start is None:
        return None
    zone = Timestamps("", zone=options.time_zone).zone  # which is refused if there is none of this name
    moment = parse_moment("start", options.start, zone)
    begin: dt.date = Calendar(options.every, moment).shown(0, 1)[0]
    return begin.isoformat()
