"""A stream's row in the database: read, checked, created, leased, moved on.

Every column that decides what is released is under a seal, so an edited row is told from a true one here, once.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from dpstream.errors import LeaseLost, StoreBusy, StoreOutdated, StreamRetired
from dpstream.store.database import Database
from dpstream.store.process import this_process
from dpstream.store.sealing import Seals, StoreSeals
from dpstream.store.witness import Record, Witness

__all__ = ["Lease", "StreamRow", "create", "lease", "read", "read_all"]

_COLUMNS = (
    "id, name, tag, configuration, seal, generation, t, first_position, retired, people, sealed, holder_pid,"
    " holder_started"
)
_TYPES: tuple[type | tuple[type, ...], ...] = (
    int, str, bytes, str, bytes, int, int, (int, type(None)), int, (int, type(None)), bytes,
    (int, type(None)), (str, type(None)),
)  # fmt: skip


@dataclass(frozen=True)
class StreamRow:
    """One stream as the database has it, its seals checked."""

    id: int
    name: str
    tag: bytes
    configuration: str
    seal: bytes
    generation: int
    t: int
    first_position: int | None
    retired: int
    people: int | None
    sealed: bytes
    holder_pid: int | None
    holder_started: str | None

    @property
    def place(self) -> tuple[int | None, ...]:
        """What the sealed sums are bound to."""
        return (self.t, self.first_position, self.retired, self.people)

    @property
    def settings(self) -> dict[str, Any]:
        """The configuration."""
        return dict(json.loads(self.configuration))

    def sums(self, seals: Seals, database: Database) -> bytes:
        """The true sums, decrypted."""
        opened = seals.open_sums(self.sealed, self.place)
        if opened is None:
            raise database.damaged(f"the sums of stream {self.name!r} at step {self.t} are not as they were sealed")
        return opened


def read(database: Database, seals: StoreSeals, name: str) -> StreamRow | None:
    """The row of a stream, or None."""
    rows = database.rows(f"SELECT {_COLUMNS} FROM streams WHERE name = ?", (name,))  # noqa: S608
    return _checked(rows[0], database, seals) if rows else None


def read_all(database: Database, seals: StoreSeals) -> list[StreamRow]:
    """Every stream, oldest first."""
    found = database.rows(f"SELECT {_COLUMNS} FROM streams ORDER BY id")  # noqa: S608
    return [_checked(row, database, seals) for row in found]


def _checked(row: tuple[Any, ...], database: Database, seals: StoreSeals) -> StreamRow:
    if any(not isinstance(value, kind) for value, kind in zip(row, _TYPES, strict=True)):
        raise database.damaged("a row of the table of streams has values of the wrong kind")
    made = StreamRow(*row)
    try:
        expected = seals.stream_seal(made.name, made.tag, made.configuration)
    except UnicodeEncodeError:
        expected = b""
    if made.seal != expected:
        raise database.damaged("the settings of a stream are not as they were sealed")
    # Opening the sums checks t, first_position and retired.
    made.sums(seals.stream(made.tag), database)
    return made


def create(
    connection: sqlite3.Connection,
    seals: StoreSeals,
    name: str,
    configuration: str,
    nothing: bytes,
    people: int | None = None,
) -> StreamRow:
    """Inside a transaction: a new stream with a tag of its own, before its first step, whose sums are `nothing`."""
    tag = os.urandom(16)
    seal = seals.stream_seal(name, tag, configuration)
    sealed = seals.stream(tag).seal_sums(nothing, (0, None, 0, people))
    added = connection.execute(
        "INSERT INTO streams (name, tag, configuration, seal, generation, t, retired, people, sealed)"
        " VALUES (?, ?, ?, ?, 0, 0, 0, ?, ?)",
        (name, tag, configuration, seal, people, sealed),
    )
    assert added.lastrowid is not None  # noqa: S101
    return StreamRow(added.lastrowid, name, tag, configuration, seal, 0, 0, None, 0, people, sealed, None, None)


# -- leases -----------------------------------------------------------------------------------------------------------


@dataclass
class Lease:
    """The right to write one stream, from `lease` until `release`."""

    row: StreamRow
    slot: int
    record: Record

    def move(self, connection: sqlite3.Connection, t: int, first_position: int | None, sealed: bytes) -> None:
        """Inside a transaction: the stream stands at step t. Refused unless it stood where this lease left it."""
        row = self.row
        changed = connection.execute(
            "UPDATE streams SET t = ?, first_position = ?, sealed = ?"
            " WHERE id = ? AND tag = ? AND generation = ? AND t = ? AND retired = 0",
            (t, first_position, sealed, row.id, row.tag, row.generation, row.t),
        )
        if changed.rowcount != 1:
            raise LeaseLost(name=row.name)


def lock(witness: Witness, seals: StoreSeals, row: StreamRow, *, even_if_old: bool = False) -> tuple[int, Record]:
    """Inside a transaction: the stream's slot in the witness, locked for this writer, and what stands in it."""
    found = witness.find(seals.name_digest(row.name))
    if found is None:
        if row.generation > 0 and not even_if_old:
            raise StoreOutdated(
                name=row.name, found=f"was opened {row.generation} times", known="its witness has never heard of it"
            )
        record = Record(seals.name_digest(row.name), row.tag, 0, 0)
        found = witness.add(record), record
    slot = found[0]
    if not witness.try_lock(slot):
        raise StoreBusy(name=row.name, pid=row.holder_pid, started=row.holder_started)
    try:
        return slot, witness.read(slot)  # again, now that nobody else writes it
    except BaseException:
        witness.unlock(slot)
        raise


