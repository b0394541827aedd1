"""How often each person was counted in a stream: sealed beside the releases, for the next process that counts.

People are 64-bit fingerprints under a key of the stream's own. Each batch has one row here, so that one that is taken
away shows; a stream some of whose batches were made without cannot tell who was counted.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping

import numpy as np

from dpstream.store.database import Database
from dpstream.store.sealing import Seals
from dpstream.store.stream_row import StreamRow

__all__ = ["kept_people", "save_contributions"]

_KEPT = np.dtype([("person", "<u8"), ("events", "<u4")])


def save_contributions(
    connection: sqlite3.Connection, seals: Seals, stream: int, first: int, kept: Mapping[int, int]
) -> None:
    """Keep how many events of each person are counted in the batch that begins with this step."""
    packed = np.array(list(kept.items()), dtype=_KEPT).tobytes()
    connection.execute(
        "INSERT INTO contributions VALUES (?, ?, ?)", (stream, first, seals.seal_sums(packed, (-first,)))
    )


def kept_people(database: Database, seals: Seals, row: StreamRow) -> Iterator[tuple[int, int]]:
    """The people that were counted, and how often: once for each batch they are in."""
    found = database.rows(
        "SELECT batches.first, sealed FROM batches LEFT JOIN contributions USING (stream, first) WHERE stream = ?",
        (row.id,),
    )
    for first, sealed in found:
        packed = seals.open_sums(sealed, (-first,)) if isinstance(sealed, bytes) else None
        if packed is None:
            raise database.damaged(f"who was counted from step {first} of stream {row.name!r} on is missing or changed")
        yield from np.frombuffer(packed, dtype=_KEPT).tolist()
