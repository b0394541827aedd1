"""Processors that kill the query at a chosen point, and others that break a promise, to see that it shows."""

import os
import secrets
import signal
from pathlib import Path

import numpy as np

from dpstream.adapters.spark.frames import release_frame, whole
from dpstream.adapters.spark.processors import DeclaredProcessor, DiscoveredProcessor, PeopleProcessor
from dpstream.adapters.spark.shard import Released

#: What the killed process and its workers find in their environment.
POINT, DRIVER, COUNTER = "DPSTREAM_KILL_POINT", "DPSTREAM_KILL_DRIVER", "DPSTREAM_KILL_COUNTER"


def kill_everything(jvm):
    """End the JVM, with all workers in it, and the driver, at once."""
    os.kill(jvm, signal.SIGKILL)
    os.kill(int(os.environ[DRIVER]), signal.SIGKILL)


def reached(point):
    """Count how often workers came to a point in this run; kill from the chosen time on."""
    wanted, _, times = os.environ.get(POINT, "").partition(":")
    if wanted != point:
        return
    with Path(os.environ[COUNTER]).open("ab") as file:
        file.write(b".")
        count = file.tell()
    if count >= int(times):
        kill_everything(_jvm())


def _jvm():
    """Return the process above this worker, and above the one it was forked from, that is Java's."""
    above = os.getppid()
    while b"java" not in Path(f"/proc/{above}/cmdline").read_bytes().partition(b"\0")[0]:
        above = int(Path(f"/proc/{above}/stat").read_text().rpartition(")")[2].split()[1])
    return above


class _AtCommit:
    """Comes to a point when a task has written its shards, just before Spark commits them."""

    POINT = ""
    _worked = False

    def _write(self, shard, *, names):
        super()._write(shard, names=names)
        self._worked = True

    def close(self):
        if self._worked:  # Spark also opens and closes a processor on the driver, to see its state's schema
            reached(self.POINT)


class KilledDeclared(_AtCommit, DeclaredProcessor):
    POINT = "declared state commit"


class KilledDiscovered(_AtCommit, DiscoveredProcessor):
    POINT = "discovered state commit"


class KilledPeople(PeopleProcessor):
    def handleInputRows(self, key, rows, timerValues):  # noqa: N802
        found = list(super().handleInputRows(key, rows, timerValues))
        reached("people")
        yield from found


class FreshNoise(KilledDeclared):
    """Noise that is not a function of the step."""

    def _closed(self, shard, watermark):
        for released in shard.close(watermark):
            noise = np.array([secrets.randbelow(20) for _ in released.value], dtype=np.int64)
            yield release_frame(shard.work.clock, released._replace(value=released.value + noise))


class LateIntoClosed(DeclaredProcessor):
    """Late rows of the last closed step are counted in it, and it is published again."""

    def handleInputRows(self, key, rows, timerValues):  # noqa: N802
        frames, shard = list(rows), self._load(key[0])
        late = np.zeros(len(shard), dtype=np.int64)
        for frame in frames:
            at = np.searchsorted(shard.hashes, whole(frame, "hash"))
            of_last = shard.work.clock.steps(whole(frame, "micros")) == shard.t - 1
            np.add.at(late, at[of_last], 1)
        if late.any():
            noise = shard.work.noise.values(shard._noise.tags, shard.t)
            again = Released(shard.t, shard.names, shard.sums + late + noise, 1.0, 1, [])
            yield release_frame(shard.work.clock, again)
        yield from super().handleInputRows(key, iter(frames), timerValues)
