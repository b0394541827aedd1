"""Mechanisms that are made of numbers the caller brings: equality, hash and repr by those numbers."""

from __future__ import annotations

import hashlib
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpstream.errors import InvalidArgument

__all__ = ["GivenNumbers", "given_array", "refused"]

#: Up to this many numbers a repr shows all of them.
SHOWN = 16


class GivenNumbers:
    """Equality, hash and repr of a mechanism with a read-only array `numbers`.

    A short array stands in the repr, which is then a constructor call; of a long one the repr shows the shape and a
    digest. `mechanisms.catalogue.mechanism_to_json` writes all numbers.
    """

    numbers: NDArray[np.float64]

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the shape and the numbers, in hexadecimal."""
        content = hashlib.sha256(repr(self.numbers.shape).encode())
        content.update(np.ascontiguousarray(self.numbers, dtype="<f8").tobytes())
        return content.hexdigest()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return isinstance(other, GivenNumbers) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.digest))

    def __repr__(self) -> str:
        if self.numbers.size <= SHOWN:
            return f"{type(self).__name__}({self.numbers.tolist()!r})"
        sides = "x".join(map(str, self.numbers.shape))
        return f"{type(self).__name__}(<{sides} numbers, sha256 {self.digest[:16]}>)"


def given_array(name: str, given: ArrayLike, *, dimensions: int) -> NDArray[np.float64]:
    """Return a read-only float64 copy of an array; refuse other dimensions, no numbers, and what is not finite."""
    try:
        found = np.asarray(given)
        numeric = found.dtype.kind in "iuf" and found.dtype.itemsize <= 8
        array = np.array(found, dtype=np.float64, order="C") if numeric else None
    except (TypeError, ValueError):
        array = None
    if array is None:
        raise InvalidArgument(name, type(given).__name__, "an array of real numbers, at most float64")
    if array.ndim != dimensions or array.size == 0:
        raise refused(name, array, f"an array of {dimensions} dimension{'s' * (dimensions > 1)}, not empty")
    if not np.isfinite(array).all():
        raise refused(name, array, "finite: no NaN, no infinity")
    array += 0.0  # no negative zeros: equal numbers are equal bytes
    array.flags.writeable = False
    return array


def refused(name: str, array: NDArray[np.float64], allowed: str) -> InvalidArgument:
    """The error for an array, which says its shape instead of its numbers."""
    return InvalidArgument(name, f"an array of shape {array.shape}", allowed)
