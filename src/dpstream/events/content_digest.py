"""file_digest: what a file holds, to tell whether a file that is given again under its name has changed."""

from __future__ import annotations

import hashlib

from dpstream.errors import SourceMissing

__all__ = ["file_digest"]


def file_digest(path: str) -> bytes:
    """Return the SHA-256 digest of a file's bytes.

    Raises
    ------
    SourceMissing
        If it cannot be read.
    """
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise SourceMissing(source=path, reason=(error.strerror or str(error)).lower()) from None
