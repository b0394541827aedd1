"""Reads one step's counts by name, as they were given, and refuses what a step may not hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstream.errors import InputShapeError, InputTypeError, NameCountOutOfBound
from dpstream.release.integer_inputs import whole_number
from dpstream.release.name_spelling import check_name

__all__ = ["StepOfNames", "step_of_names"]


class StepOfNames(NamedTuple):
    """One step's counts: of names that have a row by these rows (which may come twice), of others by their spelling.

    New names have counts above 0: one that comes with 0 counts as not brought.
    """

    rows: NDArray[np.int64]
    counts: NDArray[np.int64]
    new: dict[str, int]


def step_of_names(given: object, index: Mapping[str, int], most: int) -> StepOfNames:
    """Return a step's counts, whole numbers from 0 to `most` for each name.

    `given` is a mapping from names to counts, a pair (names, counts), or a frame of two columns, the first of which
    holds the names. What comes twice is added up. `index` has the rows of names in their one spelling.
    """
    names, listed = _columns(given)
    counts = _whole_numbers(listed)
    if counts.size and not (counts.min() >= 0 and counts.max() <= most):
        wrong = next(int(count) for count in listed if not 0 <= int(count) <= most)
        raise NameCountOutOfBound(given=wrong, least=0, most=most, what="the count of a name")
    try:
        rows = np.fromiter(map(index.get, names, repeat(-1)), dtype=np.int64, count=len(names))
    except TypeError:  # a name that cannot be looked up
        for name in names:
            check_name(name)
        raise
    new: dict[str, int] = {}
    for i in np.flatnonzero(rows < 0).tolist():
        spelled = check_name(names[i])
        rows[i] = index.get(spelled, -1)
        if rows[i] < 0 and counts[i]:
            new[spelled] = new.get(spelled, 0) + int(counts[i])
    known = rows >= 0
    step = StepOfNames(rows[known], counts[known], new)
    largest = max(max(new.values(), default=0), _largest_sum(step.rows, step.counts, most))
    if largest > most:
        raise NameCountOutOfBound(given=None, least=0, most=most, what="the count of a name")
    return step


def _largest_sum(rows: NDArray[np.int64], counts: NDArray[np.int64], most: int) -> int:
    """Return the largest count of a row, added up over its appearances; 0 if all together are far below `most`."""
    if float(counts.sum(dtype=np.float64)) < most / 2:
        return 0
    totals: dict[int, int] = {}
    for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
        totals[row] = totals.get(row, 0) + count
    return max(totals.values())


def _whole_numbers(listed: list[Any]) -> NDArray[np.int64]:
    try:
        counts = np.array(listed)
    except (ValueError, OverflowError):  # lists of different lengths, numbers beyond all types
        counts = np.empty(0)
    if counts.shape == (len(listed),) and counts.dtype.kind in "iub" and len(listed):
        return _int64(counts)
    return _int64(np.array([whole_number(count) for count in listed] or [0], dtype=object)[: len(listed)])


def _int64(counts: NDArray[Any]) -> NDArray[np.int64]:
    """Return whole numbers as int64; those that do not fit as its largest or smallest, which no step may hold."""
    if counts.dtype.kind in "ib":
        return counts.astype(np.int64)
    limits = np.iinfo(np.int64)
    return np.array([min(max(int(c), limits.min), limits.max) for c in counts.tolist()], dtype=np.int64)


def _columns(given: object) -> tuple[list[Any], list[Any]]:
    if isinstance(given, Mapping):
        return list(given.keys()), list(given.values())
    if hasattr(given, "columns") and len(given.columns) == 2:  # a frame of Polars or pandas
        given = tuple(given[column] for column in given.columns)  # type: ignore[index]
    if isinstance(given, tuple) and len(given) == 2:
        names, counts = (_listed(column) for column in given)
        if len(names) != len(counts):
            raise InputShapeError(given=(len(names), len(counts)), allowed="(n, n): as many names as counts")
        return names, counts
    raise InputTypeError(
        given=f"an object of type {type(given).__name__}",
        allowed="counts by name: a dict, a pair (names, counts) or a frame of two columns",
    )


def _listed(column: object) -> list[Any]:
    if isinstance(column, (str, bytes)) or not isinstance(column, Iterable):
        raise InputTypeError(given=f"an object of type {type(column).__name__}", allowed="lists of names and of counts")
    for method in ("to_list", "tolist"):  # of Polars and pandas, of NumPy: Python's own numbers, in less time
        if hasattr(column, method):
            return list(getattr(column, method)())
    return list(column)
