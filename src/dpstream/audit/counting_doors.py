"""Doors of `dpstream count`: rows of a file, counted by day, by category and by person, with and without a store.

Every category has one person of its own, so that one run is as many trials as there are categories. A person's rows are
worth 64 each and at most two of them are counted, so that one person adds at most 128.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstream.audit.doors import PER_PERSON, RHO, WIDE, Published, at_steps
from dpstream.audit.row import Row, spent_by
from dpstream.audit.trials import Stream
from dpstream.events.count_options import CountOptions
from dpstream.events.counting import CountRun
from dpstream.events.measure import Measure
from dpstream.mechanisms import Binary

__all__ = ["counting_doors"]

#: People, each with a category of their own: the trials of one run.
PEOPLE = 4_000
#: How many rows of one person are counted.
ROWS = 2
DAYS = 4
MECHANISM = Binary(DAYS)
MEASURE = Measure("amount", PER_PERSON, by="ward", categories=tuple(f"w{i}" for i in range(PEOPLE)))


def counting_doors() -> list[Row]:
    """Three rows of everybody on one day; and one row, then two more in another run, with a store that remembers."""
    one_day = [(_rows(), _rows(day_1=3))]
    counted = at_steps(DAYS, [0], size=ROWS * PER_PERSON)
    two_runs = [(_rows(), _rows(day_1=1, day_3=2))]
    counted_twice = at_steps(DAYS, [0, 2])
    limit = ROWS * PER_PERSON
    return [
        Row(
            "count, three rows on a day",
            "exact",
            "zcdp",
            DAYS,
            RHO,
            lambda _: Published(_one_run),
            one_day,
            partial(spent_by, MECHANISM, RHO, counted),
            WIDE,
        ),
        Row(
            "count, two runs and a store",
            "exact",
            "zcdp",
            DAYS,
            RHO,
            lambda _: Published(_two_runs),
            two_runs,
            partial(spent_by, MECHANISM, RHO, counted_twice, distance=limit),
            WIDE,
        ),
    ]


def _rows(day_1: int = 0, day_3: int = 0) -> Stream:
    return np.array([day_1, 0, day_3, 0])


def _one_run(stream: Stream) -> NDArray[Any]:
    with tempfile.TemporaryDirectory() as folder:
        return _counted(Path(folder), stream, through=DAYS).T


def _two_runs(stream: Stream) -> NDArray[Any]:
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "count.db"
        parts = [
            _counted(Path(folder), stream * (np.arange(DAYS) < 2), through=2, store=store),
            _counted(Path(folder), stream * (np.arange(DAYS) >= 2), through=DAYS, store=store),
        ]
        return np.concatenate(parts).T


def _counted(folder: Path, stream: Stream, *, through: int, store: Path | None = None) -> NDArray[Any]:
    """Write the rows to a file, count them as `dpstream count` does, and return what is released: one row a day."""
    log = folder / f"visits-{through}.csv"
    with log.open("w") as file:
        file.write("when,ward,amount,user\n")
        for day, times in enumerate(stream.tolist(), start=1):
            file.writelines(f"2026-01-{day:02},w{i},{PER_PERSON},u{i}\n" for i in range(PEOPLE) for _ in range(times))
    options = CountOptions(
        MEASURE,
        RHO,
        time="when",
        every="1d",
        start="2026-01-01",
        through=f"2026-01-{through:02}",
        horizon=DAYS,
        user="user",
        max_contributions=ROWS,
        mechanism=MECHANISM,
        store=store,
    )
    with _closing(CountRun(options)) as run:
        run.read([str(log)])
        run.open()
        run.ingest()
        return np.concatenate(list(run.release(run.closed)))


@contextmanager
def _closing(run: CountRun) -> Iterator[CountRun]:
    try:
        yield run
    finally:
        run.close()
