"""Store: counters and sums that survive anything, in one SQLite file with a key and a witness beside it.

The rule: for every stream and step there is at most one released value, ever; every accepted input is counted once;
nothing accepted is lost. docs/store.md has the files, the order of writes, and what can and cannot be known.
"""

from __future__ import annotations

import json
import os
import sqlite3
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Self, TypeVar

from numpy.typing import DTypeLike

from dpstream.arguments import check_whole
from dpstream.budget import Budget
from dpstream.errors import (
    BudgetLimitExceeded,
    InvalidArgument,
    StoreBusy,
)
from dpstream.mechanisms.as_json import mechanism_from_json
from dpstream.mechanisms.base import Mechanism
from dpstream.participation import Participation
from dpstream.release.open_settings import OpenSettings
from dpstream.release.secret_state import SecretState
from dpstream.release.settings import Neighbours, StreamSettings
from dpstream.store.composition import compose, in_words, promise_of
from dpstream.store.durable_names import DurableNames
from dpstream.store.durable_streams import DurableCounter, DurableSum
from dpstream.store.files import check_path
from dpstream.store.lease import Lease, lease, lock
from dpstream.store.leased_stream import LeasedStream
from dpstream.store.ledger import check_open_steps
from dpstream.store.master_key import KeySource
from dpstream.store.names_tables import NamesKept, NamesRoom, make_room_for_names, write_names
from dpstream.store.people import CountedPeople, read_people, write_people
from dpstream.store.process import this_process
from dpstream.store.reading import StoreReader
from dpstream.store.settings import check_name, check_rows_per_person, check_settings, check_source
from dpstream.store.store_files import open_store_files
from dpstream.store.successor import check_not_continued, end_stream, start_successor
from dpstream.store.tables import (
    StreamInfo,
    StreamRow,
    create_stream,
    find_stream,
    limit_as_json,
    read_all_streams,
    read_limit,
    read_stream,
)
from dpstream.store.tokens import Tokens

__all__ = ["Store", "StreamInfo"]

W = TypeVar("W", bound=LeasedStream)


