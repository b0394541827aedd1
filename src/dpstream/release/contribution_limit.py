"""ContributionLimit: keeps every person's appearances within what the noise was scaled for.

`Participation(times=5)` protects a person who appears in up to five steps; somebody who sees user ids must see to it
that nobody appears more often. This does, and errs on the safe side only: it may drop an event too many (two people in
2^64 share a fingerprint), never one too few.

Memory: 9 bytes a slot (10 for times above 254), between 1.5 and 3 slots a person, never more than 3 · capacity slots
(plus the old table while it grows). The ids themselves are not kept: only 64-bit fingerprints under a secret key of
this object.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable
from typing import NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpstream.arguments import check_whole
from dpstream.errors import InvalidArgument, TooManyPeople
from dpstream.noise.keystream import check_key, fresh_key
from dpstream.participation import Participation
from dpstream.release.person_id import person_id
from dpstream.turns import Turn, in_turn

__all__ = ["ContributionLimit"]

MOST_TIMES = 2**16 - 2
_SMALLEST_TABLE = 1024


class ContributionLimit:
    """Says keep for a person's first `times` events and drop from then on.

    Parameters
    ----------
    times
        How many events of one person are kept.
    capacity
        How many people can be told apart. One more is refused with `TooManyPeople`.
    key
        32 secret bytes, or None for fresh ones: where counts are kept and brought back with `restore`.

    Guarantee
    ---------
    Of the events it was asked about under one id, at most `times` are kept, always. `person_id` says which spellings
    are one id: 7, 7.0, "7 " and b"7" are the same person. A person with two ids is two people: that is for the
    caller to know.
    It counts kept *events*; one event a step makes that the `times` of a Participation. Threads take turns. A limit
    holds a key and cannot be copied, pickled or used in a forked child: each copy would keep `times` events more.

    Examples
    --------
    >>> limit = ContributionLimit(times=2)
    >>> [limit.keep(user) for user in ("ann", "bob", "ann", "ann", "bob")]
    [True, True, True, False, True]
    >>> limit.people, limit.dropped
    (2, 1)
    >>> limit.participation
    Participation(times=2, separation=1)
    """

    __slots__ = ("_capacity", "_counts", "_dropped", "_fingerprints", "_key", "_over", "_people", "_times", "_turn")

    def __init__(self, times: int, *, capacity: int = 1_000_000, key: bytes | None = None) -> None:
        self._times = check_whole("times", times)
        if self._times > MOST_TIMES:
            raise InvalidArgument("times", times, f"at most {MOST_TIMES}")
        self._capacity = check_whole("capacity", capacity)
        self._key = fresh_key() if key is None else check_key(key)
        self._turn = Turn()
        self._people = self._dropped = self._over = 0
        self._fingerprints, self._counts = self._table(_SMALLEST_TABLE)

    def __repr__(self) -> str:
        return f"ContributionLimit(times={self._times}, capacity={self._capacity}), {self._people} people so far"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a ContributionLimit holds a secret key and cannot be copied or pickled: each copy would keep as many"
            " events again"
        )

    @property
    def times(self) -> int:
        """How many events of one person are kept."""
        return self._times

    @property
    def people(self) -> int:
        """How many people have been met."""
        return self._people

    @property
    def dropped(self) -> int:
        """How many events were dropped."""
        return self._dropped

    @property
    def people_over(self) -> int:
        """How many people had events dropped. One person changes it by at most one, however often they came."""
        return self._over

    @property
    def participation(self) -> Participation:
        """What to build the counter with."""
        return Participation(times=self._times)

    @property
    def nbytes(self) -> int:
        """How many bytes the table takes."""
        return len(self._counts) * (self._fingerprints.itemsize + self._counts.itemsize)

    def keep(self, person: str | bytes | int) -> bool:
        """True if this event of this person may go into the stream, False if it must be dropped.

        Asking counts: ask once an event, and add the event if and only if the answer is True.

        Raises
        ------
        InvalidArgument
            If `person` is neither text, bytes nor a whole number.
        TooManyPeople
            If the person is new and there is no room; nothing changes.
        """
        return self.take(person, 1) == 1

    def take(self, person: str | bytes | int, events: int) -> int:
        """Return how many of this person's next events may go into the stream: the same as asking `keep` for each.

        >>> limit = ContributionLimit(times=3)
        >>> limit.take("ann", 2), limit.take("ann", 2), limit.people_over
        (2, 1, 1)
        """
        return self._taken(self.fingerprint(person), check_whole("events", events))

    @in_turn
    def take_all(self, fingerprints: ArrayLike, events: ArrayLike) -> NDArray[np.int64]:
        """Return how many of the next events of each of these people may go into the stream: as `take` for each.

        Vectorised: a million people take a fraction of a second. `fingerprints` gives them.

        Raises
        ------
        InvalidArgument
            If the two are not whole numbers of the same length, or a fingerprint is 0 or comes twice.
        TooManyPeople
            If there is no room for all of them; nothing changes.

        >>> limit = ContributionLimit(times=3)
        >>> limit.take_all(limit.fingerprints(["ann", "bob"]), [2, 5])
        array([2, 3])
        """
        people, asked = _checked_pair(fingerprints, events)
        if len(np.unique(people)) < len(people):
            raise InvalidArgument("fingerprints", "one that comes twice", "each person once, with all of their events")
        return self._take_all(people, asked)

    def restore(self, fingerprint: int, events: int) -> None:
        """Count events that were kept earlier, under the same key."""
        self._taken(fingerprint, events)

    @in_turn
    def restore_all(self, fingerprints: ArrayLike, events: ArrayLike) -> None:
        """Count events that were kept earlier, for many people at once: the same as `restore` for each.

        Raises
        ------
        InvalidArgument
            If the two are not whole numbers of the same length, or a fingerprint is 0.
        TooManyPeople
            If there is no room for all of them; nothing changes.
        """
        given, kept = _checked_pair(fingerprints, events)
        people, where = np.unique(given, return_inverse=True)
        totals = np.zeros(len(people), dtype=np.int64)
        np.add.at(totals, where, kept)
        self._take_all(people, totals)

    def _take_all(self, people: NDArray[np.uint64], asked: NDArray[np.int64]) -> NDArray[np.int64]:
        """Count these events of different people, and return how many of them are kept."""
        table = np.frombuffer(self._fingerprints, dtype=np.uint64)
        newcomers = len(people) - int(_known(table, people).sum())
        self._check_capacity(newcomers)
        if 3 * (self._people + newcomers) > 2 * len(table):
            self._grow(self._people + newcomers)
            table = np.frombuffer(self._fingerprints, dtype=np.uint64)
        places = _find_or_insert(table, people)
        counts = np.frombuffer(self._counts, dtype=self._counts.typecode)
        before = counts[places].astype(np.int64)
        kept = np.minimum(asked, np.maximum(self._times - before, 0))
        # One more than allowed marks a person who had events dropped.
        counts[places] = np.minimum(before + asked, self._times + 1)
        self._people += newcomers
        self._dropped += int((asked - kept).sum())
        self._over += int(((asked > kept) & (before <= self._times)).sum())
        return kept

    @in_turn
    def _taken(self, fingerprint: int, events: int) -> int:
        return self._take(fingerprint, events)

    def _take(self, fingerprint: int, events: int) -> int:
        slot = _slot(self._fingerprints, fingerprint)
        if not self._fingerprints[slot]:
            slot = self._welcome(fingerprint)
        before = self._counts[slot]
        left = max(self._times - before, 0)
        # One more than allowed marks a person who had events dropped.
        self._counts[slot] = min(before + events, self._times + 1)
        if events > left:
            self._dropped += events - left
            self._over += before <= self._times
        return min(events, left)

    def _check_capacity(self, newcomers: int) -> None:
        if self._people + newcomers > self._capacity:
            raise TooManyPeople(capacity=self._capacity)

    def _welcome(self, fingerprint: int) -> int:
        """Return the slot of somebody new."""
        self._check_capacity(1)
        if 3 * (self._people + 1) > 2 * len(self._counts):
            self._grow(self._people + 1)
        slot = _slot(self._fingerprints, fingerprint)
        self._fingerprints[slot] = fingerprint
        self._people += 1
        return slot

    def fingerprint(self, person: str | bytes | int) -> int:
        """64 bits that stand for the person under this object's key; never 0, which marks a free slot."""
        named = person_id(person).encode("utf-8", "surrogatepass")
        return int.from_bytes(hashlib.blake2b(named, digest_size=8, key=self._key).digest(), "little") or 1

    def fingerprints(self, people: Iterable[str | bytes | int]) -> NDArray[np.uint64]:
        """Return the fingerprints of many people: as `fingerprint` for each, in less time."""
        keyed = hashlib.blake2b(digest_size=8, key=self._key)
        made = bytearray()
        for person in people:
            one = keyed.copy()  # half the time of keying it again
            one.update(person_id(person).encode("utf-8", "surrogatepass"))
            made += one.digest()
        found = np.frombuffer(made, dtype="<u8").astype(np.uint64)
        found[found == 0] = 1
        return found

    def _table(self, slots: int) -> tuple[array[int], array[int]]:
        return array("Q", bytes(8 * slots)), array("B" if self._times < 255 else "H", [0]) * slots

    def _grow(self, people: int) -> None:
        """Make the table large enough for so many people."""
        slots = len(self._counts)
        while 3 * people > 2 * slots:
            slots *= 2
        fingerprints, counts = self._table(slots)
        old = np.frombuffer(self._fingerprints, dtype=np.uint64)
        there = np.flatnonzero(old)
        places = _find_or_insert(np.frombuffer(fingerprints, dtype=np.uint64), old[there])
        kind = counts.typecode
        np.frombuffer(counts, dtype=kind)[places] = np.frombuffer(self._counts, dtype=kind)[there]
        self._fingerprints, self._counts = fingerprints, counts


