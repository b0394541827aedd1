"""What a stream of names keeps, sealed, in tables of a declared size: texts, sums, pairs, open cells, batches.

What the file shows without the key may not depend on names that are not published. So every table has room for as much
as was declared when the stream was created, filled or not, and every ingest writes all of them anew; a release writes
none of them. How full they are stands in the stream's row, sealed.

* texts: the names that were ever brought, in the order in which they were met, declared ones first;
* sums: of each name its true count and number of people after step `base`, and the step in which it was published;
* pairs: which person brought which name, each as 64 bits under a key of the stream's own, and how often;
* cells: what was ingested for each step after `base` and name;
* batches: keyed digests of what was ingested, so that a file that is given again adds nothing.

Steps up to `base` were published when the tables were written. Those from there to the stream's last one are closed,
and their releases follow from the sums and the cells: a release moves the stream's last step and nothing else.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstream.arguments import check_whole
from dpstream.errors import InvalidArgument, TooManyNames
from dpstream.release.open_sums import NameSums, OpenSums
from dpstream.release.step_of_names import StepOfNames
from dpstream.store.database import Database
from dpstream.store.published_names import NamedRelease
from dpstream.store.sealing import BATCH_BYTES, Seals
from dpstream.store.store_files import StoreFiles
from dpstream.store.tables import StreamRow

__all__ = [
    "BATCHES_KEPT",
    "Cells",
    "Filled",
    "NamesKept",
    "NamesRoom",
    "Pairs",
    "make_room_for_names",
    "read_names",
    "releases_of",
    "write_names",
]

#: Bytes of one sealed part.
PART_BYTES = 1 << 20
#: So many batches are recognised when they come again.
BATCHES_KEPT = 4096
#: Room for the texts of names, in bytes for each name that there is room for.
TEXT_BYTES = 32
#: The most pairs: half a terabyte of names would be no store of this kind.
MOST_PAIRS = 1 << 28

Numbers = NDArray[np.int64]


class NamesRoom(NamedTuple):
    """How much there is room for: pairs of a person and a name as declared, and of the rest what follows from it."""

    pairs: int

    @classmethod
    def of(cls, pairs: object) -> NamesRoom:
        """Return the room for so many pairs; refuse what is no number of them."""
        checked = check_whole("pairs", pairs)
        if checked > MOST_PAIRS:
            raise InvalidArgument("pairs", checked, f"at most {MOST_PAIRS:,}")
        return cls(checked)

    @property
    def names(self) -> int:
        """How many names: one for eight pairs, but no fewer than 256."""
        return max(self.pairs // 8, 256)

    @property
    def text_bytes(self) -> int:
        """How many bytes the texts of all names may have together."""
        return TEXT_BYTES * self.names

    @property
    def cells(self) -> int:
        """How many pairs of an open step and a name: one for two pairs, but no fewer than 1,024."""
        return max(self.pairs // 2, 1024)


class Filled(NamedTuple):
    """How full the tables are, up to which step the sums go, and how many events were dropped so far."""

    names: int
    pairs: int
    cells: int
    batches: int
    base: int
    dropped: int

    def as_bytes(self) -> bytes:
        """Return what is sealed in the stream's row."""
        return struct.pack("<6Q", *self)

    @classmethod
    def from_bytes(cls, kept: bytes) -> Filled:
        """Undo `as_bytes`."""
        return cls(*struct.unpack("<6Q", kept))


class Pairs(NamedTuple):
    """Which person brought which name, by their 64 bits, and how many events of each pair count."""

    people: NDArray[np.uint64]
    names: NDArray[np.uint64]
    events: Numbers


