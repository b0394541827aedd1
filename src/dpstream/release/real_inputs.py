"""Reads vectors of real numbers as they were given, and refuses those that a step may not hold."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpstream import kernel
from dpstream.errors import InputNotFinite, InputOutOfBound, InputShapeError, InputTypeError

__all__ = ["NORM_ERROR", "check_norm", "flat_vector", "real_rows"]

#: The norm of an input is computed with a relative error below half of this. Inputs longer than their limit by this
#: much pass, and the noise is scaled for twice as much more.
NORM_ERROR = 2.0**-16


def flat_vector(x: ArrayLike, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return one step's input as a flat array of `dtype`; other shapes and kinds, and arrays of more bits, are refused.

    Lists of Python floats arrive as float64 and are rounded to `dtype`.
    """
    given = np.asarray(x)
    if given.shape != shape:
        raise InputShapeError(given=given.shape, allowed=str(shape))
    _check_kind(given, dtype, listed=not isinstance(x, np.ndarray))
    with np.errstate(over="ignore"):  # what does not fit becomes infinite, and is refused as such
        return np.ascontiguousarray(given, dtype=dtype).reshape(-1)


def real_rows(xs: ArrayLike, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return many steps' inputs as an array of `dtype`, one row a step; refused as by `flat_vector`."""
    given = np.asarray(xs)
    if given.ndim == 0 or given.shape[1:] != shape:
        raise InputShapeError(given=given.shape, allowed=str(("n", *shape)).replace("'", ""))
    if given.size == 0:
        return np.empty((0, *shape), dtype=dtype)
    _check_kind(given, dtype, listed=not isinstance(xs, np.ndarray))
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(given, dtype=dtype)


def _check_kind(given: NDArray[Any], dtype: np.dtype[Any], *, listed: bool) -> None:
    too_many_bits = not listed and given.dtype.itemsize > dtype.itemsize
    if given.dtype.kind not in "fiub" or too_many_bits:
        raise InputTypeError(given=f"{given.dtype.name} values", allowed=f"real numbers that fit into {dtype.name}")


def check_norm(x: NDArray[Any], most: float) -> None:
    """Refuse a flat vector that is not finite, or whose ℓ2 norm is above `most` by more than NORM_ERROR of it."""
    norm = math.sqrt(squared_norm(x))
    if norm <= most * (1 + NORM_ERROR):
        return
    if not np.isfinite(x).all():
        raise InputNotFinite
    raise InputOutOfBound(given=norm, least=0, most=most, what="the ℓ2 norm")


def squared_norm(x: NDArray[Any]) -> float:
    """Σ x², to a relative error below NORM_ERROR whatever the order of the additions; inf or NaN if it overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.dot(x, x)) if x.dtype == np.float64 else kernel.squared_norm_f32(x)
