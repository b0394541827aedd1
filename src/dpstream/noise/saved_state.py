"""The saved state of a noise stream: a versioned format without pickle, sealed with the stream's key.

    magic    4 bytes   b"DPNS"
    version  2 bytes   little-endian, now 1
    length   4 bytes   of the header
    header   JSON      {"configuration": {...}, "t": ..., "base": ..., "arrays": [[dtype, shape], ...]}, UTF-8
    nonce   12 bytes
    sealed   rest      the arrays' bytes, C order, little-endian, through AES-256-GCM with everything above as
                       associated data

The header is readable by anyone and holds no secret. The arrays hold noise, which together with the releases gives the
true sums away; so they are encrypted. The seal also tells a damaged file, a foreign state and a wrong key. The key
itself is never in there.
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray

from dpstream.errors import StateError

__all__ = ["SavedState", "open_state", "seal_state"]

MAGIC = b"DPNS"
VERSION = 1
_PREFIX = struct.Struct("<4sHI")
_NONCE_BYTES = 12
_DTYPES = ("<f4", "<f8")


@dataclass(frozen=True)
class SavedState:
    """Where a stream stood (`t`), and the engine's arrays at step `base` ≤ t."""

    t: int
    base: int
    arrays: list[NDArray[Any]]


def seal_state(state: SavedState, configuration: Mapping[str, object], key: bytes) -> bytes:
    """The bytes of a saved state."""
    arrays = [np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")) for array in state.arrays]
    header = json.dumps(
        {
            "configuration": dict(configuration),
            "t": state.t,
            "base": state.base,
            "arrays": [[array.dtype.str, list(array.shape)] for array in arrays],
        },
        sort_keys=True,
    ).encode()
    front = _PREFIX.pack(MAGIC, VERSION, len(header)) + header
    nonce = os.urandom(_NONCE_BYTES)
    return front + nonce + AESGCM(key).encrypt(nonce, b"".join(a.tobytes() for a in arrays), front)


def open_state(sealed: bytes, configuration: Mapping[str, object], key: bytes) -> SavedState:
    """Undo `seal_state`; refuse whatever is not a whole, undamaged state of this configuration under this key."""
    if len(sealed) < _PREFIX.size or sealed[:4] != MAGIC:
        raise StateError("these bytes are not a dpstream noise state: they do not start with DPNS")
    _, version, length = _PREFIX.unpack_from(sealed)
    if version != VERSION:
        raise StateError(f"this noise state has format version {version}, but this dpstream reads version {VERSION}")
    end = _PREFIX.size + length
    if len(sealed) < end + _NONCE_BYTES + 16:
        raise StateError(
            f"this noise state is cut short: {len(sealed)} bytes, at least {end + _NONCE_BYTES + 16} expected"
        )
    try:
        header = json.loads(sealed[_PREFIX.size : end])
        kept = header["configuration"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise StateError("this noise state is damaged: its header cannot be read") from error
    for name, value in configuration.items():
        if not isinstance(kept, dict) or kept.get(name) != value:
            was = kept.get(name) if isinstance(kept, dict) else None
            raise StateError(f"this noise state belongs to another stream: its {name} is {was!r}, not {value!r}")
    nonce = sealed[end : end + _NONCE_BYTES]
    try:
        content = AESGCM(key).decrypt(nonce, sealed[end + _NONCE_BYTES :], sealed[:end])
    except InvalidTag:
        raise StateError("this noise state is damaged, or was saved under another key") from None
    # From here on the bytes are ours: the seal covers the header too.
    arrays, position = [], 0
    for dtype, shape in header["arrays"]:
        size = math.prod(shape) * np.dtype(dtype).itemsize
        arrays.append(np.frombuffer(content, dtype, math.prod(shape), position).reshape(shape).copy())
        position += size
    return SavedState(header["t"], header["base"], arrays)
