"""A `Counter` that survives crashes, restarts and retries."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpstream.errors import InvalidArgument
from dpstream.release.contribution_limit import ContributionLimit
from dpstream.release.counter import Counter
from dpstream.release.whole_inputs import one_row, whole_number
from dpstream.store.durable_release import DurableRelease
from dpstream.store.noise_states import resumed_noise
from dpstream.store.people import read_people

__all__ = ["DurableCounter"]

_CLIPPED = struct.Struct("<Q")


class DurableCounter(DurableRelease[Counter]):
    """A running count, or histogram, in a store; made by `Store.counter`.

    Guarantee
    ---------
    That of `dpstream.Counter`, for all releases of the stream together, over all processes that ever wrote it. For each
    step there is at most one release; each accepted input is counted once; nothing accepted is lost. Assumed: disks
    that keep what they said they had kept, and no copy of all the store's files that is used as well (docs/store.md).
    """

    def interval(self, confidence: float = 0.95) -> tuple[Any, Any]:
        """(low, high) around the last release; see `Counter.interval`."""
        with self._files.lock:
            return self._release().interval(confidence)

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
        with self._files.lock:
            self._release()
            row = self._lease.row
            if self._rows_per_person is None or row.people is None:
                raise InvalidArgument("rows_per_person", None, "given when the stream is created: Store.counter(...)")
            self._people = read_people(self._files.database, self._seals, row)
            limit = ContributionLimit(
                self._rows_per_person, capacity=row.people, key=self._files.seals.people_key(row.tag)
            )
            for person, events in zip(self._people.fingerprints.tolist(), self._people.events.tolist(), strict=True):
                limit.restore(person, events)
            return limit

    def _resume(self, t: int, sums: bytes, last: NDArray[Any] | None, state: bytes | None) -> Counter:
        live = self._settled.fresh(self._key)
        terms, shape = live._terms, self.shape
        (clipped,) = _CLIPPED.unpack_from(sums)
        counts = np.frombuffer(sums, "<i8", offset=_CLIPPED.size).reshape(shape).astype(np.int64)
        stream = resumed_noise(terms, self._key, t, scale=live._scale, state=state)
        if shape:
            live._resume(t, counts, last, clipped, stream)
        else:
            live._resume(t, int(counts), 0 if last is None else int(last), clipped, stream)
        return live

    def _sums(self, release: Counter) -> bytes:
        return _CLIPPED.pack(release._clipped) + np.asarray(release._sum, dtype="<i8").tobytes()

    def _checked_rows(self, release: Counter, xs: ArrayLike) -> NDArray[np.int64]:
        return release._checked_rows(xs)[0].astype(np.int64, copy=False)

    def _checked_row(self, release: Counter, x: Any) -> NDArray[np.int64]:
        if self.shape:
            return self._checked_rows(release, one_row(x, self.shape))
        whole = whole_number(x)
        if release._least <= whole <= release._most:
            return np.array([whole])
        # A number beyond 64 bits is none to NumPy, but it is out of bound all the same: refused, or clipped.
        return self._checked_rows(release, np.array([min(max(whole, 1 - 2**63), 2**63 - 1)]))


def no_counts(shape: tuple[int, ...]) -> bytes:
    """The sums of a counter before its first step."""
    return _CLIPPED.pack(0) + np.zeros(shape, dtype="<i8").tobytes()
