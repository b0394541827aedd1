"""Shards: the names of one part of a stream, their true sums, open steps and noise, all as arrays.

Pure Python and NumPy: no Spark. A shard takes rows into open steps, closes steps in order, and can be written to bytes
and read again at any moment; what it releases does not depend on when that happens, nor on the other shards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dpstream.adapters.spark.job import Workplace
from dpstream.adapters.spark.noise_columns import NoiseColumns
from dpstream.adapters.spark.open_steps import OpenSteps
from dpstream.adapters.spark.sealed_arrays import DECLARED, NAMES, closed_steps, open_arrays, seal_arrays
from dpstream.errors import InvalidArgument, StateError
from dpstream.release.name_spelling import check_name

__all__ = ["Change", "DeclaredShard", "Released", "Shard", "Taken", "pack_texts", "unpack_texts"]

Numbers = NDArray[np.int64]
Texts = NDArray[np.object_]


class Taken(NamedTuple):
    """How many rows were not simply counted, and why. **Not private**: for those who run the query."""

    late: int = 0
    undeclared: int = 0
    before_start: int = 0
    beyond_horizon: int = 0


class Change(NamedTuple):
    """What was counted in a window: values and error, and for which names there is one."""

    value: Numbers
    known: NDArray[np.bool_]
    stddev: float
    off: int


class Released(NamedTuple):
    """The releases of one step: names, values, their error, and the changes of each window."""

    t: int
    names: Texts
    value: Numbers
    stddev: float
    off: int
    windows: list[Change]


class Shard:
    """Sums, open steps and noise of some names: what declared and discovered names have in common.

    `sums` and what is in open steps are TRUE numbers; `releases` holds the last releases, as many as windows need.
    """

    KIND = 0

    def __init__(self, work: Workplace, shard: int, texts: tuple[NDArray[np.uint8], NDArray[np.uint32]]) -> None:
        self.work, self.shard, self.t = work, shard, 0
        self._texts = texts
        self.sums: Numbers = np.zeros(len(texts[1]), dtype=np.int64)
        self._releases: Numbers = np.zeros((0, len(self.sums)), dtype=np.int64)
        self._open = OpenSteps()

    def __len__(self) -> int:
        return len(self.sums)

    def __reduce__(self) -> Any:
        raise TypeError("a shard holds exact sums and cannot be copied or pickled; seal() writes them encrypted")

    @cached_property
    def names(self) -> Texts:
        """The names by row."""
        return unpack_texts(*self._texts)

    @property
    def next_end_ms(self) -> int | None:
        """From which watermark on the next step can be closed; None after the last."""
        return None if self.t >= self.work.clock.horizon else int(self.work.clock.ends_ms[self.t])

    # -- rows into open steps -----------------------------------------------------------------------------------------

    def _placed(self, steps: Numbers, amounts: Numbers | None = None) -> tuple[Numbers, NDArray[np.bool_], Taken]:
        """Return in which step each row counts, whether it does, and how much is late or outside."""
        horizon = self.work.clock.horizon
        before, beyond = steps < 0, steps >= horizon
        late = (steps < self.t) & ~before
        # A row of a closed step must never reach its sum: with noise that is a function of the step, two values of one
        # step would differ by exactly that row.
        counts = ~(before | beyond) if self.t < horizon else ~(before | beyond | late)
        found = [int((one if amounts is None else amounts[one]).sum()) for one in (late, before, beyond)]
        return np.where(late, self.t, steps), counts, Taken(found[0], 0, found[1], found[2])

    # -- closing ------------------------------------------------------------------------------------------------------

    def close(self, watermark_ms: int) -> Iterator[Released]:
        """Close every step that has ended at this watermark, in order, and give its releases."""
        return self.close_steps(self.work.clock.ended(watermark_ms))

    def close_steps(self, through: int) -> Iterator[Released]:
        """Close all steps up to number `through`."""
        while self.t < through:
            yield self._close_one()

    def _close_one(self) -> Released:
        raise NotImplementedError

    def _changes(self, noisy: Numbers, chosen: Any, since_published: Numbers | None) -> list[Change]:
        """Return the changes of all windows that end with step t, whose noisy values are given, for chosen rows."""
        t, found = self.t, []
        for since, (stddev, off) in zip(self.work.clock.since(t).tolist(), self.work.bars(t)[1:], strict=True):
            value = noisy[chosen]
            known = np.ones(len(value), dtype=bool)
            if since:
                value = value - self._releases[since - (t - len(self._releases))][chosen]
                if since_published is not None:
                    known = since_published[chosen] <= since
            found.append(Change(value, known, stddev, off))
        return found

    def _keep(self, noisy: Numbers) -> None:
        kept = self.work.clock.kept
        if kept:
            self._releases = np.concatenate([self._releases, noisy[None]])[-kept:]

    # -- bytes --------------------------------------------------------------------------------------------------------

    def seal_names(self) -> bytes:
        """Return the names as sealed bytes."""
        return seal_arrays(self.work.seals(self.shard), NAMES, self.shard, 0, self._texts)

    def seal(self) -> bytes:
        """Return everything else as sealed bytes."""
        common = [self.sums, self._releases, *self._open.arrays()]
        return seal_arrays(self.work.seals(self.shard), self.KIND, self.shard, self.t, [*common, *self._own_arrays()])

    @classmethod
    def unseal(cls, work: Workplace, shard: int, names: bytes, numbers: bytes) -> Self:
        """Return the shard that was written by `seal_names` and `seal`.

        Raises
        ------
        StateError
            If the bytes are damaged, or belong to another shard, job or secret.
        """
        seals = work.seals(shard)
        text, lengths = open_arrays(seals, NAMES, shard, names)
        made = cls(work, shard, (text, lengths))
        made.t = closed_steps(numbers)
        made.sums, made._releases, places, amounts, *own = open_arrays(seals, cls.KIND, shard, numbers)
        made._open = OpenSteps(places, amounts)
        if len(made.sums) != len(lengths):
            raise StateError(f"shard {shard} has {len(lengths)} names and {len(made.sums)} sums")
        made._take_own_arrays(own)
        return made

    def _own_arrays(self) -> list[NDArray[Any]]:
        raise NotImplementedError

    def _take_own_arrays(self, arrays: list[NDArray[Any]]) -> None:
        raise NotImplementedError


class DeclaredShard(Shard):
    """Running counts of declared names, which rows name by the 64 bits of their xxhash64.

    Parameters
    ----------
    work
        Job, key and clock.
    shard
        Its number.
    names, hashes
        The names of this shard, in their one spelling, and what Spark's xxhash64 says of each.

    Guarantee
    ---------
    That of `NamedCounter`: the releases are the same numbers, whatever the shards are and however often a shard was
    written and read in between.
    """

    KIND = DECLARED
    _hashes: Numbers
    _noise: NoiseColumns

    @classmethod
    def begin(cls, work: Workplace, shard: int, names: Sequence[str], hashes: Numbers) -> DeclaredShard:
        """Return a shard in which no step is closed."""
        order = np.argsort(hashes, kind="stable")
        hashes = np.asarray(hashes, dtype=np.int64)[order]
        spelled = [check_name(names[i]) for i in order.tolist()]
        if spelled != [names[i] for i in order.tolist()]:
            raise InvalidArgument("names", "names that are not in Unicode's normal form NFC", "names in NFC")
        if len({*spelled}) < len(spelled):
            raise InvalidArgument("names", "a name that comes twice", "each name once")
        if (np.diff(hashes) == 0).any():
            i = int(np.flatnonzero(np.diff(hashes) == 0)[0])
            raise InvalidArgument("names", spelled[i : i + 2], "names whose xxhash64 differ")
        made = cls(work, shard, pack_texts(spelled))
        made._hashes = hashes
        made._noise = NoiseColumns(work.noise, work.noise.tags(spelled), 0)
        return made

    @property
    def hashes(self) -> Numbers:
        """The hash of each name, rising."""
        return self._hashes

    def add(self, hashes: Numbers, microseconds: Numbers) -> Taken:
        """Count rows, one for each hash of a name and moment."""
        return self.add_steps(hashes, self.work.clock.steps(microseconds))

    def add_steps(self, hashes: Numbers, steps: Numbers, amounts: Numbers | None = None) -> Taken:
        """Count rows whose steps (from 0) are known, or so many of each."""
        at = np.minimum(np.searchsorted(self._hashes, hashes), max(len(self) - 1, 0))
        declared = self._hashes[at] == hashes if len(self) else np.zeros(len(hashes), dtype=bool)
        of_declared = None if amounts is None else amounts[declared]
        steps, counts, taken = self._placed(steps[declared], of_declared)
        self._open.add(steps[counts], at[declared][counts], None if of_declared is None else of_declared[counts])
        undeclared = int((~declared if amounts is None else amounts[~declared]).sum())
        return taken._replace(undeclared=undeclared)

    def _close_one(self) -> Released:
        self.sums = self.sums + self._open.take(self.t, len(self))
        noisy = self.sums + self._noise.next() if self.work.job.private else self.sums
        self.t += 1
        stddev, off = self.work.bars(self.t)[0]
        released = Released(self.t, self.names, noisy, stddev, off, self._changes(noisy, slice(None), None))
        self._keep(noisy)
        return released

    def _own_arrays(self) -> list[NDArray[Any]]:
        return [self._hashes, *self._noise.arrays()]

    def _take_own_arrays(self, arrays: list[NDArray[Any]]) -> None:
        self._hashes, tags, high, low = arrays
        self._noise = NoiseColumns(self.work.noise, tags, self.t, (high, low))


def pack_texts(texts: Sequence[str]) -> tuple[NDArray[np.uint8], NDArray[np.uint32]]:
    """Return texts as their UTF-8 bytes one after the other, and the length of each."""
    encoded = [text.encode() for text in texts]
    lengths = np.array([len(one) for one in encoded], dtype=np.uint32)
    return np.frombuffer(b"".join(encoded), dtype=np.uint8), lengths


def unpack_texts(content: NDArray[np.uint8], lengths: NDArray[np.uint32]) -> Texts:
    """Undo `pack_texts`."""
    ends = np.cumsum(lengths, dtype=np.int64)
    data, made = content.tobytes(), np.empty(len(lengths), dtype=object)
    made[:] = [data[end - length : end].decode() for end, length in zip(ends.tolist(), lengths.tolist(), strict=True)]
    return made