@dataclass(frozen=True)
class Cells:
    """What was ingested for steps and names (by their rows), each pair once, in order; and how many people are new."""

    steps: Numbers
    rows: Numbers
    counts: Numbers
    people: Numbers

    def __len__(self) -> int:
        return len(self.steps)

    @classmethod
    def none(cls) -> Cells:
        """Return no cells."""
        nothing = np.zeros(0, dtype=np.int64)
        return cls(nothing, nothing, nothing, nothing)

    def plus(self, more: Cells) -> Cells:
        """Return these cells with others added."""
        place = np.concatenate([self.steps << 32 | self.rows, more.steps << 32 | more.rows])
        found, at = np.unique(place, return_inverse=True)
        counts, people = np.zeros(len(found), dtype=np.int64), np.zeros(len(found), dtype=np.int64)
        np.add.at(counts, at, np.concatenate([self.counts, more.counts]))
        np.add.at(people, at, np.concatenate([self.people, more.people]))
        return Cells(found >> 32, found & 0xFFFFFFFF, counts, people)

    def of(self, first: int, last: int) -> Cells:
        """Return the cells of the steps from `first` to `last`."""
        low, high = np.searchsorted(self.steps, [first, last + 1])
        return Cells(self.steps[low:high], self.rows[low:high], self.counts[low:high], self.people[low:high])


@dataclass(frozen=True)
class NamesKept:
    """**Secret**: everything that a stream of names keeps."""

    texts: tuple[str, ...]
    sums: NameSums
    pairs: Pairs
    cells: Cells
    batches: tuple[bytes, ...]
    base: int = 0
    dropped: int = 0

    @classmethod
    def start(cls, declared: Sequence[str]) -> NamesKept:
        """Return what a stream keeps before its first step."""
        zeros, nobody = np.zeros(len(declared), dtype=np.int64), np.zeros(0, dtype=np.uint64)
        sums = NameSums(zeros, zeros, zeros)
        return cls(tuple(declared), sums, Pairs(nobody, nobody, zeros[:0]), Cells.none(), ())

    @property
    def filled(self) -> Filled:
        """How full the tables are."""
        return Filled(
            len(self.texts), len(self.pairs.people), len(self.cells), len(self.batches), self.base, self.dropped
        )

    def check_room(self, room: NamesRoom) -> None:
        """Refuse what does not fit.

        Raises
        ------
        TooManyNames
            If there are too many names, their texts are too long, or too much waits in open steps.
        """
        for what, needed, there in (
            ("names", len(self.texts), room.names),
            ("bytes of names", sum(len(text.encode()) for text in self.texts), room.text_bytes),
            ("counts that wait in open steps", len(self.cells), room.cells),
        ):
            if needed > there:
                raise TooManyNames(what=what, room=there, pairs=room.pairs)


# -- in the database --------------------------------------------------------------------------------------------------


def _tables(room: NamesRoom) -> dict[str, tuple[tuple[str, int], ...]]:
    """The tables by name: of which columns (NumPy's spelling), each with how many entries."""
    return {
        "texts": (("<u2", room.names), ("u1", room.text_bytes)),
        "sums": (("<i8", room.names), ("<i8", room.names), ("<i4", room.names)),
        "pairs": (("<u8", room.pairs), ("<u8", room.pairs), ("<u2", room.pairs)),
        "cells": (("<u4", room.cells), ("<u4", room.cells), ("<i8", room.cells), ("<u4", room.cells)),
        "batches": (("u1", BATCHES_KEPT * BATCH_BYTES),),
    }


def write_names(connection: sqlite3.Connection, seals: Seals, row: StreamRow, kept: NamesKept) -> None:
    """Inside a transaction: write all tables of a stream that stands as `row` says."""
    room = _room(row)
    encoded = [text.encode() for text in kept.texts]
    columns: dict[str, tuple[Any, ...]] = {
        "texts": ([len(text) for text in encoded], np.frombuffer(b"".join(encoded), np.uint8)),
        "sums": kept.sums,
        "pairs": kept.pairs,
        "cells": (kept.cells.steps, kept.cells.rows, kept.cells.counts, kept.cells.people),
        "batches": (np.frombuffer(b"".join(kept.batches), np.uint8),),
    }
    for number, (table, layout) in enumerate(_tables(room).items()):
        content = b""
        for (dtype, size), values in zip(layout, columns[table], strict=True):
            padded = np.zeros(size, dtype)
            padded[: len(values)] = values
            content += padded.tobytes()
        connection.executemany(
            "INSERT INTO names VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO UPDATE SET sealed = ?4",
            (
                (row.id, table, part, seals.seal_names(content[at : at + PART_BYTES], _place(row, number, part)))
                for part, at in enumerate(range(0, len(content), PART_BYTES))
            ),
        )


