"""StreamIngest: a stream of a store that takes batches of rows again and again, and is closed by the clock."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpstream.errors import (
    DpstreamError,
    InputOutOfBound,
    InvalidArgument,
    StepsWithoutRows,
    StoreError,
    StreamEnded,
    StreamUnknown,
)
from dpstream.events.before_release import steps_in_words
from dpstream.events.calendar import Calendar, parse_moment
from dpstream.events.count_options import CountOptions
from dpstream.events.kept_stream import kept_settings, series_start, stream_named, stream_settings
from dpstream.events.last_step import steps_ended
from dpstream.events.people import People
from dpstream.events.step_sizes import check_parts, said_by_steps
from dpstream.events.table import Table, check_columns
from dpstream.events.tally import FARTHEST, Part, TimeTally
from dpstream.release.contribution_limit import ContributionLimit
from dpstream.store import Store

__all__ = ["Batch", "StreamIngest", "Taken"]


class Batch(NamedTuple):
    """Rows, and the name under which they are recognised when they come again: a digest, or a key of the sender's."""

    frame: pl.DataFrame
    name: bytes


@dataclass(frozen=True)
class Taken:
    """What became of a batch.

    Attributes
    ----------
    new
        Whether its rows are in the store since this call. False: they were there before, or it was refused.
    rows
        How many rows it has, those that are not counted included.
    late
        How many are of steps that were released before; they count in the first open step, or as the stream says.
    before
        How many are from before the first step, and are not counted.
    left_out
        How many are not counted because of `where` or `missing`.
    clipped
        How many had an amount beyond the limit, and count as the limit.
    error
        Why it was refused; None if it was not.
    """

    new: bool
    rows: int = 0
    late: int = 0
    before: int = 0
    left_out: int = 0
    clipped: int = 0
    error: DpstreamError | None = None


