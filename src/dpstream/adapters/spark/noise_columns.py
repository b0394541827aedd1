"""NoiseColumns: the noise of a shard's names, step after step, as arrays that can be kept and brought back.

The values are those of `NamedNoise.values`. A recurrence keeps 8 bytes for each of its buffers (16 for slow ones) and
name; a tree keeps nothing. A name that comes up late is walked through its past once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstream.noise.named import NamedNoise
from dpstream.noise.named_draws import Tags

__all__ = ["NoiseColumns"]

#: Names whose past is walked through at a time.
WALKED_AT_ONCE = 4096


class NoiseColumns:
    """Noise of names in order, standing after step `t`."""

    def __init__(self, noise: NamedNoise, tags: Tags, t: int, buffers: Sequence[NDArray[np.float64]] = ()) -> None:
        self._noise, self.tags, self.t = noise, tags, t
        self._high, self._low = buffers or self._walked(tags)

    def next(self) -> NDArray[np.int64]:
        """Move on by a step and return its noise, one number for each name."""
        t = self.t + 1
        if self._noise.recurrence is None:
            unit = self._noise.tree_release(self.tags, t)
        else:
            unit = self._noise.stepped(self._noise.draws(self.tags, t, 1)[0], t, self._high, self._low)
        self.t = t
        return self._noise.rounded(unit, self.tags, t)

    def extend(self, tags: Tags) -> None:
        """Add names that come up now, with the buffers that they would have."""
        high, low = self._walked(tags)
        self.tags = np.concatenate([self.tags, tags])
        self._high, self._low = (np.concatenate(pair, axis=1) for pair in ((self._high, high), (self._low, low)))

    def arrays(self) -> list[NDArray[Any]]:
        """Return what has to be kept: tags and buffers."""
        return [self.tags, self._high, self._low]

    def _walked(self, tags: Tags) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        recurrence = self._noise.recurrence
        buffers = 0 if recurrence is None else len(recurrence.gaps)
        high, low = np.zeros((buffers, len(tags))), np.zeros((self._noise.slow_buffers, len(tags)))
        if recurrence is not None and self.t:
            for first in range(0, len(tags), WALKED_AT_ONCE):
                part = slice(first, first + WALKED_AT_ONCE)
                _, high[:, part], rest = self._noise.walk(tags[part], self.t)
                low[:, part] = rest[: len(low)]
        return high, low
