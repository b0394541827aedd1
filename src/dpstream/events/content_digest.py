"""Digests of what is counted, by which a file or a frame that is given again is recognised."""

from __future__ import annotations

import hashlib

import polars as pl

from dpstream.errors import SourceMissing

__all__ = ["RowDigest", "file_digest"]

#: Rows that are written out at a time.
PIECE = 1 << 18


def file_digest(path: str) -> bytes:
    """Return the SHA-256 digest of a file's bytes, which is not that of any rows.

    Raises
    ------
    SourceMissing
        If it cannot be read.
    """
    try:
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256")
    except OSError as error:
        raise SourceMissing(source=path, reason=(error.strerror or str(error)).lower()) from None
    return b"file" + digest.digest()


class RowDigest:
    """The SHA-256 digest of rows, of a frame or of a stream that is read once: the same however they are cut."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def add(self, frame: pl.DataFrame) -> None:
        """Take more rows."""
        for piece in frame.iter_slices(PIECE):
            self._digest.update(piece.write_csv(include_header=False).encode())

    def digest(self) -> bytes:
        """Return the digest of all rows so far."""
        return b"rows" + self._digest.digest()
