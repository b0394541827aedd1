"""The memory of batches: those of a stream's last ingests are recognised, so that one that comes again adds nothing.

Each ingest adds one sealed row with a fixed number of places (`places`, said by whoever ingests), filled or not, and
removes the oldest rows. So the file shows how often was ingested and for how many batches there was room each time, and
not how many came. A row is sealed to the number of its ingest, and the newest one says which is the oldest that is
kept: none can be taken away, moved or replaced by an older one.

A place is 16 bytes: 8 of a keyed digest of the batch's name, and 8 of one of its name and content. In memory 64-bit
names are enough to find a batch, because one that is found by chance has another content.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import numpy as np

from dpstream.errors import BatchConflict, InvalidArgument
from dpstream.store.database import Database
from dpstream.store.sealing import BATCH_BYTES, Seals
from dpstream.store.tables import StreamRow

__all__ = ["INGESTS_KEPT", "Batch", "BatchMemory", "check_batch", "read_memory", "write_memory"]

#: The batches of so many ingests are recognised when they come again: with one a day, those of eleven years.
INGESTS_KEPT = 4096
#: The longest name of a batch, in bytes.
LONGEST_BATCH = 1024
#: So many batches are held one by one before they are sorted into the table.
UNSORTED = 1 << 14

#: A batch: its name, and what it holds.
Batch = tuple[bytes, bytes]

_PLACE = np.dtype([("name", "<u8"), ("check", "<u8")])
_ENTRY = np.dtype([("name", "<u8"), ("check", "<u8"), ("ingest", "<u8")])


def check_batch(batch: object) -> bytes:
    """Return the name of a batch; refuse anything but 1 to 1,024 bytes."""
    if not isinstance(batch, bytes) or not 1 <= len(batch) <= LONGEST_BATCH:
        shown = f"{len(batch):,} bytes" if isinstance(batch, bytes) else batch
        raise InvalidArgument("batch", shown, f"1 to {LONGEST_BATCH:,} bytes: a digest of the file, or a key of yours")
    return batch


class BatchMemory:
    """Which batches were ingested from ingest `first` on: 24 bytes of memory each.

    Attributes
    ----------
    first, last
        The oldest ingest whose batches are known, and the newest.
    """

    def __init__(self, first: int = 1, last: int = 0) -> None:
        self.first, self.last = first, last
        self._table = np.empty(0, _ENTRY)  # sorted by name
        self._newest: dict[int, tuple[int, int]] = {}

    def add(self, ingest: int, digests: Sequence[bytes], first: int) -> None:
        """Know the batches of one more ingest, and forget those of ingests before `first`."""
        self.last, self.first = ingest, first
        self._newest.update((_halves(digest)[0], (_halves(digest)[1], ingest)) for digest in digests)
        if len(self._newest) >= UNSORTED:
            self._sort()

    def knows(self, digest: bytes) -> bool:
        """Return whether the batch of this digest was ingested.

        Raises
        ------
        BatchConflict
            If a batch of its name was, with another content.
        """
        name, check = _halves(digest)
        found = self._newest.get(name)
        if found is None:
            at = int(np.searchsorted(self._table["name"], name))
            if at == len(self._table) or int(self._table["name"][at]) != name:
                return False
            found = int(self._table["check"][at]), int(self._table["ingest"][at])
        if found[1] < self.first:
            return False
        if found[0] != check:
            raise BatchConflict
        return True

    def _sort(self) -> None:
        more = np.array([(name, *rest) for name, rest in self._newest.items()], _ENTRY)
        old = self._table[(self._table["ingest"] >= self.first) & ~np.isin(self._table["name"], more["name"])]
        self._table = np.sort(np.concatenate([old, more]), order="name")
        self._newest = {}


def _halves(digest: bytes) -> tuple[int, int]:
    return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")


# -- in the database --------------------------------------------------------------------------------------------------


def read_memory(database: Database, seals: Seals, row: StreamRow) -> BatchMemory:
    """Read which batches of a stream are remembered.

    Raises
    ------
    StoreDamaged
        If a row is missing, is not as it was sealed, or is too much.
    """
    found = database.rows("SELECT ingest, sealed FROM ingested_batches WHERE stream = ? ORDER BY ingest", (row.id,))
    opened = [(ingest, _opened(seals, ingest, sealed)) for ingest, sealed in found]
    first = int.from_bytes((opened[-1][1] or b"")[:8], "little") if opened else 1
    if [ingest for ingest, _ in opened] != list(range(first, row.ingests + 1)):
        raise database.damaged(f"which batches were ingested into stream {row.name!r} is missing or changed")
    memory = BatchMemory(first, row.ingests)
    entries = [np.empty(0, _ENTRY)]
    for ingest, content in opened:
        if content is None:
            raise database.damaged(f"which batches were ingested into stream {row.name!r} is missing or changed")
        places = np.frombuffer(content, _PLACE, offset=8)
        places = places[(places["name"] != 0) | (places["check"] != 0)]
        if len(places):
            made = np.empty(len(places), _ENTRY)
            made["name"], made["check"], made["ingest"] = places["name"], places["check"], ingest
            entries.append(made)
    memory._table = np.sort(np.concatenate(entries), order="name")
    return memory


def _opened(seals: Seals, ingest: object, sealed: object) -> bytes | None:
    """Return the content of a row; None if it is not as it was sealed."""
    opened = seals.open_steps(sealed, (ingest,)) if isinstance(ingest, int) and isinstance(sealed, bytes) else None
    return None if opened is None or len(opened) < 8 or (len(opened) - 8) % BATCH_BYTES else opened


def write_memory(
    connection: sqlite3.Connection,
    seals: Seals,
    row: StreamRow,
    digests: Sequence[bytes],
    *,
    first: int,
    places: int,
) -> None:
    """Inside a transaction: remember the batches of the ingest that `row` counts last, and forget those before `first`.

    Raises
    ------
    InvalidArgument
        If there are more batches than places.
    """
    if len(digests) > places:
        raise InvalidArgument("batches", f"{len(digests):,}", f"at most {places:,}, as many as there are places")
    content = first.to_bytes(8, "little") + b"".join(digests).ljust(places * BATCH_BYTES, b"\0")
    connection.execute("DELETE FROM ingested_batches WHERE stream = ? AND ingest < ?", (row.id, first))
    connection.execute(
        "INSERT OR REPLACE INTO ingested_batches VALUES (?, ?, ?)",
        (row.id, row.ingests, seals.seal_steps(content, (row.ingests,))),
    )