def read_names(database: Database, seals: Seals, row: StreamRow) -> NamesKept:
    """Read everything that a stream of names keeps.

    Raises
    ------
    StoreDamaged
        If anything is missing, not as it was sealed, or too much.
    """
    missing = database.damaged(f"the names of stream {row.name!r} are missing or changed")
    try:
        filled = Filled.from_bytes(row.sums(seals, database))
    except struct.error:
        raise missing from None
    tables: dict[str, list[NDArray[Any]]] = {}
    counts = {
        "texts": (filled.names, None),
        "sums": (filled.names,) * 3,
        "pairs": (filled.pairs,) * 3,
        "cells": (filled.cells,) * 4,
        "batches": (filled.batches * BATCH_BYTES,),
    }
    parts = 0
    for number, (table, layout) in enumerate(_tables(_room(row)).items()):
        found = database.rows("SELECT sealed FROM names WHERE stream = ? AND kind = ? ORDER BY part", (row.id, table))
        opened = [
            seals.open_names(sealed, _place(row, number, part)) if isinstance(sealed, bytes) else None
            for part, (sealed,) in enumerate(found)
        ]
        content = b"".join(part for part in opened if part is not None)
        sizes = [np.dtype(dtype).itemsize * size for dtype, size in layout]
        if None in opened or len(content) != sum(sizes):
            raise missing
        parts += len(found)
        tables[table], at = [], 0
        for (dtype, size), length, used in zip(layout, sizes, counts[table], strict=True):
            tables[table].append(np.frombuffer(content, dtype, size, offset=at)[:used])
            at += length
    (there,) = database.rows("SELECT count(*) FROM names WHERE stream = ?", (row.id,))[0]
    if there != parts:
        raise missing
    ends = np.cumsum(tables["texts"][0], dtype=np.int64).tolist()
    texts = tables["texts"][1].tobytes()
    batches = tables["batches"][0].tobytes()
    try:
        return NamesKept(
            tuple(texts[low:high].decode() for low, high in zip([0, *ends], ends, strict=False)),
            NameSums(*(column.astype(np.int64) for column in tables["sums"])),
            Pairs(tables["pairs"][0], tables["pairs"][1], tables["pairs"][2].astype(np.int64)),
            Cells(*(column.astype(np.int64) for column in tables["cells"])),
            tuple(batches[at : at + BATCH_BYTES] for at in range(0, len(batches), BATCH_BYTES)),
            filled.base,
            filled.dropped,
        )
    except UnicodeDecodeError:
        raise missing from None


def releases_of(sums: OpenSums, cells: Cells, through: int) -> Iterator[NamedRelease]:
    """Add the cells of the steps up to `through` to the sums, and yield what is released in each."""
    while sums.t < through:
        here = cells.of(sums.t + 1, sums.t + 1)
        counts, people = (StepOfNames(here.rows, values, {}) for values in (here.counts, here.people))
        sums.release(counts, people)
        yield NamedRelease(sums.t, sums.names, sums.released)


def make_room_for_names(
    connection: sqlite3.Connection, files: StoreFiles, row: StreamRow, room: NamesRoom
) -> StreamRow:
    """Inside a transaction: make room for as many pairs, if there is less. Returns the stream's row."""
    if room.pairs <= _room(row).pairs:
        return row
    seals = files.seals.stream(row.tag)
    kept = read_names(files.database, seals, row)
    grown = replace(row, people=room.pairs)
    grown = replace(grown, sealed=seals.seal_sums(kept.filled.as_bytes(), grown.place))
    connection.execute("UPDATE streams SET people = ?, sealed = ? WHERE id = ?", (room.pairs, grown.sealed, row.id))
    write_names(connection, seals, grown, kept)
    return grown


def _room(row: StreamRow) -> NamesRoom:
    assert row.people is not None  # noqa: S101
    return NamesRoom(row.people)


def _place(row: StreamRow, table: int, part: int) -> tuple[int, ...]:
    assert row.people is not None  # noqa: S101
    return (row.ingests, row.people, table, part)
