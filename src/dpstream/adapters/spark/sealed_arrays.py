r"""Arrays as sealed bytes: the format in which shards are kept in Spark's state store, version 1.

    offset  size
    0       8     b"dpshard\0"
    8       2     version of the format: 1
    10      2     kind: 1 names, 2 numbers of declared names, 3 numbers of discovered names, 4 people
    12      4     shard
    16      8     steps closed (of kinds 1 and 4: 0)
    24      ...   sealed content: a nonce of 12 bytes, then AES-256-GCM, which binds kind, shard and steps

All numbers are little-endian. The content is a list of arrays, in the order that the kind has, each as

    1       code of the type: 1 int64, 2 float64, 3 uint32, 4 uint64, 5 uint8
    1       number of dimensions
    6       zeros, followed by 8 bytes for each dimension
    ...     the numbers, the last dimension first, and zeros up to a multiple of 8 bytes

The key of a shard is derived from the secret, the job's settings and the shard (`store.sealing`), so what was written
under another secret, for other settings or for another shard does not open. Nothing here is ever unpickled.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstream.errors import StateError
from dpstream.store.sealing import Seals

__all__ = ["DECLARED", "DISCOVERED", "NAMES", "PEOPLE", "closed_steps", "open_arrays", "seal_arrays"]

NAMES, DECLARED, DISCOVERED, PEOPLE = 1, 2, 3, 4
MAGIC, VERSION = b"dpshard\0", 1
_HEADER = struct.Struct("<8sHHIQ")
#: Arrays begin at multiples of so many bytes: the kernel works on them where they are.
_WORD = 8
_TYPES = {1: "<i8", 2: "<f8", 3: "<u4", 4: "<u8", 5: "u1"}
_CODES = {np.dtype(name): code for code, name in _TYPES.items()}


def seal_arrays(seals: Seals, kind: int, shard: int, t: int, arrays: Sequence[NDArray[Any]]) -> bytes:
    """Return the arrays as bytes, sealed for this place."""
    parts: list[bytes] = []
    for array in arrays:
        parts.append(struct.pack(f"<BB6x{array.ndim}Q", _CODES[array.dtype], array.ndim, *array.shape))
        parts.append(np.ascontiguousarray(array).tobytes())
        parts.append(bytes(-array.nbytes % _WORD))
    return _HEADER.pack(MAGIC, VERSION, kind, shard, t) + seals.seal_sums(b"".join(parts), (kind, shard, t))


def closed_steps(blob: bytes) -> int:
    """Return how many steps were closed when these bytes were written, as their header says."""
    return int(_header(blob)[4])


def open_arrays(seals: Seals, kind: int, shard: int, blob: bytes) -> list[NDArray[Any]]:
    """Undo `seal_arrays`; the arrays may be written to.

    Raises
    ------
    StateError
        If these bytes are of another version, or were not sealed for this place under this key.
    """
    _, _, found, of, t = _header(blob)
    content = seals.open_sums(blob[_HEADER.size :], (kind, shard, t)) if (found, of) == (kind, shard) else None
    if content is None:
        raise StateError(f"the state of shard {shard} does not open: it was damaged, moved or sealed under another key")
    arrays, at, memory = [], 0, bytearray(content)
    while at < len(memory):
        code, dimensions = struct.unpack_from("<BB", memory, at)
        shape = struct.unpack_from(f"<{dimensions}Q", memory, at + _WORD)
        at += _WORD * (1 + dimensions)
        dtype, size = np.dtype(_TYPES[code]), math.prod(shape)
        arrays.append(np.frombuffer(memory, dtype=dtype, count=size, offset=at).reshape(shape))
        at += -(-size * dtype.itemsize // _WORD) * _WORD
    return arrays


def _header(blob: bytes) -> tuple[Any, ...]:
    if len(blob) < _HEADER.size or not blob.startswith(MAGIC):
        raise StateError("these bytes are no state of a shard")
    header = _HEADER.unpack_from(blob)
    if header[1] != VERSION:
        raise StateError(f"the state has format {header[1]}; this dpstream reads format {VERSION}")
    return header
