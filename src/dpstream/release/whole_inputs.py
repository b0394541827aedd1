"""Whole numbers at the door of a counter: read exactly, measured exactly, made smaller exactly."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstream.errors import InputShapeError, InputTypeError

__all__ = ["exact_norm", "one_row", "shrunk", "whole_number", "within_dtype"]


def whole_number(x: Any) -> int:
    """One whole number; 1.0, NaN, "1" and arrays are refused."""
    if isinstance(x, np.bool_):
        return int(x)
    try:
        return operator.index(x)
    except TypeError:
        if isinstance(x, (list, tuple, np.ndarray)) and np.ndim(x):
            raise InputShapeError(given=np.shape(x), allowed="()") from None
        raise InputTypeError(given=repr(x), allowed="a whole number") from None


def one_row(x: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """One step's input as the only row of a block; another shape is refused."""
    row = np.asarray(x)
    if row.shape != shape:
        raise InputShapeError(given=row.shape, allowed=str(shape))
    return row[None]


def exact_norm(row: NDArray[Any], largest: int, *, laplace: bool) -> int:
    """The ℓ1 norm, or the square of the ℓ2 norm, of whole numbers no larger than `largest`: exact."""
    bits = largest.bit_length() * (1 if laplace else 2) + row.size.bit_length()
    if bits >= 63:
        return sum(abs(v) if laplace else v * v for v in map(int, row.ravel()))
    flat = row.reshape(-1).astype(np.int64, copy=False)
    return int(np.abs(flat).sum()) if laplace else int(np.dot(flat, flat))


def shrunk(row: NDArray[Any], largest: int, *, counts_only: bool, laplace: bool) -> NDArray[np.int64]:
    """The same direction, as far out as the norm allows, rounded towards 0."""
    values = [max(int(v), 0) if counts_only else int(v) for v in row.ravel()]
    norm = sum(abs(v) if laplace else v * v for v in values)
    if norm > (largest if laplace else largest**2):
        # In integers: v·largest/norm, or the largest w with w² ≤ v²·largest²/norm².
        values = [
            (abs(v) * largest // norm if laplace else math.isqrt(v * v * largest * largest // norm))
            * (-1 if v < 0 else 1)
            for v in values
        ]
    return np.array(values, dtype=np.int64).reshape(row.shape)


def within_dtype(dtype: np.dtype[Any], least: int, most: int) -> tuple[int, int]:
    """The part of least..most that the dtype can hold: NumPy compares within one dtype."""
    if dtype.kind == "b":
        return max(least, 0), min(most, 1)
    info = np.iinfo(dtype)
    return max(least, int(info.min)), min(most, int(info.max))
