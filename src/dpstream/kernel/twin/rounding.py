"""Rounding to integers, and which results are too close to call."""

from __future__ import annotations

from typing import SupportsFloat

import numpy as np
from numpy.typing import NDArray

from dpstream.kernel.twin.arguments import Double, array_of, check_apart, check_items
from dpstream.kernel.twin.scratch_memory import CHUNK


def round_guarded(x: Double, guard: SupportsFloat, out: NDArray[np.int64], /) -> NDArray[np.int64]:
    """Round to the nearest integers; return the positions of items within `guard` of a half-integer.

    There the other neighbour may be the right one.

    Refuses, before writing anything, what is not finite or not below 2^62 in size.
    """
    source = array_of("x", x, np.float64)
    margin = float(guard)
    target = array_of("out", out, np.int64, write=True)
    check_items("out", target, source.size)
    check_apart({"out": target}, {"x": source})
    if not margin >= 0:
        raise ValueError(f"guard must be a number from 0 on, got {guard!r}")
    if not (np.abs(source) < 2.0**62).all():
        raise ValueError("x must be finite and below 2**62 in size")
    close = []
    scratch = np.empty(min(CHUNK, source.size))
    for first in range(0, source.size, CHUNK):
        part = source[first : first + CHUNK]
        nearest = np.rint(part, out=scratch[: part.size])
        np.copyto(target[first : first + CHUNK], nearest, casting="unsafe")
        away = np.abs(np.subtract(part, nearest, out=nearest), out=nearest)
        close.append(np.flatnonzero(np.subtract(0.5, away, out=away) <= margin) + first)
    return np.concatenate(close) if close else np.empty(0, np.int64)
