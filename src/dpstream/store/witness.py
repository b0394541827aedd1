"""The witness: a small file beside the key that remembers how far every stream has gone.

A database alone cannot know that it is an old backup. So each stream's generation (how often it was opened for writing)
and its last step are also written here, after they are on the database's disk: a database that knows less than its
witness is old, and is refused. Layout, little-endian, every part ending in a keyed digest of its own:

    header  64 bytes   b"dpwitnes", version (u32), 4 zeros, inode of this very file (u64), store id (16), digest (8)
    stream  64 bytes   name digest (16), stream tag (16), generation (u64), last step (u64), ingests (u64), digest (8)

The lowest bit of the third number says that the stream is retired; the others count how often rows were ingested.
Generations are synchronised to the disk. Last steps and ingests are written after each commit and synchronised every
64: they are right after any crash of the process, and after a crash of the machine they may lag behind, which is safe
to accept.

A writer holds an operating system's lock on its stream's 64 bytes. It ends with the process, however that ends, and it
is seen across containers, where process numbers mean nothing.
"""

from __future__ import annotations

import hashlib
import os
import struct
from dataclasses import dataclass
from pathlib import Path

from dpstream.errors import StoreCopied, StoreDamaged
from dpstream.operating_system.durability import synchronise_file
from dpstream.operating_system.locks import lock_range, unlock_range
from dpstream.store.files import Draft, os_error_as_store_error, read_start
from dpstream.store.process import OfThisProcess

__all__ = ["Record", "Witness", "witness_path"]

VERSION = 1
MAGIC = b"dpwitnes"
SLOT = 64
#: Last steps are synchronised once in so many commits.
MARKS_A_SYNC = 64

_HEADER = struct.Struct("<8sI4xQ16s16x")
_RECORD = struct.Struct("<16s16sQQQ")
_DIGEST_BYTES = 8


def witness_path(path: Path) -> Path:
    """Where the witness of the store at `path` is."""
    return path.with_name(path.name + ".witness")


@dataclass(frozen=True)
class Record:
    """What the witness knows of a stream."""

    name_digest: bytes
    tag: bytes
    generation: int
    last: int
    retired: bool = False
    ingests: int = 0

    def pack(self) -> bytes:
        """The record's 56 bytes before the digest."""
        return _RECORD.pack(self.name_digest, self.tag, self.generation, self.last, self.ingests << 1 | self.retired)


