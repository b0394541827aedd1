"""A `RunningSum` that survives crashes, restarts and retries."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpstream.errors import InputShapeError
from dpstream.release.running_sum import RunningSum
from dpstream.store.durable_release import DurableRelease
from dpstream.store.noise_states import resumed_noise
from dpstream.store.store_files import StoreFiles
from dpstream.store.stream_row import Lease

__all__ = ["DurableSum"]

_CLIPPED = struct.Struct("<Q")


class DurableSum(DurableRelease[RunningSum]):
    """A running sum of vectors in a store; made by `Store.running_sum`.

    Guarantee
    ---------
    That of `dpstream.RunningSum`, for all releases of the stream together, over all processes that ever wrote it; and
    that of `DurableCounter` on what is counted and released.
    """

    def __init__(self, files: StoreFiles, lease: Lease, settled: RunningSum, threads: int | None) -> None:
        self._threads = threads
        super().__init__(files, lease, settled)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of a release."""
        return self._settled.dtype

    def _resume(self, t: int, sums: bytes, last: NDArray[Any] | None, state: bytes | None) -> RunningSum:
        terms = self._settled._terms
        live = RunningSum(
            terms.horizon,
            terms.budget,
            terms.shape,
            per_person=terms.per_person,
            dtype=terms.dtype,
            mechanism=terms.mechanism,
            participation=terms.participation,
            clip=self._settled._clip,
            threads=self._threads,
            name=terms.name,
            key=self._key,
        )
        (clipped,) = _CLIPPED.unpack_from(sums)
        kept = np.frombuffer(sums, "<f8", offset=_CLIPPED.size).reshape(-1, math.prod(terms.shape)).astype(np.float64)
        stream = resumed_noise(terms, self._key, t, scale=live._scale, threads=self._threads, state=state)
        live._resume(t, list(kept), clipped, stream)
        return live

    def _sums(self, release: RunningSum) -> bytes:
        kept = [release._sum] if release._lost is None else [release._sum, release._lost]
        return _CLIPPED.pack(release._clipped) + b"".join(a.astype("<f8", copy=False).tobytes() for a in kept)

    def _checked_rows(self, release: RunningSum, xs: ArrayLike) -> NDArray[Any]:
        given = np.asarray(xs)
        if given.ndim == 0 or given.shape[1:] != self.shape:
            raise InputShapeError(given=given.shape, allowed=str(("n", *self.shape)).replace("'", ""))
        rows = [release._checked(release._as_input(row, self.shape))[0] for row in given]
        return np.array(rows, dtype=release.dtype).reshape(len(rows), *self.shape)

    def _as_array(self, xs: ArrayLike) -> NDArray[Any]:
        given = np.asarray(xs)
        if isinstance(xs, np.ndarray) or given.dtype.kind not in "fiub":
            return given
        with np.errstate(over="ignore"):  # what does not fit becomes infinite, and is refused as such
            return given.astype(self.dtype)  # lists of Python floats arrive as float64

    def _checked_row(self, release: RunningSum, x: Any) -> NDArray[Any]:
        return release._checked(release._as_input(x, self.shape))[0].reshape(1, *self.shape)


def no_sums(shape: tuple[int, ...], dtype: str) -> bytes:
    """The sums of a running sum before its first step: float64 data also keeps what additions lose."""
    return _CLIPPED.pack(0) + bytes(8 * math.prod(shape) * (2 if dtype == "float64" else 1))