def _checked_pair(fingerprints: ArrayLike, events: ArrayLike) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    people, counts = np.asarray(fingerprints, dtype=np.uint64).ravel(), np.asarray(events, dtype=np.int64).ravel()
    if people.shape != counts.shape or not people.all() or (counts < 0).any():
        raise InvalidArgument(
            "fingerprints, events", (people.shape, counts.shape), "as many of the one as of the other"
        )
    return people, counts


def _known(table: NDArray[np.uint64], people: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return which of these fingerprints are in the table."""
    known = np.zeros(len(people), dtype=bool)
    places, waiting = _homes(table, people), np.arange(len(people))
    while waiting.size:
        found = table[places[waiting]]
        known[waiting[found == people[waiting]]] = True
        waiting = waiting[(found != people[waiting]) & (found != 0)]
        places[waiting] = (places[waiting] + 1) & (len(table) - 1)
    return known


def _find_or_insert(table: NDArray[np.uint64], people: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the slots of these different fingerprints, which are put into the table unless they are there."""
    places, waiting = _homes(table, people), np.arange(len(people))
    while waiting.size:
        free = waiting[table[places[waiting]] == 0]
        table[places[free]] = people[free]  # of those who want one slot the last one gets it
        waiting = waiting[table[places[waiting]] != people[waiting]]
        places[waiting] = (places[waiting] + 1) & (len(table) - 1)
    return places


def _homes(table: NDArray[np.uint64], people: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the slots where the search for these fingerprints begins."""
    return (people & np.uint64(len(table) - 1)).astype(np.int64)


def _slot(fingerprints: array[int], fingerprint: int) -> int:
    """Where the fingerprint is, or the free slot where it belongs."""
    last = len(fingerprints) - 1
    slot = fingerprint & last
    while fingerprints[slot] and fingerprints[slot] != fingerprint:
        slot = (slot + 1) & last
    return slot
