"""What is secret in the file is encrypted, and everything that matters is sealed to its place.

* True sums: AES-256-GCM under a key of the stream's own, with store, stream, step and format as associated data. A sum
  that was edited, or moved to another row, step, stream or store, does not open.
* Releases are public, so they are readable; a keyed digest over the whole row tells an edited or a moved one.
* Inputs are not kept. Where the caller numbers them, 8 bytes of a keyed digest are, enough to tell a retry from a
  different value.

Digests are keyed BLAKE2b (RFC 7693), which is made for that.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray

from dpstream.noise.keystream import derive_key

__all__ = ["INPUT_BYTES", "Seals", "StoreSeals"]

#: Part of everything sealed here.
FORMAT = 1
SEAL_BYTES = 16
INPUT_BYTES = 8
_NONCE_BYTES = 12


class StoreSeals:
    """What one master key makes for one store."""

    def __init__(self, master: bytes, store: bytes) -> None:
        self._master = master
        self._store = store.hex()
        self._rows = self._derive("store rows")
        self.witness_key = self._derive("store witness")

    def __repr__(self) -> str:
        return "StoreSeals(key=<hidden>)"

    def _derive(self, purpose: str, **more: object) -> bytes:
        return derive_key(self._master, purpose=purpose, configuration={"store": self._store, "seals": FORMAT, **more})

    def check(self) -> bytes:
        """Bytes that tell this key and store from any other, and nothing about them."""
        return _digest(self._rows, b"check")

    def name_digest(self, name: str) -> bytes:
        """A stream's name, for the witness, which shows no names."""
        return _digest(self._rows, b"name", name.encode())

    def stream_seal(self, name: str, tag: bytes, configuration: str) -> bytes:
        """The seal of what never changes about a stream."""
        return _digest(self._rows, b"stream", name.encode(), tag, configuration.encode())

    def noise_key(self, name: str, tag: bytes, configuration: str) -> bytes:
        """The key of a stream's noise: its own for every store, stream, name and configuration."""
        return self._derive("store noise", stream=tag.hex(), name=name, settings=json.loads(configuration))

    def people_key(self, tag: bytes) -> bytes:
        """The key of the fingerprints that tell the people of one stream apart."""
        return self._derive("store people", stream=tag.hex())

    def stream(self, tag: bytes) -> Seals:
        """What seals the rows of one stream."""
        return Seals(
            tag, sums=self._derive("store sums", stream=tag.hex()), rows=self._derive("rows", stream=tag.hex())
        )


class Seals:
    """What one stream seals its rows with."""

    def __init__(self, tag: bytes, *, sums: bytes, rows: bytes) -> None:
        self._tag = tag
        self._sums = AESGCM(sums)
        self._rows = rows

    def __repr__(self) -> str:
        return "Seals(key=<hidden>)"

    def seal_sums(self, sums: bytes, place: Sequence[int | None]) -> bytes:
        """The sums, encrypted, to be opened at this place only."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._sums.encrypt(nonce, sums, self._bound_to(place))

    def open_sums(self, sealed: bytes, place: Sequence[int | None]) -> bytes | None:
        """Undo `seal_sums`; None if these bytes were not sealed for this place under this key."""
        if len(sealed) < _NONCE_BYTES + SEAL_BYTES:
            return None
        try:
            return self._sums.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], self._bound_to(place))
        except InvalidTag:
            return None

    def _bound_to(self, place: Sequence[int | None]) -> bytes:
        return b"dpstream sums %d %s %s" % (FORMAT, self._tag.hex().encode(), repr(tuple(place)).encode())

    def batch_seal(self, first: int, count: int, releases: bytes, inputs: bytes | None) -> bytes:
        """The seal of a row of releases."""
        place = b"%d %d" % (first, count)
        return _digest(self._rows, b"batch", place, releases, b"" if inputs is None else b"inputs " + inputs)

    def input_digests(self, first: int, rows: NDArray[Any]) -> bytes:
        """One digest a step, of the step and its input."""
        keyed = hashlib.blake2b(key=self._rows, digest_size=INPUT_BYTES)
        made = bytearray()
        width = rows[0].nbytes if len(rows) else 0
        content = np.ascontiguousarray(rows, dtype=rows.dtype.newbyteorder("<")).tobytes()
        for i in range(len(rows)):
            one = keyed.copy()  # half the time of keying it again
            one.update((first + i).to_bytes(8, "little"))
            one.update(content[i * width : (i + 1) * width])
            made += one.digest()
        return bytes(made)


def _digest(key: bytes, *parts: bytes) -> bytes:
    made = hashlib.blake2b(key=key, digest_size=SEAL_BYTES)
    for part in parts:
        made.update(len(part).to_bytes(8, "little"))
        made.update(part)
    return made.digest()
