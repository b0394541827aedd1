"""The ledger: rows that were counted in steps which are not released yet, sealed, in one table of a public size.

Ingesting adds tallies to open steps; releasing closes steps in order and takes their tallies from here, in the commit
that stores their releases. What the file shows of that without the key may not depend on the data. So the ledger has a
place for every step from the first open one to a last one that follows from what the operator said (`open_steps`, and
the `through` of each ingest), filled or not, and each ingest writes all of it anew.

A step is `cells + 1` numbers: its tallies, and how many rows it had. Steps are cut into parts whose limits depend on
the shape only; a part is sealed to (number of ingests, its first step, its last step), and the stream's row, which is
sealed as well, says what these must be. So a part cannot be moved, nor be taken from an older file.

Which batches were ingested is remembered beside it (`batch_memory`), so that a file that is given again adds nothing.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpstream.arguments import check_whole
from dpstream.errors import HorizonExceeded, InputOutOfBound, InvalidArgument, StepClosed, StepTooFar
from dpstream.release.integer_inputs import check_integer_rows, check_numbers
from dpstream.release.settings import StreamSettings
from dpstream.store.batch_memory import read_memory
from dpstream.store.database import Database
from dpstream.store.sealing import Seals
from dpstream.store.tables import StreamRow

__all__ = [
    "Ingested",
    "OpenSteps",
    "add_tallies",
    "check_ledger",
    "check_open_steps",
    "check_tallies",
    "close_steps",
    "grown_row",
    "read_open_steps",
    "read_table",
    "write_ledger",
]

#: Numbers in one sealed part: 256 kB.
PART_VALUES = 1 << 15
#: The most numbers in all open steps together: half a gigabyte.
MOST_VALUES = 1 << 26


class OpenSteps(NamedTuple):
    """**Secret**: what was ingested for consecutive open steps; tallies of shape (steps, *shape), rows of (steps,)."""

    tallies: NDArray[np.int64]
    rows: NDArray[np.int64]


@dataclass(frozen=True)
class Ingested:
    """What `DurableCounter.ingest` did.

    Attributes
    ----------
    new
        Whether the rows were added; False if this batch was ingested before, and nothing was added now.
    first_open, last_open
        The steps that are open now.
    """

    new: bool
    first_open: int
    last_open: int


# -- checks -----------------------------------------------------------------------------------------------------------


def check_open_steps(open_steps: object, settings: StreamSettings) -> int:
    """Return how many steps after the present one can be ingested into; None means what fits the shape."""
    if open_steps is None:
        return min(400, max(8, (1 << 17) // math.prod(settings.shape)))
    checked = check_whole("open_steps", open_steps, least=0)
    most = MOST_VALUES // (math.prod(settings.shape) + 1)
    if checked > most:
        raise InvalidArgument("open_steps", checked, f"at most {most:,} for this shape")
    return checked


def grown_row(row: StreamRow, settings: StreamSettings, through: object) -> StreamRow:
    """Return the stream's row as it is after one more ingest, with room up to `through` and what was declared."""
    present = max(check_whole("through", through, least=0), row.t)
    last = max(row.open_last, min(settings.last, present + row.settings["open_steps"]))
    width = math.prod(settings.shape) + 1
    if (last - row.t) * width > MOST_VALUES:
        most = row.t + MOST_VALUES // width - row.settings["open_steps"]
        raise InvalidArgument("through", through, f"at most {most:,}: release earlier steps first")
    return replace(row, ingests=row.ingests + 1, open_last=last)


def check_tallies(
    row: StreamRow, settings: StreamSettings, first: object, tallies: ArrayLike, rows: ArrayLike | None
) -> tuple[int, NDArray[np.int64]]:
    """Return the first step and what is to be added to it and the following: tallies, and numbers of rows.

    Raises
    ------
    StepClosed, StepTooFar, HorizonExceeded
        If one of the steps is not open.
    """
    step = check_whole("first", first)
    given = check_integer_rows(tallies, settings.shape)
    check_numbers(given, -(2**62), 2**62, "every entry")
    last = step + len(given) - 1
    if len(given) and step <= row.t:
        raise StepClosed(step=step, first_open=row.t + 1)
    if len(given) and last > settings.last:
        raise HorizonExceeded(horizon=settings.last, step=last)
    if len(given) and last > row.open_last:
        raise StepTooFar(step=last, last_open=row.open_last, open_steps=row.settings["open_steps"])
    flat = given.reshape(len(given), math.prod(settings.shape)).astype(np.int64, copy=False)
    if rows is None:
        counts = (flat != 0).any(axis=1).astype(np.int64)
    else:
        counts = check_integer_rows(rows, ()).astype(np.int64, copy=False)
        check_numbers(counts, 0, 2**53, "every number of rows")
        if len(counts) != len(given):
            raise InvalidArgument("rows", f"{len(counts):,} numbers", f"one for each of the {len(given):,} steps")
    return step, np.column_stack([flat, counts])


