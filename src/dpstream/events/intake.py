"""Intake: takes the rows of files and frames, each source apart, and recognises what was counted before."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl

from dpstream.errors import ColumnMissing, InvalidArgument
from dpstream.events.content_digest import RowDigest, file_digest
from dpstream.events.file_options import FileOptions
from dpstream.events.tables import STDIN, Table, tables
from dpstream.events.tally import TimeTally

__all__ = ["Intake"]


class Intake:
    """Takes rows into a tally.

    Parameters
    ----------
    files
        How files are written.
    tally
        What adds the rows up.
    is_known
        Says by its digest whether a source was counted in an earlier run; None: nobody remembers, and sources are not
        kept apart.

    Attributes
    ----------
    tally
        What adds the rows up; what each source adds is a part of it.
    known
        The sources that were counted before, and were not counted again.
    to_forget
        Whether the tally holds the rows of such a source, because it was recognised only when it was read.
    """

    def __init__(self, files: FileOptions, tally: TimeTally, is_known: Callable[[bytes], bool] | None) -> None:
        self._files = files
        self.tally = tally
        self._knows = is_known
        self.known: list[str] = []
        self.to_forget = False
        self._digests: list[bytes] = []

    def read(self, sources: Sequence[str], report: Callable[[int, int], object], note: Callable[[str], object]) -> None:
        """Take the rows of files, or of standard input ("-"), one after the other.

        Parameters
        ----------
        report
            Called with the number of bytes and of rows read so far.
        note
            Called with a sentence for what was recognised in a file, see `tables`.

        Raises
        ------
        SourceError
            If a file, or a row, cannot be read.
        """
        remembered = self._knows is not None
        if remembered and STDIN in sources and len(sources) > 1:
            raise InvalidArgument("files", STDIN, "alone: with a store, standard input is not read together with files")
        before = 0
        for source in sources:
            digest = file_digest(source) if remembered and source != STDIN else None
            if digest is not None and self._is_known(digest):
                self.known.append(source)
                continue
            done = before

            def so_far(count: int, before: int = before) -> None:
                nonlocal done
                done = before + count

            rows = RowDigest()
            for table in tables([source], self.tally.columns, files=self._files, report=so_far, note=note):
                if remembered and digest is None:
                    rows.add(table.frame)
                self.tally.take(table)
                report(done, self.tally.rows)
            before = done
            self._end_of("standard input" if source == STDIN else source, digest or rows.digest())

    def take(self, frame: pl.DataFrame) -> None:
        """Take the rows of a data frame."""
        for column in self.tally.columns:
            if column not in frame.columns:
                raise ColumnMissing(source="the frame", column=column, columns=frame.columns)
        rows = RowDigest()
        if self._knows is not None:
            rows.add(frame.select(list(dict.fromkeys(self.tally.columns))))
            if self._is_known(rows.digest()):
                self.known.append("the frame")
                return
        self.tally.take(Table(frame, lambda row: f"row {row + 1}"))
        self._end_of("the frame", rows.digest())

    def take_digests(self) -> list[bytes]:
        """Return the digest of each part of the tally, once."""
        digests, self._digests = self._digests, []
        return digests

    def begin_anew(self, tally: TimeTally) -> None:
        """Forget all rows; `known` stays."""
        self.tally = tally
        self._digests = []
        self.to_forget = False

    def _is_known(self, digest: bytes) -> bool:
        return digest in self._digests or (self._knows is not None and self._knows(digest))

    def _end_of(self, source: str, digest: bytes) -> None:
        """Keep what a source adds apart, unless it turns out to have been counted."""
        if self._knows is None:
            return
        if self._is_known(digest):
            self.known.append(source)
            self.to_forget = True
            return
        self.tally.cut()
        self._digests.append(digest)
