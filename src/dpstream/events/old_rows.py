"""Tells whether rows for steps that were released before are the same rows once more, or late ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["OldRows", "compare_with_recorded"]


@dataclass(frozen=True)
class OldRows:
    """What is known about the rows of an input whose steps were released in earlier runs. None of them is counted.

    Attributes
    ----------
    rows
        How many there are.
    same
        Whether every step that has such rows has as much of them as was counted then: taken to be the same rows.
    surplus
        How much more than was counted then, over all steps with more; None if that cannot be told.
    """

    rows: int
    same: bool = True
    surplus: int | None = 0


def compare_with_recorded(
    rows: int, given: NDArray[np.int64], recorded: NDArray[np.int64], *, limited: bool, sums: bool
) -> OldRows:
    """Compare what an input holds for released steps with what was counted in them.

    Parameters
    ----------
    rows
        How many rows of the input are for these steps.
    given, recorded
        What they add up to, and what was counted, for each step (and category).
    limited
        Whether rows beyond a person's limit were left out when they were counted: then more is not late.
    sums
        Whether values are added up instead of rows: then less is not fewer rows.

    Examples
    --------
    >>> compare_with_recorded(3, np.array([0, 3]), np.array([5, 3]), limited=False, sums=False)
    OldRows(rows=3, same=True, surplus=0)
    >>> compare_with_recorded(4, np.array([0, 4]), np.array([5, 3]), limited=False, sums=False)
    OldRows(rows=4, same=False, surplus=1)
    """
    by_step = (len(given), -1)
    touched = given.reshape(by_step).any(axis=1)
    same = bool((given.reshape(by_step) == recorded.reshape(by_step))[touched].all())
    if same or limited or sums:
        return OldRows(rows, same, 0 if same else None)
    surplus = int(np.maximum(given - recorded, 0).sum())
    # Fewer than were counted: some of those rows again, or others.
    fewer = bool((given < recorded).reshape(by_step)[touched].any())
    return OldRows(rows, False, None if fewer and not surplus else surplus)
