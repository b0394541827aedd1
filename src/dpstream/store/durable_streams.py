"""A `Counter` and a `RunningSum` that survive crashes, restarts and retries."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpstream.errors import InvalidArgument
from dpstream.release.contribution_limit import ContributionLimit
from dpstream.release.counter import Counter
from dpstream.release.running_sum import RunningSum
from dpstream.store.durable_stream import DurableStream
from dpstream.store.people import read_people

__all__ = ["DurableCounter", "DurableSum"]


class DurableCounter(DurableStream[Counter[Any]]):
    """A running count, or histogram, in a store; made by `Store.counter`.

    Guarantee
    ---------
    That of `dpstream.Counter`, for all releases of the stream together, over all processes that ever wrote it. For each
    step there is at most one release; each accepted input is counted once; nothing accepted is lost. Assumed: disks
    that keep what they said they had kept, and no copy of all the store's files that is used as well (docs/store.md).
    """

    _kind = Counter

    @property
    def rows_per_person(self) -> int | None:
        """How many rows of one person are counted at most, over all steps and processes; None: not limited here."""
        return self._rows_per_person

    def contribution_limit(self) -> ContributionLimit:
        """Return a limit that knows how often each person was counted in this stream, in whatever process.

        What it keeps from now on must be given to `extend` with the steps it is counted in.

        Raises
        ------
        InvalidArgument
            If the stream was created without `rows_per_person`.
        StoreDamaged
            If the record of who was counted is missing or changed.
        """
        with self._files.turn():
            self._current()
            row = self._lease.row
            if self._rows_per_person is None or row.people is None:
                raise InvalidArgument("rows_per_person", None, "given when the stream is created: Store.counter(...)")
            self._people = read_people(self._files.database, self._seals, row)
            limit = ContributionLimit(
                self._rows_per_person, capacity=row.people, key=self._files.seals.people_key(row.tag)
            )
            limit.restore_all(self._people.fingerprints, self._people.events)
            return limit


class DurableSum(DurableStream[RunningSum]):
    """A running sum of vectors in a store; made by `Store.running_sum`.

    Guarantee
    ---------
    That of `dpstream.RunningSum`, for all releases of the stream together, over all processes that ever wrote it; and
    that of `DurableCounter` on what is counted and released.
    """

    _kind = RunningSum

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of a release."""
        return np.dtype(self._settings.dtype)
