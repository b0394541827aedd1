"""Reads one step's counts by name, as they were given, and refuses what a step may not hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dpstream.errors import InputOutOfBound, InputShapeError, InputTypeError
from dpstream.release.integer_inputs import whole_number
from dpstream.release.name_spelling import check_name

__all__ = ["counts_by_name"]


def counts_by_name(given: object, known: Mapping[str, object], most: int) -> dict[str, int]:
    """Return a step's counts, one whole number from 1 to `most` for each name in its one spelling.

    `given` is a mapping from names to counts, a pair (names, counts), or a frame of two columns, the first of which
    holds the names. What comes twice is added up; names that come with 0 are left out, as if they had not come.
    `known` holds names that were spelled right before.
    """
    names, counts = _columns(given)
    step: dict[str, int] = {}
    for name, count in zip(names, counts, strict=True):
        number = count if type(count) is int else whole_number(count)
        if not 0 <= number <= most:
            raise InputOutOfBound(given=number, least=0, most=most, what="the count of a name")
        spelled = name if type(name) is str and name in known else check_name(name)
        if number:
            step[spelled] = step[spelled] + number if spelled in step else number
    largest = max(step.values(), default=0)
    if largest > most:
        raise InputOutOfBound(given=largest, least=0, most=most, what="the count of a name")
    return step


def _columns(given: object) -> tuple[Iterable[Any], Iterable[Any]]:
    if isinstance(given, Mapping):
        return given.keys(), given.values()
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
