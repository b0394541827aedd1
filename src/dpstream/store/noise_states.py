"""The noise of a reopened stream: from a saved state and a few steps more, or from nothing but the key.

Trees need no state. Recurrences would have to be replayed from their first step without one.
"""

from __future__ import annotations

import math
import sqlite3

import numpy as np

from dpstream.errors import StateError
from dpstream.noise.stream import NoiseStream
from dpstream.release.settings import StreamSettings
from dpstream.store.database import Database
from dpstream.store.stream_row import StreamRow

__all__ = ["resumed_noise", "save_state", "saved_states"]

#: Noise that is made again and thrown away is made in pieces of so many values.
PIECE = 1 << 14


def resumed_noise(
    settings: StreamSettings, key: bytes, t: int, *, threads: int | None = None, state: bytes | None = None
) -> NoiseStream:
    """Return the noise of these settings, standing after step t."""
    stream = settings.noise_stream(key, threads=threads, state=state)
    if state is None:
        stream.seek(t)
        return stream
    if stream.t > t:
        raise StateError(f"this noise state was saved at step {stream.t}, past step {t}")
    coordinates = math.prod(settings.shape)
    unused = np.empty(settings.shape, dtype=settings.dtype) if coordinates > PIECE else None
    while stream.t < t:
        if unused is not None:
            stream.step(unused)
        else:
            stream.block(min(t - stream.t, PIECE // coordinates))
    return stream


def save_state(connection: sqlite3.Connection, stream: int, t: int, step: int, state: bytes) -> None:
    """Keep this state, and of the others the newest that stands no later than step t: noise is made ahead."""
    connection.execute("INSERT OR REPLACE INTO noise_states VALUES (?, ?, ?)", (stream, step, state))
    connection.execute(
        "DELETE FROM noise_states WHERE stream = ?1 AND step <"
        " (SELECT max(step) FROM noise_states WHERE stream = ?1 AND step <= ?2)",
        (stream, t),
    )


def saved_states(database: Database, row: StreamRow) -> list[tuple[int, bytes]]:
    """The states that were saved no later than where the stream stands, newest first; not checked."""
    found = database.rows(
        "SELECT step, state FROM noise_states WHERE stream = ? AND step <= ? ORDER BY step DESC", (row.id, row.t)
    )
    return [(step, state) for step, state in found if isinstance(step, int) and isinstance(state, bytes)]
