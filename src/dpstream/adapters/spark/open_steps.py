"""OpenSteps: what was counted for the rows of a shard in steps that are not closed yet; sparse, as two arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["OpenSteps"]

Numbers = NDArray[np.int64]

#: A place: the step (from 0) in the upper bits, the row in these lowest ones.
_ROW_BITS = 32
_ROWS = (1 << _ROW_BITS) - 1


class OpenSteps:
    """TRUE amounts by step and row.

    Examples
    --------
    >>> steps = OpenSteps()
    >>> steps.add(np.array([0, 1, 0]), np.array([5, 5, 5]))
    >>> steps.add(np.array([1]), np.array([2]), np.array([10]))
    >>> steps.take(0, 6).tolist(), steps.take(1, 6).tolist()
    ([0, 0, 0, 0, 0, 2], [0, 0, 10, 0, 0, 1])
    """

    def __init__(self, places: Numbers | None = None, amounts: Numbers | None = None) -> None:
        nothing = np.zeros(0, dtype=np.int64)
        self._places = nothing if places is None else places
        self._amounts = nothing if amounts is None else amounts

    def add(self, steps: Numbers, rows: Numbers, amounts: Numbers | None = None) -> None:
        """Add amounts to rows in steps (from 0); 1 each if they are left out."""
        places = (steps << _ROW_BITS) | rows
        if amounts is None:
            places, amounts = np.unique(places, return_counts=True)
        together, where = np.unique(np.concatenate([self._places, places]), return_inverse=True)
        sums = np.zeros(len(together), dtype=np.int64)
        np.add.at(sums, where, np.concatenate([self._amounts, amounts]))
        self._places, self._amounts = together, sums

    def take(self, step: int, rows: int) -> Numbers:
        """Return what `step` adds to each of so many rows, and forget it; all steps before it were taken."""
        end = int(np.searchsorted(self._places, (step + 1) << _ROW_BITS))
        added = np.zeros(rows, dtype=np.int64)
        added[self._places[:end] & _ROWS] = self._amounts[:end]
        self._places, self._amounts = self._places[end:], self._amounts[end:]
        return added

    def arrays(self) -> list[Numbers]:
        """Return what the constructor takes."""
        return [self._places, self._amounts]
