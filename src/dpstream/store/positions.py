"""The caller's own offsets: position of step s = position of step 1 + s - 1, so one number per stream says it all.

An input that comes again under an old position must be the one that was counted, and gives the release it gave then.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstream.arguments import check_whole
from dpstream.errors import InvalidArgument, PositionConflict, PositionGap, PositionUnexpected
from dpstream.store.database import Database
from dpstream.store.releases import read_batches
from dpstream.store.sealing import INPUT_BYTES, Seals
from dpstream.store.stream_row import StreamRow

__all__ = ["already_taken", "recorded"]

#: Positions and steps together stay within SQLite's 64 bits.
LAST_POSITION = 2**62


def already_taken(row: StreamRow, first_position: int, count: int) -> int:
    """How many of the next `count` inputs, the first of them at `first_position`, were taken before."""
    position = check_whole("position", first_position, least=0)
    if position > LAST_POSITION:
        raise InvalidArgument("position", position, f"at most {LAST_POSITION}")
    if row.first_position is None:
        if row.t:
            raise PositionUnexpected(position=position, step=row.t)
        return 0
    following = row.first_position + row.t
    if not row.first_position <= position <= following:
        raise PositionGap(position=position, first=row.first_position, following=following)
    return min(following - position, count)


def recorded(database: Database, seals: Seals, row: StreamRow, rows: NDArray[Any], position: int) -> NDArray[Any]:
    """The releases of these inputs, which must be the ones that were taken from this position on."""
    assert row.first_position is not None  # noqa: S101
    first = position - row.first_position + 1
    batches = list(read_batches(database, row, seals, first, first + len(rows) - 1))
    given = seals.input_digests(first, rows)
    taken = b"".join(batch.inputs or b"" for batch in batches)
    for i in range(len(rows)):
        if given[i * INPUT_BYTES : (i + 1) * INPUT_BYTES] != taken[i * INPUT_BYTES : (i + 1) * INPUT_BYTES]:
            raise PositionConflict(position=position + i, step=first + i)
    return np.concatenate([batch.values for batch in batches])
