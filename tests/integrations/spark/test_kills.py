"""Driver and JVM are killed at many points and started again: no two values, nothing lost, nothing counted twice."""

import json
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from dpstream.adapters.spark import processors
from tests.integrations.spark import sabotage, streams
from tests.integrations.spark.streams import DAYS

NAMES = streams.names(300)
#: Where: in the first micro-batch from this number on, or when the point is come to for this time.
POINTS = [
    "declared before publishing:1",
    "people:2",
    "declared published:3",
    "discovered state commit:2",
    "discovered published:4",
    "declared state commit:2",
    "discovered before publishing:8",
    "declared published:8",
]


def days():
    return streams.made_up_days(len(NAMES), 600, seed=5)


def write_events(folder):
    for day, rows in enumerate([*days(), streams.THE_END]):
        streams.write_day(folder / "in", day, rows)
        streams.tick(folder / "clock", min(day, DAYS - 1), day)
    (folder / "published").mkdir()


def start(folder, *arguments):
    """Run the query in a process of its own; return whether it was killed."""
    command = [sys.executable, "-m", "tests.integrations.spark.killed", str(folder), *arguments]
    done = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, timeout=400, check=False)  # noqa: S603
    assert done.returncode in (0, -signal.SIGKILL), done.stderr.decode()[-3000:]
    said = done.stdout + done.stderr
    assert b"MicroBatchExecution" in said  # Spark's own logs are in it, and none of them has the secret
    assert streams.KEY not in said
    assert streams.KEY.hex().encode() not in said
    return done.returncode != 0


def values(folder, kind):
    """All values that were ever published for each (name, step)."""
    found = defaultdict(set)
    for path in (folder / "published").glob(f"{kind}-*.json"):
        for name, step, value in json.loads(path.read_text()):
            found[name, step].add(value)
    return found


def conflicts(found):
    return sum(len(different) > 1 for different in found.values())


def test_kills_of_driver_and_jvm(tmp_path):
    write_events(tmp_path)
    killed = [start(tmp_path, point) for point in POINTS]
    assert killed == [True] * len(POINTS)
    assert not start(tmp_path)
    for kind, expected in {
        "declared": streams.single_declared(days(), NAMES, windows=()),
        "discovered": streams.single_discovered(days(), windows=())[0],
    }.items():
        found = values(tmp_path, kind)
        assert conflicts(found) == 0
        # Equal to one machine that counted every row once: nothing lost, nothing counted twice.
        assert {place: next(iter(different)) for place, different in found.items()} == expected


def test_the_same_with_fresh_noise_finds_conflicts(tmp_path):
    write_events(tmp_path)
    assert start(tmp_path, "declared published:2", "--fresh")
    assert not start(tmp_path, "--fresh")
    assert conflicts(values(tmp_path, "declared")) > len(NAMES) // 2


def test_the_same_with_late_rows_in_closed_steps_finds_conflicts(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(processors, "DeclaredProcessor", sabotage.LateIntoClosed)
    for day in range(DAYS - 4):
        streams.write_day(tmp_path / "in", day, [(7200, "page 1", "a"), (7200, "page 2", "a")])
        streams.tick(tmp_path / "clock", day)
    found = defaultdict(set)

    def collect(batch, _):
        for row in batch.collect():
            found[row.name, row.step].add(row.value)

    query = (
        streams.declared(
            streams.read(spark, tmp_path / "in"), NAMES, streams.clock(spark, tmp_path / "clock"), windows=()
        )
        .writeStream.foreachBatch(collect)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    query.processAllAvailable()
    last = max(step for _, step in found)
    assert conflicts(found) == 0
    streams.write_day(tmp_path / "in", last - 1, [(1, "page 1", "late"), (2, "page 2", "late")], number=50)
    query.processAllAvailable()
    query.stop()
    assert conflicts(found) >= 2
