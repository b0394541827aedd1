"""Reads whole numbers and histograms as they were given, and refuses those that a step may not hold."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpstream.errors import InputOutOfBound, InputShapeError, InputTypeError

__all__ = ["as_single_row", "check_integer_rows", "check_norms", "check_numbers", "whole_number"]


def whole_number(x: object) -> int:
    """Return x as an int; 1.0, NaN, "1" and arrays are refused."""
    if isinstance(x, np.bool_):
        return int(x)
    try:
        return operator.index(x)  # type: ignore[arg-type]
    except TypeError:
        if isinstance(x, (list, tuple, np.ndarray)) and np.ndim(x):
            raise InputShapeError(given=np.shape(x), allowed="()") from None
        raise InputTypeError(given=repr(x), allowed="a whole number") from None


def as_single_row(x: ArrayLike, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return one step's input as the only row of a block; another shape is refused."""
    row = np.asarray(x)
    if row.shape != shape:
        raise InputShapeError(given=row.shape, allowed=str(shape))
    return row[None]


def check_integer_rows(xs: ArrayLike, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return the inputs of many steps as an integer array, one row a step; other shapes and kinds are refused."""
    given = np.asarray(xs)
    if given.shape[1:] != shape or given.ndim == 0:
        raise InputShapeError(given=given.shape, allowed=str(("n", *shape)).replace("'", ""))
    if given.size == 0:
        return np.empty((0, *shape), dtype=np.int64)
    if given.dtype.kind not in "iub":
        raise InputTypeError(given=f"{given.dtype.name} values", allowed="whole numbers (or True and False)")
    return given


def check_numbers(rows: NDArray[Any], least: int, most: int, what: str) -> None:
    """Refuse rows with an entry below `least` or above `most`."""
    if rows.size == 0:
        return
    low, high = int(rows.min()), int(rows.max())
    if low < least or high > most:
        raise InputOutOfBound(given=low if low < least else high, least=least, most=most, what=what)


def check_norms(rows: NDArray[Any], most: int, *, laplace: bool) -> None:
    """Refuse rows whose ℓ2 norm (ℓ1 for Laplace noise) exceeds `most`; exact."""
    for row in rows:
        largest = max(int(row.max()), -int(row.min()))
        norm = exact_norm(row, largest, laplace=laplace)
        if norm > (most if laplace else most**2):
            size, which = (float(norm), "ℓ1") if laplace else (math.sqrt(norm), "ℓ2")
            raise InputOutOfBound(given=size, least=0, most=most, what=f"the {which} norm")


def exact_norm(row: NDArray[Any], largest: int, *, laplace: bool) -> int:
    """Return the ℓ1 norm, or the square of the ℓ2 norm, of whole numbers no larger than `largest`; exact."""
    bits = largest.bit_length() * (1 if laplace else 2) + row.size.bit_length()
    if bits >= 63:
        return sum(abs(v) if laplace else v * v for v in map(int, row.ravel()))
    flat = row.reshape(-1).astype(np.int64, copy=False)
    return int(np.abs(flat).sum()) if laplace else int(np.dot(flat, flat))
