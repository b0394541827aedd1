"""A `Counter` and a `RunningSum` that survive crashes, restarts and retries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpstream.arguments import check_whole
from dpstream.errors import HorizonExceeded, InvalidArgument
from dpstream.release.contribution_limit import ContributionLimit
from dpstream.release.counter import Counter
from dpstream.release.running_sum import RunningSum
from dpstream.store.durable_stream import DurableStream
from dpstream.store.ledger import (
    Ingested,
    add_tallies,
    check_batch,
    check_tallies,
    grown_row,
    read_batch_digests,
    read_open_steps,
    read_table,
    write_ledger,
)
from dpstream.store.people import Contributions, CountedPeople, read_people, write_people
from dpstream.store.tables import StreamRow

__all__ = ["DurableCounter", "DurableSum"]

#: Values that are released in one commit when many steps are closed.
RELEASED_VALUES = 1 << 15


class DurableCounter(DurableStream[Counter[Any]]):
    """A running count, or histogram, in a store; made by `Store.counter`.

    Guarantee
    ---------
    That of `dpstream.Counter`, for all releases of the stream together, over all processes that ever wrote it. For each
    step there is at most one release; each accepted input is counted once; nothing accepted is lost. Assumed: disks
    that keep what they said they had kept, and no copy of all the store's files that is used as well (docs/store.md).
    """

    _kind = Counter

    @property
    def rows_per_person(self) -> int | None:
        """How many rows of one person are counted at most, over all steps and processes; None: not limited here."""
        return self._rows_per_person

    def contribution_limit(self) -> ContributionLimit:
        """Return a limit that knows how often each person was counted in this stream, in whatever process.

        What it keeps from now on must be given to `ingest`, or to `extend`, with the steps it is counted in.

        Raises
        ------
        InvalidArgument
            If the stream was created without `rows_per_person`.
        StoreDamaged
            If the record of who was counted is missing or changed.
        """
        with self._files.turn():
            self._current()
            row = self._lease.row
            if self._rows_per_person is None or row.people is None:
                raise InvalidArgument("rows_per_person", None, "given when the stream is created: Store.counter(...)")
            self._people = read_people(self._files.database, self._seals, row)
            limit = ContributionLimit(
                self._rows_per_person, capacity=row.people, key=self._files.seals.people_key(row.tag)
            )
            limit.restore_all(self._people.fingerprints, self._people.events)
            return limit

    # -- open steps ---------------------------------------------------------------------------------------------------

    @property
    def open_steps(self) -> int:
        """How many steps after the present one rows can be ingested for, as declared when the stream was created."""
        return int(self._lease.row.settings["open_steps"])

    def knows_batch(self, batch: bytes) -> bool:
        """Return whether this batch is among the last 4,096 that were ingested."""
        return self.known_batches([batch]) == [True]

    def known_batches(self, batches: Sequence[bytes]) -> list[bool]:
        """Return of each batch whether it is among the last 4,096 that were ingested."""
        names = [check_batch(batch) for batch in batches]
        with self._files.turn():
            self._current()
            known = set(read_batch_digests(self._files.database, self._seals, self._lease.row))
            return [self._seals.batch_digest(name) in known for name in names]

    def ingest(
        self,
        first: int,
        tallies: ArrayLike,
        *,
        through: int,
        rows: ArrayLike | None = None,
        contributions: Contributions | None = None,
        batch: bytes | list[bytes] | tuple[bytes, ...] | None = None,
    ) -> Ingested:
        """Add what rows count to open steps, in one commit with who was counted; nothing is released.

        From the first ingest on the stream takes all its steps from here, by `release_through`.

        Parameters
        ----------
        first
            The first of the steps, counted from 1.
        tallies
            What is added to it and the following steps: whole numbers of shape (steps, *shape).
        through
            The present step, as the operator or the clock has it, never the data: steps are open up to `open_steps`
            after it. Anyone who can see the file can see it.
        rows
            How many rows each step had, counted or not; they are only kept to tell steps that had none. None: one for
            each step whose tallies are not all 0.
        contributions
            Where `rows_per_person` limits the rows of a person: who is counted in these tallies; see `extend`.
        batch
            A name of what is ingested, at most 1,024 bytes: a digest of the file, or a key of the caller's own. A batch
            among the last 4,096 that were ingested adds nothing, whatever else is given. None: it is not recognised.
            Several names: of batches that are added up in `tallies` and ingested together, all of them new ones.

        Raises
        ------
        StepClosed, StepTooFar, HorizonExceeded
            If a step is released already, or too far ahead.
        InputOutOfBound
            If a step would add up to more than the stream accepts.
        InvalidArgument, TooManyPeople
            As in `extend`. Whatever is raised here or above, nothing changes.
        """
        several = isinstance(batch, (list, tuple))
        given = batch if isinstance(batch, (list, tuple)) else [] if batch is None else [batch]
        names = [check_batch(name) for name in given]
        with self._files.turn():
            self._current()
            database, row = self._files.database, self._lease.row
            known = read_batch_digests(database, self._seals, row)
            digests = [self._seals.batch_digest(name) for name in names]
            if not several and digests and digests[0] in known:
                return Ingested(False, row.t + 1, row.open_last)
            if len({*digests}) < len(digests) or not {*digests}.isdisjoint(known):
                raise InvalidArgument("batch", f"{len(names):,} names", "new ones, each once: known_batches says which")
            grown = grown_row(row, self._settings, through)
            step, more = check_tallies(grown, self._settings, first, tallies, rows)
            if self._rows_per_person is not None and contributions is None:
                raise InvalidArgument(
                    "contributions",
                    None,
                    f"who is counted: this stream takes at most {self._rows_per_person} rows of a person",
                )
            counted = None if contributions is None else self._with_more_people(contributions)
            table = read_table(database, self._seals, row, row.t + 1, grown.open_last)
            if len(more):
                add_tallies(table, step - row.t - 1, more, self._settings)
            self._commit_ingest(grown, table, [*known, *digests], counted)
            return Ingested(True, row.t + 1, grown.open_last)

    def release_through(self, step: int) -> NDArray[np.int64]:
        """Close the open steps up to `step` and return their releases, of shape (steps, *shape).

        Steps without rows are released like all others. Steps that are closed already stay as they are, and are not
        returned. Many steps are closed in several commits: whatever was committed before an error stays released.

        Raises
        ------
        HorizonExceeded
            If the stream ends before; nothing is released.
        """
        step = check_whole("step", step, least=0)
        with self._files.turn():
            live = self._current()
            if step > self._settings.last:
                raise HorizonExceeded(horizon=self._settings.last, step=step)
            if not self._lease.row.ingests and step > self.t:
                self._begin_open_steps()
            most = max(1, RELEASED_VALUES // self._coordinates)
            pieces = [np.empty((0, *self.shape), dtype=np.int64)]
            while self.t < step:
                row = self._lease.row
                last = min(step, row.t + most)
                inputs = read_open_steps(self._files.database, self._seals, row, row.t + 1, last).tallies
                start = row.first_position if row.t else 1
                digests = None if start is None else self._seals.input_digests(row.t + 1, inputs)
                pieces.append(self._release(live, inputs, digests, start))
            return np.concatenate(pieces)

    def _begin_open_steps(self) -> None:
        """Make the open steps of a stream that has not ingested anything."""
        row = self._lease.row
        grown = grown_row(row, self._settings, row.t)
        table = read_table(self._files.database, self._seals, row, row.t + 1, grown.open_last)
        self._commit_ingest(grown, table, [], None)

    def _commit_ingest(
        self, grown: StreamRow, table: NDArray[np.int64], batches: list[bytes], counted: CountedPeople | None
    ) -> None:
        """Put open steps, who was counted, and the batch on the disk together; forget what is in memory otherwise."""
        files, lease = self._files, self._lease
        try:
            if counted is None and grown.people is not None:
                counted = self._people or read_people(files.database, self._seals, lease.row)
            sums = lease.row.sums(self._seals, files.database)
            moved = replace(grown, sealed=self._seals.seal_sums(sums, grown.place))
            with files.database.atomic() as connection:
                lease.move(connection, moved)
                write_ledger(connection, self._seals, moved, table, batches)
                if counted is not None:
                    write_people(connection, self._seals, moved, counted)
            lease.row = moved
            self._people = counted
            lease.record = files.witness.mark(lease.slot, lease.record, moved.t, moved.ingests)
        except BaseException:
            self._live = self._people = None
            raise


class DurableSum(DurableStream[RunningSum]):
    """A running sum of vectors in a store; made by `Store.running_sum`.

    Guarantee
    ---------
    That of `dpstream.RunningSum`, for all releases of the stream together, over all processes that ever wrote it; and
    that of `DurableCounter` on what is counted and released.
    """

    _kind = RunningSum

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of a release."""
        return np.dtype(self._settings.dtype)
