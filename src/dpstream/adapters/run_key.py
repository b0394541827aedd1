"""The key of one training run, and how many steps were released under it.

Noise is a pure function of (key, step), so a training that goes back to an older checkpoint and takes other steps from
there would put used noise on other gradients, and whoever sees both learns their exact difference. So a key file has a
companion, ``<key file>.steps``, that counts the steps; it is written *before* the noise of a step is used:

    dpstream-steps-1 <digest of the run's settings, 64 digits> <steps, 20 digits>, and a line end

The count runs ahead by up to `RESERVED` steps, so that most steps write nothing; a checkpoint makes it exact. The file
is locked while a run is open, which keeps a second optimizer away from the same noise.
"""

from __future__ import annotations

import hashlib
import os
import weakref
from io import FileIO
from pathlib import Path
from typing import NamedTuple, NoReturn, Self

from dpstream.errors import (
    InvalidArgument,
    KeyInUse,
    KeyOfAnotherRun,
    StepsMissing,
    StepsNotWritten,
    StepsReleased,
    TrainingKeyMissing,
)
from dpstream.noise.keystream import check_key, fresh_key
from dpstream.operating_system.durability import synchronise_file, synchronise_folder
from dpstream.operating_system.locks import lock_file, require_locks
from dpstream.store.master_key import read_key_file, write_key_file

__all__ = ["RunKey", "WorkerKey", "steps_path"]

VERSION = "dpstream-steps-1"
#: How many steps the count on the disk runs ahead: one write and one fsync for so many steps.
RESERVED = 32

#: The keys that runs of this process hold in memory, by a digest of key and settings.
_held: weakref.WeakValueDictionary[bytes, RunKey] = weakref.WeakValueDictionary()


def steps_path(key_file: Path) -> Path:
    """Where the steps released under the key in `key_file` are counted."""
    return key_file.with_name(key_file.name + ".steps")


class WorkerKey(NamedTuple):
    """What the first worker of a distributed run tells the others: a secret."""

    key: bytes
    digest: str
    resumable: bool
    released: int


class RunKey:
    """A secret key, and the number of steps that may have been released under it.

    Parameters
    ----------
    source
        None: a fresh key from the operating system, which is shown to nobody, so that the run cannot be resumed.
        A path: the key in this file (mode 0600), which is made if it is not there.
        32 bytes: this key. Who keeps it must see to it that no step is released twice.
    settings
        All that the noise depends on, as one string; the key of a file serves these settings only.
    """

    def __init__(self, source: bytes | str | os.PathLike[str] | None, settings: str) -> None:
        self._digest = hashlib.sha256(settings.encode()).hexdigest()
        self._steps: FileIO | None = None
        self._path: Path | None = None
        self._written = 0
        self.released = 0
        if source is None or isinstance(source, (bytes, bytearray, memoryview)):
            self.key = fresh_key() if source is None else check_key(source)
            self.resumable = source is not None
            self._hold()
        else:
            path = Path(source)
            self.resumable = True
            self._open(path)
            self.key = self._read(path, create=self.released == 0)

    def for_worker(self) -> WorkerKey:
        """Return what the other workers of a distributed run need: they leave counting in the file to this one."""
        return WorkerKey(self.key, self._digest, self.resumable, self.released)

    @classmethod
    def of_worker(cls, shared: WorkerKey, settings: str) -> Self:
        """Return the key for another worker.

        Raises
        ------
        InvalidArgument
            If the settings of this worker are not those of the first.
        """
        made = cls(shared.key, settings)
        if made._digest != shared.digest:
            made.close()
            raise InvalidArgument(
                "budget, max_grad_norm, epochs, mechanism and model",
                "others than the first worker",
                "the same on every worker",
            )
        made.resumable, made.released = shared.resumable, shared.released
        return made

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a RunKey holds a secret key and cannot be copied or pickled; give a training that goes on elsewhere its"
            " key file"
        )

    def __repr__(self) -> str:
        return f"RunKey(<hidden>, released={self.released})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def check(self, step: int) -> None:
        """Refuse to go on after `step` if more steps than that were released."""
        if self.released > step:
            raise StepsReleased(step=step, released=self.released)

    def reserve(self, step: int, horizon: int) -> None:
        """Make durable that `step` may be released; called before the noise of that step is used."""
        self.check(step - 1)
        if self._steps is not None and step > self._written:
            self._write(min(step + RESERVED - 1, horizon))
        self.released = step

    def settle(self, step: int) -> None:
        """Make durable that exactly `step` steps were released (a checkpoint), or that later ones are discarded."""
        self.released = step
        if self._steps is not None and step != self._written:
            self._write(step)

    def close(self) -> None:
        """Let go of the key and of its file, for another run to go on with."""
        if self._steps is not None:
            self.settle(self.released)
            self._let_go()
        _held.pop(self._name(), None)

    # -- keys in memory -------------------------------------------------------------------------------------------

    def _name(self) -> bytes:
        return hashlib.sha256(self.key + self._digest.encode()).digest()

    def _hold(self) -> None:
        if self._name() in _held:
            raise KeyInUse(what="given as bytes")
        _held[self._name()] = self

    # -- keys in files --------------------------------------------------------------------------------------------

    @staticmethod
    def _read(path: Path, *, create: bool) -> bytes:
        try:
            return read_key_file(path)
        except FileNotFoundError:
            if not create:
                raise TrainingKeyMissing(path=str(path)) from None
        write_key_file(path, fresh_key(), keep=True)
        return read_key_file(path)

    def _open(self, path: Path) -> None:
        """Open, lock and read the count of steps; make it if neither it nor the key is there."""
        require_locks("a key file that counts its steps")
        self._path = steps_path(path)
        new = not self._path.exists()
        if new and path.exists():
            raise StepsMissing(path=str(self._path), found="is missing")
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StepsNotWritten(path=str(self._path), reason=error.strerror or type(error).__name__) from error
        self._steps = os.fdopen(descriptor, "r+b", buffering=0)
        weakref.finalize(self, self._steps.close)  # ends the lock with this object at the latest
        try:
            lock_file(self._steps.fileno(), wait=False)
        except BlockingIOError:
            self._let_go()
            raise KeyInUse(what=str(path)) from None
        content = os.pread(self._steps.fileno(), 1000, 0).decode("ascii", "replace")
        if not content:
            self._write(0)
            synchronise_folder(self._path.parent)
            return
        parts = content.split()
        if len(parts) != 3 or parts[0] != VERSION or not parts[2].isdigit() or not content.endswith("\n"):
            self._let_go()
            raise StepsMissing(path=str(self._path), found=f"is damaged: it does not read {VERSION!r}, a digest, steps")
        if parts[1] != self._digest and int(parts[2]):
            self._let_go()
            raise KeyOfAnotherRun(path=str(path))
        self.released = self._written = int(parts[2])

    def _let_go(self) -> None:
        if self._steps is not None:
            self._steps.close()
            self._steps = None

    def _write(self, steps: int) -> None:
        assert self._steps is not None and self._path is not None  # noqa: S101, PT018
        try:
            os.pwrite(self._steps.fileno(), f"{VERSION} {self._digest} {steps:020d}\n".encode(), 0)
            synchronise_file(self._steps.fileno())
        except OSError as error:
            raise StepsNotWritten(path=str(self._path), reason=error.strerror or type(error).__name__) from error
        self._written = steps