def add_tallies(table: NDArray[np.int64], first: int, more: NDArray[np.int64], settings: StreamSettings) -> None:
    """Add to the steps of `table`, whose first is step `first` of it; refuse what a step may not hold.

    Raises
    ------
    InputOutOfBound
        If a step would add up to more than it may.
    """
    before = table[first : first + len(more)]
    total = before + more  # sums that do not fit wrap, and are found by their sign
    if (((before ^ total) & (more ^ total)) < 0).any():
        least, most = settings.input_range
        raise InputOutOfBound(given=None, least=least, most=most, what="every entry of a step's total")
    try:
        settings.check_rows(total[:, :-1].reshape(len(total), *settings.shape))
    except InputOutOfBound as error:
        raise error.without_number() from None
    table[first : first + len(more)] = total


# -- in the database --------------------------------------------------------------------------------------------------


def _parts(row: StreamRow) -> Iterator[tuple[int, int, int]]:
    """Yield the parts of a stream's open steps: number, first step, last step."""
    size = max(1, PART_VALUES // _width(row))
    if row.ingests and row.t < row.open_last:
        for part in range(row.t // size, -(-row.open_last // size)):
            yield part, max(row.t, part * size) + 1, min(row.open_last, (part + 1) * size)


def _width(row: StreamRow) -> int:
    return int(math.prod(row.settings["shape"])) + 1


def _missing(database: Database, row: StreamRow) -> Exception:
    return database.damaged(f"what was ingested for the open steps of stream {row.name!r} is missing or changed")


def read_table(
    database: Database, seals: Seals, row: StreamRow, first: int | None = None, last: int | None = None
) -> NDArray[np.int64]:
    """Read the open steps from `first` to `last`, all by default, one row each; steps that have no place are zeros."""
    first, last = row.t + 1 if first is None else first, max(row.t, row.open_last) if last is None else last
    width = _width(row)
    table = np.zeros((max(0, last - first + 1), width), dtype=np.int64)
    for part, low, high in _parts(row):
        if high < first or low > last:
            continue
        found = database.rows("SELECT sealed FROM open_steps WHERE stream = ? AND part = ?", (row.id, part))
        sealed = found[0][0] if found else None
        opened = seals.open_steps(sealed, (row.ingests, low, high)) if isinstance(sealed, bytes) else None
        if opened is None or len(opened) != 8 * width * (high - low + 1):
            raise _missing(database, row)
        content = np.frombuffer(opened, "<i8").reshape(-1, width)
        start, end = max(first, low), min(last, high)
        table[start - first : end + 1 - first] = content[start - low : end + 1 - low]
    return table


def read_open_steps(
    database: Database, seals: Seals, row: StreamRow, first: int | None = None, last: int | None = None
) -> OpenSteps:
    """Read what was ingested for the open steps from `first` to `last`, all by default.

    Raises
    ------
    StoreDamaged
        If a part is missing, or is not as it was sealed.
    """
    table = read_table(database, seals, row, first, last)
    tallies = np.ascontiguousarray(table[:, :-1]).reshape(len(table), *row.settings["shape"])
    return OpenSteps(tallies, table[:, -1].copy())


def write_ledger(connection: sqlite3.Connection, seals: Seals, row: StreamRow, table: NDArray[np.int64]) -> None:
    """Inside a transaction: write all open steps of `row`."""
    connection.executemany(
        "INSERT INTO open_steps VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET sealed = ?3",
        (
            (row.id, part, _seal(seals, row, low, high, table[low - row.t - 1 : high - row.t]))
            for part, low, high in _parts(row)
        ),
    )


def close_steps(
    database: Database, connection: sqlite3.Connection, seals: Seals, before: StreamRow, after: StreamRow
) -> None:
    """Inside a transaction: remove the steps that are open in `before` and closed in `after`."""
    left = {part: (low, high) for part, low, high in _parts(after)}
    for part, low, _ in _parts(before):
        if part not in left:
            connection.execute("DELETE FROM open_steps WHERE stream = ? AND part = ?", (before.id, part))
        elif left[part][0] != low:
            kept = read_table(database, seals, before, *left[part])
            sealed = _seal(seals, after, *left[part], kept)
            connection.execute(
                "UPDATE open_steps SET sealed = ? WHERE stream = ? AND part = ?", (sealed, before.id, part)
            )


def _seal(seals: Seals, row: StreamRow, low: int, high: int, table: NDArray[np.int64]) -> bytes:
    return seals.seal_steps(table.astype("<i8").tobytes(), (row.ingests, low, high))


def check_ledger(database: Database, seals: Seals, row: StreamRow) -> OpenSteps:
    """Read everything that the ledger has of a stream, and return the open steps.

    Raises
    ------
    StoreDamaged
        If anything is missing, not as it was sealed, or too much.
    """
    (there,) = database.rows("SELECT count(*) FROM open_steps WHERE stream = ?", (row.id,))[0]
    if there != sum(1 for _ in _parts(row)):
        raise _missing(database, row)
    read_memory(database, seals, row)
    return read_open_steps(database, seals, row)
