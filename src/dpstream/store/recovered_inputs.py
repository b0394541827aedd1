"""TRUE DATA out of a store: sums and inputs, recovered from the releases by taking the noise away again.

    release_t - noise_t = (true sum)_t,    (true sum)_t - (true sum)_(t-1) = input_t

Noise is a function of key and step, so nothing else is needed. Exact for a counter; for a running sum, whose releases
are rounded, up to that rounding. What comes out is as secret as what went in.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstream.arguments import check_whole
from dpstream.errors import InvalidArgument
from dpstream.release.settings import StreamSettings
from dpstream.store.ledger import OpenSteps, read_open_steps
from dpstream.store.names_tables import read_names
from dpstream.store.sealing import INPUT_BYTES
from dpstream.store.settings import check_name, settings_from_row
from dpstream.store.store_files import StoreFiles
from dpstream.store.tables import Batch, StreamRow, noise_after, read_batches, read_stream

__all__ = ["RecoveredSteps", "TrueData", "joined_batches", "recover_inputs"]

#: Values that are worked on at a time: a few megabytes.
PIECE_VALUES = 1 << 17


class RecoveredSteps(NamedTuple):
    """Consecutive steps: their releases, the sums and inputs (float64 for a running sum) behind them, the digests."""

    first: int
    releases: NDArray[Any]
    sums: NDArray[Any]
    inputs: NDArray[Any]
    digests: bytes | None


class TrueData:
    """**Secret**: what was counted, without noise. The door through which true data leaves a store: `Store.true_data`.

    Whoever publishes any of it has published the data.
    """

    def __init__(self, files: StoreFiles) -> None:
        self._files = files

    def __repr__(self) -> str:
        return "TrueData(<hidden>)"

    def inputs(self, name: str, first: int, last: int) -> NDArray[np.int64]:
        """Return the true inputs of the steps from `first` to `last` of a counter, one row each.

        They are not kept, but follow from releases and key: int64 of shape (last - first + 1, *shape). A tree makes
        the noise of these steps only, a recurrence that of all before, too. Nothing is written and no writer waits.

        Raises
        ------
        StreamUnknown
            If there is no such stream.
        InvalidArgument
            If it is a running sum, whose releases are rounded, or has no such steps (they count from 1).
        """
        name = check_name(name)
        with self._files.turn():
            row = read_stream(self._files.database, self._files.seals, name)
            if row.settings["lane"] != "exact":
                raise InvalidArgument(
                    "name", name, "that of a counter: a running sum's releases do not tell its inputs"
                )
            first, last = check_whole("first", first), check_whole("last", last, least=first - 1)
            if last > row.t:
                raise InvalidArgument("last", last, f"at most {row.t}, the last step of {name!r}")
            settings = settings_from_row(row, str(self._files.database.path))
            pieces = [piece.inputs for piece in recover_inputs(self._files, row, settings, first, last)]
            return np.concatenate(pieces) if pieces else np.empty((0, *settings.shape), dtype=np.int64)

    def rows_wait(self, name: str) -> bool:
        """Return whether rows were ingested for open steps of a counter, or of a stream of names.

        Raises
        ------
        StreamUnknown, InvalidArgument, StoreDamaged
            As `open_steps`.
        """
        name = check_name(name)
        with self._files.turn(), self._files.database.snapshot():
            row = read_stream(self._files.database, self._files.seals, name)
            if row.settings["lane"] == "names":
                kept = read_names(self._files.database, self._files.seals.stream(row.tag), row)
                return bool(len(kept.cells.of(row.t + 1, row.settings["horizon"])))
        return bool(self.open_steps(name).rows.any())

    def open_steps(self, name: str, first: int | None = None, last: int | None = None) -> OpenSteps:
        """Return what was ingested so far for the open steps from `first` to `last` of a counter; all by default.

        Their tallies, int64 of shape (last - first + 1, *shape), and how many rows each had.

        Raises
        ------
        StreamUnknown
            If there is no such stream.
        InvalidArgument
            If it is a running sum, or if a step is released already.
        StoreDamaged
            If what was ingested is missing or changed.
        """
        name = check_name(name)
        with self._files.turn(), self._files.database.snapshot():
            row = read_stream(self._files.database, self._files.seals, name)
            if row.settings["lane"] != "exact":
                raise InvalidArgument("name", name, "that of a counter: a running sum has no open steps")
            begin = row.t + 1 if first is None else check_whole("first", first)
            if begin <= row.t:
                raise InvalidArgument("first", first, f"at least {row.t + 1}, the first open step of {name!r}")
            if last is not None:
                last = check_whole("last", last, least=begin - 1)
            return read_open_steps(self._files.database, self._files.seals.stream(row.tag), row, begin, last)


def recover_inputs(
    files: StoreFiles, row: StreamRow, settings: StreamSettings, first: int, last: int
) -> Iterator[RecoveredSteps]:
    """Yield the sums and inputs that the releases of the steps from `first` to `last` follow from, piece by piece."""
    if first > last:
        return
    seals, shape = files.seals.stream(row.tag), settings.shape
    exact = settings.lane == "exact"
    kind = np.dtype(np.int64 if exact else np.float64)
    before = np.zeros((1, *shape), dtype=kind)
    key = files.seals.noise_key(row.name, row.tag, row.configuration)
    noise, _ = noise_after(files.database, row, settings, key, max(first - 2, 0))
    start = max(first - 1, 1)
    for batch in joined_batches(read_batches(files.database, row, seals, start, last), row):
        # Sums of numbers that were never counted may overflow: then they wrap, and are found to be wrong.
        sums = batch.values.astype(kind) - noise.block(len(batch.values)).astype(kind)
        inputs = np.diff(sums, axis=0, prepend=before)
        before = sums[-1:]
        skip = max(first - batch.first, 0)  # the step before the first was read for its sum only
        digests = None if batch.inputs is None else batch.inputs[skip * INPUT_BYTES :]
        if skip < len(sums):
            yield RecoveredSteps(batch.first + skip, batch.values[skip:], sums[skip:], inputs[skip:], digests)


def joined_batches(batches: Iterator[Batch], row: StreamRow) -> Iterator[Batch]:
    """Yield the same steps in larger pieces: a stream that was fed one by one has a batch a step."""
    most = max(1, PIECE_VALUES // math.prod(row.settings["shape"]))
    waiting: list[Batch] = []
    held = 0
    for batch in batches:
        if waiting and (batch.inputs is None) != (waiting[0].inputs is None):
            yield _joined(waiting)
            waiting, held = [], 0
        for low in range(0, len(batch.values), most):
            part = batch.part(batch.first + low, batch.first + low + most - 1)
            if held + len(part.values) > most:
                yield _joined(waiting)
                waiting, held = [], 0
            waiting.append(part)
            held += len(part.values)
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[Batch]) -> Batch:
    if len(batches) == 1:
        return batches[0]
    digests = None if batches[0].inputs is None else b"".join(batch.inputs or b"" for batch in batches)
    return Batch(batches[0].first, np.concatenate([batch.values for batch in batches]), digests)