def check_age(row: StreamRow, record: Record) -> None:
    """Refuse a database that knows less than its witness.

    The database is written first. So after a crash in between it may be one generation, or any number of steps, ahead.
    """
    if row.retired or record.retired:
        raise StreamRetired(name=row.name)
    if record.generation == 0 and row.generation <= 1 and row.t == 0:
        return  # nothing was ever released
    if row.tag != record.tag:
        raise StoreOutdated(
            name=row.name, found="is not the one its witness knows", known="another one of this name was opened before"
        )
    if not record.generation <= row.generation <= record.generation + 1:
        raise StoreOutdated(
            name=row.name,
            found=f"was opened {row.generation} times",
            known=f"its witness counted {record.generation}",
        )
    if row.t < record.last:
        raise StoreOutdated(
            name=row.name, found=f"stands at step {row.t}", known=f"step {record.last} was released before"
        )


def lease(
    database: Database, witness: Witness, seals: StoreSeals, open_row: Callable[[sqlite3.Connection], StreamRow]
) -> Lease:
    """Take a stream for writing: one writer at a time, and never from an old file.

    `open_row` finds or creates the stream's row inside the transaction, so that a refusal leaves no trace of it.
    """
    taken: tuple[int, Record] | None = None
    try:
        with database.atomic() as connection:
            row = open_row(connection)
            taken = lock(witness, seals, row)
            check_age(row, taken[1])
            process = this_process()
            # One more than the witness has, not than the database: opens that crash before they reach the witness,
            # however many in a row, leave the two no more than one apart.
            row = replace(
                row,
                generation=taken[1].generation + 1,
                holder_pid=process.pid,
                holder_started=process.started,
            )
            connection.execute(
                "UPDATE streams SET generation = ?, holder_pid = ?, holder_started = ? WHERE id = ?",
                (row.generation, row.holder_pid, row.holder_started, row.id),
            )
        slot, _ = taken
        record = Record(seals.name_digest(row.name), row.tag, row.generation, row.t)
        witness.write(slot, record)
        return Lease(row, slot, record)
    except BaseException:
        if taken is not None:
            witness.unlock(taken[0])
        raise
