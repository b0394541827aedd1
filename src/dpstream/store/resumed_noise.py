"""The noise of a reopened stream: from a saved state and a few steps more, or from nothing but the key."""

from __future__ import annotations

import math

import numpy as np

from dpstream.errors import StateError
from dpstream.noise.stream import NoiseStream
from dpstream.release.terms import Terms

__all__ = ["resumed_noise"]

#: Noise that is made again and thrown away is made in pieces of so many values.
PIECE = 1 << 14


def resumed_noise(
    terms: Terms, key: bytes, t: int, *, scale: float, threads: int | None = None, state: bytes | None = None
) -> NoiseStream:
    """The noise of these terms, standing after step t."""
    stream = terms.stream(key, scale=scale, threads=threads, state=state)
    if state is None:
        stream.seek(t)
        return stream
    if stream.t > t:
        raise StateError(f"this noise state was saved at step {stream.t}, past step {t}")
    coordinates = math.prod(terms.shape)
    unused = np.empty(terms.shape, dtype=terms.dtype) if coordinates > PIECE else None
    while stream.t < t:
        if unused is not None:
            stream.step(unused)
        else:
            stream.block(min(t - stream.t, PIECE // coordinates))
    return stream
