"""CountRun: from a log of events to private running totals, in one run or over many with a store."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpstream.errors import HorizonExceeded, InvalidArgument
from dpstream.events.before_release import check_before_release
from dpstream.events.calendar import Calendar, parse_moment
from dpstream.events.count_options import CountOptions
from dpstream.events.count_settings import continued
from dpstream.events.intake import Intake
from dpstream.events.kept_stream import (
    check_same,
    fixed,
    kept_settings,
    only_stream,
    series_start,
    store_at,
    stream_named,
    stream_settings,
)
from dpstream.events.last_step import last_step
from dpstream.events.old_rows import OldRows, compare_with_recorded
from dpstream.events.people import People
from dpstream.events.released import Released
from dpstream.events.run_table import RunTable
from dpstream.events.step_sizes import check_parts, check_steps, said_by_steps
from dpstream.events.tally import TimeTally
from dpstream.events.timestamps import Timestamps
from dpstream.events.windows import fitting_lengths
from dpstream.mechanisms.base import Mechanism
from dpstream.release.contribution_limit import ContributionLimit
from dpstream.release.counter import Counter
from dpstream.release.protection import ProtectionText
from dpstream.release.secret_state import SecretState
from dpstream.release.settings import StreamSettings
from dpstream.store import DurableCounter, Store, StreamInfo
from dpstream.store.ledger import check_open_steps

__all__ = ["CountRun"]

#: Steps of one commit, and of one piece of output.
PIECE = 1 << 15
#: Without a store, so many users can be told apart.
MOST_PEOPLE = 20_000_000


class CountRun:
    """One run: `read` takes the rows, `open` makes the counter, `ingest` keeps them, `frames` gives the releases.

    With a store, rows go into open steps (`ingest`: one commit for each file, with who was counted and the file's
    digest). Steps are then released in order up to `options.through`, and none without it: a file never closes a step.
    With `whole_log` rows come again in every run, and are counted and released in one commit instead.

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
    in_ledger
        Whether rows go into the open steps of a store.
    created
        Whether this run made the stream in the store.
    waiting
        How many rows of this run are in open steps that are not released.

    Guarantee
    ---------
    That of `Counter` (or `DurableCounter`) for whoever `options` protect: a row, or a user of whom at most
    `max_contributions` rows are counted. Which steps are released does not depend on the data unless `first_from_data`
    or `last_from_data`.
    """

    def __init__(self, options: CountOptions, store: Store | None = None) -> None:
        self.counter: Counter[Any] | DurableCounter | None = None
        self._fingerprints: ContributionLimit | None = None
        #: Whether all releases are kept, for a picture.
        self.keeps_values = False
        #: How many rows and steps the tally had when its steps were checked.
        self._checked = (0, 0)
        self.store = store or store_at(options.store)
        info = None if self.store is None else stream_named(self.store, options.name)
        self.seen = self.published = 0 if info is None else info.t
        self._series_start = None if info is None or self.store is None else series_start(self.store, info)
        kept = {} if info is None else kept_settings(info)
        self.options = replace(options, start=_first_step(options) or kept.get("start"))
        if info is not None:
            check_same(info.name, fixed(kept), fixed(self.options.kept()))
        self.first_from_data = self.options.start is None
        self.in_ledger = options.store is not None and not options.whole_log
        if options.store is not None and options.whole_log and options.through is None:
            raise InvalidArgument(
                "through", None, "given with `whole_log`: a date, 'now' or 'yesterday'; rows are not kept in the store"
            )
        self.created = False
        self.waiting = 0
        self._present: int | None = None
        self.intake = Intake(options.files, self._tally(), self._is_known if self.in_ledger else None)
        if info is not None:
            self._open_counter(info)
        self._limit_people()

    @property
    def tally(self) -> TimeTally:
        """What adds the rows up."""
        return self.intake.tally

    @property
    def known(self) -> list[str]:
        """The sources that were counted before, and were not counted again."""
        return self.intake.known

    def read(
        self,
        sources: Sequence[str],
        report: Callable[[int, int], object] = lambda _, __: None,
        note: Callable[[str], object] = lambda _: None,
        batch: str | None = None,
    ) -> None:
        """Take the rows of files, or of standard input ("-"); see `Intake.read`."""
        self.intake.read(sources, report, note, batch)

    def take(self, frame: pl.DataFrame, batch: str | None = None) -> None:
        """Take the rows of a data frame."""
        self.intake.take(frame, batch)

    def _is_known(self, name: bytes, content: bytes) -> bool:
        return isinstance(self.counter, DurableCounter) and self.counter.knows_batch(name, content)

    def _limit_people(self) -> None:
        """Limit the rows of each person, those of earlier runs included."""
        options = self.options
        if options.user is None:
            return
        limit = (
            self.counter.contribution_limit()
            if isinstance(self.counter, DurableCounter)
            else ContributionLimit(
                options.max_contributions, capacity=MOST_PEOPLE if options.store is None else options.max_users
            )
        )
        self.tally.people = People(options.user, limit, remember=options.store is not None, fold_case=options.fold_case)

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> CountRun:
        """Begin a run from settings by name; what is not given comes from the stream in the store, if it is there.

        Parameters
        ----------
        settings
            See `CountOptions.of`. Without a name it is the only stream of the store.

        Raises
        ------
        SettingsMissing, InvalidArgument
            As `CountOptions.of`; or if there are several streams and no name.
        StoreMismatch
            If a setting is given that the stream has otherwise.
        """
        given = {name: value for name, value in settings.items() if value is not None}
        store = store_at(None if given.get("store") is None else Path(given["store"]))
        if store is None:
            return cls._made(CountOptions.of(given))
        try:
            given["name"] = given.get("name") or only_stream(store)
            info = stream_named(store, given["name"])
            stored = {} if info is None else stream_settings(store, info)
            return cls._made(CountOptions.of(continued(given, stored)), store)
        except BaseException:
            store.close()
            raise

    @classmethod
    def _made(cls, options: CountOptions, store: Store | None = None) -> CountRun:
        if options.discovery is None:
            return cls(options, store)
        from dpstream.events.discovery_run import DiscoveryRun

        return DiscoveryRun(options, store)

    def _tally(self) -> TimeTally:
        """What adds the rows up, nobody limited yet."""
        return self.options.tally(self.seen, in_ledger=self.in_ledger, series_start=self._series_start)

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
            check_same(info.name, {"horizon": info.horizon}, {"horizon": horizon})
            check_same(info.name, {"budget": info.budget}, {"budget": options.budget})
        settings = StreamSettings.for_counter(
            horizon,
            options.budget,
            shape=(len(options.measure.names),) if options.measure.by else (),
            per_person=options.measure.most * options.max_contributions,
            mechanism=self._mechanism(horizon),
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
        self.created = info is None

    def _check_steps(self, settings: StreamSettings) -> None:
        """Refuse steps that are too large or too far ahead, before any is released; what was checked is not again."""
        tally, counter = self.tally, self.counter
        if (tally.rows, tally.steps) == self._checked:
            return
        if self.in_ledger:
            room = counter.open_steps if isinstance(counter, DurableCounter) else check_open_steps(None, settings)
            check_parts(tally, settings, self.present, room)
        else:
            check_steps(tally, settings, self.published)
        self._checked = tally.rows, tally.steps

    def _mechanism(self, horizon: int | None) -> Mechanism | str:
        chosen = self.options.mechanism
        return chosen if isinstance(chosen, (str, Mechanism)) else chosen(horizon, self.options.budget.noise)

    def _windows(self, info: StreamInfo | None) -> tuple[int, ...]:
        """The windows that the mechanism is fitted to: those of the stream, or of the first run if it is new."""
        if info is not None and self.store is not None:
            return self.store.settings(info.name).windows
        return fitting_lengths(self.options.windows, self.options.every, self.horizon)

    # -- releasing ----------------------------------------------------------------------------------------------------

    @property
    def horizon(self) -> int | None:
        """The last step there may be; None if there is none."""
        return None if self.options.horizon is None and self.options.until is None else self.tally.horizon

    @property
    def last_from_data(self) -> bool:
        """Whether the rows decide how many steps are released."""
        return self.options.end is None and self.options.store is None

    @property
    def closed(self) -> int:
        """How many steps are to be released, those of earlier runs included."""
        if not self.in_ledger:
            return max(self.tally.steps, self.seen)
        return self.seen if self.options.through is None else self.present

    @property
    def present(self) -> int:
        """How many steps are over: those up to `through`, or by the clock. A store has room for rows from there on."""
        tally = self.tally
        if self._present is None:  # the clock is looked at once: what is said holds for what is released
            assert tally.calendar is not None  # noqa: S101
            end = last_step(self.options.through or "now", self.options.time_zone)
            self._present = max(min(end(tally.calendar, tally.horizon), tally.horizon), self.seen)
        return self._present

    def open(self) -> StreamSettings:
        """Make the counter, if it was not there before, once the rows are read. Returns its settings.

        Raises
        ------
        InvalidArgument
            If there are no rows to take the first step from.
        SourceDamaged
            If a step adds up to more than it may.
        ReleaseRefused
            See `check_before_release`.
        """
        tally = self.tally
        if tally.calendar is None:
            raise InvalidArgument("start", None, "given where there are no rows: a date of the first step")
        if self.published == self.seen:
            check_before_release(self)
        if tally.steps > tally.horizon:
            raise HorizonExceeded(horizon=tally.horizon, step=tally.steps)
        if self.counter is not None:
            self._check_steps(self.settings)
        else:
            first = tally.calendar.shown(0, 1)[0].isoformat()
            self.options = replace(self.options, start=first, time_format=tally.timestamps.time_format)
            self._open_counter()
        return self.settings

    @property
    def settings(self) -> StreamSettings:
        """The settings of the counter."""
        assert self.counter is not None  # noqa: S101
        return self.counter.settings

    def ingest(self) -> None:
        """Put the rows into the open steps of the store, a commit for each file; nothing is released."""
        if not self.in_ledger:
            return
        assert isinstance(self.counter, DurableCounter)  # noqa: S101
        parts, self.tally.parts = self.tally.parts, []
        for part, named in zip(parts, self.intake.take_names(), strict=True):
            self.waiting += int(part.rows[max(self.closed - part.first, 0) :].sum())
            name, content = named or (None, b"")
            with said_by_steps(part.first, len(part.tallies)):
                self.counter.ingest(
                    part.first + 1,
                    part.tallies,
                    through=self.present,
                    rows=part.rows,
                    contributions=self._fingerprinted(part.contributions),
                    batch=name,
                    content=content,
                )

    def rows_waiting(self, first: int, last: int) -> NDArray[np.int64]:
        """**Secret**: how many rows wait in each of the open steps from `first` to `last`, in the store."""
        if self.store is None or self.counter is None:
            return np.zeros(last - first + 1, dtype=np.int64)
        return self.store.true_data.open_steps(self.options.name, first, last).rows

    def release(self, closed: int) -> Iterator[NDArray[np.int64]]:
        """Release the steps up to `closed`, piece by piece. Steps of a store are durable when they come out of here."""
        counter = self.counter
        assert counter is not None  # noqa: S101
        if self.in_ledger and isinstance(counter, DurableCounter):
            self.ingest()  # nothing, if that was done
            while self.published < closed:
                count = min(PIECE, closed - self.published)
                values = counter.release_through(self.published + count)
                self.published += count
                yield values
            return
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

    def _contributions(self, count: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]] | None:
        """Who is counted in the next steps, by fingerprint, and how many of their rows."""
        last = self.published + count
        now = self.tally.contributions.filter(pl.col("step") < last)
        self.tally.contributions = self.tally.contributions.filter(pl.col("step") >= last)
        return self._fingerprinted(now)

    def _fingerprinted(self, counted: pl.DataFrame) -> tuple[NDArray[np.uint64], NDArray[np.int64]] | None:
        if self.tally.people is None:
            return None
        assert isinstance(self.counter, DurableCounter)  # noqa: S101
        if self._fingerprints is None:
            self._fingerprints = self.counter.contribution_limit()
        each = counted.group_by("user").agg(pl.col("rows").sum())
        return self._fingerprints.fingerprints(each["user"].to_list()), each["rows"].cast(pl.Int64).to_numpy()

    def old_rows(self) -> OldRows:
        """What is known about rows whose steps were released in earlier runs; they are not counted (again)."""
        tally = self.tally
        if not tally.old:
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

    def protection(self, label: str) -> ProtectionText:
        """What to publish beside the figures: how they are protected, how exact they are."""
        options = self.options
        return ProtectionText(
            self.settings,
            label,
            rows_per_person=options.max_contributions if options.user else None,
            confidence=options.confidence,
            windows={window.words: window.longest(options.every) for window in options.windows},
            unit=options.measure.reader.unit,
            dates_from_data=self._dates_from_data,
        )

    @property
    def _dates_from_data(self) -> tuple[str, ...]:
        first = ("the first step",) if self.first_from_data else ()
        return first + (("the last step",) if self.last_from_data else ())

    @cached_property
    def table(self) -> RunTable:
        """What makes tables of the releases, once the counter is open."""
        return RunTable(self.options, self.settings, self.tally.calendar, self.store, self.seen, keep=self.keeps_values)

    def released(self) -> Released:
        """Return all releases with what they are of, those before this run too; only with `keeps_values`."""
        return self.table.released()

    def frames(self, closed: int, *, everything: bool = False) -> Iterator[pl.DataFrame]:
        """Release the steps up to `closed` and yield them as tables; at least one, which may have no rows.

        Parameters
        ----------
        everything
            Whether the releases of earlier runs come first.
        """
        if everything and self.table.before:
            yield from self.table.earlier()
        elif self.published == closed:
            yield self.table.rows(np.zeros((0, *self.settings.shape), dtype=np.int64))
        for values in self.release(closed):
            yield self.table.rows(values)


def _first_step(options: CountOptions) -> str | None:
    """The date, or moment, at which the first step begins, written in one way whatever was given."""
    if options.start is None:
        return None
    zone = Timestamps("", zone=options.time_zone).zone  # which is refused if there is none of this name
    moment = parse_moment("start", options.start, zone)
    begin: dt.date = Calendar(options.every, moment).shown(0, 1)[0]
    return begin.isoformat()
