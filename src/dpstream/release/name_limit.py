"""NameLimit: keeps every person within so many names, and so much for each of them.

The first names of a person count, and of each name the first events; whatever comes beyond is dropped and leaves no
trace but its number. Errs on the safe side only: an interrupted call may have counted events that were not used, never
the other way round.

Memory: a pair of a person and a name takes 17 bytes a slot (18 for `per_name` above 254), between 1.5 and 3 slots a
pair, and a person 9 or 10 bytes a slot, likewise; while a table grows, the old one stays as well. Ids and names are not
kept: only 64 bits of each under a secret key of this object. Two people in 2^64 share them, and so do two names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpstream.arguments import check_whole
from dpstream.errors import InvalidArgument, TooManyPairs
from dpstream.noise.keystream import check_key, derive_key, fresh_key
from dpstream.release.name_spelling import check_name
from dpstream.release.person_id import person_id
from dpstream.turns import Turn, in_turn

__all__ = ["MOST_TIMES", "NameLimit", "Taken"]

MOST_TIMES = 2**16 - 1
_SMALLEST_TABLE = 1024
#: Slots of a table that are moved to a larger one at a time.
_MOVED_AT_ONCE = 1 << 18
#: Multiplied to a name's 64 bits before they are added to a person's, so that the slots of one person's names differ.
_ODD = np.uint64(0x9E3779B97F4A7C15)

Keys = NDArray[np.uint64]


class Taken(NamedTuple):
    """What a `NameLimit` says of each event.

    Attributes
    ----------
    kept
        Whether the event counts.
    new
        Whether it is the first that counts of its person for its name: whether it is one person more.
    """

    kept: NDArray[np.bool_]
    new: NDArray[np.bool_]


class NameLimit:
    """Says which events of (person, name) count: the first `names_per_person` names, the first `per_name` of each.

    Parameters
    ----------
    names_per_person
        How many names of one person count, over all steps.
    per_name
        How many events of one person count for one name, over all steps.
    capacity
        How many pairs of a person and a name can be remembered. One more is refused with `TooManyPairs`.
    key
        32 secret bytes, or None for fresh ones: where pairs are kept and brought back with `restore`.

    Guarantee
    ---------
    Of the events it was asked about under one id, at most `per_name` count for a name and at most `names_per_person`
    names have any, always; what counts of one person does not depend on anybody else (unless two of n people share
    their 64 bits: n / 2^64 for a given person). `person_id` says which spellings are one id, `check_name` which are
    one name. Threads take turns. It holds a key and cannot be copied, pickled or used in a forked child.

    Examples
    --------
    >>> limit = NameLimit(names_per_person=2)
    >>> limit.take(["ann", "ann", "bob", "ann", "ann"], ["rose", "tulip", "rose", "lily", "rose"]).kept.tolist()
    [True, True, True, False, False]
    >>> limit.pairs, limit.people, limit.dropped
    (3, 2, 2)
    """

    __slots__ = ("_capacity", "_dropped", "_key", "_keys", "_names", "_pairs", "_people", "_per_name", "_turn")

    def __init__(
        self, names_per_person: int, per_name: int = 1, *, capacity: int = 10_000_000, key: bytes | None = None
    ) -> None:
        self._names = _check_times("names_per_person", names_per_person)
        self._per_name = _check_times("per_name", per_name)
        self._capacity = check_whole("capacity", capacity)
        self._key = fresh_key() if key is None else check_key(key)
        self._keys = [derive_key(self._key, purpose=f"{what} of a name limit", configuration={}) for what in _WHAT]
        self._pairs, self._people = _Table(2, self._per_name), _Table(1, self._names)
        self._dropped = 0
        self._turn = Turn()

    def __repr__(self) -> str:
        return (
            f"NameLimit(names_per_person={self._names}, per_name={self._per_name}, capacity={self._capacity}),"
            f" {self.pairs} pairs so far"
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a NameLimit holds a secret key and cannot be copied or pickled: each copy would keep as many names again"
        )

    @property
    def names_per_person(self) -> int:
        """How many names of one person count."""
        return self._names

    @property
    def per_name(self) -> int:
        """How many events of one person count for one name."""
        return self._per_name

    @property
    def pairs(self) -> int:
        """How many pairs of a person and a name count."""
        return self._pairs.count

    @property
    def people(self) -> int:
        """How many people have a name that counts."""
        return self._people.count

    @property
    def dropped(self) -> int:
        """How many events were dropped."""
        return self._dropped

    @property
    def nbytes(self) -> int:
        """How many bytes the tables take."""
        return self._pairs.nbytes + self._people.nbytes

    def take(self, people: Sequence[str | bytes | int], names: Sequence[str]) -> Taken:
        """Count these events, in their order, and say which of them may go into the stream.

        Asking counts: ask once an event, and add the event if and only if it is kept.

        Raises
        ------
        InvalidArgument, InputTypeError
            If there are more of the one than of the other, or one is no id or no name; nothing changes.
        TooManyPairs
            If there is no room for all new pairs; nothing changes.
        """
        return self.take_keys(self.people_keys(people), self.name_keys(names))

    def people_keys(self, people: Iterable[str | bytes | int]) -> Keys:
        """Return 64 bits that stand for each person under this object's key."""
        return _hashed(self._keys[0], (person_id(person).encode("utf-8", "surrogatepass") for person in people))

    def name_keys(self, names: Iterable[str]) -> Keys:
        """Return 64 bits that stand for each name under this object's key."""
        return _hashed(self._keys[1], (check_name(name).encode() for name in names))

    @in_turn
    def take_keys(self, people: Keys, names: Keys) -> Taken:
        """Do what `take` does for events whose people and names are given by their keys."""
        if people.shape != names.shape or people.ndim != 1:
            raise InvalidArgument("people, names", (len(people), len(names)), "as many of the one as of the other")
        # Events by pair, in their order within a pair.
        order = np.lexsort((names, people))
        person, name = people[order], names[order]
        starts = np.flatnonzero(_changes(person) | _changes(name))
        events = np.diff(np.append(starts, len(order)))
        pairs = np.stack([person[starts], name[starts]], axis=1)
        before, places = self._pairs.find(pairs)
        # New pairs of one person count in the order of their first event, as long as there is room.
        fresh = np.flatnonzero(before == 0)
        fresh = fresh[np.lexsort((order[starts[fresh]], pairs[fresh, 0]))]
        first = np.flatnonzero(_changes(pairs[fresh, 0]))
        asked = np.diff(np.append(first, len(fresh)))
        newcomers = pairs[fresh[first], :1]
        had, homes = self._people.find(newcomers)
        given = np.minimum(asked, self._names - had)
        accepted = fresh[_ranks(first, len(fresh)) < np.repeat(given, asked)]
        allowed = np.zeros(len(starts), dtype=np.int64)
        allowed[before > 0] = self._per_name - before[before > 0]
        allowed[accepted] = self._per_name
        kept_events = np.minimum(events, allowed)
        if self._pairs.count + len(accepted) > self._capacity:
            raise TooManyPairs(capacity=self._capacity)
        # People first: whoever interrupts in between leaves too little to be kept, never too much.
        some = given > 0
        self._people.put(newcomers[some], (had + given)[some], homes[some])
        touched = kept_events > 0
        self._pairs.put(pairs[touched], (before + kept_events)[touched], places[touched])
        kept, new = np.zeros(len(order), dtype=bool), np.zeros(len(order), dtype=bool)
        kept[order] = _ranks(starts, len(order)) < np.repeat(kept_events, events)
        new[order[starts[accepted]]] = True
        self._dropped += int(len(order) - kept.sum())
        return Taken(kept, new)

    @in_turn
    def remembered(self) -> tuple[Keys, Keys, NDArray[np.int64]]:
        """Return the keys of all pairs, person and name, and how many events of each count: what `restore` takes.

        **Secret** as the data are: whoever has the key as well can look for a person's names in it.
        """
        pairs, counts = self._pairs.items()
        return pairs[:, 0], pairs[:, 1], counts

    @in_turn
    def restore(self, people: ArrayLike, names: ArrayLike, events: ArrayLike) -> None:
        """Remember pairs that counted earlier, under the same key; for an object that has met nobody yet."""
        pairs = np.stack([np.asarray(people, dtype=np.uint64), np.asarray(names, dtype=np.uint64)], axis=-1)
        counts = np.asarray(events, dtype=np.int64)
        if (
            self._pairs.count
            or pairs.shape != (*counts.shape, 2)
            or not ((counts > 0) & (counts <= self._per_name)).all()
        ):
            raise InvalidArgument("people, names, events", pairs.shape, "what remembered() returned, of a fresh object")
        if counts.size > self._capacity:
            raise TooManyPairs(capacity=self._capacity)
        met, times = np.unique(pairs[:, 0], return_counts=True)
        if times.size and times.max() > self._names:
            raise InvalidArgument("people", int(times.max()), f"at most {self._names} names each")
        self._people.put(met[:, None], times)
        self._pairs.put(pairs, counts)


