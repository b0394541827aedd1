"""The command line at size: 10^8 events by day, against Polars without privacy; a day's file into a store."""

from __future__ import annotations

import datetime as dt
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
from polars.io.plugins import register_io_source

import measure
from measure import Row

EVENTS = 10**8
PIECE = 10**6
YEAR = 365 * 86_400
#: The fastest way we know to say it: streaming, one column, timestamps read with their format, no cache.
PLAIN = {
    ".csv": "pl.scan_csv({path!r}, infer_schema=False)"
    ".with_columns(pl.col('time').str.to_datetime('%Y-%m-%d %H:%M:%S', time_unit='us', cache=False))",
    ".parquet": "pl.scan_parquet({path!r})",
}


def events() -> Iterator[pl.DataFrame]:
    """A year of events in order, made up."""
    generator = np.random.default_rng(1)
    pieces = EVENTS // PIECE
    start = np.datetime64("2025-01-01", "s")
    for i in range(pieces):
        seconds = np.sort(generator.integers(i * YEAR // pieces, (i + 1) * YEAR // pieces, PIECE))
        sites = np.array(["north", "south", "west"])[generator.integers(0, 3, PIECE)]
        yield pl.DataFrame({"time": (start + seconds).astype("datetime64[us]"), "site": sites})


def write(path: Path) -> None:
    """Write the events in the format of the file's ending."""
    if path.suffix == ".parquet":
        schema = {"time": pl.Datetime("us"), "site": pl.String}
        register_io_source(lambda *_: events(), schema=schema).sink_parquet(path)
        return
    with path.open("wb") as file:
        for i, piece in enumerate(events()):
            piece.write_csv(file, include_header=i == 0, datetime_format="%Y-%m-%d %H:%M:%S")


def counting() -> Iterator[Row]:
    """Speed and memory of `dpstream count`."""
    for suffix, scan in PLAIN.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"events{suffix}"
            write(path)
            plain = (
                f"import polars as pl\nlazy = {scan.format(path=str(path))}\n"
                "days = lazy.group_by(pl.col('time').dt.truncate('1d')).len().collect(engine='streaming')\n"
                "print(days.sort('time')['len'].cum_sum())"
            )
            ours = [sys.executable, "-m", "dpstream", "count", str(path), "--time", "time", "--rho", "0.5"]
            ours += ["--from", "2025-01-01", "--through", "2025-12-31", "--horizon", "365", "--as", "csv", "--quiet"]
            times: dict[str, list[float]] = {"ours": [], "peer": []}
            memory = 0.0
            for _ in range(3):
                seconds, megabytes = measure.program(ours)
                times["ours"].append(seconds)
                memory = max(memory, megabytes)
                times["peer"].append(measure.program([sys.executable, "-c", plain])[0])
        mine, theirs = (sorted(times[side])[1] * 1e9 / EVENTS for side in ("ours", "peer"))
        title = f"dpstream count, 10^8 rows of {suffix[1:]}, by day"
        yield Row(title, "Polars, no privacy", mine, theirs, "ns/row", theirs / mine, "≥ 0.6×", theirs >= 0.6 * mine)
        yield Row(f"{title}: peak memory", "1 GB", memory, 1000.0, "MB", memory / 1000, "≤ 1×", memory <= 1000)


def daily() -> Iterator[Row]:
    """A day's file of 10^6 rows into a store that has released nine of its ten years of days: wall time, start-up too.

    The first of five runs makes the bytecode, as the second morning finds it; the median of the others is told.
    """
    command = [sys.executable, "-m", "dpstream", "count"]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PYTHONPYCACHEPREFIX"] = folder
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        store = ["--store", f"{folder}/s.db"]
        first = morning(Path(folder), dt.date(2017, 1, 1), 1000)
        begin = ["--time", "time", "--from", "2017-01-01", "--horizon", "3650", "--epsilon", "1", "--delta", "1e-6"]
        begin += ["--by", "site", "--values", "north,south,west", "--windows", "1d,7d,1mo", "--through", "2025-12-31"]
        measure.program([*command, first, *begin, *store, "--quiet"])
        seconds = []
        for day in range(1, 6):
            date = dt.date(2026, 1, day)
            file = morning(Path(folder), date, PIECE)
            seconds.append(measure.program([*command, file, *store, "--through", str(date), "--quiet"])[0])
        del os.environ["PYTHONPYCACHEPREFIX"]
    took = sorted(seconds[1:])[2]
    work = "a day's 10^6 rows, by site, into a store of ten years"
    yield Row(work, "3 s, with start-up", took, 3.0, "s", took / 3, "≤ 1×", took <= 3)


def morning(folder: Path, day: dt.date, rows: int) -> str:
    """Write a file of one day's events, in order."""
    generator = np.random.default_rng(day.toordinal())
    seconds = np.sort(generator.integers(0, 86_400, rows))
    found = {
        "time": (np.datetime64(day, "s") + seconds).astype("datetime64[us]"),
        "site": np.array(["north", "south", "west"])[generator.integers(0, 3, rows)],
    }
    path = folder / f"{day}.csv"
    pl.DataFrame(found).write_csv(path, datetime_format="%Y-%m-%d %H:%M:%S")
    return str(path)


ALL = (counting, daily)
