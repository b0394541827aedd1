"""The only source of randomness: AES-256 in counter mode, addressed like memory.

Draws are a pure function of (key, step): whoever holds the key computes the same bits for the same step, in any order,
chunk, thread or process. The 128-bit counter of a 16-byte block is, from the top,

    purpose (8 bits) | extension (16) | slot (24) | block (80)

* purpose: 1 for draws; other values are reserved.
* extension: 0 for the leading bits of a draw, e ≥ 1 for the e-th further 64 bits of its fractions (exact rounding).
* slot: which draw of a step (0 its node, 1 its padding, ...).
* block: position within the slot; `dpstream.noise.draws` says how steps and coordinates are laid out there.

Keys are 32 bytes from the operating system. They are held in one private attribute and shown by nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Mapping
from typing import NoReturn

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from dpstream.errors import InvalidArgument, KeyLengthError

__all__ = [
    "FORMAT_VERSION",
    "KEY_BYTES",
    "Keystream",
    "configuration_digest",
    "derive_from_digest",
    "derive_key",
    "fresh_key",
]

#: Part of every derived key: a later layout of the keystream gets a new number, and with it new keys.
FORMAT_VERSION = 1
KEY_BYTES = 32

BLOCK_BYTES = 16
_BLOCK_BITS, _SLOT_BITS, _EXTENSION_BITS = 80, 24, 16
_BLOCKS = 1 << _BLOCK_BITS
_DRAWS = 1

#: A thread keeps a cursor for each of so many slots: they are small, but not free.
MOST_CURSORS = 64

#: One spelling for every configuration.
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)

#: One call of the cipher makes this much at most; the zeros it encrypts stay in the first-level caches.
CHUNK_BYTES = 1 << 17
_ZEROS = memoryview(bytes(CHUNK_BYTES))


def fresh_key() -> bytes:
    """32 bytes from the operating system."""
    return os.urandom(KEY_BYTES)


def check_key(key: object) -> bytes:
    """The key as bytes; its length is checked, and nothing of it is ever put into a message."""
    if not isinstance(key, (bytes, bytearray, memoryview)):
        raise KeyLengthError(f"key must be {KEY_BYTES} bytes or None, got an object of type {type(key).__name__}")
    secret = bytes(key)
    if len(secret) != KEY_BYTES:
        raise KeyLengthError(f"key must be {KEY_BYTES} bytes or None, got {len(secret)} bytes")
    return secret


def derive_key(master: bytes, *, purpose: str, configuration: Mapping[str, object]) -> bytes:
    """A key of its own for every purpose and configuration: HKDF-SHA-256 of the master key.

    Two streams, or one stream with any setting changed, never share noise, because `configuration` holds all settings.
    """
    return derive_from_digest(master, configuration_digest(purpose, configuration))


def configuration_digest(purpose: str, configuration: Mapping[str, object]) -> bytes:
    """What `derive_key` makes of a purpose and a configuration, for those who derive many keys from one of them."""
    described = {"format": FORMAT_VERSION, "purpose": purpose, "configuration": dict(configuration)}
    return hashlib.sha256(_CANONICAL.encode(described).encode()).digest()


def derive_from_digest(master: bytes, digest: bytes) -> bytes:
    """HKDF-SHA-256 of the master key for one `configuration_digest`."""
    info = b"dpstream\x00" + digest
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=info).derive(check_key(master))


class Keystream:
    """Random access to the keystream of one key. Safe to share between threads."""

    def __init__(self, key: bytes) -> None:
        self._key = check_key(key)
        self._local = threading.local()

    def __repr__(self) -> str:
        return "Keystream(key=<hidden>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Keystream holds a secret key and cannot be pickled")

    def fill(self, out: NDArray[np.uint8], *, slot: int, block: int, extension: int = 0) -> None:
        """Write the keystream that starts at `block` into `out`, a contiguous byte array."""
        size = out.nbytes
        cursor = self._cursor(slot, extension, block, -(-size // BLOCK_BYTES))
        if size <= CHUNK_BYTES:
            cursor.cipher.update_into(_ZEROS if size == CHUNK_BYTES else _ZEROS[:size], out.data)
        else:
            for done in range(0, size, CHUNK_BYTES):
                part = out[done : done + CHUNK_BYTES]
                cursor.cipher.update_into(_ZEROS[: part.nbytes], part.data)
        if size % BLOCK_BYTES:
            cursor.position = -1  # in the middle of a block: not a place to go on from

    def words(self, *, slot: int, block: int, extension: int = 0) -> tuple[int, int]:
        """One block as two 64-bit words."""
        made = self._cursor(slot, extension, block, 1).cipher.update(_ZEROS[:BLOCK_BYTES])
        return int.from_bytes(made[:8], "little"), int.from_bytes(made[8:], "little")

    def _cursor(self, slot: int, extension: int, block: int, blocks: int) -> _Cursor:
        """The calling thread's cursor for `slot`, at `block`, counted as if `blocks` had been read from there."""
        if not (block >= 0 and block + blocks < _BLOCKS):
            raise InvalidArgument("block", block, f"within 2^{_BLOCK_BITS}")
        if not (0 <= slot < 1 << _SLOT_BITS and 0 <= extension < 1 << _EXTENSION_BITS):
            raise InvalidArgument(
                "slot, extension", (slot, extension), f"within 2^{_SLOT_BITS} and 2^{_EXTENSION_BITS}"
            )
        try:
            cursors: dict[int, _Cursor] = self._local.cursors
        except AttributeError:
            cursors = self._local.cursors = {}
        cursor = cursors.get(slot)
        position = extension << _BLOCK_BITS | block
        if cursor is None or cursor.position != position:
            fields = ((_DRAWS << _EXTENSION_BITS | extension) << _SLOT_BITS | slot) << _BLOCK_BITS | block
            counter = fields.to_bytes(16, "big")
            if cursor is None:
                if len(cursors) >= MOST_CURSORS:
                    cursors.clear()
                cipher = Cipher(algorithms.AES(self._key), modes.CTR(counter)).encryptor()
                cursor = cursors[slot] = _Cursor(cipher, position)
            else:
                cursor.cipher.reset_nonce(counter)
        cursor.position = position + blocks
        return cursor


class _Cursor:
    """A cipher context and where it stands. Reading on costs nothing; moving it costs a microsecond."""

    __slots__ = ("cipher", "position")

    def __init__(self, cipher: CipherContext, position: int) -> None:
        self.cipher = cipher
        self.position = position