class StreamIngest:
    """Takes batches of rows into the open steps of a stream that `dpstream count` or `dpstream.count` began.

    What is counted and how is what the stream keeps. The object is the only writer of the stream until it is closed;
    it is for one thread.

    Parameters
    ----------
    store, name
        The store, which stays open, and the stream's name.

    Raises
    ------
    StreamUnknown
        If there is no such stream.
    InvalidArgument
        If it has no open steps by the clock: it was begun without `time`, with the whole log every time, or by
        `Store.counter`.

    Guarantee
    ---------
    That of `DurableCounter`: a batch is in the store wholly or not at all, once, whatever is killed; steps are released
    by the clock, never by the rows; nobody is counted more often than the stream allows.
    """

    def __init__(self, store: Store, name: str) -> None:
        info = stream_named(store, name)
        if info is None:
            raise StreamUnknown(name=name)
        kept = kept_settings(info)
        if not kept.get("time") or "start" not in kept or kept.get("whole_log"):
            raise InvalidArgument("name", name, "a stream of dated rows, begun by dpstream count without --whole-log")
        self._store = store
        self._options = CountOptions.of(stream_settings(store, info) | {"store": store.path, "name": name}, "any")
        self._calendar = Calendar(self._options.every, parse_moment("start", kept["start"], self._options.time_zone))
        self._series_start = series_start(store, info)
        people = {} if info.people is None else {"people": info.people}
        self._counter = store.open_counter(
            name, store.settings(name), source=info.source, rows_per_person=info.rows_per_person, **people
        )
        self._limit: ContributionLimit | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def columns(self) -> list[str]:
        """The columns that rows must have."""
        return list(dict.fromkeys(self._tally().columns))

    @property
    def released(self) -> int:
        """How many steps are released."""
        return self._counter.t

    @property
    def remaining(self) -> int | None:
        """How many more steps there can be; None if there is no last one."""
        return self._counter.remaining

    def close(self) -> None:
        """Give the stream back, for others to write. What was taken stays."""
        self._counter.close()

    def take(self, batches: Sequence[Batch], *, now: dt.datetime | None = None) -> list[Taken]:
        """Put batches into open steps, in one commit, and say of each what became of it.

        When this returns, every batch that is new is on the disk. A batch that was taken before adds nothing. One with
        a row that cannot be counted is refused as a whole, and does not hinder the others.

        Parameters
        ----------
        batches
            The rows of each, with the columns in `columns`, and a name of at most 1,024 bytes.
        now
            The present moment; None: by this machine's clock.

        Raises
        ------
        StoreError
            If the commit fails: nothing is in the store then, and all may be given again.
        """
        waiting: dict[bytes, Batch] = {}
        found: dict[bytes, Taken] = {}
        for batch, known in zip(batches, self._counter.known_batches([one.name for one in batches]), strict=True):
            if known:
                found[batch.name] = Taken(False, batch.frame.height)
            else:
                waiting.setdefault(batch.name, batch)
        try:
            found |= self._take_new(waiting, max(self._ended(now), self._counter.t))
        except BaseException:
            self._limit = None  # it may know of rows that are not in the store
            raise
        first = {batch.name: i for i, batch in reversed(list(enumerate(batches)))}
        return [
            found[batch.name] if first[batch.name] == i else replace(found[batch.name], new=False)
            for i, batch in enumerate(batches)
        ]

    def close_steps(self, now: dt.datetime | None = None) -> int:
        """Release every step that has ended by the clock, with rows or without; return how many that are.

        Nothing is released if the clock went back. Steps without rows are refused (`StepsWithoutRows`) where the stream
        was begun with gaps='refuse'.
        """
        done, ended = self._counter.t, self._ended(now)
        if ended <= done:
            return 0
        if self._options.gaps == "refuse":
            rows = self._store.true_data.open_steps(self._options.name, done + 1, ended).rows
            empty = done + np.flatnonzero(rows == 0)
            if len(empty):
                raise StepsWithoutRows(steps=steps_in_words(self._calendar, empty))
        self._counter.release_through(ended)
        return self._counter.t - done

    # -- inside -------------------------------------------------------------------------------------------------------

    def _ended(self, now: dt.datetime | None) -> int:
        """How many steps have ended."""
        return steps_ended(self._calendar, self._counter.settings.last, at=now)

    def _tally(self) -> TimeTally:
        """What adds up the rows of one batch: if it is refused, nothing of it is left in the next one."""
        tally = self._options.tally(
            self._counter.t, in_ledger=True, series_start=self._series_start, calendar=self._calendar
        )
        assert isinstance(tally, TimeTally)  # noqa: S101
        if self._options.user is not None:
            if self._limit is None:
                self._limit = self._counter.contribution_limit()
            tally.people = People(self._options.user, self._limit, remember=True, fold_case=self._options.fold_case)
        return tally

    def _take_new(self, batches: dict[bytes, Batch], present: int) -> dict[bytes, Taken]:
        """Take batches that are not in the store."""
        parts, found = self._added_up(batches, present)
        if not parts:
            return found
        try:
            self._commit(parts, present)
        except StoreError:
            raise
        except DpstreamError as error:
            # Together, or with what is in the store, they are too much for a step: one by one, to find which.
            self._limit = None
            if len(parts) == 1:
                (name,) = parts
                return found | {name: replace(found[name], new=False, error=error)}
            for name in parts:
                found |= self._take_new({name: batches[name]}, present)
        return found

    def _added_up(self, batches: dict[bytes, Batch], present: int) -> tuple[dict[bytes, Part], dict[bytes, Taken]]:
        """Add up the rows of each batch apart; return what those add that are not refused, and what is said of all."""
        refused: dict[bytes, Taken] = {}
        while True:
            parts: dict[bytes, Part] = {}
            found: dict[bytes, Taken] = {}
            for name, batch in batches.items():
                if name in refused:
                    continue
                tally = self._tally()
                try:
                    parts[name] = self._part(tally, batch.frame, present)
                except StoreError:
                    raise
                except DpstreamError as error:
                    refused[name] = Taken(False, batch.frame.height, error=error)
                    if tally.contributions.height or any(part.contributions.height for part in tally.parts):
                        self._limit = None  # its people were counted before it was refused: begin anew without it
                        break
                    continue
                skipped = tally.filter.outside + tally.filter.skipped.total()
                found[name] = Taken(True, tally.rows_read, tally.old, tally.before, skipped, tally.clipped)
            else:
                return parts, found | refused

    def _part(self, tally: TimeTally, frame: pl.DataFrame, present: int) -> Part:
        check_columns("the batch", tally.columns, frame.columns)
        done = self._counter.t
        if self._counter.remaining == 0:
            self._calendar.lay_out(done)
            raise StreamEnded(name=self._options.name, horizon=done, last=str(self._calendar.shown(done - 1, 1)[0]))
        tally.take(Table(frame, lambda row: f"row {row + 1}"))
        tally.cut()
        check_parts(tally, self._counter.settings, present, self._counter.open_steps)
        return tally.parts[0]

    def _commit(self, parts: dict[bytes, Part], present: int) -> None:
        """Put what batches add into the store together."""
        done = self._counter.t
        tallies, rows = (
            _total([part.tallies for part in parts.values()]),
            _total([part.rows for part in parts.values()]),
        )
        contributions = None
        if self._limit is not None:
            each = pl.concat([part.contributions for part in parts.values()]).group_by("user").agg(pl.col("rows").sum())
            fingerprints = self._limit.fingerprints(each["user"].to_list())
            contributions = fingerprints, each["rows"].cast(pl.Int64).to_numpy()
        with said_by_steps(done, len(tallies)):
            self._counter.ingest(
                done + 1, tallies, through=present, rows=rows, contributions=contributions, batch=list(parts)
            )


def _total(parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Add up what several batches add to the same steps; those of some go further than those of others."""
    total = np.zeros((max(map(len, parts)), *parts[0].shape[1:]), dtype=np.int64)
    largest = [int(np.abs(part).max(initial=0)) for part in parts]
    if sum(largest) > FARTHEST:  # of whole numbers without limits: what follows cannot pass 2^63 unseen
        raise InputOutOfBound(given=sum(largest), least=-FARTHEST, most=FARTHEST, what="every entry of a step's total")
    for part in parts:
        total[: len(part)] += part
    return total
