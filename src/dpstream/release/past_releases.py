"""Past releases that are kept, so that changes between two of them can be told. They are public."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstream.errors import ReleaseNotKept
from dpstream.release.settings import StreamSettings

__all__ = ["KEPT_NUMBERS", "PastArrays", "PastNumbers", "not_kept"]

#: A counter of single numbers keeps at least this many of its last releases: half a megabyte.
KEPT_NUMBERS = 2**16


class PastNumbers:
    """The last releases of a counter of single numbers: at least `room` of them, 8 bytes each, at most twice as many.

    What is put again is skipped and a gap begins anew, so that a call that was interrupted can be made once more.
    """

    __slots__ = ("_end", "_room", "_values")

    def __init__(self, room: int) -> None:
        self._room = room
        self._values = array("q")
        self._end = 0  # the step of the last value

    def put(self, first: int, values: Sequence[int] | NDArray[np.int64]) -> None:
        """Keep the releases of steps first, first + 1, ..."""
        if first > self._end + 1:
            self._values, self._end = array("q"), first - 1
        new = values[max(self._end + 1 - first, 0) :][-self._room :]
        end = first + len(values) - 1
        if end <= self._end:
            return
        kept = self._values if end - self._end == len(new) else array("q")
        if isinstance(new, np.ndarray):
            kept.frombytes(new.tobytes())
        else:
            kept.extend(new)
        if len(kept) > 2 * self._room:
            kept = kept[-self._room :]
        self._values, self._end = kept, end

    def get(self, step: int) -> int | None:
        """Return the release of a step, or None if it is not kept."""
        back = self._end - step
        return self._values[-1 - back] if 0 <= back < len(self._values) else None


class PastArrays:
    """The last releases of a stream of arrays, `room` of them."""

    __slots__ = ("_kept",)

    def __init__(self, room: int) -> None:
        self._kept: deque[tuple[int, NDArray[Any]]] = deque(maxlen=room)

    def put(self, first: int, values: NDArray[Any]) -> None:
        """Keep copies of the releases of steps first, first + 1, ..."""
        skipped = max(len(values) - (self._kept.maxlen or 0), 0)
        self._kept.extend((first + i, values[i].copy()) for i in range(skipped, len(values)))

    def get(self, step: int) -> NDArray[Any] | None:
        """Return the release of a step, or None if it is not kept."""
        return next((value for t, value in reversed(self._kept) if t == step), None)


def not_kept(settings: StreamSettings, t: int, step: int) -> ReleaseNotKept:
    """Say why the release of a step is not there, and what to type."""
    needed = tuple(sorted({*settings.windows, t - step}))
    return ReleaseNotKept(step=step, advice=f"build the stream with windows={needed}, which keeps as many releases")
