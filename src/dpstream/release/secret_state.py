"""SecretState: where a stream stands, with its TRUE sums; for a store that seals them, and for nobody else."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstream.errors import StateError
from dpstream.release.settings import StreamSettings

__all__ = ["SecretState"]


@dataclass(frozen=True, repr=False, eq=False)
class SecretState:
    """A stream's step, its true sums and its last release.

    **Secret**: the sums are the data without noise. Whoever keeps them must encrypt them, and must never use them with
    noise of the same key for other inputs.

    Attributes
    ----------
    t
        How many releases have been made.
    sums
        The true sums: one int64 array of the stream's shape (exact lane), or flat float64 arrays: the sums, and for
        float64 data what their additions lost.
    last
        The last release, or None before the first; the float lane keeps none.
    """

    t: int
    sums: tuple[NDArray[Any], ...]
    last: NDArray[Any] | None

    def __repr__(self) -> str:
        return f"SecretState(t={self.t}, sums=<hidden>)"

    @classmethod
    def start(cls, settings: StreamSettings) -> SecretState:
        """Return the state of a stream before its first step."""
        if settings.lane == "exact":
            return cls(0, (np.zeros(settings.shape, dtype=np.int64),), None)
        kept = 2 if settings.dtype == "float64" else 1
        return cls(0, tuple(np.zeros(math.prod(settings.shape)) for _ in range(kept)), None)

    def sums_as_bytes(self) -> bytes:
        """Return the true sums as little-endian bytes, to be sealed."""
        return b"".join(np.ascontiguousarray(a, a.dtype.newbyteorder("<")).tobytes() for a in self.sums)

    @classmethod
    def from_bytes(cls, settings: StreamSettings, t: int, sums: bytes, last: NDArray[Any] | None) -> SecretState:
        """Build the state that `sums_as_bytes` wrote.

        Raises
        ------
        StateError
            If there are more or fewer bytes than these settings have.
        """
        start = cls.start(settings)
        if len(sums) != sum(a.nbytes for a in start.sums):
            raise StateError(f"sums of these settings have {sum(a.nbytes for a in start.sums)} bytes, not {len(sums)}")
        found, at = [], 0
        for empty in start.sums:
            part = np.frombuffer(sums, empty.dtype.newbyteorder("<"), count=empty.size, offset=at)
            found.append(part.astype(empty.dtype).reshape(empty.shape))
            at += empty.nbytes
        return cls(t, tuple(found), last)