_WHAT = ("people", "names")


class _Table:
    """Counts from 1 on for keys of one or two 64-bit words, by open addressing; a slot of count 0 is free."""

    __slots__ = ("_counts", "_keys", "count")

    _counts: NDArray[Any]

    def __init__(self, words: int, most: int, slots: int = _SMALLEST_TABLE) -> None:
        self._keys = np.zeros((slots, words), dtype=np.uint64)
        self._counts = np.zeros(slots, dtype=np.uint8 if most < 256 else np.uint16)
        self.count = 0

    @property
    def nbytes(self) -> int:
        return self._keys.nbytes + self._counts.nbytes

    def items(self) -> tuple[Keys, NDArray[np.int64]]:
        """Return all keys, one a row, and their counts."""
        there = np.flatnonzero(self._counts)
        return self._keys[there], self._counts[there].astype(np.int64)

    def find(self, keys: Keys) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the counts of different keys, one a row, and their slots: 0 and a free slot for those not there."""
        found = np.zeros(len(keys), dtype=np.int64)
        places, waiting = self._homes(keys), np.arange(len(keys))
        while waiting.size:
            here = places[waiting]
            counts = self._counts[here]
            same = (counts > 0) & _equal(self._keys[here], keys[waiting])
            found[waiting[same]] = counts[same]
            waiting = waiting[(counts > 0) & ~same]
            places[waiting] = (places[waiting] + 1) & (len(self._counts) - 1)
        return found, places

    def put(self, keys: Keys, counts: NDArray[np.int64], places: NDArray[np.int64] | None = None) -> None:
        """Set the counts, all above 0, of different keys; `places` are the slots that `find` has just returned."""
        most = self.count + len(keys)
        if 3 * most > 2 * len(self._counts):
            slots = len(self._counts)
            while 3 * most > 2 * slots:
                slots *= 2
            larger = _Table(self._keys.shape[1], 1, slots)
            larger._counts = larger._counts.astype(self._counts.dtype)
            for low in range(0, len(self._counts), _MOVED_AT_ONCE):
                there = low + np.flatnonzero(self._counts[low : low + _MOVED_AT_ONCE])
                moved = self._keys[there]
                larger._set(moved, self._counts[there], larger._homes(moved))
            self._keys, self._counts = larger._keys, larger._counts
            places = None
        self._set(keys, counts, self._homes(keys) if places is None else places)

    def _set(self, keys: Keys, counts: NDArray[Any], places: NDArray[np.int64]) -> None:
        waiting, places = np.arange(len(keys)), places.copy()
        while waiting.size:
            here = places[waiting]
            free = self._counts[here] == 0
            # Of those who want one free slot the last one gets it; the others see another key there.
            self._keys[here[free]] = keys[waiting[free]]
            same = _equal(self._keys[here], keys[waiting])
            self._counts[here[same]] = counts[waiting[same]]
            self.count += int((free & same).sum())
            waiting = waiting[~same]
            places[waiting] = (places[waiting] + 1) & (len(self._counts) - 1)

    def _homes(self, keys: Keys) -> NDArray[np.int64]:
        mixed = keys[:, 0] if keys.shape[1] == 1 else keys[:, 0] + keys[:, 1] * _ODD
        return np.asarray(mixed & np.uint64(len(self._counts) - 1)).astype(np.int64)


def _equal(some: Keys, others: Keys) -> NDArray[np.bool_]:
    """Return which rows are equal."""
    same: NDArray[np.bool_] = some[:, 0] == others[:, 0]
    if some.shape[1] > 1:
        same &= some[:, 1] == others[:, 1]
    return same


def _changes(values: Keys) -> NDArray[np.bool_]:
    """Return where a sorted array has another value than before; True at its first."""
    changed = np.ones(len(values), dtype=bool)
    np.not_equal(values[1:], values[:-1], out=changed[1:])
    return changed


def _ranks(starts: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Return 0, 1, 2, ... within each run that begins at `starts`."""
    lengths = np.diff(np.append(starts, size))
    return np.arange(size) - np.repeat(starts, lengths)


def _hashed(key: bytes, spelled: Iterable[bytes]) -> Keys:
    keyed = hashlib.blake2b(digest_size=8, key=key)
    made = bytearray()
    for text in spelled:
        one = keyed.copy()  # half the time of keying it again
        one.update(text)
        made += one.digest()
    return np.frombuffer(made, dtype="<u8").astype(np.uint64)


def _check_times(name: str, value: object) -> int:
    times = check_whole(name, value)
    if times > MOST_TIMES:
        raise InvalidArgument(name, value, f"at most {MOST_TIMES}")
    return times
