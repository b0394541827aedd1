"""The store benchmarks: durable releases against plain SQLite inserts of the same rows, size, and reopening."""

from __future__ import annotations

import sqlite3
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import dpstream as dp
import measure
from dpstream.mechanisms import SmoothBinary
from measure import Row

MILLION = 10**6
#: What is stored of a release: its step, its position and its value.
TABLE = (
    "CREATE TABLE releases (stream INTEGER, step INTEGER, position INTEGER, value INTEGER, PRIMARY KEY (stream, step))"
)


class PlainSqlite:
    """What one would write without a store: a row a release, under the same durability."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("PRAGMA synchronous = FULL")
        self.connection.execute(TABLE)
        self.step = 0

    def insert(self, count: int) -> None:
        rows = [(1, self.step + i, self.step + i, 7 * i) for i in range(count)]
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.executemany("INSERT INTO releases VALUES (?, ?, ?, ?)", rows)
        self.connection.execute("COMMIT")
        self.step += count


def durable_releases() -> Iterator[Row]:
    """On the disk that temporary files are on, every commit synchronised on both sides."""
    with tempfile.TemporaryDirectory() as made, dp.Store(Path(made) / "store.db") as store:
        counter = store.counter("bench", 10**8, dp.zcdp(0.5), mechanism=SmoothBinary(10**8))
        plain = PlainSqlite(Path(made) / "plain.db")
        ones = np.ones(1000, dtype=np.int64)
        works: list[tuple[str, int, Callable[[], object], int]] = [
            ("one commit a release", 1, lambda: counter.add(1, position=counter.t), 100),
            ("batches of 1,000", 1000, lambda: counter.extend(ones, first_position=counter.t), 5),
        ]
        for title, size, work, repeat in works:
            ours, peer = measure.alternate(work, lambda n=size: plain.insert(n), repeats=(repeat, repeat))
            yield Row(
                f"durable releases, {title}",
                "plain SQLite inserts",
                size / ours,
                size / peer,
                "events/s",
                ours / peer,
                "≤ 2×",
                ours <= 2 * peer,
            )
        plain.connection.close()


def size_on_disk() -> Iterator[Row]:
    for title, size, count in (("one commit a release", 1, 2000), ("batches of 1,000", 1000, 10**5)):
        with tempfile.TemporaryDirectory() as made:
            ours, peer = Path(made) / "store.db", Path(made) / "plain.db"
            plain = PlainSqlite(peer)
            with dp.Store(ours) as store:
                counter = store.counter("bench", 10**8, dp.zcdp(0.5), mechanism=SmoothBinary(10**8))
                for _ in range(count // size):
                    counter.extend(np.ones(size, dtype=np.int64), first_position=counter.t)
                    plain.insert(size)
            plain.connection.close()
            a, b = ours.stat().st_size / count, peer.stat().st_size / count
        yield Row(f"size on disk, {title}", "plain SQLite", a, b, "bytes", a / b, "≤ 2×", a <= 2 * b)


def reopening() -> Iterator[Row]:
    """A stream with 10^6 releases, in a process that has imported the library and nothing else."""
    for title, mechanism in (
        ("tree", f"SmoothBinary({2 * MILLION})"),
        ("recurrence", f"BufferedToeplitz({2 * MILLION}, buffers=6)"),
        ("the default mechanism", "'auto'"),
    ):
        with tempfile.TemporaryDirectory() as made:
            opening = f"""
import sys, time, numpy as np, dpstream as dp
from dpstream.mechanisms import SmoothBinary, BufferedToeplitz
start = time.perf_counter()
store = dp.Store({str(Path(made) / "store.db")!r})
counter = store.counter("bench", {2 * MILLION}, dp.zcdp(0.5), mechanism={mechanism})
"""
            filling = f"for _ in range({MILLION // 5000}): counter.extend(np.ones(5000, dtype=np.int64))"
            measuring = f"assert counter.t >= {MILLION}; counter.add(1); print(time.perf_counter() - start)"
            _run(opening + filling)
            seconds = statistics.median(float(_run(opening + measuring)) for _ in range(3))
        yield Row(
            f"reopening 10^6 releases ({title}) and one more",
            "0.2 s",
            seconds * 1e3,
            200.0,
            "ms",
            seconds / 0.2,
            "≤ 1×",
            seconds <= 0.2,
        )


def _run(script: str) -> str:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True).stdout  # noqa: S603


ALL = (durable_releases, size_on_disk, reopening)
