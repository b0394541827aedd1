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
    BatchConflict,
    DpstreamError,
    InvalidArgument,
    StoreError,
    StreamEnded,
    StreamUnknown,
    TooManyPeople,
)
from dpstream.events.calendar import Calendar, parse_moment
from dpstream.events.count_options import CountOptions
from dpstream.events.kept_stream import kept_settings, series_start, stream_named, stream_settings
from dpstream.events.last_step import steps_ended
from dpstream.events.people import CONTRIBUTIONS, People
from dpstream.events.step_sizes import check_parts
from dpstream.events.table import Table, check_columns
from dpstream.events.tally import FARTHEST, Part, TimeTally
from dpstream.release.contribution_limit import ContributionLimit
from dpstream.store import Store
from dpstream.store.batch_memory import INGESTS_KEPT

__all__ = ["Batch", "StreamIngest", "Taken"]


class Batch(NamedTuple):
    """Rows, and the name under which they are recognised when they come again: a digest, or a key of the sender's.

    `content` tells whether a batch of the same name is the same batch: any digest of what was sent.
    """

    frame: pl.DataFrame
    name: bytes
    content: bytes = b""


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


class _Group(NamedTuple):
    """Batches that were added up together, and what they add."""

    names: list[bytes]
    part: Part


class StreamIngest:
    """Takes batches of rows into the open steps of a stream that `dpstream count` or `dpstream.count` began.

    What is counted and how is what the stream keeps. The object is the only writer of the stream until it is closed;
    it is for one thread.

    Parameters
    ----------
    store, name
        The store, which stays open, and the stream's name.
    places, kept
        How many batches one `take` may have, and of how many of them batches are recognised when they come again; see
        `DurableCounter.ingest_batches`. Anyone who can see the store's file can see both.

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

    def __init__(self, store: Store, name: str, *, places: int = 64, kept: int = INGESTS_KEPT) -> None:
        self._places, self._kept = places, kept
        info = stream_named(store, name)
        if info is None:
            raise StreamUnknown(name=name)
        said = kept_settings(info)
        if not said.get("time") or "start" not in said or said.get("whole_log"):
            raise InvalidArgument("name", name, "a stream of dated rows, begun by dpstream count without --whole-log")
        self._store = store
        self._options = CountOptions.of(stream_settings(store, info) | {"store": store.path, "name": name})
        self._calendar = Calendar(self._options.every, parse_moment("start", said["start"], self._options.time_zone))
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
        user = [] if self._options.user is None else [self._options.user]
        return list(dict.fromkeys([*self._tally().columns, *user]))

    @property
    def released(self) -> int:
        """How many steps are released."""
        return self._counter.t

    @property
    def remaining(self) -> int | None:
        """How many more steps there can be; None if there is no last one."""
        return self._counter.remaining

    def ended(self, now: dt.datetime) -> int:
        """How many steps have ended by this moment, released or not."""
        return self._ended(now)

    def close(self) -> None:
        """Give the stream back, for others to write. What was taken stays."""
        self._counter.close()

    def take(self, batches: Sequence[Batch], *, now: dt.datetime | None = None) -> list[Taken]:
        """Put batches into open steps, in one commit, and say of each what became of it.

        When this returns, every batch that is new is on the disk. A batch that was taken before adds nothing. One with
        a row that cannot be counted is refused as a whole, and does not hinder the others. What is said of a batch
        depends on its own rows, on the clock and on what was taken under its name, but for `TooManyPeople`: after that
        no step may be closed before there is more room, because whom it leaves out depends on who came before.

        There is a commit in any case, also without batches: whoever calls this by the clock does not show in the file
        how many came.

        Parameters
        ----------
        batches
            The rows of each, with the columns in `columns`, and a name of at most 1,024 bytes; at most `places`.
        now
            The present moment; None: by this machine's clock.

        Raises
        ------
        StoreError
            If the commit fails: nothing is in the store then, and all may be given again.
        """
        if len(batches) > self._places:
            raise InvalidArgument("batches", f"{len(batches):,}", f"at most {self._places:,} together")
        results: dict[int, Taken] = {}
        first: dict[bytes, int] = {}
        for i, (frame, name, content) in enumerate(batches):
            try:
                if self._counter.knows_batch(name, content):
                    results[i] = Taken(False, frame.height)
                elif batches[first.setdefault(name, i)].content != content:
                    raise BatchConflict
            except BatchConflict as error:
                results[i] = Taken(False, frame.height, error=error)
        try:
            found = self._take_new(
                {name: batches[i] for name, i in first.items()}, max(self._ended(now), self.released)
            )
        except BaseException:
            self._limit = None  # it may know of rows that are not in the store
            raise
        for name, i in first.items():
            results[i] = found[name]
        return [
            results[i] if i in results else replace(found[batch.name], new=False) for i, batch in enumerate(batches)
        ]

    def close_steps(self, now: dt.datetime | None = None) -> int:
        """Release every step that has ended by the clock, with rows or without; return how many that are.

        Nothing is released if the clock went back.
        """
        done, ended = self._counter.t, self._ended(now)
        if ended <= done:
            return 0
        self._counter.release_through(ended)
        return self._counter.t - done

    # -- inside -------------------------------------------------------------------------------------------------------

    def _ended(self, now: dt.datetime | None) -> int:
        """How many steps have ended."""
        return steps_ended(self._calendar, self._counter.settings.last, at=now)

    def _tally(self, *, limited: bool = False) -> TimeTally:
        """What adds up the rows of some batches: if they are refused, nothing of them is left in the next ones."""
        tally = self._options.tally(
            self._counter.t, in_ledger=True, series_start=self._series_start, calendar=self._calendar
        )
        if limited and self._options.user is not None:
            limit = self._people_limit()
            tally.people = People(self._options.user, limit, remember=True, fold_case=self._options.fold_case)
        return tally

    def _people_limit(self) -> ContributionLimit:
        if self._limit is None:
            self._limit = self._counter.contribution_limit()
        return self._limit

    def _take_new(self, batches: dict[bytes, Batch], present: int) -> dict[bytes, Taken]:
        """Take batches that are not in the store."""
        groups, found = self._grouped(batches, present)
        parts = [group.part for group in groups]
        if self._options.user is not None:
            parts, refused = self._limited([[batches[name] for name in group.names] for group in groups], present)
            found |= {batch.name: replace(found[batch.name], new=False, error=error) for batch, error in refused}
        names = [(name, batch.content) for name, batch in batches.items() if found[name].new]
        self._commit(parts, names, present)
        return found

    def _grouped(self, batches: dict[bytes, Batch], present: int) -> tuple[list[_Group], dict[bytes, Taken]]:
        """Add up the rows of batches, nobody limited; return those that are not refused, and what is said of all.

        All of them together, because a hundred small frames take a hundred times as long as one; and where one of them
        is refused, or needs a closer look, each half of them by itself.
        """
        if not batches:
            return [], {}
        names = list(batches)
        try:
            part, taken = self._added_together(list(batches.values()), present, self._tally())
        except StoreError:
            raise
        except DpstreamError as error:
            if len(names) == 1:
                return [], {names[0]: Taken(False, batches[names[0]].frame.height, error=error)}
            middle = len(names) // 2
            (left, said), (right, also_said) = (
                self._grouped({name: batches[name] for name in half}, present)
                for half in (names[:middle], names[middle:])
            )
            return left + right, said | also_said
        return [_Group(names, part)], dict(zip(names, taken, strict=True))

    def _limited(self, groups: list[list[Batch]], present: int) -> tuple[list[Part], list[tuple[Batch, TooManyPeople]]]:
        """Add up the rows of batches that are not refused, of each person up to the limit.

        Asking counts, so it is asked for each row once: groups that were added up before need no second try. Returns
        what they add, and the batches for whose people there is no room.
        """
        parts: list[Part] = []
        for i, group in enumerate(groups):
            try:
                parts.append(self._added_together(group, present, self._tally(limited=True))[0])
            except TooManyPeople as error:
                self._limit = None  # it may know of rows that are not in the store
                return parts, [(batch, error) for later in groups[i:] for batch in later]
        return parts, []

    def _added_together(self, batches: list[Batch], present: int, tally: TimeTally) -> tuple[Part, list[Taken]]:
        """Add up the rows of batches in one go; raise if any of them is refused, or if they cannot be told apart."""
        done = self._counter.t
        if self._counter.remaining == 0:
            self._calendar.lay_out(done)
            raise StreamEnded(name=self._options.name, horizon=done, last=str(self._calendar.shown(done - 1, 1)[0]))
        columns = self.columns
        for batch in batches:
            check_columns("the batch", columns, batch.frame.columns)
        frames = [batch.frame.select(columns) for batch in batches]
        if any(frame.schema != frames[0].schema for frame in frames):
            raise InvalidArgument("batches", "columns of several kinds", "of one kind, to be added up together")
        table = Table(pl.concat(frames), lambda row: f"row {row + 1}")
        tally.take(table)
        tally.cut()
        check_parts(tally, self._counter.settings, present, self._counter.open_steps)
        sizes = np.array([frame.height for frame in frames])
        if len(batches) > 1 and (
            tally.before or tally.clipped or tally.timestamps.time_format != self._options.time_format
        ):
            raise InvalidArgument("batches", "rows that need a closer look", "looked at apart")
        late, left_out = self._apart(tally, table, sizes)
        return tally.parts[0], [
            Taken(True, int(n), int(a), tally.before, int(b), tally.clipped)
            for n, a, b in zip(sizes, late, left_out, strict=True)
        ]

    def _apart(
        self, tally: TimeTally, table: Table, sizes: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return how many rows of each batch are late, and how many are left out by a rule."""
        late, left_out = np.zeros(len(sizes), np.int64), np.zeros(len(sizes), np.int64)
        if len(sizes) == 1:
            late[0], left_out[0] = tally.old, tally.filter.outside + tally.filter.skipped.total()
            return late, left_out
        if tally.old or tally.rows < len(table.frame):
            batch_of = np.repeat(np.arange(len(sizes)), sizes)
            kept = self._options.row_filter().apply(table)
            theirs = batch_of if kept.places is None else batch_of[kept.places]
            left_out = sizes - np.bincount(theirs, minlength=len(sizes))
            if tally.old:
                steps = self._calendar.steps(tally.timestamps.read(kept))
                late = np.bincount(theirs[steps < self._counter.t], minlength=len(sizes))
        return late, left_out

    def _commit(self, parts: list[Part], names: list[tuple[bytes, bytes]], present: int) -> None:
        """Put what batches add into the store together; with none, what is there is written anew."""
        done, shape = self._counter.t, self._counter.shape
        tallies = _total([part.tallies for part in parts], shape)
        rows = _total([part.rows for part in parts], ())
        contributions = None
        if self._options.user is not None:
            limit = self._people_limit()
            each = pl.concat([CONTRIBUTIONS.to_frame(), *(part.contributions for part in parts)])
            each = each.group_by("user").agg(pl.col("rows").sum())
            contributions = limit.fingerprints(each["user"].to_list()), each["rows"].cast(pl.Int64).to_numpy()
        self._counter.ingest_batches(
            done + 1,
            tallies,
            through=present,
            batches=names,
            places=self._places,
            kept=self._kept,
            rows=rows,
            contributions=contributions,
        )


def _total(parts: list[NDArray[np.int64]], shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Add up what several batches add to the same steps; those of some go further than those of others."""
    total = np.zeros((max(map(len, parts), default=0), *shape), dtype=np.int64)
    for part in parts:
        # Every part and every sum of two is below 2^63; what a step may not hold is cut off in the store as well.
        total[: len(part)] = np.clip(total[: len(part)] + part, -FARTHEST, FARTHEST)
    return total