class Store(StoreReader):
    """A file of counters and sums that can be stopped, killed, restarted and copied without harm.

    Parameters
    ----------
    path
        The database. It is created if it is not there, and so are `<path>.key` and `<path>.witness` beside it.
    master_key
        32 bytes, or a function that returns them. None: the environment variable DPSTREAM_MASTER_KEY (64 hexadecimal
        digits) if it is set, or else the key file.
    limit
        A budget that all streams of the store together may not exceed; a new stream that would is refused. It is kept
        in the file: when a store is opened again, it may be left out, and `set_limit` changes it.
    adopt
        Say that this is a copy, or was moved to another disk, and that **the original will never be used again**.

    Guarantee
    ---------
    Each stream keeps its own budget, over all processes that ever write it; `spent` composes them. Assumed: what
    docs/store.md says about disks, keys and copies.

    Examples
    --------
    >>> import tempfile, dpstream as dp
    >>> folder = tempfile.TemporaryDirectory()
    >>> with dp.Store(folder.name + "/counts.db") as store:
    ...     visits = store.counter("visits", horizon=3650, budget=dp.zcdp(rho=0.5))
    ...     first = visits.add(1, position=0)
    >>> with dp.Store(folder.name + "/counts.db") as store:      # another day, another process
    ...     visits = store.counter("visits", horizon=3650, budget=dp.zcdp(rho=0.5))
    ...     again = visits.add(1, position=0)                    # a retry: recorded, not counted again
    ...     visits.t, again == first
    (1, True)
    >>> folder.cleanup()
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        master_key: KeySource = None,
        limit: Budget | None = None,
        adopt: bool = False,
    ) -> None:
        self.path = check_path(path)
        wanted = limit_as_json(limit)
        self._files = open_store_files(self.path, master_key, limit=wanted, adopt=adopt)
        if limit is not None and (kept := self.limit) != limit:
            self._files.close()
            raise InvalidArgument(
                "limit", limit, f"{kept!r}, which this store keeps, or left out; store.set_limit(...) changes it"
            )
        self._writers: weakref.WeakValueDictionary[str, LeasedStream] = weakref.WeakValueDictionary()

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r}, key=<hidden>)"

    def __reduce__(self) -> Any:
        raise TypeError("a Store is bound to this process and cannot be pickled; open the path again")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back every stream and close the files. What was released stays."""
        if self._files.forked:  # where another thread of the parent may have held the lock
            return
        with self._files.lock:
            for writer in list(self._writers.values()):
                writer.close()
            self._files.close()

    # -- the limit ----------------------------------------------------------------------------------------------------

    @property
    def limit(self) -> Budget | None:
        """The budget that all streams of the store together may not exceed; None if there is no limit."""
        with self._files.turn():
            return read_limit(self._files.database, self._files.seals)

    def set_limit(self, limit: Budget | None) -> None:
        """Change the limit that is kept in the file, for all who use the store; None takes it away.

        Raises
        ------
        InvalidArgument
            If the streams that are there exceed it already; nothing changes.
        """
        files, wanted = self._files, limit_as_json(limit)
        with files.turn(), files.database.atomic() as connection:
            read_limit(self._files.database, self._files.seals)  # one that is damaged is not written over
            spent = self._spent()
            if limit is not None and not spent.within(limit):
                raise InvalidArgument(
                    "limit", in_words(limit), f"at least what is promised already: {spent.in_terms_of(limit)}"
                )
            sealed = files.seals.seal_text("limit", wanted)
            connection.execute("UPDATE about SET value = ? WHERE name = 'limit'", (sealed,))

    @property
    def tokens(self) -> Tokens:
        """Who may send events to which streams, over HTTP (`dpstream serve --ingest`)."""
        return Tokens(self._files)

    # -- streams ------------------------------------------------------------------------------------------------------

    def counter(
        self,
        name: str,
        horizon: int | None,
        budget: Budget,
        *,
        shape: int | Sequence[int] = (),
        per_person: int = 1,
        per_step: int | None = None,
        mechanism: Mechanism | str = "auto",
        participation: Participation | None = None,
        neighbours: Neighbours = "add-remove",
        windows: Sequence[int] = (),
        source: str = "",
        rows_per_person: int | None = None,
        people: int = 1_000_000,
        open_steps: int | None = None,
    ) -> DurableCounter:
        """Create or reopen a counter; the settings are those of `dpstream.Counter`.

        Four settings are the store's own.

        Parameters
        ----------
        source
            Any text that says what is counted; must be the same every time.
        rows_per_person
            How many rows of one person are counted at most, in whatever steps and processes. The store keeps who was
            counted (`DurableCounter.contribution_limit`), refuses more, and refuses steps that do not say who is in
            them. None: that nobody is counted more often than promised is the caller's to ensure.
        people
            How many people there is room for with `rows_per_person`: 10 bytes each in the file, filled or not, written
            at every commit. A larger number than before makes more room; a smaller one changes nothing.
        open_steps
            How many steps after the present one rows can be ingested for (`DurableCounter.ingest`). None: what the
            stream was created with; for a new one 400, or fewer if a step has many entries (2^17 entries in all, but
            at least 8 steps).

        Raises
        ------
        ParticipationError
            If `rows_per_person` rows of 1 are more than `per_person` and `participation` promise.
        StoreMismatch
            If the stream exists with another setting.
        StoreBusy
            If it is being written.
        StoreOutdated
            If the file is older than what was released.
        StreamRetired
            If the stream was ended.
        BudgetLimitExceeded
            If it is new and the store's limit has no room for it.
        """
        settings = StreamSettings.for_counter(
            horizon,
            budget,
            shape=shape,
            per_person=per_person,
            per_step=per_step,
            mechanism=self._fitted_before(name, mechanism, windows, participation),
            participation=participation,
            neighbours=neighbours,
            windows=windows,
        )
        return self.open_counter(
            name, settings, source=source, rows_per_person=rows_per_person, people=people, open_steps=open_steps
        )

    def open_counter(
        self,
        name: str,
        settings: StreamSettings,
        *,
        source: str = "",
        rows_per_person: int | None = None,
        people: int = 1_000_000,
        open_steps: int | None = None,
    ) -> DurableCounter:
        """Create or reopen the counter of these settings, which `StreamSettings.for_counter` checked; see `counter`."""
        if not isinstance(settings, StreamSettings) or settings.lane != "exact":
            raise InvalidArgument("settings", settings, "what StreamSettings.for_counter returned")
        own = {
            "source": check_source(source),
            "rows_per_person": check_rows_per_person(rows_per_person, settings),
            "open_steps": check_open_steps(open_steps, settings),
            "continues": None,
        }
        with self._files.turn():
            row = find_stream(self._files.database, self._files.seals, check_name(name))
        if row is not None:  # as it was created
            own["continues"] = row.settings["continues"]
            own["open_steps"] = row.settings["open_steps"] if open_steps is None else own["open_steps"]
        room = None if rows_per_person is None else check_whole("people", people)

        def begin(connection: sqlite3.Connection, row: StreamRow) -> None:
            if row.people is not None:
                write_people(connection, self._files.seals.stream(row.tag), row, CountedPeople.nobody())

        return self._opened(
            name,
            settings.as_json() | own,
            SecretState.start(settings).sums_as_bytes(),
            lambda lease: DurableCounter(self._files, lease, settings),
            room,
            begin=begin,
            grow=lambda connection, row: self._with_room(connection, row, room),
        )

    def open_names(
        self,
        name: str,
        horizon: int,
        budget: Budget,
        *,
        names_per_person: int,
        per_name: int = 1,
        windows: Sequence[int] = (),
        mechanism: Mechanism | str = "auto",
        threshold_share: float = 0.5,
        people_share: float = 0.5,
        declared: Sequence[str] = (),
        source: str = "",
        pairs: int = 1_000_000,
    ) -> DurableNames:
        """Create or reopen running counts by name, of names nobody listed beforehand.

        The settings are those of `dpstream.OpenCounter`, the errors those of `counter`; two are the store's own.

        Parameters
        ----------
        source
            Any text that says what is counted; must be the same every time.
        pairs
            How many pairs of a person and a name there is room for, over all steps, and with it for an eighth as many
            names of 32 bytes on average and half as many counts in open steps: 35 bytes a pair in the file, filled or
            not, written by every ingest. A larger number than before makes more room; a smaller one changes nothing.
        """
        settings = OpenSettings.of(
            horizon,
            budget,
            names_per_person=names_per_person,
            per_name=per_name,
            windows=windows,
            mechanism=self._fitted_before(name, mechanism, windows, None),
            threshold_share=threshold_share,
            people_share=people_share,
            declared=declared,
            name=check_name(name),
        )
        own = {"source": check_source(source), "rows_per_person": None, "open_steps": None, "continues": None}
        room, nothing = NamesRoom.of(pairs), NamesKept.start(settings.declared)
        nothing.check_room(room)

        def grow(connection: sqlite3.Connection, row: StreamRow) -> StreamRow:
            return make_room_for_names(connection, self._files, row, room)

        def begin(connection: sqlite3.Connection, row: StreamRow) -> None:
            write_names(connection, self._files.seals.stream(row.tag), row, nothing)

        return self._opened(
            name,
            settings.as_json() | own,
            nothing.filled.as_bytes(),
            lambda lease: DurableNames(self._files, lease, settings),
            room.pairs,
            begin=begin,
            grow=grow,
        )

    def running_sum(
        self,
        name: str,
        horizon: int | None,
        budget: Budget,
        *,
        shape: int | Sequence[int] = (),
        per_person: float = 1.0,
        per_step: float | None = None,
        dtype: DTypeLike = "float32",
        mechanism: Mechanism | str = "auto",
        participation: Participation | None = None,
        neighbours: Neighbours = "add-remove",
        windows: Sequence[int] = (),
        threads: int | None = None,
    ) -> DurableSum:
        """Create or reopen a running sum; the settings are those of `dpstream.RunningSum`, the errors of `counter`."""
        settings = StreamSettings.for_sum(
            horizon,
            budget,
            shape=shape,
            per_person=per_person,
            per_step=per_step,
            dtype=dtype,
            mechanism=self._fitted_before(name, mechanism, windows, participation),
            participation=participation,
            neighbours=neighbours,
            windows=windows,
        )
        own = {"source": "", "rows_per_person": None, "open_steps": None, "continues": None}
        nothing = SecretState.start(settings).sums_as_bytes()
        return self._opened(
            name, settings.as_json() | own, nothing, lambda lease: DurableSum(self._files, lease, settings, threads)
        )

    def _opened(
        self,
        name: str,
        settings: dict[str, Any],
        nothing: bytes,
        make: Callable[[Lease], W],
        people: int | None = None,
        *,
        begin: Callable[[sqlite3.Connection, StreamRow], None] = lambda _, __: None,
        grow: Callable[[sqlite3.Connection, StreamRow], StreamRow] = lambda _, row: row,
    ) -> W:
        """Take a stream for writing; `begin` writes the tables of a new one, `grow` makes room in one that is there."""
        name = check_name(name)
        files = self._files

        def open_row(connection: sqlite3.Connection) -> StreamRow:
            row = find_stream(files.database, files.seals, name)
            if row is not None:
                if row.retired:
                    check_not_continued(files, name)
                check_settings(name, row.settings, settings, str(self.path))
                return grow(connection, row)
            self._check_limit(name, settings)
            configuration = json.dumps(settings, sort_keys=True)
            row = create_stream(connection, files.seals, name, configuration, nothing, people)
            begin(connection, row)
            return row

        with files.turn():
            self._check_not_ours(name)
            taken = lease(files.database, files.witness, files.seals, open_row)
            try:
                writer = make(taken)
            except BaseException:
                files.witness.unlock(taken.slot)
                raise
            self._writers[name] = writer
            return writer

    def _with_room(self, connection: sqlite3.Connection, row: StreamRow, people: int | None) -> StreamRow:
        """Inside a transaction: make room for this many people, if there is less."""
        if people is None or row.people is None or people <= row.people:
            return row
        database, seals = self._files.database, self._files.seals.stream(row.tag)
        counted = read_people(database, seals, row)
        grown = replace(row, people=people)
        grown = replace(grown, sealed=seals.seal_sums(row.sums(seals, database), grown.place))
        connection.execute("UPDATE streams SET people = ?, sealed = ? WHERE id = ?", (people, grown.sealed, row.id))
        write_people(connection, seals, grown, counted)
        return grown

    def retire(self, name: str) -> None:
        """End a stream for good, also one that may not go on because its file is old. Its releases stay."""
        name = check_name(name)
        files = self._files
        with files.turn():
            self._check_not_ours(name)
            slot = None
            try:
                with files.database.atomic() as connection:
                    row = read_stream(files.database, files.seals, name)
                    slot, record = lock(files.witness, files.seals, row, even_if_old=True)
                    ended = end_stream(connection, files, row, record)
                files.witness.write(slot, ended)
            finally:
                if slot is not None:
                    files.witness.unlock(slot)

    def start_successor(
        self,
        name: str,
        horizon: int | None,
        budget: Budget | None = None,
        *,
        new_name: str | None = None,
        source: str | None = None,
        mechanism: Mechanism | str = "auto",
    ) -> StreamInfo:
        """End a counter and create one that goes on with it, under a budget of its own.

        The total that was released last is carried over: it is public, and is added to the successor's releases by
        whoever reads the series (`series`, `series_values`). Everything else is as in the stream that it goes on with,
        and who was counted is counted anew. The two together promise what `spent` says.

        Parameters
        ----------
        name
            The stream to end; it may be retired already.
        horizon, budget, mechanism
            The successor's; budget None: as large as before.
        new_name
            What the successor is called; None: the name and a number, visits-2.
        source
            What it counts; None: as before.

        Raises
        ------
        StreamUnknown, StreamContinued, StoreBusy, StoreOutdated
            If there is no such stream, if it has a successor already, is being written, or is not the newest.
        StepsNotReleased
            If it holds rows that are not released.
        BudgetLimitExceeded
            If the store's limit has no room for another stream.
        InvalidArgument
            If it is a running sum, or `new_name` is taken. Whatever is raised, nothing changes.
        """
        before = self.settings(name)
        if before.lane != "exact":
            raise InvalidArgument("name", name, "that of a counter: a running sum cannot be carried on")
        most = before.windows[-1:] if horizon is None else (horizon,)
        settings = StreamSettings.for_counter(
            horizon,
            before.budget if budget is None else budget,
            shape=before.shape,
            per_person=int(before.per_person),
            per_step=None if before.per_step is None else int(before.per_step),
            mechanism=mechanism,
            participation=before.participation,
            neighbours=before.neighbours,
            windows=sorted({min(window, *most) for window in before.windows}) if before.windows else (),
        )
        with self._files.turn():
            self._check_not_ours(name)
            made = start_successor(
                self._files,
                name,
                settings,
                new_name=new_name,
                source=None if source is None else check_source(source),
                check_limit=self._check_limit,
            )
        return next(info for info in self.streams() if info.name == made)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _fitted_before(
        self, name: str, mechanism: Mechanism | str, windows: Sequence[int], participation: Participation | None
    ) -> Mechanism | str:
        """Return what was fitted when the stream was created: another fit takes time, its last digits may differ."""
        if mechanism != "auto" or not (windows or participation):
            return mechanism
        with self._files.turn():
            row = find_stream(self._files.database, self._files.seals, check_name(name))
        try:
            return mechanism if row is None else mechanism_from_json(row.settings["mechanism"])
        except InvalidArgument:  # one of the caller's own
            return mechanism

    def _check_not_ours(self, name: str) -> None:
        """Locks keep other objects out, but not two writers of one."""
        writer = self._writers.get(name)
        if writer is not None and writer.is_open:
            process = this_process()
            raise StoreBusy(name=name, pid=process.pid, started=process.started)

    def _check_limit(self, name: str, settings: dict[str, Any]) -> None:
        limit = read_limit(self._files.database, self._files.seals)
        if limit is None:
            return
        present = [
            promise_of(row.settings, str(self.path))
            for row in read_all_streams(self._files.database, self._files.seals)
        ]
        total = compose([*present, promise_of(settings, str(self.path))])
        if not total.within(limit):
            raise BudgetLimitExceeded(
                name=name,
                total=total.in_terms_of(limit),
                limit=in_words(limit),
                spent=compose(present).in_terms_of(limit),
            )
