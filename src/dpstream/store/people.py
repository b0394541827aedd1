"""Who was counted in a stream, and how often: one sealed table of a declared size, written whole at every commit.

A stream that limits the rows of a person must know who was counted, over all processes. What the file shows of that
without the key may not depend on the data: so the table has room for as many people as were declared when the stream
was created, filled or not; it is there from the start; and every commit writes all of it, because which parts a commit
changes would tell how many people came. docs/store.md has the reasons and the cost.

People are 64-bit fingerprints under a key of the stream's own, sorted; events of each are 16 bits. The table is cut
into parts of 2^16 people; part i is sealed to (step, ingests, room, i); the step is 0 once rows were ingested, because
people are then counted when their rows are ingested, and not when steps are released.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpstream.errors import InvalidArgument, TooManyPeople
from dpstream.release.contribution_limit import MOST_TIMES
from dpstream.store.database import Database
from dpstream.store.sealing import Seals
from dpstream.store.tables import StreamRow

__all__ = ["Contributions", "CountedPeople", "as_contributions", "read_people", "write_people"]

#: People in one sealed part: 640 kB, far below what SQLite takes as one value.
PART = 1 << 16

#: Fingerprints of people and how many events of each: a mapping, or two arrays.
Contributions = Mapping[int, int] | tuple[ArrayLike, ArrayLike]


@dataclass(frozen=True)
class CountedPeople:
    """Fingerprints of people, ascending, and how many events of each were counted."""

    fingerprints: NDArray[np.uint64]
    events: NDArray[np.uint16]

    def __len__(self) -> int:
        return len(self.fingerprints)

    @classmethod
    def nobody(cls) -> CountedPeople:
        """Return the table of a stream before its first step."""
        return cls(np.empty(0, np.uint64), np.empty(0, np.uint16))

    def plus(self, more: CountedPeople, *, times: int, room: int) -> CountedPeople:
        """Return this table with the events of `more` counted, too; in time linear in both.

        Raises
        ------
        InvalidArgument
            If somebody would be counted more than `times` times.
        TooManyPeople
            If there are more than `room` people.
        """
        at = np.searchsorted(self.fingerprints, more.fingerprints)
        known = np.zeros(len(at), dtype=bool)
        inside = at < len(self.fingerprints)
        known[inside] = self.fingerprints[at[inside]] == more.fingerprints[inside]
        counted = more.events.astype(np.int64)
        counted[known] += self.events[at[known]]
        if counted.max(initial=0) > times:
            raise InvalidArgument("contributions", f"{counted.max():,} events of one person", f"at most {times:,} each")
        new = ~known
        if len(self) + int(new.sum()) > room:
            raise TooManyPeople(capacity=room)
        events = self.events.copy()
        events[at[known]] = counted[known]
        return CountedPeople(
            np.insert(self.fingerprints, at[new], more.fingerprints[new]),
            np.insert(events, at[new], more.events[new]),
        )


def as_contributions(given: object) -> CountedPeople:
    """Return who is counted in a commit, checked, as a table.

    Raises
    ------
    InvalidArgument
        If `given` is neither a mapping of fingerprints to counts nor two arrays of the same length, if a fingerprint
        comes twice or is 0, or if a count is not from 1 to 65,534.
    """
    allowed = "a mapping {fingerprint: events}, or two arrays of whole numbers: fingerprints (uint64) and events"
    if isinstance(given, Mapping):
        pair: tuple[Any, Any] = (list(given.keys()), list(given.values()))
    elif isinstance(given, tuple) and len(given) == 2:
        pair = given
    else:
        raise InvalidArgument("contributions", type(given).__name__, allowed)
    people, events = (_whole(part, allowed) for part in pair)
    if people.shape != events.shape:
        raise InvalidArgument("contributions", f"{len(people):,} people and {len(events):,} counts", allowed)
    if len(events) and not 1 <= events.min() <= events.max() <= MOST_TIMES:
        raise InvalidArgument("contributions", "a count below 1 or above 65,534", "how often each person is counted")
    order = np.argsort(people)
    people, events = people[order], events[order]
    if len(people) and (not people[0] or (people[1:] == people[:-1]).any()):
        raise InvalidArgument("contributions", "a fingerprint that is 0 or comes twice", allowed)
    return CountedPeople(people, events.astype(np.uint16))


def _whole(part: Any, allowed: str) -> NDArray[np.uint64]:
    if not isinstance(part, np.ndarray):
        given = list(part) if isinstance(part, Iterable) else [None]
        try:
            if not all(issubclass(kind, (int, np.integer)) for kind in set(map(type, given))):
                raise TypeError
            # With the dtype: NumPy would turn a list with numbers on both sides of 2^63 into floats.
            return np.array(given, dtype=np.uint64)
        except (TypeError, OverflowError):
            raise InvalidArgument("contributions", type(part).__name__, allowed) from None
    if part.ndim != 1 or part.dtype.kind not in "iu" or (part.size and part.min() < 0):
        raise InvalidArgument("contributions", f"an array of {part.dtype} of shape {part.shape}", allowed)
    return part.astype(np.uint64)


# -- in the database --------------------------------------------------------------------------------------------------


def write_people(connection: sqlite3.Connection, seals: Seals, row: StreamRow, people: CountedPeople) -> None:
    """Inside a transaction: write the whole table of a stream that stands as `row` says."""
    assert row.people is not None  # noqa: S101
    room = row.people
    parts = range(0, room, PART)
    fingerprints = np.zeros(room, "<u8")
    events = np.zeros(room, "<u2")
    fingerprints[: len(people)], events[: len(people)] = people.fingerprints, people.events
    connection.executemany(
        "INSERT INTO people VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET sealed = ?3",
        (
            (
                row.id,
                i,
                seals.seal_people(fingerprints[low:high].tobytes() + events[low:high].tobytes(), _place(row, i)),
            )
            for i, low in enumerate(parts)
            for high in [min(low + PART, room)]
        ),
    )


def read_people(database: Database, seals: Seals, row: StreamRow) -> CountedPeople:
    """Read who was counted in a stream that limits the rows of a person.

    Raises
    ------
    StoreDamaged
        If any part is missing, or is not as it was sealed after the stream's last step.
    """
    assert row.people is not None  # noqa: S101
    found = database.rows("SELECT part, sealed FROM people WHERE stream = ? ORDER BY part", (row.id,))
    parts = range(0, row.people, PART)
    fingerprints, events = np.empty(row.people, np.uint64), np.empty(row.people, np.uint16)
    opened = {i: sealed for i, sealed in found if isinstance(sealed, bytes)}
    for i, low in enumerate(parts):
        size = min(PART, row.people - low)
        table = seals.open_people(opened.get(i, b""), _place(row, i))
        if table is None or len(table) != 10 * size:
            raise database.damaged(f"who was counted in stream {row.name!r} is missing or changed")
        fingerprints[low : low + size] = np.frombuffer(table, "<u8", size)
        events[low : low + size] = np.frombuffer(table, "<u2", size, offset=8 * size)
    if len(found) != len(parts):
        raise database.damaged(f"who was counted in stream {row.name!r} is missing or changed")
    there = int(np.count_nonzero(fingerprints))  # sorted, with what is free at the end
    return CountedPeople(fingerprints[:there], events[:there])


def _place(row: StreamRow, part: int) -> tuple[int, ...]:
    assert row.people is not None  # noqa: S101
    return (0 if row.ingests else row.t, row.ingests, row.people, part)
