"""A `RunningSum` that survives crashes, restarts and retries."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpstream.release.running_sum import RunningSum
from dpstream.store.durable_release import DurableRelease

__all__ = ["DurableSum"]


class DurableSum(DurableRelease[RunningSum]):
    """A running sum of vectors in a store; made by `Store.running_sum`.

    Guarantee
    ---------
    That of `dpstream.RunningSum`, for all releases of the stream together, over all processes that ever wrote it; and
    that of `DurableCounter` on what is counted and released.
    """

    _kind = RunningSum

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of a release."""
        return np.dtype(self._settings.dtype)
