"""What can be read of an open store: streams, settings, releases, budgets; and whether all of it is as it should be.

Nothing here writes, needs a lease or makes a writer wait.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from dpstream.arguments import check_whole
from dpstream.errors import (
    InvalidArgument,
    StoreDamaged,
)
from dpstream.release.error_bars import Estimate, release_stddev
from dpstream.release.in_words import describe
from dpstream.release.name_words import describe_names
from dpstream.release.open_settings import OpenSettings
from dpstream.release.settings import StreamSettings
from dpstream.store.composition import Spent, compose, promise_of
from dpstream.store.estimates import estimate_from_store, window_from_store
from dpstream.store.ledger import check_ledger
from dpstream.store.people import read_people
from dpstream.store.published import compare_published, is_published, published_steps
from dpstream.store.published_names import PublishedNames, read_published_names
from dpstream.store.recovered_inputs import TrueData, joined_batches
from dpstream.store.settings import check_name, open_settings_from_row, settings_from_row
from dpstream.store.store_files import StoreFiles
from dpstream.store.successor import carried, series_of, stream_infos
from dpstream.store.tables import (
    Release,
    StreamInfo,
    StreamRow,
    as_frame,
    read_all_streams,
    read_batches,
    read_stream,
)
from dpstream.store.verification import Report, Verified, check_names_kept, verify

__all__ = ["StoreReader"]


class StoreReader:
    """The reading half of `Store`."""

    path: Path
    _files: StoreFiles

    # -- streams ------------------------------------------------------------------------------------------------------

    def streams(self) -> list[StreamInfo]:
        """Return every stream, oldest first."""
        with self._files.turn():
            return stream_infos(read_all_streams(self._files.database, self._files.seals), str(self.path))

    def series(self, name: str) -> list[StreamInfo]:
        """Return the streams of which this one is part, oldest first, each the successor of the one before."""
        return series_of(self.streams(), check_name(name))

    def series_values(self, name: str) -> NDArray[np.int64]:
        """Return the releases of a whole series, one row a step, with the totals that were carried over."""
        parts = self.series(name)
        return carried(parts, [self.release_values(part.name) for part in parts])

    def settings(self, name: str) -> StreamSettings:
        """Return the settings of a stream: everything that decides its noise.

        Raises
        ------
        StreamUnknown
            If there is no such stream.
        InvalidArgument
            If its mechanism is not one of `dpstream.mechanisms`.
        StoreMismatch
            If these settings mean another noise to this dpstream than to the one that wrote them.
        """
        return settings_from_row(self._row(name), str(self.path))

    def describe(self, name: str) -> str:
        """Return one paragraph in plain words: what a stream promises, to whom, against whom, and what it does not.

        Where the store limits the rows of a person (`rows_per_person`), that is what is promised. Raises as `settings`.
        """
        row = self._row(name)
        if row.settings["lane"] == "names":
            return describe_names(open_settings_from_row(row, str(self.path)), enforced=True)
        settings, t = settings_from_row(row, str(self.path)), max(row.t, 1)
        return describe(settings, release_stddev(settings, t), t, rows_per_person=row.settings["rows_per_person"])

    # -- reading ------------------------------------------------------------------------------------------------------

    @overload
    def releases(self, name: str, since: int = 0, *, frame: Literal[False] = False) -> list[Release]: ...
    @overload
    def releases(self, name: str, since: int = 0, *, frame: Literal[True]) -> Any: ...
    def releases(self, name: str, since: int = 0, *, frame: bool = False) -> Any:
        """Return the releases after step `since`, as rows or, with frame=True, as a Polars data frame.

        Never waits for a writer, and never makes one wait.
        """
        name, since = check_name(name), check_whole("since", since, least=0)
        files = self._files
        with files.turn():
            row = self._row_of_numbers(name)
            batches = list(read_batches(files.database, row, files.seals.stream(row.tag), since + 1, row.t))
        before = None if row.first_position is None else row.first_position - 1
        rows = [
            Release(step, None if before is None else before + step, value)
            for batch in batches
            for step, value in enumerate(
                batch.values if row.settings["shape"] else batch.values.tolist(), start=batch.first
            )
        ]
        if not frame:
            return rows
        return as_frame(rows, single_counts=row.settings["lane"] == "exact" and not row.settings["shape"])

    def release_values(self, name: str, first: int = 1, last: int | None = None) -> NDArray[Any]:
        """Return the releases of the steps from `first` to `last`, all by default, of shape (steps, *shape).

        What `releases` returns, in one array. Raises InvalidArgument if a step was not released.
        """
        name, first = check_name(name), check_whole("first", first)
        files = self._files
        with files.turn():
            row = self._row_of_numbers(name)
            end = max(row.t, first - 1) if last is None else check_whole("last", last, least=first - 1)
            if end > max(row.t, first - 1):
                raise InvalidArgument("last", last, f"at most {row.t}, the last release of {name!r}")
            batches = read_batches(files.database, row, files.seals.stream(row.tag), first, end)
            nothing = np.empty((0, *row.settings["shape"]), dtype=row.settings["dtype"])
            return np.concatenate([nothing, *(batch.values for batch in batches)])

    def published_names(self, name: str) -> PublishedNames:
        """Return all releases of a stream of names, compared with their seals.

        Raises
        ------
        StreamUnknown, InvalidArgument
            If there is no such stream, or it is not one of names.
        StoreDamaged
            If anything is not as it was written.
        """
        name, files = check_name(name), self._files
        with files.turn(), files.database.snapshot():
            row = read_stream(files.database, files.seals, name)
            return read_published_names(files.database.rows, row, str(self.path), files.seals.stream(row.tag))

    def open_settings(self, name: str) -> OpenSettings:
        """Return the settings of a stream of names; raises as `settings`."""
        return open_settings_from_row(self._row(name), str(self.path))

    def estimate(
        self, name: str, confidence: float = 0.95, *, since: int = 0, through: int | None = None
    ) -> Estimate[Any]:
        """Return a release of a stream, or its change since an earlier one, with its error bars.

        Any two releases will do, also of streams that others write. `through` is the later one, None for the last.

        Raises
        ------
        StreamUnknown, NoReleaseYet
            If there is no such stream, or no release of it.
        InvalidArgument
            If one of the two releases was not made; or as `settings`.
        """
        files, settings = self._files, self.settings(name)
        with files.turn():
            row = read_stream(files.database, files.seals, name)
            seals = files.seals.stream(row.tag)
            return estimate_from_store(files.database, row, seals, settings, confidence, since=since, through=through)

    def window(self, name: str, over: int, confidence: float = 0.95, *, through: int | None = None) -> Estimate[Any]:
        """Return what a stream counted in the last `over` steps up to release `through`; see `estimate`."""
        files, settings = self._files, self.settings(name)
        with files.turn():
            row = read_stream(files.database, files.seals, name)
            seals = files.seals.stream(row.tag)
            return window_from_store(files.database, row, seals, settings, confidence, steps=over, through=through)

    def spent(self) -> Spent:
        """Return the budgets of all streams of this file, composed; retired ones too."""
        with self._files.turn():
            return self._spent()

    def _spent(self) -> Spent:
        return compose(
            promise_of(row.settings, str(self.path))
            for row in read_all_streams(self._files.database, self._files.seals)
        )

    def check_seals(self) -> None:
        """Read everything and compare it with its seals: finds what was changed by anyone who does not have the key.

        Raises
        ------
        StoreDamaged
            If anything is not as it was written.
        """
        files = self._files
        with files.turn():
            (found,) = files.database.rows("PRAGMA integrity_check(1)")[0]
            if found != "ok":
                raise StoreDamaged(path=str(self.path), what=f"SQLite says: {found}")
            files.witness.check()
            with files.database.snapshot():
                for row in read_all_streams(files.database, files.seals):
                    seals = files.seals.stream(row.tag)
                    if row.settings["lane"] == "names":
                        check_names_kept(files, row)
                        continue
                    wrong = (
                        is_published(row)
                        and published_steps(files.database.rows, row, str(files.database.path)) > row.t
                    )
                    for batch in joined_batches(read_batches(files.database, row, seals, 1, row.t), row):
                        wrong = wrong or bool(compare_published(files.database, row, batch.values, batch.first))
                    if wrong:
                        what = f"published releases of stream {row.name!r} are not the sealed ones"
                        raise StoreDamaged(path=str(self.path), what=what)
                    if row.people is not None:
                        read_people(files.database, seals, row)
                    check_ledger(files.database, seals, row)

    def verify(self, name: str, report: Report | None = None) -> Verified:
        """Make every release of a stream once more from the key: finds also what was changed together with its seal.

        Nothing is written and no writer waits; retired and outdated streams can be verified, too. `report` is told from
        time to time what part of the work is done. `dpstream.store.verification` says what this can and cannot find.

        Raises
        ------
        StreamUnknown
            If there is no such stream. What is wrong with a stream is returned, not raised.
        """
        name = check_name(name)
        with self._files.turn():
            return verify(self._files, name, report)

    @property
    def true_data(self) -> TrueData:
        """**Secret**: what was counted, without noise. Nothing that comes from here may be published."""
        return TrueData(self._files)

    def _row_of_numbers(self, name: str) -> StreamRow:
        row = read_stream(self._files.database, self._files.seals, name)
        if row.settings["lane"] == "names":
            raise InvalidArgument("name", name, "a counter or a running sum: published_names(name) reads names")
        return row

    def _row(self, name: str) -> StreamRow:
        name = check_name(name)
        with self._files.turn():
            return read_stream(self._files.database, self._files.seals, name)
