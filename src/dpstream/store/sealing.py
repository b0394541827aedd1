"""Sealing: whatever depends on the data is encrypted in the file and bound to its place.

* Sums, releases, open steps and who was counted: AES-256-GCM under keys of the stream's own, with stream, place and
  format as associated data. What was edited, or moved to another row, step, stream or store, does not open.
* Releases are public once they are returned, and still encrypted here: a commit that fails may leave its pages in
  SQLite's log, and a release that was never returned, beside the one that took its place, would give the difference of
  their data away.
* Settings are readable; a keyed digest tells edited ones.
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
from dpstream.store.process import OfThisProcess

__all__ = ["BATCH_BYTES", "INPUT_BYTES", "Seals", "StoreSeals"]

#: Part of everything sealed here.
FORMAT = 1
SEAL_BYTES = 16
INPUT_BYTES = 8
BATCH_BYTES = 16
_NONCE_BYTES = 12


class StoreSeals(OfThisProcess):
    """The keys that one master key makes for one store."""

    def __init__(self, master: bytes, store: bytes) -> None:
        super().__init__()
        self._master = master
        self._store = store.hex()
        self._rows = self._derive("store rows")
        self.witness_key = self._derive("store witness")

    def __repr__(self) -> str:
        return "StoreSeals(key=<hidden>)"

    def _derive(self, purpose: str, **more: object) -> bytes:
        self.check_process()
        return derive_key(self._master, purpose=purpose, configuration={"store": self._store, "seals": FORMAT, **more})

    def check(self) -> bytes:
        """Return a keyed digest that identifies this key and store without revealing them."""
        return self._digest(b"check")

    def name_digest(self, name: str) -> bytes:
        """Return a keyed digest of a stream's name, for the witness, which shows no names."""
        return self._digest(b"name", name.encode())

    def stream_seal(self, name: str, tag: bytes, configuration: str) -> bytes:
        """Return the seal of what never changes about a stream."""
        return self._digest(b"stream", name.encode(), tag, configuration.encode())

    def seal_text(self, purpose: str, text: str) -> bytes:
        """Return `text` behind a keyed digest of it; anyone can read it, and nobody can change it."""
        return self._digest(purpose.encode(), text.encode()) + text.encode()

    def open_text(self, purpose: str, sealed: bytes) -> str | None:
        """Undo `seal_text`; None if these bytes were not sealed for this purpose under this key."""
        text = sealed[SEAL_BYTES:]
        return text.decode() if sealed[:SEAL_BYTES] == self._digest(purpose.encode(), text) else None

    def noise_key(self, name: str, tag: bytes, configuration: str) -> bytes:
        """Return the key of a stream's noise: its own for every store, stream, name and configuration."""
        return self._derive("store noise", stream=tag.hex(), name=name, settings=json.loads(configuration))

    def people_key(self, tag: bytes) -> bytes:
        """Return the key of the fingerprints that tell the people of one stream apart."""
        return self._derive("store people", stream=tag.hex())

    def stream(self, tag: bytes) -> Seals:
        """Return what seals the rows of one stream."""
        return Seals(tag, {use: self._derive(use, stream=tag.hex()) for use in Seals.USES})

    def _digest(self, *parts: bytes) -> bytes:
        self.check_process()
        made = hashlib.blake2b(key=self._rows, digest_size=SEAL_BYTES)
        for part in parts:
            made.update(len(part).to_bytes(8, "little"))
            made.update(part)
        return made.digest()


