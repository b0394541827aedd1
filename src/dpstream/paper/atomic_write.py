"""Files that are there as a whole or not at all, and directories that can take them."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from dpstream.errors import InvalidArgument

__all__ = ["check_directory", "write"]


def check_directory(argument: str, path: Path) -> None:
    """Make the directory if need be, and try it; `argument` is what an error calls it.

    Raises
    ------
    InvalidArgument
        If it is something else, or nothing can be written there.
    """
    if path.exists() and not path.is_dir():
        raise InvalidArgument(argument, str(path), "a directory, but it is a file")
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InvalidArgument(argument, str(path), f"a directory that can be written ({reason})") from None


def write(path: Path, content: str | bytes) -> None:
    """Write the whole file under another name, then give it its own: an interruption leaves the old one, or none."""
    data = content.encode() if isinstance(content, str) else content
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_bytes(data)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