class Witness(OfThisProcess):
    """The open witness of a store."""

    def __init__(self, path: Path, key: bytes, store: bytes, *, adopt: bool = False) -> None:
        super().__init__()
        self.path = path
        self._key = key
        self._marks = 0
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            inode = self._check_header(store)
            if inode != os.fstat(self._descriptor).st_ino:
                if not adopt:
                    raise StoreCopied(path=str(path).removesuffix(".witness"))
                self._adopt(store)
        except BaseException:
            os.close(self._descriptor)
            raise

    @staticmethod
    def create(path: Path, key: bytes, store: bytes) -> None:
        """Make a witness without streams, unless another process is faster."""
        try:
            with Draft(path) as made:
                _write_new(made.path, key, store, b"")
                made.publish()
        except OSError as error:
            raise os_error_as_store_error(error, path) from error

    @staticmethod
    def store_id(path: Path) -> bytes | None:
        """The id of the store that the witness at `path` belongs to, unchecked; None if there is no witness."""
        if not path.exists():
            return None
        header = read_start(path, SLOT)
        if len(header) < SLOT or header[:8] != MAGIC:
            raise StoreDamaged(path=str(path), what="it does not start like a witness")
        return bytes(_HEADER.unpack(header[: _HEADER.size])[3])

    def close(self) -> None:
        """Let go of the file, and with it of every lock."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    # -- reading ------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return max(0, os.fstat(self._descriptor).st_size // SLOT - 1)

    def find(self, name_digest: bytes) -> tuple[int, Record] | None:
        """The slot and the record of a stream."""
        content = os.pread(self._descriptor, SLOT * (len(self) + 1), 0)
        for slot in range(1, len(content) // SLOT):
            if content[slot * SLOT : slot * SLOT + 16] == name_digest:
                return slot, self._unpack(slot, content[slot * SLOT : (slot + 1) * SLOT])
        return None

    def read(self, slot: int) -> Record:
        """The record in a slot."""
        return self._unpack(slot, os.pread(self._descriptor, SLOT, slot * SLOT))

    def check(self) -> None:
        """Read everything; raises if any record is damaged."""
        for slot in range(1, len(self) + 1):
            self.read(slot)

    def _unpack(self, slot: int, content: bytes) -> Record:
        body = content[: _RECORD.size]
        if len(content) != SLOT or content[_RECORD.size :] != self._digest(slot, body):
            raise StoreDamaged(path=str(self.path), what=f"record {slot} of the witness is not as it was written")
        name_digest, tag, generation, last, ingests = _RECORD.unpack(body)
        return Record(name_digest, tag, generation, last, bool(ingests & 1), ingests >> 1)

    # -- writing ------------------------------------------------------------------------------------------------------

    def add(self, record: Record) -> int:
        """A slot of its own for a new stream. The caller holds the database's write lock."""
        slot = len(self) + 1
        self.write(slot, record)
        return slot

    def write(self, slot: int, record: Record) -> None:
        """Write a record and synchronise it."""
        self._put(slot, record)
        self.synchronise()

    def mark(self, slot: int, record: Record, last: int, ingests: int) -> Record:
        """Note the last step of a stream, and how often rows were ingested.

        They are in the operating system's hands at once, and on the disk before long.
        """
        marked = Record(record.name_digest, record.tag, record.generation, last, ingests=ingests)
        self._put(slot, marked)
        self._marks += 1
        if self._marks % MARKS_A_SYNC == 0:
            self.synchronise()
        return marked

    def synchronise(self) -> None:
        """Put on the disk what was written."""
        try:
            synchronise_file(self._descriptor)
        except OSError as error:
            raise os_error_as_store_error(error, self.path) from error

    def _put(self, slot: int, record: Record) -> None:
        body = record.pack()
        try:
            written = os.pwrite(self._descriptor, body + self._digest(slot, body), slot * SLOT)
        except OSError as error:
            raise os_error_as_store_error(error, self.path) from error
        if written != SLOT:
            raise os_error_as_store_error(OSError(28, "written in part only"), self.path)

    def _digest(self, slot: int, body: bytes) -> bytes:
        return hashlib.blake2b(body + slot.to_bytes(8, "little"), key=self._key, digest_size=_DIGEST_BYTES).digest()

    # -- one writer a stream ------------------------------------------------------------------------------------------

    def try_lock(self, slot: int) -> bool:
        """Lock a stream for this object; False if another process, or another object of this one, has it."""
        return lock_range(self._descriptor, slot * SLOT, SLOT)

    def unlock(self, slot: int) -> None:
        """Give a stream back."""
        if self._descriptor >= 0:
            unlock_range(self._descriptor, slot * SLOT, SLOT)

    # -- the file itself ----------------------------------------------------------------------------------------------

    def _check_header(self, store: bytes) -> int:
        header = os.pread(self._descriptor, SLOT, 0)
        body = header[: _HEADER.size]
        if len(header) != SLOT or header[_HEADER.size :] != self._digest(0, body):
            raise StoreDamaged(path=str(self.path), what="the witness is not as it was written, or of another store")
        magic, version, inode, found = _HEADER.unpack(body)
        if magic != MAGIC or version != VERSION or found != store:
            raise StoreDamaged(path=str(self.path), what="the witness belongs to another store or version")
        return int(inode)

    def _adopt(self, store: bytes) -> None:
        """Make this copy the witness from now on: a new file in its place that knows its own inode."""
        self.check()
        records = os.pread(self._descriptor, SLOT * len(self), SLOT)
        try:
            with Draft(self.path) as made:
                _write_new(made.path, self._key, store, records)
                made.replace()
        except OSError as error:
            raise os_error_as_store_error(error, self.path) from error
        os.close(self._descriptor)
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)


def _write_new(path: Path, key: bytes, store: bytes, records: bytes) -> None:
    with path.open("wb") as file:
        body = _HEADER.pack(MAGIC, VERSION, os.fstat(file.fileno()).st_ino, store)
        slot = (0).to_bytes(8, "little")
        digest = hashlib.blake2b(body + slot, key=key, digest_size=_DIGEST_BYTES).digest()
        file.write(body + digest + records)
        file.flush()
        synchronise_file(file.fileno())
