"""Files that a command writes: opened before anything is spent, complete when they appear."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from dpstream.errors import DpstreamError, InvalidArgument
from dpstream.operating_system.processes import has_ended

__all__ = ["NotWritten", "Plot", "Target", "check_target", "opened"]

#: The option that draws a picture; `pictures` draws.
Plot = Annotated[
    Path | None, typer.Option("--plot", metavar="FILE", help="Draw a picture: .png, .svg, .pdf or .html (extra: plot).")
]


class NotWritten(DpstreamError):
    """Steps were released, but what was to show them could not be written in full."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"{where}: {reason}")
        self.where, self.reason = where, reason


class Target:
    """A file that will be written, or whatever else stands at its path.

    A file appears when it is complete, in place of an older one; the old one stays as it is if writing fails. A link is
    followed. A pipe or a device is written into.

    Parameters
    ----------
    option, path
        The option that named it, for messages, and the path as it was given.

    Raises
    ------
    InvalidArgument
        If it cannot be written: found out by opening it.
    """

    def __init__(self, option: str, path: Path) -> None:
        self.option, self.path = option, path
        self._draft: Path | None = None
        self._final = check_target(option, path)
        try:
            if self._final.exists() and not self._final.is_file():
                self.file: BinaryIO = self._final.open("wb", buffering=0)
                return
            _sweep(self._final.parent)
            self._draft = self._final.parent / f".dpstream-{_host()}-{os.getpid()}-{id(self):x}.draft"
            self.file = self._draft.open("wb")
        except OSError as error:
            raise _refused(option, path, error) from None

    def finish(self) -> None:
        """Make the file appear.

        Raises
        ------
        NotWritten
            If the disk does not take it.
        """
        try:
            self.file.close()
            if self._draft is not None:
                if self._final.exists():
                    os.chmod(self._draft, stat.S_IMODE(self._final.stat().st_mode))
                self._draft.replace(self._final)
        except OSError as error:
            raise NotWritten(f"{self.option} {self.path}", error.strerror or str(error)) from None

    def discard(self) -> None:
        """Leave nothing behind, unless it is finished."""
        with contextlib.suppress(OSError):
            self.file.close()
        if self._draft is not None:
            self._draft.unlink(missing_ok=True)


@contextmanager
def opened(option: str, path: Path | None) -> Iterator[Target | None]:
    """Open a target, if there is one, and clean up after it."""
    if path is None:
        yield None
        return
    target = Target(option, path)
    try:
        yield target
    finally:
        target.discard()


def check_target(option: str, path: Path) -> Path:
    """Refuse a path that cannot be written; return where it leads, links followed."""
    try:
        with contextlib.suppress(FileNotFoundError):
            os.stat(path)  # names that are too long, links that lead back to themselves
        final = Path(os.path.realpath(path))
        with contextlib.suppress(FileNotFoundError):
            os.stat(final)
    except OSError as error:
        raise _refused(option, path, error) from None
    if final.is_dir() or not final.parent.is_dir():
        raise InvalidArgument(option, str(path), "a file in a folder that is there")
    if not os.access(final if final.exists() else final.parent, os.W_OK):
        raise InvalidArgument(option, str(path), "a file that may be written")
    return final


def _refused(option: str, path: Path, error: OSError) -> InvalidArgument:
    return InvalidArgument(option, str(path), f"a file that can be written ({error.strerror})")


def _host() -> str:
    return "".join(c for c in socket.gethostname() if c.isalnum())[:32] or "host"


def _sweep(folder: Path) -> None:
    """Remove drafts of processes of this machine that were killed."""
    for draft in folder.glob(f".dpstream-{_host()}-*.draft"):
        pid = draft.name.split("-")[2]
        if pid.isdecimal() and has_ended(int(pid)):
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
