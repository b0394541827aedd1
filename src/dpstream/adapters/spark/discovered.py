"""Shards of names that nobody listed, and of the people who bring them: the rules of `OpenCounter`, by shards.

People come first: a shard of people keeps everyone within `names_per_person` names and `per_name` events of each, and
passes on how many events, and how many people, each name has in each step. Shards of names add that up, and publish a
name once its noisy number of people reaches the threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstream.adapters.spark.job import Workplace
from dpstream.adapters.spark.noise_columns import NoiseColumns
from dpstream.adapters.spark.open_steps import OpenSteps
from dpstream.adapters.spark.sealed_arrays import DISCOVERED, PEOPLE, open_arrays, seal_arrays
from dpstream.adapters.spark.shard import Numbers, Released, Shard, Taken, pack_texts
from dpstream.errors import InputTypeError, InvalidArgument
from dpstream.release.name_limit import NameLimit
from dpstream.release.name_spelling import check_name
from dpstream.release.open_settings import OpenSettings
from dpstream.release.person_id import person_id

__all__ = ["Brought", "DiscoveredShard", "PeopleShard"]

#: No limit but memory: a shard of people that grows too large asks for more shards.
CAPACITY = 1 << 40


class Brought(NamedTuple):
    """What a shard of people passes on: of each name and step (from 0) how many events and how many new people.

    `dropped` rows were beyond what their people may bring, `unusable` ones have no name or no id that can be read.
    """

    names: list[str]
    steps: Numbers
    events: Numbers
    people: Numbers
    dropped: int
    unusable: int
    outside: Taken


class PeopleShard:
    """Keeps the people of one shard within the limits of the job.

    Guarantee
    ---------
    That of `NameLimit`, for everyone whose rows all come to this shard. Rows of one call count in the order of their
    times, those of one moment by person and name: not in the order in which they arrive, which another run of the same
    micro-batch would not repeat.
    """

    def __init__(self, work: Workplace, shard: int) -> None:
        assert isinstance(work.settings, OpenSettings)  # noqa: S101
        self.work, self.shard = work, shard
        limits = work.settings.names_per_person, work.settings.per_name
        self._limit = NameLimit(*limits, capacity=CAPACITY, key=work.people_key)

    def take(self, people: Sequence[object], names: Sequence[object], microseconds: Numbers) -> Brought:
        """Take rows of one micro-batch and return what counts of them."""
        usable, ids, spelled = _readable(people, names)
        steps = self.work.clock.steps(np.asarray(microseconds, dtype=np.int64)[usable])
        before, beyond = steps < 0, steps >= self.work.clock.horizon
        # Rows outside all steps count nowhere, so they use nothing up.
        inside = np.flatnonzero(~(before | beyond))
        moments = np.asarray(microseconds, dtype=np.int64)[usable]
        order = sorted(inside.tolist(), key=lambda i: (moments[i], ids[i], spelled[i]))
        kept, new = self._limit.take([ids[i] for i in order], [spelled[i] for i in order])
        totals: dict[tuple[str, int], list[int]] = {}
        for i, one, first in zip(order, kept.tolist(), new.tolist(), strict=True):
            if one:
                total = totals.setdefault((spelled[i], int(steps[i])), [0, 0])
                total[0] += 1
                total[1] += first
        sums = np.array(list(totals.values()), dtype=np.int64).reshape(-1, 2)
        return Brought(
            [name for name, _ in totals],
            np.array([step for _, step in totals], dtype=np.int64),
            sums[:, 0],
            sums[:, 1],
            len(order) - int(kept.sum()),
            len(people) - len(usable),
            Taken(0, 0, int(before.sum()), int(beyond.sum())),
        )

    def seal(self) -> bytes:
        """Return who was counted as sealed bytes."""
        people, names, events = self._limit.remembered()
        arrays = [people, names, events.astype(np.int64)]
        return seal_arrays(self.work.seals(self.shard), PEOPLE, self.shard, 0, arrays)

    @classmethod
    def unseal(cls, work: Workplace, shard: int, blob: bytes) -> PeopleShard:
        """Return the shard that `seal` wrote."""
        made = cls(work, shard)
        made._limit.restore(*open_arrays(work.seals(shard), PEOPLE, shard, blob))
        return made


class DiscoveredShard(Shard):
    """Running counts of names as they come up, by the rules of `OpenCounter`.

    Guarantee
    ---------
    That of `OpenCounter.add`, if no person brings more than the settings say (`PeopleShard`): the releases are the same
    numbers.
    """

    KIND = DISCOVERED
    _people: Numbers
    _published: Numbers
    _open_people: OpenSteps
    _columns: list[NoiseColumns]

    @classmethod
    def begin(cls, work: Workplace, shard: int) -> DiscoveredShard:
        """Return a shard that knows no name."""
        made = cls(work, shard, pack_texts([]))
        nobody = np.zeros(0, dtype=np.int64)
        made._people, made._published = nobody, nobody.copy()
        made._open_people = OpenSteps()
        made._columns = [NoiseColumns(noise, noise.tags([]), 0) for noise in made._noises]
        return made

    @property
    def _noises(self) -> list[Any]:
        return [noise for noise in (self.work.noise, self.work.people_noise) if noise is not None]

    @cached_property
    def index(self) -> dict[str, int]:
        """The row of each name."""
        return {name: row for row, name in enumerate(self.names)}

    def add(self, names: Sequence[str], steps: Numbers, events: Numbers, people: Numbers) -> Taken:
        """Add events and new people of names in steps (from 0)."""
        events = np.asarray(events, dtype=np.int64)
        steps, counts, taken = self._placed(np.asarray(steps, dtype=np.int64), events)
        chosen = np.flatnonzero(counts)
        self._meet([names[i] for i in chosen.tolist()])
        rows = np.array([self.index[names[i]] for i in chosen.tolist()], dtype=np.int64)
        self._open.add(steps[chosen], rows, events[chosen])
        if self.work.people_noise is not None:
            self._open_people.add(steps[chosen], rows, np.asarray(people, dtype=np.int64)[chosen])
        return taken

    def _meet(self, names: Sequence[str]) -> None:
        """Give rows to names that have none."""
        new = [name for name in dict.fromkeys(names) if name not in self.index]
        if not new:
            return
        content, lengths = pack_texts(new)
        self._texts = np.concatenate([self._texts[0], content]), np.concatenate([self._texts[1], lengths])
        first, count = len(self), len(new)
        self.index.update({name: first + i for i, name in enumerate(new)})
        self.__dict__.pop("names", None)
        zeros = np.zeros(count, dtype=np.int64)
        self.sums, self._people = np.concatenate([self.sums, zeros]), np.concatenate([self._people, zeros])
        self._published = np.concatenate([self._published, zeros - 1])
        self._releases = np.pad(self._releases, ((0, 0), (0, count)))
        for noise, columns in zip(self._noises, self._columns, strict=True):
            columns.extend(noise.tags(new))

    def _close_one(self) -> Released:
        settings = self.work.settings
        assert isinstance(settings, OpenSettings)  # noqa: S101
        self.sums = self.sums + self._open.take(self.t, len(self))
        noise = [columns.next() for columns in self._columns]
        noisy = self.sums + noise[0]
        if settings.splits:
            self._people = self._people + self._open_people.take(self.t, len(self))
            brought, chosen_by = self._people, self._people + noise[1]
        else:
            brought, chosen_by = self.sums, noisy
        self.t += 1
        reached = (chosen_by >= settings.threshold) & (brought > 0) & (self._published < 0)
        self._published = np.where(reached, self.t, self._published)
        shown = self._in_order(np.flatnonzero(self._published >= 0))
        stddev, off = self.work.bars(self.t)[0]
        released = Released(
            self.t, self.names[shown], noisy[shown], stddev, off, self._changes(noisy, shown, self._published)
        )
        self._keep(noisy)
        return released

    def _in_order(self, rows: Numbers) -> Numbers:
        """Return published rows in the order of publication, those of one step by name: not by who came first."""
        since, names = self._published[rows].tolist(), self.names[rows].tolist()
        return rows[sorted(range(len(rows)), key=lambda i: (since[i], names[i]))]

    def _own_arrays(self) -> list[NDArray[Any]]:
        own = [self._people, self._published, *self._open_people.arrays()]
        return own + [array for columns in self._columns for array in columns.arrays()]

    def _take_own_arrays(self, arrays: list[NDArray[Any]]) -> None:
        self._people, self._published, places, amounts, *rest = arrays
        self._open_people = OpenSteps(places, amounts)
        self._columns = [
            NoiseColumns(noise, rest[3 * i], self.t, (rest[3 * i + 1], rest[3 * i + 2]))
            for i, noise in enumerate(self._noises)
        ]


def _readable(people: Sequence[object], names: Sequence[object]) -> tuple[Numbers, list[str], list[str]]:
    """Return which rows have an id and a name, and these in their one spelling."""
    usable, ids, spelled = [], [], []
    for i, (person, name) in enumerate(zip(people, names, strict=True)):
        try:
            one, other = person_id(person), check_name(name)
        except (InvalidArgument, InputTypeError):
            continue
        usable.append(i)
        ids.append(one)
        spelled.append(other)
    return np.array(usable, dtype=np.int64), ids, spelled
