"""DurableNames: an `OpenCounter` in a store, that survives crashes, restarts and retries.

    ingest(events):          who was counted, names, sums and open steps → one transaction → return
    release_through(step):   the stream's last step → one transaction → compute the releases → publish them → return

Releases follow from what was ingested and from the key, so closing a step on the disk decides them, and nobody has seen
them by then. A crash before they are published loses nothing: they are computed again when the stream is opened.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpstream.arguments import check_probability, check_whole
from dpstream.budget import ApproxDP
from dpstream.errors import BatchConflict, HorizonExceeded, InvalidArgument, NameCountOutOfBound, StepClosed, StoreError
from dpstream.mechanisms.base import Mechanism
from dpstream.release.error_bars import Estimate
from dpstream.release.name_limit import NameLimit
from dpstream.release.name_spelling import check_name
from dpstream.release.name_words import describe_names
from dpstream.release.open_settings import OpenSettings
from dpstream.release.open_sums import OpenSums
from dpstream.store.batch_memory import check_batch
from dpstream.store.lease import Lease
from dpstream.store.leased_stream import LeasedStream
from dpstream.store.ledger import Ingested
from dpstream.store.names_tables import (
    BATCHES_KEPT,
    Cells,
    NamesKept,
    NamesRoom,
    Pairs,
    read_names,
    releases_of,
    write_names,
)
from dpstream.store.published_names import (
    NamedRelease,
    in_pieces,
    named_steps,
    read_named_releases,
    write_named_releases,
)
from dpstream.store.store_files import StoreFiles
from dpstream.store.tables import StreamRow

__all__ = ["DurableNames"]


class _Live:
    """What is in memory: sums after the last step, who was counted, and what waits in open steps."""

    def __init__(self, kept: NamesKept, sums: OpenSums, limit: NameLimit) -> None:
        self.sums, self.limit = sums, limit
        self.cells, self.batches = kept.cells, list(kept.batches)
        self.dropped_before = kept.dropped


class DurableNames(LeasedStream):
    """Running counts by name in a store, of names nobody listed beforehand; made by `Store.open_names`.

    Guarantee
    ---------
    That of `dpstream.OpenCounter` with `add_events`, for all releases of the stream together, over all processes that
    ever wrote it: of each person at most `names_per_person` names count, and at most `per_name` events of each. For
    each step there is at most one release; each accepted event is counted once; nothing accepted is lost. What the
    file shows without its key does not depend on names that are not published. Assumed: what docs/store.md says about
    disks, keys and copies.
    """

    def __init__(self, files: StoreFiles, lease: Lease, settings: OpenSettings) -> None:
        super().__init__(files, lease)
        self._settings = settings
        self._live: _Live | None = None
        self._current()

    def __repr__(self) -> str:
        return f"DurableNames({self.name!r}, t={self.t}, budget={self.budget!r})"

    def _forget(self) -> None:
        self._live = None

    # -- looking ------------------------------------------------------------------------------------------------------

    @property
    def settings(self) -> OpenSettings:
        """Everything that decides noise and threshold."""
        return self._settings

    @property
    def horizon(self) -> int:
        """The last release."""
        return self._settings.horizon

    @property
    def remaining(self) -> int:
        """How many more releases there can be."""
        return self.horizon - self.t

    @property
    def budget(self) -> ApproxDP:
        """What everything that is published may reveal, all together."""
        return self._settings.budget

    @property
    def mechanism(self) -> Mechanism:
        """How noise is shared over time."""
        return self._settings.mechanism

    @property
    def threshold(self) -> int:
        """The noisy number of people from which on a name is published."""
        return self._settings.threshold

    @property
    def room(self) -> NamesRoom:
        """How many pairs of a person and a name, names and open counts there is room for."""
        assert self._lease.row.people is not None  # noqa: S101
        return NamesRoom(self._lease.row.people)

    @property
    def dropped(self) -> int:
        """How many events were dropped, their people having brought enough: **not private**."""
        with self._files.turn():
            live = self._current()
            return live.dropped_before + live.limit.dropped

    @property
    def published(self) -> dict[str, Estimate[int]]:
        """The last release of every published name, with its 95 % interval: `estimates()`."""
        return self.estimates()

    def estimates(self, confidence: float = 0.95) -> dict[str, Estimate[int]]:
        """Return the last release of every published name, with its error bars; see `OpenCounter.estimates`."""
        checked = check_probability("confidence", confidence)
        with self._files.turn():
            return self._current().sums.estimates(checked)

    def window(self, steps: int, confidence: float = 0.95) -> dict[str, Estimate[int]]:
        """Return what was counted in the last `steps` steps by name; see `OpenCounter.window`."""
        length, checked = check_whole("steps", steps), check_probability("confidence", confidence)
        with self._files.turn():
            return self._current().sums.window(length, checked)

    def releases(self, first: int = 1, last: int | None = None) -> list[NamedRelease]:
        """Return the releases of the steps from `first` to `last`, all by default, compared with their seals."""
        first = check_whole("first", first)
        with self._files.turn():
            self._current()
            end = self.t if last is None else check_whole("last", last, least=first - 1)
            if end > max(self.t, first - 1):
                raise InvalidArgument("last", last, f"at most {self.t}, the last release of {self.name!r}")
            self._publish()
            return list(self._released(first, end))

    def events_waiting(self, first: int, last: int) -> NDArray[np.int64]:
        """**Secret**: return how many events count in each of the open steps from `first` to `last`."""
        with self._files.turn():
            cells = self._current().cells.of(max(first, self.t + 1), last)
            return np.bincount(cells.steps - first, weights=cells.counts, minlength=last - first + 1).astype(np.int64)

    def describe(self) -> str:
        """Return what is promised, to whom, against whom, and what is not, in plain words."""
        return describe_names(self._settings, enforced=True)

    # -- ingesting ----------------------------------------------------------------------------------------------------

    def knows_batch(self, batch: bytes, content: bytes = b"") -> bool:
        """Return whether this batch is among the last 4,096 that were ingested.

        Raises
        ------
        BatchConflict
            If a batch of this name is, with another content.
        """
        digest = self._seals.batch_digest(check_batch(batch), content)
        with self._files.turn():
            return _is_among(digest, self._current().batches)

    def ingest(
        self,
        steps: ArrayLike,
        people: Sequence[str | bytes | int],
        names: Sequence[str],
        *,
        batch: bytes | None = None,
        content: bytes = b"",
    ) -> Ingested:
        """Count events in open steps, in one commit with who was counted; nothing is released.

        Of each person the first `names_per_person` names count, over all steps and processes, in the order in which
        they are ingested, and of each name the first `per_name` events; others are dropped.

        Parameters
        ----------
        steps, people, names
            The step of each event, counted from 1, who it is about, and what was brought. Steps are open up to the
            last one there will be.
        batch, content
            A name of what is ingested, at most 1,024 bytes: that of the file, or a key of the caller's own; and a
            digest of what it holds. A batch among the last 4,096 adds nothing. None: it is not recognised.

        Raises
        ------
        BatchConflict
            If a batch of this name was ingested with another content.
        StepClosed, HorizonExceeded
            If a step is released already, or after the last one.
        InvalidArgument, InputTypeError
            If there are more of the one than of the others, or one is no step, no id or no name.
        TooManyPairs, TooManyNames
            If there is no room (`Store.open_names(pairs=)` makes more). Whatever is raised, nothing changes.
        """
        if isinstance(people, (str, bytes)) or isinstance(names, (str, bytes)):
            raise InvalidArgument("people, names", "a single text", "lists: one person and one name for each event")
        when = _checked_steps(steps)
        spelled = [check_name(name) for name in names]
        if not len(when) == len(people) == len(spelled):
            raise InvalidArgument(
                "steps, people, names", (len(when), len(people), len(spelled)), "as many of the one as of the others"
            )
        digest = None if batch is None else self._seals.batch_digest(check_batch(batch), content)
        with self._files.turn():
            live, row = self._current(), self._lease.row
            if digest is not None and _is_among(digest, live.batches):
                return Ingested(False, row.t + 1, self.horizon)
            if when.size and int(when.min()) <= row.t:
                raise StepClosed(step=int(when.min()), first_open=row.t + 1)
            if when.size and int(when.max()) > self.horizon:
                raise HorizonExceeded(horizon=self.horizon, step=int(when.max()))
            self._publish()  # what the sums hold must be public before their cells are given up
            keys = live.limit.people_keys(people), live.limit.name_keys(spelled)
            try:
                taken = live.limit.take_keys(*keys)
                self._commit_events(live, when, spelled, taken.kept, taken.new, digest)
            except BaseException:
                self._live = None  # people were counted in memory that are not on the disk
                raise
            return Ingested(True, row.t + 1, self.horizon)

    def _commit_events(
        self,
        live: _Live,
        steps: NDArray[np.int64],
        names: list[str],
        kept: NDArray[np.bool_],
        new: NDArray[np.bool_],
        digest: bytes | None,
    ) -> None:
        """Put what is kept of these events on the disk, and in memory."""
        row, counted = self._lease.row, np.flatnonzero(kept)
        brought = dict.fromkeys(names[i] for i in counted.tolist())
        live.sums.meet(brought)
        rows = np.fromiter((live.sums.index[names[i]] for i in counted.tolist()), np.int64, len(counted))
        one = np.ones(len(counted), dtype=np.int64)
        more = Cells(steps[counted], rows, one, new[counted].astype(np.int64))
        cells = live.cells.of(row.t + 1, self.horizon).plus(more)
        self._check_cells(live, cells)
        batches = live.batches if digest is None else [*live.batches, digest][-BATCHES_KEPT:]
        content = NamesKept(
            tuple(live.sums.index),
            live.sums.reveal(),
            Pairs(*live.limit.remembered()),
            cells,
            tuple(batches),
            row.t,
            live.dropped_before + live.limit.dropped,
        )
        content.check_room(self.room)
        self._commit(replace(row, ingests=row.ingests + 1), content)
        live.cells, live.batches = cells, batches

    def _check_cells(self, live: _Live, cells: Cells) -> None:
        """Refuse counts that a step may not hold."""
        if len(cells) and int(cells.counts.max()) > self._settings.most:
            raise NameCountOutOfBound(given=None, least=0, most=self._settings.most, what="the count of a name")

    def _commit(self, moved: StreamRow, content: NamesKept) -> None:
        """Write all tables and the row that says how full they are."""
        files, lease = self._files, self._lease
        sealed = self._seals.seal_sums(content.filled.as_bytes(), moved.place)
        moved = replace(moved, sealed=sealed)
        with files.database.atomic() as connection:
            lease.move(connection, moved)
            write_names(connection, self._seals, moved, content)
        self._stand_at(moved)

    # -- releasing ----------------------------------------------------------------------------------------------------

    def release_through(self, step: int) -> list[NamedRelease]:
        """Close the open steps up to `step` and return their releases; steps without events are released like others.

        Steps that are closed already stay as they are, and are not returned. All are closed in one commit.

        Raises
        ------
        HorizonExceeded
            If the stream ends before; nothing is released.
        """
        step = check_whole("step", step, least=0)
        with self._files.turn():
            live, row = self._current(), self._lease.row
            if step > self.horizon:
                raise HorizonExceeded(horizon=self.horizon, step=step)
            if step <= row.t:
                return []
            try:
                moved = replace(row, t=step)
                held = row.sums(self._seals, self._files.database)
                moved = replace(moved, sealed=self._seals.seal_sums(held, moved.place))
                with self._files.database.atomic() as connection:
                    self._lease.move(connection, moved)
                self._stand_at(moved)
                made = list(releases_of(live.sums, live.cells, step))
            except BaseException:
                self._live = None
                raise
            with contextlib.suppress(StoreError):  # the steps are made; they are published before the next commit
                self._publish(made)
            return made

    def _publish(self, made: Sequence[NamedRelease] = ()) -> None:
        """Write in clear what is closed and not published yet; `made` are the last releases, if they are at hand."""
        files, row = self._files, self._lease.row
        done = named_steps(files.database.rows, row)
        if done >= row.t:
            return
        if not made or made[0].step > done + 1:
            made = self._computed_again(done + 1)
        known = sum(1 for since in self._current().sums.since.tolist() if since <= done)
        for piece in in_pieces(release for release in made if release.step > done):
            with files.database.atomic(durable=False) as connection:
                write_named_releases(connection, self._seals, row, known, piece)
            known = len(piece[-1].names)

    def _computed_again(self, first: int) -> list[NamedRelease]:
        """Return the releases from step `first` on, from what is on the disk."""
        row = self._lease.row
        kept = read_names(self._files.database, self._seals, row)
        if first <= kept.base:
            raise self._files.database.damaged(f"published names of stream {row.name!r} are missing")
        sums = OpenSums.resume(self._settings, self._key, kept.base, kept.texts, kept.sums)
        return [release for release in releases_of(sums, kept.cells, row.t) if release.step >= first]

    # -- reopening ----------------------------------------------------------------------------------------------------

    def _current(self) -> _Live:
        """Return what is in memory, read from the file if it is not there."""
        self._check_open()
        if self._live is None or self._live.sums.t != self._lease.row.t:
            self._live = self._reopened()
        return self._live

    def _limit(self) -> NameLimit:
        """Return what limits people, having met nobody."""
        settings, row = self._settings, self._lease.row
        return NameLimit(
            settings.names_per_person,
            settings.per_name,
            capacity=self.room.pairs,
            key=self._files.seals.people_key(row.tag),
        )

    def _reopened(self) -> _Live:
        files, row = self._files, self._leased_row()
        self._stand_at(row)
        kept = read_names(files.database, self._seals, row)
        done = named_steps(files.database.rows, row)
        if not kept.base <= done <= row.t:
            raise files.database.damaged(f"published names of stream {row.name!r} are missing, or too many")
        longest = max(self._settings.windows, default=0)
        before = [one.values for one in self._released(max(kept.base - longest, 1), kept.base - 1)] if longest else []
        sums = OpenSums.resume(self._settings, self._key, kept.base, kept.texts, kept.sums, before)
        limit = self._limit()
        limit.restore(*kept.pairs)
        live = _Live(kept, sums, limit)
        made = list(releases_of(live.sums, live.cells, row.t))
        self._live = live
        with contextlib.suppress(StoreError):
            self._publish(made)
        return live

    def _released(self, first: int, last: int) -> Iterator[NamedRelease]:
        database = self._files.database
        return read_named_releases(database.rows, self._lease.row, last, str(database.path), self._seals, first)


def _is_among(digest: bytes, known: Sequence[bytes]) -> bool:
    """Return whether this batch is among them; refuse one of the same name with another content."""
    if digest in known:
        return True
    half = len(digest) // 2  # the first half is of the name alone
    if any(one[:half] == digest[:half] for one in known):
        raise BatchConflict
    return False


def _checked_steps(steps: ArrayLike) -> NDArray[np.int64]:
    given = np.asarray(steps)
    allowed = "a list of whole numbers from 1 on, one for each event"
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise InvalidArgument("steps", given.ravel()[:3].tolist() if given.ndim else given.item(), allowed)
    if given.size and int(given.min()) < 1:
        raise InvalidArgument("steps", int(given.min()), allowed)
    return given.astype(np.int64)
