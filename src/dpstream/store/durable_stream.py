"""A stream that survives: what counters and sums in a store have in common.

    add(x):  compute the release → one transaction with the new sums and the release → note the step → return it

A release is visible only when it and its input are on the disk. If anything fails on the way, the object forgets what
it holds in memory and reads the stream again from the file, so that memory and file can not disagree.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpstream.arguments import check_whole
from dpstream.budget import Budget
from dpstream.errors import (
    DpstreamError,
    InvalidArgument,
    PositionConflict,
    PositionGap,
    PositionMissing,
    PositionUnexpected,
    StoreError,
    StreamHasOpenSteps,
)
from dpstream.mechanisms.base import Mechanism
from dpstream.release.counter import Counter
from dpstream.release.error_bars import Estimate, release_stddev
from dpstream.release.in_words import describe
from dpstream.release.running_sum import RunningSum
from dpstream.release.secret_state import SecretState
from dpstream.release.settings import StreamSettings
from dpstream.store.database import Database
from dpstream.store.estimates import estimate_from_store, window_from_store
from dpstream.store.lease import Lease
from dpstream.store.leased_stream import LeasedStream
from dpstream.store.ledger import close_steps
from dpstream.store.people import Contributions, CountedPeople, as_contributions, read_people, write_people
from dpstream.store.published import Publisher, is_published
from dpstream.store.sealing import INPUT_BYTES, Seals
from dpstream.store.store_files import StoreFiles
from dpstream.store.tables import StreamRow, noise_after, read_batches, save_noise_state

__all__ = ["DurableStream"]

#: A recurrence that is reopened makes up to this many noise values again: its state is saved once in so many values ...
REPLAYED_VALUES = 1 << 14
#: ... but never more often than once in this many steps, because the state of a wide stream is large.
REPLAYED_STEPS = 32
#: The largest position: positions and steps together stay within SQLite's 64 bits.
LAST_POSITION = 2**62


L = TypeVar("L", Counter[Any], RunningSum)


class DurableStream(LeasedStream, Generic[L]):
    """A stream of a store, open for writing. Made by `Store.counter` and `Store.running_sum`."""

    #: What computes the releases.
    _kind: type[L]

    def __init__(self, files: StoreFiles, lease: Lease, settings: StreamSettings, threads: int | None = None) -> None:
        super().__init__(files, lease)
        self._threads = threads
        self._settings = settings
        self._coordinates = math.prod(settings.shape)
        self._state_step = 0
        self._live: L | None = None  # read when it is needed
        self._rows_per_person: int | None = lease.row.settings["rows_per_person"]
        self._people: CountedPeople | None = None  # read when it is needed
        self._publisher = Publisher(files.database, self._seals) if is_published(lease.row) else None
        self._counted: CountedPeople | None = None  # who is in the steps that are being added
        self._current()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, t={self._lease.row.t}, budget={self.budget!r})"

    def _forget(self) -> None:
        self._live = None

    # -- looking ------------------------------------------------------------------------------------------------------

    @property
    def position(self) -> int | None:
        """The position of the last step; None if there is no step yet, or steps have no positions."""
        row = self._lease.row
        return None if row.first_position is None else row.first_position + row.t - 1

    @property
    def horizon(self) -> int | None:
        """The last release; None if there is none."""
        return self._settings.horizon

    @property
    def remaining(self) -> int | None:
        """How many more releases there can be; None without a horizon."""
        return None if self.horizon is None else self.horizon - self.t

    @property
    def budget(self) -> Budget:
        """What all releases together may reveal."""
        return self._settings.budget

    @property
    def mechanism(self) -> Mechanism:
        """How noise is shared over time."""
        return self._settings.mechanism

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a release."""
        return self._settings.shape

    @property
    def settings(self) -> StreamSettings:
        """Everything that decides the noise."""
        return self._settings

    def stddev(self, t: int | None = None) -> float:
        """The standard deviation of release t; of the last one if t is left out."""
        return release_stddev(self._settings, max(self.t, 1) if t is None else t)

    def estimate(self, confidence: float = 0.95, *, since: int = 0, through: int | None = None) -> Estimate[Any]:
        """Return a release, or its change since an earlier one, with its error bars; see `Counter.estimate`.

        Parameters
        ----------
        confidence
            How often the interval holds the number without noise, at least: that of the rows that were counted.
        since
            An earlier release, any of them: what was counted in the steps after it. 0 for all steps.
        through
            The release up to which; None for the last one.
        """
        with self._files.turn():
            self._current()
            return estimate_from_store(
                self._files.database,
                self._lease.row,
                self._seals,
                self._settings,
                confidence,
                since=since,
                through=through,
            )

    def window(self, steps: int, confidence: float = 0.95, *, through: int | None = None) -> Estimate[Any]:
        """Return what was counted in `steps` steps up to release `through` (the last one if None); see `estimate`."""
        with self._files.turn():
            self._current()
            return window_from_store(
                self._files.database,
                self._lease.row,
                self._seals,
                self._settings,
                confidence,
                steps=steps,
                through=through,
            )

    def describe(self) -> str:
        """Return one paragraph in plain words: what is promised, to whom, against whom, and what is not."""
        return describe(self._settings, self.stddev(), max(self.t, 1), rows_per_person=self._rows_per_person)

    # -- adding -------------------------------------------------------------------------------------------------------

    def add(self, x: Any = 1, position: int | None = None) -> Any:
        """Take one step's input and release the sum so far; the input is durable before the release is visible.

        Parameters
        ----------
        x
            The step's input.
        position
            Where the caller got it from: any whole number for the first step, and one more for each next one. An input
            that comes again under an old position is not counted again: its recorded release is returned.

        Raises
        ------
        PositionGap, PositionConflict, PositionMissing, PositionUnexpected
            If the position does not follow, or came before with another value; nothing changes.
        StoreFull, StoreReadOnly, StoreNotWritten, StoreBusy, LeaseLost, StoreClosed, StoreDamaged
            If the step cannot be made durable; nothing is released.
        """
        with self._files.turn():
            live = self._current()
            value = self._take(live, self._settings.check_row(x), position)[0]
            return value if self.shape else value.item()

    def extend(
        self,
        xs: ArrayLike,
        first_position: int | None = None,
        *,
        contributions: Contributions | None = None,
    ) -> NDArray[Any]:
        """Take many steps' inputs in one commit; one release each, exactly those of `add` in a loop.

        Steps that came before (see `add`) give their recorded releases. All or nothing is taken.

        Parameters
        ----------
        xs, first_position
            The inputs, and the position of the first.
        contributions
            Where `rows_per_person` limits the rows of a person: how many events of each (a fingerprint of
            `contribution_limit`) are counted in these steps, as a mapping or as two arrays. Kept in the same commit,
            sealed, for the next process. All of the steps must then be new ones.

        Raises
        ------
        InvalidArgument
            If `contributions` is missing where rows are limited or given where they are not, or if somebody would be
            counted too often; nothing changes.
        TooManyPeople
            If there is no room for so many people; nothing changes.
        """
        return self.extend_checked(self._settings.check_rows(xs), first_position, contributions=contributions)

    def extend_checked(
        self,
        rows: NDArray[Any],
        first_position: int | None = None,
        *,
        contributions: Contributions | None = None,
    ) -> NDArray[Any]:
        """Do what `extend` does with rows that `settings.check_rows` returned; they are not checked again."""
        with self._files.turn():
            live = self._current()
            self._counted = None if contributions is None else self._with_more_people(contributions)
            try:
                return self._take(live, rows, first_position)
            finally:
                self._counted = None

    def _take(self, live: L, rows: NDArray[Any], first_position: int | None) -> NDArray[Any]:
        """Return the releases of these inputs: recorded ones for old positions, new ones for the rest."""
        row = self._lease.row
        if first_position is None:
            if row.ingests and len(rows):
                raise StreamHasOpenSteps(name=row.name)
            if row.first_position is not None:
                raise PositionMissing(following=row.first_position + row.t)
            self._check_direct(len(rows))
            return self._release(live, rows, None, None)
        old = count_replayed(row, first_position, len(rows))
        if old and self._counted is not None:
            raise InvalidArgument("contributions", f"position {first_position}", "of new steps only")
        before = replay(self._files.database, self._seals, row, rows[:old], first_position) if old else None
        if before is not None and old == len(rows):
            return before
        self._check_direct(len(rows) - old)
        start = first_position if row.first_position is None else row.first_position
        values = self._release(live, rows[old:], self._seals.input_digests(row.t + 1, rows[old:]), start)
        return values if before is None else np.concatenate([before, values])

    def _release(self, live: L, rows: NDArray[Any], digests: bytes | None, start: int | None) -> NDArray[Any]:
        """Return the releases of new steps, which are on the disk then."""
        with self._forgetting():
            values = live.extend_checked(rows)
        if len(rows):
            self._commit(live, np.ascontiguousarray(values).tobytes(), len(rows), digests, start)
        return values

    def _with_more_people(self, contributions: Contributions) -> CountedPeople:
        """Return who is counted so far and in the steps to come."""
        row, times = self._lease.row, self._rows_per_person
        if times is None or row.people is None:
            raise InvalidArgument("contributions", "given", "left out: this stream was created without rows_per_person")
        if self._people is None:
            self._people = read_people(self._files.database, self._seals, row)
        return self._people.plus(as_contributions(contributions), times=times, room=row.people)

    def _check_direct(self, new: int) -> None:
        """Refuse new steps that do not come from the ledger, or do not say who is in them, where they must."""
        if not new:
            return
        if self._lease.row.ingests:
            raise StreamHasOpenSteps(name=self.name)
        if self._rows_per_person is not None and self._counted is None:
            raise InvalidArgument(
                "contributions",
                None,
                f"who is counted: this stream takes at most {self._rows_per_person} rows of a person; call"
                " extend(xs, contributions=...)",
            )

    # -- committing ---------------------------------------------------------------------------------------------------

    def _commit(self, live: L, values: bytes, count: int, digests: bytes | None, first_position: int | None) -> None:
        """Put steps that were just computed on the disk; forget them if that fails."""
        lease = self._lease
        row = lease.row
        t = row.t + count
        try:
            sums = live.reveal_secret_state().sums_as_bytes()
            moved = replace(row, t=t, first_position=first_position)
            moved = replace(moved, sealed=self._seals.seal_sums(sums, moved.place))
            sealed = self._seals.seal_batch(row.t + 1, count, values, digests)
            saved = self._state_to_save(t)
            with self._files.database.atomic() as connection:
                lease.move(connection, moved)
                connection.execute("INSERT INTO batches VALUES (?, ?, ?, ?)", (row.id, row.t + 1, count, sealed))
                if self._counted is not None:
                    write_people(connection, self._seals, moved, self._counted)
                if row.ingests:
                    close_steps(self._files.database, connection, self._seals, row, moved)
                if saved is not None:
                    save_noise_state(connection, row.id, t, *saved)
            lease.row = moved
            if self._counted is not None:
                self._people = self._counted
            lease.record = self._files.witness.mark(lease.slot, lease.record, t, row.ingests)
            self._publish(values)
        except BaseException:
            self._live = self._people = None
            raise

    def _publish(self, values: bytes = b"") -> None:
        """Write in clear what is committed, the last of it `values`. A failure is mended by the next call."""
        if self._publisher is not None:
            with contextlib.suppress(StoreError):  # the steps are made: that much must not be lost on the caller
                self._publisher.publish(self._lease.row, values)

    def _state_to_save(self, t: int) -> tuple[int, bytes] | None:
        """Return the noise's state if a restart would otherwise make too much noise again."""
        if t - self._state_step < max(REPLAYED_VALUES // self._coordinates, REPLAYED_STEPS):
            return None
        noise = self._noise
        self._state_step = noise.t
        return noise.t, noise.state()

    @contextlib.contextmanager
    def _forgetting(self) -> Iterator[None]:
        """Forget what is in memory if it may be half changed: a refusal changes nothing, an interrupt might."""
        try:
            yield
        except DpstreamError:
            raise
        except BaseException:
            self._live = None
            raise

    # -- reopening ----------------------------------------------------------------------------------------------------

    def _current(self) -> L:
        """Return the live counter or sum, read from the file if it is not in memory."""
        self._check_open()
        # An interrupt between a step in memory and its commit leaves memory ahead of the file.
        if self._live is None or self._live.t != self._lease.row.t:
            self._live = self._reopened()
        return self._live

    def _reopened(self) -> L:
        files, row = self._files, self._leased_row()
        last: NDArray[Any] | None = None
        if row.t:
            (batch,) = read_batches(files.database, row, self._seals, row.t, row.t)
            last = batch.values[0]
        further = files.database.rows("SELECT max(first) FROM batches WHERE stream = ?", (row.id,))[0][0]
        if further is not None and not (isinstance(further, int) and further <= row.t):
            raise files.database.damaged(f"there are releases of stream {row.name!r} past its last step {row.t}")
        settings, sums = self._settings, row.sums(self._seals, files.database)
        noise, self._state_step = noise_after(files.database, row, settings, self._key, row.t, threads=self._threads)
        live = self._kind.resume(settings, noise, SecretState.from_bytes(settings, row.t, sums, last))
        self._noise = noise
        self._stand_at(row)
        self._publish()
        return live


# -- positions --------------------------------------------------------------------------------------------------------

# The position of step s is that of step 1 plus s - 1, so one number per stream says it all.


def count_replayed(row: StreamRow, first_position: int, count: int) -> int:
    """Return how many of the next `count` inputs, the first of them at `first_position`, were taken before."""
    position = check_whole("position", first_position, least=0)
    if position > LAST_POSITION:
        raise InvalidArgument("position", position, f"at most {LAST_POSITION}")
    if row.first_position is None:
        if row.t:
            raise PositionUnexpected(position=position, step=row.t)
        return 0
    following = row.first_position + row.t
    if not row.first_position <= position <= following:
        raise PositionGap(position=position, first=row.first_position, following=following)
    return min(following - position, count)


def replay(database: Database, seals: Seals, row: StreamRow, rows: NDArray[Any], position: int) -> NDArray[Any]:
    """Return the recorded releases of these inputs, which must be the ones that were taken from this position on."""
    assert row.first_position is not None  # noqa: S101
    first = position - row.first_position + 1
    batches = list(read_batches(database, row, seals, first, first + len(rows) - 1))
    given = seals.input_digests(first, rows)
    taken = b"".join(batch.inputs or b"" for batch in batches)
    for i in range(len(rows)):
        if given[i * INPUT_BYTES : (i + 1) * INPUT_BYTES] != taken[i * INPUT_BYTES : (i + 1) * INPUT_BYTES]:
            raise PositionConflict(position=position + i, step=first + i)
    return np.concatenate([batch.values for batch in batches])
