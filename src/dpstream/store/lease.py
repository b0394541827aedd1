"""Leases: one writer a stream at a time, and never from an old file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, replace

from dpstream.errors import LeaseLost, StoreBusy, StoreOutdated, StreamRetired
from dpstream.store.database import Database
from dpstream.store.process import this_process
from dpstream.store.sealing import StoreSeals
from dpstream.store.tables import StreamRow
from dpstream.store.witness import Record, Witness

__all__ = ["Lease", "lease", "lock"]


@dataclass
class Lease:
    """The right to write one stream: taken by `lease`, given back by `Witness.unlock`."""

    row: StreamRow
    slot: int
    record: Record

    def move(self, connection: sqlite3.Connection, moved: StreamRow) -> None:
        """Inside a transaction: the stream stands as `moved` says. Refused unless it stood where this lease left it."""
        row = self.row
        changed = connection.execute(
            "UPDATE streams SET t = ?, first_position = ?, ingests = ?, open_last = ?, sealed = ?"
            " WHERE id = ? AND tag = ? AND generation = ? AND t = ? AND ingests = ? AND retired = 0",
            (
                *(moved.t, moved.first_position, moved.ingests, moved.open_last, moved.sealed),
                *(row.id, row.tag, row.generation, row.t, row.ingests),
            ),
        )
        if changed.rowcount != 1:
            raise LeaseLost(name=row.name)


def lock(witness: Witness, seals: StoreSeals, row: StreamRow, *, even_if_old: bool = False) -> tuple[int, Record]:
    """Inside a transaction: the stream's slot in the witness, locked for this writer, and what stands in it."""
    found = witness.find(seals.name_digest(row.name))
    if found is None:
        if row.generation > 0 and not even_if_old:
            raise StoreOutdated(
                name=row.name,
                found=f"is at opening {row.generation:,}",
                known="its witness has never heard of it",
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
    if record.generation == 0 and row.generation <= 1 and row.t == 0 and row.ingests == 0:
        return  # nothing was ever released or ingested
    if row.tag != record.tag:
        raise StoreOutdated(
            name=row.name, found="is not the one its witness knows", known="another one of this name was opened before"
        )
    if not record.generation <= row.generation <= record.generation + 1:
        raise StoreOutdated(
            name=row.name,
            found=f"is at opening {row.generation:,}",
            known=f"its witness counted {record.generation}",
        )
    if row.t < record.last:
        raise StoreOutdated(
            name=row.name, found=f"stands at step {row.t}", known=f"step {record.last} was released before"
        )
    if row.ingests < record.ingests:
        raise StoreOutdated(
            name=row.name,
            found=f"took rows {row.ingests} times",
            known=f"rows were ingested {record.ingests} times before",
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
        record = Record(seals.name_digest(row.name), row.tag, row.generation, row.t, ingests=row.ingests)
        witness.write(slot, record)
        return Lease(row, slot, record)
    except BaseException:
        if taken is not None:
            witness.unlock(taken[0])
        raise
