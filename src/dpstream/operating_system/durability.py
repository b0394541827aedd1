"""Puts on the disk what was written, so that it outlives a crash of the machine."""

from __future__ import annotations

import os
from pathlib import Path

from dpstream.operating_system.locks import fcntl

__all__ = ["synchronise_file", "synchronise_folder"]


def synchronise_file(descriptor: int) -> None:
    """Put a file's content on the disk. macOS' fsync stops at the disk's cache, and has another call for the rest."""
    if hasattr(fcntl, "F_FULLFSYNC"):
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fsync(descriptor)


def synchronise_folder(folder: Path) -> None:
    """Make the names in a folder durable; Windows does so itself, and cannot open folders."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        synchronise_file(descriptor)
    finally:
        os.close(descriptor)
