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
from dpstream.store import batch_memory
from dpstream.store.batch_memory import Batch, BatchMemory, check_batch, read_memory, write_memory
from dpstream.store.durable_stream import DurableStream
from dpstream.store.ledger import (
    Ingested,
    add_tallies,
    check_tallies,
    grown_row,
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
    #: Which batches were ingested; read when it is needed.
    _memory: BatchMemory | None = None

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

    def knows_batch(self, batch: bytes, content: bytes = b"") -> bool:
        """Return whether this batch is among those of the last 4,096 ingests, or of as many as `ingest_batches` kept.

        Raises
        ------
        BatchConflict
            If a batch of this name is, with another content.
        """
        name = check_batch(batch)
        with self._files.turn():
            self._current()
            return self._batches().knows(self._seals.batch_digest(name, content))

    def _batches(self) -> BatchMemory:
        """Return which batches were ingested, read from the file if it is not in memory."""
        if self._memory is None or self._memory.last != self._lease.row.ingests:
            self._memory = read_memory(self._files.database, self._seals, self._lease.row)
        return self._memory

    def ingest(
        self,
        first: int,
        tallies: ArrayLike,
        *,
        through: int,
        rows: ArrayLike | None = None,
        contributions: Contributions | None = None,
        batch: bytes | None = None,
        content: bytes = b"",
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
        batch, content
            A name of what is ingested, at most 1,024 bytes: that of the file, or a key of the caller's own; and a
            digest of what it holds. A batch that `knows_batch` knows adds nothing. None: it is not recognised.

        A step holds at most what `settings.input_range` says: what goes beyond is cut off. A refusal would tell one
        sender what the others have sent.

        Raises
        ------
        StepClosed, StepTooFar, HorizonExceeded
            If a step is released already, or too far ahead.
        BatchConflict
            If a batch of this name was ingested with another content.
        InputOutOfBound
            If these tallies, by themselves, are more than a step may hold.
        InvalidArgument, TooManyPeople
            As in `extend`. Whatever is raised here or above, nothing changes.
        """
        digests = [] if batch is None else [self._seals.batch_digest(check_batch(batch), content)]
        self._settings.check_rows(tallies)
        with self._files.turn():
            self._current()
            row = self._lease.row
            if any(self._batches().knows(digest) for digest in digests):
                return Ingested(False, row.t + 1, row.open_last)
            return self._ingest(first, tallies, through, rows, contributions, digests)

    def ingest_batches(
        self,
        first: int,
        tallies: ArrayLike,
        *,
        through: int,
        batches: Sequence[Batch],
        places: int,
        kept: int,
        rows: ArrayLike | None = None,
        contributions: Contributions | None = None,
    ) -> Ingested:
        """Do what `ingest` does for the rows of several batches, in one commit.

        Parameters
        ----------
        first, tallies, through, rows, contributions
            See `ingest`; for all batches together.
        batches
            Names and contents of new ones, each name once; `knows_batch` recognises them from now on.
        places
            For how many batches the commit has room. Anyone who can see the file can see it, and not how many there
            were: so it may not depend on them.
        kept
            The batches of so many commits are recognised, but no fewer than the last 4,096.

        Raises
        ------
        InvalidArgument
            Also if a batch is known, or if there are more than `places`.
        """
        most, length = check_whole("places", places), check_whole("kept", kept)
        digests = [self._seals.batch_digest(check_batch(name), content) for name, content in batches]
        with self._files.turn():
            self._current()
            memory = self._batches()
            if len({digest[:8] for digest in digests}) < len(digests) or any(map(memory.knows, digests)):
                raise InvalidArgument("batches", "a name that was ingested, or comes twice", "new ones, each once")
            return self._ingest(first, tallies, through, rows, contributions, digests, places=most, kept=length)

    def _ingest(
        self,
        first: int,
        tallies: ArrayLike,
        through: int,
        rows: ArrayLike | None,
        contributions: Contributions | None,
        digests: list[bytes],
        *,
        places: int = 1,
        kept: int = 0,
    ) -> Ingested:
        row = self._lease.row
        grown = grown_row(row, self._settings, through)
        step, more = check_tallies(grown, self._settings, first, tallies, rows)
        if self._rows_per_person is not None and contributions is None:
            raise InvalidArgument(
                "contributions",
                None,
                f"who is counted: this stream takes at most {self._rows_per_person} rows of a person",
            )
        counted = None if contributions is None else self._with_more_people(contributions)
        table = read_table(self._files.database, self._seals, row, row.t + 1, grown.open_last)
        if len(more):
            add_tallies(table, step - row.t - 1, more, self._settings)
        self._commit_ingest(grown, table, digests, counted, places=places, kept=kept)
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
        self,
        grown: StreamRow,
        table: NDArray[np.int64],
        digests: list[bytes],
        counted: CountedPeople | None,
        *,
        places: int = 1,
        kept: int = 0,
    ) -> None:
        """Put open steps, who was counted, and batches on the disk together; forget what is in memory otherwise."""
        files, lease = self._files, self._lease
        try:
            memory = self._batches()
            length = max(batch_memory.INGESTS_KEPT, kept or memory.last - memory.first + 1)
            first = max(memory.first, grown.ingests - length + 1)
            if counted is None and grown.people is not None:
                counted = self._people or read_people(files.database, self._seals, lease.row)
            sums = lease.row.sums(self._seals, files.database)
            moved = replace(grown, sealed=self._seals.seal_sums(sums, grown.place))
            with files.database.atomic() as connection:
                lease.move(connection, moved)
                write_ledger(connection, self._seals, moved, table)
                write_memory(connection, self._seals, moved, digests, first=first, places=places)
                if counted is not None:
                    write_people(connection, self._seals, moved, counted)
            lease.row = moved
            self._people = counted
            memory.add(moved.ingests, digests, first)
            lease.record = files.witness.mark(lease.slot, lease.record, moved.t, moved.ingests)
        except BaseException:
            self._live = self._people = self._memory = None
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
