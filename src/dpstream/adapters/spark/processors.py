"""What runs on Spark's workers: shards as stateful processors. Needs PySpark; nothing here decides what is released.

A shard is written once in a micro-batch: its rows go into open steps, then every step that has ended at the batch's
watermark is closed. A timer only wakes a shard that has no rows. Both see the watermark that the offset log has pinned,
so a micro-batch that runs again does the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql.streaming import StatefulProcessor

from dpstream.adapters.spark.discovered import DiscoveredShard, PeopleShard
from dpstream.adapters.spark.frames import release_frame, taken_frame, whole
from dpstream.adapters.spark.job import Job, Workplace
from dpstream.adapters.spark.shard import DeclaredShard, Shard, Taken
from dpstream.errors import CheckpointMismatch

__all__ = ["DeclaredProcessor", "DiscoveredProcessor", "PeopleProcessor"]


class _Kept:
    """A shard's state in Spark: the settings it was begun with, names and numbers."""

    def __init__(self, handle: Any, job: Job) -> None:
        self._job = job
        self._settings = handle.getValueState("settings", "settings string, secret string")
        self.names = handle.getValueState("names", "sealed binary")
        self.numbers = handle.getValueState("numbers", "sealed binary")

    @property
    def begun(self) -> bool:
        """Whether the shard has a state."""
        return bool(self._settings.exists())

    def begin(self, work: Workplace) -> None:
        """Write down the settings of a shard that begins."""
        self._settings.update((self._job.as_text, work.secret_check))

    def check(self, work: Workplace) -> None:
        """Refuse a shard that was begun with other settings, or never: its number shows that there are more now."""
        kept = self._settings.get()
        if kept is None:
            raise CheckpointMismatch(setting="shards", kept="fewer", given=str(self._job.shards))
        work.check_kept(*kept)


class _NameProcessor(StatefulProcessor):
    """A shard of names: what declared and discovered ones have in common."""

    SHARD: type[Shard]

    def __init__(self, job: Job) -> None:
        self._job = job

    def init(self, handle: Any) -> None:
        self._handle, self._kept = handle, _Kept(handle, self._job)

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:  # noqa: N802
        shard, first = self._begin(key[0], initialState)
        self._write(shard, names=True)
        if first:
            self._handle.registerTimer(shard.next_end_ms)

    def handleInputRows(self, key: Any, rows: Iterable[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802
        shard = self._load(key[0])
        before, names = shard.next_end_ms, len(shard)
        taken = self._add(shard, pd.concat(list(rows), ignore_index=True))
        if any(taken):
            yield taken_frame(self._job, taken)
        yield from self._closed(shard, timerValues.getCurrentWatermarkInMs())
        self._write(shard, names=len(shard) > names)
        if shard.next_end_ms != before and before is not None:
            self._handle.deleteTimer(before)
            self._wake(shard)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:  # noqa: N802
        shard = self._load(key[0])
        yield from self._closed(shard, timerValues.getCurrentWatermarkInMs())
        self._write(shard, names=False)
        self._wake(shard)

    def close(self) -> None:
        """Nothing is held open."""

    def _closed(self, shard: Shard, watermark: int) -> Iterator[Any]:
        for released in shard.close(watermark):
            yield release_frame(shard.work.clock, released)

    def _wake(self, shard: Shard) -> None:
        """Set a timer for the end of the next step. It lies after the watermark: others may never fire."""
        if shard.next_end_ms is not None:
            self._handle.registerTimer(shard.next_end_ms)

    def _load(self, number: int) -> Any:
        work = Workplace.of(self._job)
        self._kept.check(work)
        return self.SHARD.unseal(work, number, self._kept.names.get()[0], self._kept.numbers.get()[0])

    def _write(self, shard: Shard, *, names: bool) -> None:
        if names:
            self._kept.names.update((shard.seal_names(),))
        self._kept.numbers.update((shard.seal(),))

    def _begin(self, number: int, rows: Any) -> tuple[Any, bool]:
        raise NotImplementedError

    def _add(self, shard: Any, rows: Any) -> Taken:
        raise NotImplementedError


class DeclaredProcessor(_NameProcessor):
    """A shard of declared names. They come as the initial state, with one row without a name for every shard."""

    SHARD = DeclaredShard

    def _begin(self, number: int, rows: Any) -> tuple[DeclaredShard, bool]:
        work = Workplace.of(self._job)
        first = not self._kept.begun
        rows = rows[rows["name"].notna()]
        names, hashes = rows["name"].tolist(), whole(rows, "hash")
        if first:
            self._kept.begin(work)
        else:  # names of a large shard come in several parts
            known = self._load(number)
            names, hashes = [*known.names, *names], np.concatenate([known.hashes, hashes])
        return DeclaredShard.begin(work, number, names, hashes), first

    def _add(self, shard: DeclaredShard, rows: Any) -> Taken:
        return shard.add(whole(rows, "hash"), whole(rows, "micros"))


class DiscoveredProcessor(_NameProcessor):
    """A shard of names as they come up, from what shards of people pass on."""

    SHARD = DiscoveredShard

    def _begin(self, number: int, rows: Any) -> tuple[DiscoveredShard, bool]:
        work = Workplace.of(self._job)
        self._kept.begin(work)
        return DiscoveredShard.begin(work, number), True

    def _add(self, shard: DiscoveredShard, rows: Any) -> Taken:
        # In an order of its own: rows come in another one when a micro-batch runs again.
        rows = rows.sort_values(["name", "step"], kind="stable")
        steps, events, people = (whole(rows, column) for column in ("step", "events", "people"))
        return shard.add(rows["name"].tolist(), steps, events, people)


class PeopleProcessor(StatefulProcessor):
    """A shard of people: passes on how many events and people each name has in each step.

    What was left out travels as rows without a name: -1 beyond what people may bring, -2 without a readable id or name,
    -3 before the first step, -4 after the last.
    """

    SCHEMA = "name string, step bigint, events bigint, people bigint"

    def __init__(self, job: Job) -> None:
        self._job = job

    def init(self, handle: Any) -> None:
        self._kept = _Kept(handle, self._job)

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:  # noqa: N802
        work = Workplace.of(self._job)
        self._kept.begin(work)
        self._kept.numbers.update((PeopleShard(work, key[0]).seal(),))

    def handleInputRows(self, key: Any, rows: Iterable[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802
        work = Workplace.of(self._job)
        self._kept.check(work)
        shard = PeopleShard.unseal(work, key[0], self._kept.numbers.get()[0])
        frame = pd.concat(list(rows), ignore_index=True)
        found = shard.take(frame["person"].tolist(), frame["name"].tolist(), whole(frame, "micros"))
        self._kept.numbers.update((shard.seal(),))
        left_out = [found.dropped, found.unusable, found.outside.before_start, found.outside.beyond_horizon]
        yield pd.DataFrame(
            {
                "name": [*found.names, *[None] * len(left_out)],
                "step": np.concatenate([found.steps, -1 - np.arange(len(left_out))]),
                "events": np.concatenate([found.events, left_out]),
                "people": np.concatenate([found.people, np.zeros(len(left_out), dtype=np.int64)]),
            }
        )

    def close(self) -> None:
        """Nothing is held open."""
