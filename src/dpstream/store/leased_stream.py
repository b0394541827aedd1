"""LeasedStream: a stream of a store that this process alone may write, until it is given back."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Self

from dpstream.errors import LeaseLost, StoreClosed
from dpstream.store.lease import Lease
from dpstream.store.store_files import StoreFiles
from dpstream.store.tables import StreamRow, find_stream

__all__ = ["LeasedStream"]


class LeasedStream:
    """The right to write one stream, and what streams of all kinds do with it."""

    def __init__(self, files: StoreFiles, lease: Lease) -> None:
        self._files = files
        self._lease = lease
        self._seals = files.seals.stream(lease.row.tag)
        self._key = files.seals.noise_key(lease.row.name, lease.row.tag, lease.row.configuration)
        self._open = True
        self._give_back: Callable[[], object] = weakref.finalize(self, files.witness.unlock, lease.slot)

    def __reduce__(self) -> Any:
        raise TypeError("a stream of a store is bound to this process and cannot be pickled")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the stream back, for others to write. What was released stays."""
        if self._files.forked:  # where another thread of the parent may have held the lock
            return
        with self._files.lock:
            if self._open:
                self._open = False
                self._forget()
                if not self._files.closed:
                    try:
                        self._files.witness.synchronise()
                    finally:
                        self._give_back()

    def _forget(self) -> None:
        """Forget what is in memory, to be read again from the file."""
        raise NotImplementedError

    @property
    def is_open(self) -> bool:
        """Whether this object may write the stream: until `close`."""
        return self._open

    @property
    def name(self) -> str:
        """The stream's name."""
        return self._lease.row.name

    @property
    def t(self) -> int:
        """How many releases have been made."""
        return self._lease.row.t

    def _check_open(self) -> None:
        self._files.check("the store")
        if not self._open:
            raise StoreClosed(what=f"the stream {self.name!r}")

    def _leased_row(self) -> StreamRow:
        """Return the stream's row as it is in the file; refuse one that is not ours any more."""
        files, lease = self._files, self._lease
        row = find_stream(files.database, files.seals, lease.row.name)
        if row is None or row.tag != lease.row.tag or row.generation != lease.row.generation or row.retired:
            raise LeaseLost(name=lease.row.name)
        # What this writer committed is gone: an old file was put in its place.
        if row.t < lease.record.last or row.ingests < lease.record.ingests:
            raise LeaseLost(name=lease.row.name)
        return row

    def _stand_at(self, row: StreamRow) -> None:
        """Take note that the stream stands as `row` says, which is on the disk."""
        lease = self._lease
        lease.row = row
        # An interrupted commit may have succeeded, and not have been noted yet.
        if (lease.record.last, lease.record.ingests) != (row.t, row.ingests):
            lease.record = self._files.witness.mark(lease.slot, lease.record, row.t, row.ingests)
