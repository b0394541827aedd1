"""What the releases of a stream imply: sums and inputs, by taking the noise away again.

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
from dpstream.errors import InvalidArgument, StateError, StreamUnknown
from dpstream.noise.stream import NoiseStream
from dpstream.release.settings import StreamSettings
from dpstream.store.noise_states import resumed_noise, saved_states
from dpstream.store.rebuilt import rebuilt
from dpstream.store.releases import Batch, read_batches
from dpstream.store.sealing import INPUT_BYTES
from dpstream.store.store_files import StoreFiles
from dpstream.store.stream_row import StreamRow, read

__all__ = ["Implied", "implied", "implied_inputs"]

#: So many values at a time: a few megabytes.
PIECE_VALUES = 1 << 17


class Implied(NamedTuple):
    """Consecutive steps: their releases, what sums and inputs (float64 for a running sum) follow, and the digests."""

    first: int
    releases: NDArray[Any]
    sums: NDArray[Any]
    inputs: NDArray[Any]
    digests: bytes | None


def implied_inputs(files: StoreFiles, name: str, first: int, last: int) -> NDArray[np.int64]:
    """The inputs of the steps from `first` to `last` of a counter; see `Store.recorded_inputs`."""
    row = read(files.database, files.seals, name)
    if row is None:
        raise StreamUnknown(name=name)
    if row.settings["lane"] != "exact":
        raise InvalidArgument("name", name, "that of a counter: a running sum's releases do not tell its inputs")
    first, last = check_whole("first", first), check_whole("last", last, least=first - 1)
    if last > row.t:
        raise InvalidArgument("last", last, f"at most {row.t}, the last step of {name!r}")
    settings = rebuilt(row, str(files.database.path))
    pieces = [piece.inputs for piece in implied(files, row, settings, first, last)]
    return np.concatenate(pieces) if pieces else np.empty((0, *settings.shape), dtype=np.int64)


def implied(files: StoreFiles, row: StreamRow, settings: StreamSettings, first: int, last: int) -> Iterator[Implied]:
    """What the releases of the steps from `first` to `last` imply, a piece at a time."""
    if first > last:
        return
    seals, shape = files.seals.stream(row.tag), settings.shape
    most = max(1, PIECE_VALUES // math.prod(shape))
    exact = settings.lane == "exact"
    kind = np.dtype(np.int64 if exact else np.float64)
    before = np.zeros((1, *shape), dtype=kind)
    noise = _noise_after(files, row, settings, max(first - 2, 0))
    start = max(first - 1, 1)
    for batch in _pieces(read_batches(files.database, row, seals, start, last), most):
        # Sums of numbers that were never counted may overflow: then they wrap, and are found to be wrong.
        sums = batch.values.astype(kind) - noise.block(len(batch.values)).astype(kind)
        inputs = np.diff(sums, axis=0, prepend=before)
        before = sums[-1:]
        skip = max(first - batch.first, 0)  # the step before the first was read for its sum only
        digests = None if batch.inputs is None else batch.inputs[skip * INPUT_BYTES :]
        if skip < len(sums):
            yield Implied(batch.first + skip, batch.values[skip:], sums[skip:], inputs[skip:], digests)


def _noise_after(files: StoreFiles, row: StreamRow, settings: StreamSettings, t: int) -> NoiseStream:
    """The stream's noise, standing after step t; from a saved state if one helps."""
    key = files.seals.noise_key(row.name, row.tag, row.configuration)
    for step, state in saved_states(files.database, row):
        if step <= t:
            try:
                return resumed_noise(settings, key, t, state=state)
            except (StateError, TypeError):
                continue
    return resumed_noise(settings, key, t)


def _pieces(batches: Iterator[Batch], most: int) -> Iterator[Batch]:
    """The same steps in pieces of `most`: a stream that was fed one by one has a batch a step."""
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
