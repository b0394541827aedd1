"""What was released: rows of the database as steps, positions and values, every seal checked on the way."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstream.store.database import Database
from dpstream.store.sealing import INPUT_BYTES, Seals
from dpstream.store.stream_row import StreamRow

__all__ = ["Batch", "Release", "read_batches"]


class Release(NamedTuple):
    """One release: its step, the caller's position if there is one, and the published value."""

    step: int
    position: int | None
    value: Any


@dataclass(frozen=True)
class Batch:
    """The releases of consecutive steps that were committed together."""

    first: int
    values: NDArray[Any]
    inputs: bytes | None

    def part(self, first: int, last: int) -> Batch:
        """The steps from `first` to `last` of this batch."""
        low, high = max(first - self.first, 0), min(last + 1 - self.first, len(self.values))
        digests = None if self.inputs is None else self.inputs[low * INPUT_BYTES : high * INPUT_BYTES]
        return Batch(self.first + low, self.values[low:high], digests)


def read_batches(database: Database, row: StreamRow, seals: Seals, first: int, last: int) -> Iterator[Batch]:
    """The batches that hold the steps from `first` to `last`, cut to them; all steps are there, or it raises."""
    settings = row.settings
    shape, dtype = tuple(settings["shape"]), np.dtype(settings["dtype"]).newbyteorder("<")
    width = math.prod(shape) * dtype.itemsize
    step = first
    while step <= last:
        found = database.rows(
            "SELECT first, count, sealed FROM batches WHERE stream = ?1 AND first <= ?2 AND first >="
            " (SELECT max(first) FROM batches WHERE stream = ?1 AND first <= ?3) ORDER BY first LIMIT 4096",
            (row.id, last, step),
        )
        if not found:
            raise database.damaged(f"step {step} of stream {row.name!r} is missing")
        for start, count, sealed in found:
            opened = None
            if isinstance(start, int) and isinstance(count, int) and isinstance(sealed, bytes):
                opened = seals.open_batch(start, count, sealed, count * width)
            if opened is None:
                raise database.damaged(f"the releases of stream {row.name!r} near step {step} are not as sealed")
            if not start <= step < start + count:
                raise database.damaged(f"step {step} of stream {row.name!r} is missing")
            releases, inputs = opened
            values = np.frombuffer(releases, dtype).reshape(count, *shape).astype(dtype.newbyteorder("="))
            yield Batch(start, values, inputs).part(step, last)
            step = start + count
            if step > last:
                return