class Seals(OfThisProcess):
    """The keys that seal the rows of one stream."""

    USES = (
        "store sums",
        "store releases",
        "store counted people",
        "store open steps",
        "store names",
        "store published names",
        "store inputs",
        "store batches",
    )

    def __init__(self, tag: bytes, keys: dict[str, bytes]) -> None:
        super().__init__()
        self._tag = tag
        self._sums = AESGCM(keys["store sums"])
        self._releases = AESGCM(keys["store releases"])
        self._people = AESGCM(keys["store counted people"])
        self._steps = AESGCM(keys["store open steps"])
        self._names = AESGCM(keys["store names"])
        self._published = keys["store published names"]
        self._inputs = keys["store inputs"]
        self._batches = keys["store batches"]

    def __repr__(self) -> str:
        return "Seals(key=<hidden>)"

    def seal_sums(self, sums: bytes, place: Sequence[int | None]) -> bytes:
        """Encrypt a stream's sums, to be opened at this place only."""
        return self._seal(self._sums, b"sums", sums, place)

    def open_sums(self, sealed: bytes, place: Sequence[int | None]) -> bytes | None:
        """Undo `seal_sums`; None if these bytes were not sealed for this place under this key."""
        return self._open(self._sums, b"sums", sealed, place)

    def seal_batch(self, first: int, count: int, releases: bytes, inputs: bytes | None) -> bytes:
        """Encrypt the releases of `count` steps, and the digests of their inputs if they have positions."""
        return self._seal(self._releases, b"batch", releases + (inputs or b""), (first, count))

    def open_batch(self, first: int, count: int, sealed: bytes, size: int) -> tuple[bytes, bytes | None] | None:
        """Undo `seal_batch`, where releases take `size` bytes; None if it was not sealed for this place."""
        opened = self._open(self._releases, b"batch", sealed, (first, count))
        if opened is None or len(opened) not in (size, size + INPUT_BYTES * count):
            return None
        return opened[:size], opened[size:] or None

    def seal_people(self, table: bytes, place: Sequence[int]) -> bytes:
        """Encrypt a part of the table of who was counted, to be opened at this place only."""
        return self._seal(self._people, b"people", table, place)

    def open_people(self, sealed: bytes, place: Sequence[int]) -> bytes | None:
        """Undo `seal_people`; None if these bytes were not sealed for this place under this key."""
        return self._open(self._people, b"people", sealed, place)

    def seal_names(self, table: bytes, place: Sequence[int]) -> bytes:
        """Encrypt a part of what a stream of names keeps, to be opened at this place only."""
        return self._seal(self._names, b"names", table, place)

    def open_names(self, sealed: bytes, place: Sequence[int]) -> bytes | None:
        """Undo `seal_names`; None if these bytes were not sealed for this place under this key."""
        return self._open(self._names, b"names", sealed, place)

    def published_seal(self, step: int, names: str, released: bytes) -> bytes:
        """Return a keyed digest of what was published of names in one step."""
        self.check_process()
        made = hashlib.blake2b(key=self._published, digest_size=SEAL_BYTES)
        for part in (step.to_bytes(8, "little"), names.encode("utf-8", "surrogatepass"), released):
            made.update(len(part).to_bytes(8, "little"))
            made.update(part)
        return made.digest()

    def seal_steps(self, content: bytes, place: Sequence[int]) -> bytes:
        """Encrypt open steps, or which batches were ingested, to be opened at this place only."""
        return self._seal(self._steps, b"open steps", content, place)

    def open_steps(self, sealed: bytes, place: Sequence[int]) -> bytes | None:
        """Undo `seal_steps`; None if these bytes were not sealed for this place under this key."""
        return self._open(self._steps, b"open steps", sealed, place)

    def batch_digest(self, batch: bytes, content: bytes = b"") -> bytes:
        """Return the digest by which an ingested batch is recognised: half of its name, half of name and content."""
        self.check_process()
        half = BATCH_BYTES // 2
        name = hashlib.blake2b(batch, key=self._batches, digest_size=half, person=b"name").digest()
        whole = hashlib.blake2b(
            len(batch).to_bytes(8, "little"), key=self._batches, digest_size=half, person=b"content"
        )
        whole.update(batch)
        whole.update(content)
        return name + whole.digest()

    def input_digests(self, first: int, rows: NDArray[Any]) -> bytes:
        """Return one digest a step, of the step and its input."""
        self.check_process()
        keyed = hashlib.blake2b(key=self._inputs, digest_size=INPUT_BYTES)
        made = bytearray()
        width = rows[0].nbytes if len(rows) else 0
        content = np.ascontiguousarray(rows, dtype=rows.dtype.newbyteorder("<")).tobytes()
        for i in range(len(rows)):
            one = keyed.copy()  # half the time of keying it again
            one.update((first + i).to_bytes(8, "little"))
            one.update(content[i * width : (i + 1) * width])
            made += one.digest()
        return bytes(made)

    def _seal(self, cipher: AESGCM, what: bytes, content: bytes, place: Sequence[int | None]) -> bytes:
        self.check_process()
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + cipher.encrypt(nonce, content, self._bound_to(what, place))

    def _open(self, cipher: AESGCM, what: bytes, sealed: bytes, place: Sequence[int | None]) -> bytes | None:
        self.check_process()
        if len(sealed) < _NONCE_BYTES + SEAL_BYTES:
            return None
        try:
            return cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], self._bound_to(what, place))
        except InvalidTag:
            return None

    def _bound_to(self, what: bytes, place: Sequence[int | None]) -> bytes:
        return b"dpstream %s %d %s %s" % (what, FORMAT, self._tag.hex().encode(), repr(tuple(place)).encode())
