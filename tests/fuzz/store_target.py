"""A store whose files somebody damaged is refused by name or as good as new: no other releases, no other errors."""

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

import dpstream as dp
from dpstream.errors import DpstreamError
from dpstream.mechanisms import SmoothBinary
from dpstream.testing import fixed_key

from .targets import damaged

RAM = Path("/dev/shm")  # noqa: S108
KEY = fixed_key("fuzzed store")
INPUTS = [1, 0, 2, 1, 1]


def visits(store):
    return store.counter("visits", horizon=100, budget=dp.zcdp(0.5), mechanism=SmoothBinary(100), per_person=3)


class DamagedStore:
    """One store that is damaged, tried and put right again, as often as wanted."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(dir=RAM if os.access(RAM, os.W_OK) else None))
        self.path = self.folder / "counts.db"
        with dp.Store(self.path, master_key=KEY) as store:
            counter = visits(store)
            self.released = [counter.add(x) for x in INPUTS[:-1]]
        self.kept = {f: f.read_bytes() for f in self.folder.iterdir()}
        self.expected = self.attempt()
        self.restore()
        assert self.attempt() == self.expected
        self.restore()

    def attempt(self):
        """Everything a stranger would do with a store: read it, and go on."""
        with dp.Store(self.path, master_key=KEY) as store:
            before = store.releases("visits")
            return before, visits(store).add(INPUTS[-1])

    def restore(self):
        for f in self.folder.iterdir():
            if f not in self.kept:
                f.unlink()
        for f, content in self.kept.items():
            # In place: the witness knows its own inode.
            with f.open("r+b") as file:
                file.write(content)
                file.truncate()

    def __call__(self, data: bytes) -> None:
        if not data:
            return
        file = sorted(self.kept)[data[0] % len(self.kept)]
        try:
            with file.open("r+b") as opened:
                opened.write(damaged(self.kept[file], data[1:]))
                opened.truncate()
            with contextlib.suppress(DpstreamError):
                assert self.attempt() == self.expected, "a damaged store released something else"
        finally:
            self.restore()

    def close(self):
        shutil.rmtree(self.folder)
