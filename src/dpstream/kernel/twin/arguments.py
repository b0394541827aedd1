"""Arguments as arrays: whatever is wrong with one is refused here, before anything is written.

The messages are those of ``arguments.h``, so that the two kernels refuse alike.
"""

from __future__ import annotations

import operator
from typing import Any, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

Words: TypeAlias = Any  # anything with the buffer protocol: bytes, bytearray, memoryview, an array
Single: TypeAlias = NDArray[np.float32]
Double: TypeAlias = NDArray[np.float64]


def words_of(name: str, words: Words, dtype: DTypeLike) -> NDArray[Any]:
    """View a buffer of any type, aligned or not, as little-endian words."""
    view = memory_of(name, words)
    if not view.c_contiguous:
        raise ValueError(f"{name} must be contiguous")
    size = np.dtype(dtype).itemsize
    if view.nbytes % size:
        raise ValueError(f"{name} must have a multiple of {size} bytes, got {view.nbytes}")
    return np.frombuffer(view.cast("B") if view.nbytes else b"", np.uint8).view(np.dtype(dtype).newbyteorder("<"))


def source_of(name: str, source: Words, dtype: DTypeLike) -> NDArray[Any]:
    """View keystream as words of this type's size, or draws that were made from it already as what they are."""
    view = memory_of(name, source)
    if view.c_contiguous and view.nbytes and np.asarray(view).dtype == np.dtype(dtype):
        return np.asarray(view).reshape(-1)
    return words_of(name, source, np.uint32 if np.dtype(dtype) == np.float32 else np.uint64)


def memory_of(name: str, buffer: object) -> memoryview:
    """View an argument as memory, or say by its name that it is none."""
    try:
        return memoryview(buffer)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} must be a buffer, such as a NumPy array") from None


def array_of(name: str, buffer: object, dtype: DTypeLike, *, write: bool = False, ndim: int = 0) -> NDArray[Any]:
    """View a buffer as an array of exactly this type and `ndim` dimensions (0: any, flattened)."""
    view = memory_of(name, buffer)
    if not view.c_contiguous or (write and view.readonly):
        raise ValueError(f"{name} must be contiguous{' and writable' if write else ''}")
    array = np.asarray(view)
    if array.dtype != np.dtype(dtype):
        raise ValueError(f"{name} must hold {np.dtype(dtype)}, got format '{view.format}'")
    if ndim and array.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} dimension{'s' if ndim > 1 else ''}, got {array.ndim}")
    if not array.flags.aligned:
        raise ValueError(f"{name} must be aligned to its items")
    return array if ndim else array.reshape(-1)


def check_items(name: str, array: NDArray[Any], count: int) -> None:
    """Refuse another number of items."""
    if array.size != count:
        raise ValueError(f"{name} must have {count} items, got {array.size}")


def check_shape(name: str, array: NDArray[Any], rows: int, columns: int) -> None:
    """Refuse another shape."""
    if array.shape != (rows, columns):
        raise ValueError(f"{name} must have shape ({rows}, {columns}), got {array.shape}")


def check_words(name: str, words: NDArray[Any], draws: int, tile: int) -> None:
    """Refuse anything but the words for so many draws, in whole tiles."""
    wanted = -(-draws // tile) * tile
    if words.size != wanted:
        raise ValueError(f"{name} must have {wanted * words.itemsize} bytes, got {words.nbytes}")


def check_range(lo: int, hi: int, row: int, tile: int) -> None:
    """Refuse columns that do not start a tile, or end outside."""
    if lo % tile or not lo <= hi <= row:
        raise ValueError(f"lo must be a multiple of {tile} and lo <= hi <= {row}, got lo={lo} and hi={hi}")


def state_rows(buffers: Double) -> int:
    """Return how many rows of state these buffers have: one each, or two for those that turn."""
    return len(buffers) + int(np.count_nonzero(buffers[:, 1]))


def check_apart(written: dict[str, NDArray[Any]], read: dict[str, NDArray[Any] | None], in_place: str = "") -> None:
    """Refuse overlaps of what is written with anything else; ``top`` may be the memory of `in_place`."""
    for name, a in written.items():
        for other, b in (written | read).items():
            if b is None or other == name or not np.may_share_memory(a, b):
                continue
            if other == in_place and name == "top" and a.ctypes.data == b.ctypes.data:
                continue
            raise ValueError(f"{name} must not overlap {other}")


def whole_number(name: str, value: SupportsIndex) -> int:
    """Refuse what is no whole number, below 0, or too large for a size in C."""
    number = operator.index(value)
    if not 0 <= number < 2**63:
        raise ValueError(f"{name} must be a whole number from 0 on")
    return number
