"""The command line at size: 10^8 events counted by day, against the same aggregation in Polars without privacy."""

from __future__ import annotations

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


ALL = (counting,)
