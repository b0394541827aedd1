"""Intake: takes the rows of files and frames, each source apart, and recognises by its name what was counted before."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import polars as pl

from dpstream.errors import BatchConflict, ColumnMissing, FileChanged, InvalidArgument
from dpstream.events.content_digest import file_digest
from dpstream.events.file_options import FileOptions
from dpstream.events.tables import STDIN, Table, tables
from dpstream.events.tally import TimeTally

__all__ = ["Intake"]

#: A batch, as a store remembers it: its name, and a digest of what it holds.
Named = tuple[bytes, bytes]


class Intake:
    """Takes rows into a tally.

    Parameters
    ----------
    files
        How files are written.
    tally
        What adds the rows up.
    is_known
        Says by its name, and a digest of what it holds, whether a source was counted in an earlier run; None: nobody
        remembers, and sources are not kept apart.

    Attributes
    ----------
    tally
        What adds the rows up; what each source adds is a part of it.
    known
        The sources that were counted before, and were not counted again.
    """

    def __init__(self, files: FileOptions, tally: TimeTally, is_known: Callable[[bytes, bytes], bool] | None) -> None:
        self._files = files
        self.tally = tally
        self._is_known = is_known
        self.known: list[str] = []
        self._names: list[Named | None] = []

    def read(
        self,
        sources: Sequence[str],
        report: Callable[[int, int], object],
        note: Callable[[str], object],
        batch: str | None = None,
    ) -> None:
        """Take the rows of files, or of standard input ("-"), one after the other.

        Parameters
        ----------
        report
            Called with the number of bytes and of rows read so far.
        note
            Called with a sentence for what was recognised in a file, see `tables`.
        batch
            The name under which a single source is recognised when it is given again; None: that of the file, and
            standard input is not recognised.

        Raises
        ------
        SourceError
            If a file, or a row, cannot be read; or if a file was counted before and holds other rows now.
        """
        if batch is not None and len(sources) > 1:
            raise InvalidArgument("batch", batch, "given with one file, or with standard input: it names one batch")
        before = 0
        for source in sources:
            named = self._named(source, batch)
            if self._is_counted(source, named):
                continue
            done = before

            def so_far(count: int, before: int = before) -> None:
                nonlocal done
                done = before + count

            for table in tables([source], self.tally.columns, files=self._files, report=so_far, note=note):
                self.tally.take(table)
                report(done, self.tally.rows)
            before = done
            self._end_of(named)

    def take(self, frame: pl.DataFrame, batch: str | None = None) -> None:
        """Take the rows of a data frame, which is recognised by the name of its batch, if it has one."""
        for column in self.tally.columns:
            if column not in frame.columns:
                raise ColumnMissing(source="the frame", column=column, columns=frame.columns)
        named = None if batch is None else (_batch_name(batch), b"")
        if not self._is_counted(f"the batch {batch!r}", named):
            self.tally.take(Table(frame, lambda row: f"row {row + 1}"))
            self._end_of(named)

    def take_names(self) -> list[Named | None]:
        """Return the name and content of each part of the tally, once; None for a part that has no name."""
        names, self._names = self._names, []
        return names

    def _named(self, source: str, batch: str | None) -> Named | None:
        """Return the name and the content by which a source is recognised."""
        if self._is_known is None:
            return None
        if source == STDIN:
            return None if batch is None else (_batch_name(batch), b"")
        name = b"file\0" + os.path.normpath(source).encode("utf-8", "surrogateescape") if batch is None else None
        return name or _batch_name(batch or ""), file_digest(source)

    def _is_counted(self, source: str, named: Named | None) -> bool:
        """Return whether a source was counted before; what it holds decides nothing, or one row would decide it."""
        if self._is_known is None or named is None:
            return False
        try:
            counted = named in self._names or self._is_known(*named)
        except BatchConflict:
            raise FileChanged(source=source) from None
        if counted:
            self.known.append(source)
        return counted

    def _end_of(self, named: Named | None) -> None:
        """Keep what a source adds apart."""
        if self._is_known is not None:
            self.tally.cut()
            self._names.append(named)


def _batch_name(batch: str) -> bytes:
    return b"batch\0" + batch.encode("utf-8", "surrogatepass")
