"""Counts page views inside Apache Spark, from files or from a rate source, and shows the result as a page.

    pip install 'dpstream[spark,serve]'        (and Java 17)
    python examples/spark_events.py                       made-up files of ten days, one file a day
    python examples/spark_events.py --rate 5000           load: so many events a second, for --seconds, steps of 10 s

Everything goes to output/spark: the events, the checkpoint, the key, the releases (SQLite, one row for each name and
step), and counts.db, which `dpstream serve` shows. Run it again: it goes on where it stopped, and publishes
nothing anew.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
from pathlib import Path

import numpy as np
import polars as pl

import dpstream as dp
from dpstream.adapters.spark import driver_clock, local_session, running_counts
from dpstream.adapters.spark.page import write_page
from dpstream.adapters.spark.sink import ReleaseFile
from dpstream.noise.keystream import fresh_key
from dpstream.store.master_key import write_key_file

PAGES = [f"page {i}" for i in range(50)]
BUDGET = dp.approx_dp(epsilon=1, delta=1e-6)
SHOWN = PAGES[:6]


def write_files(folder: Path, days: int) -> None:
    """Write made-up page views, one file a day, if they are not there."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(7)
    for day in range(days):
        begin = dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(days=day)
        pages = np.minimum(random.zipf(1.3, 4000) - 1, len(PAGES) - 1)
        seconds = np.sort(random.integers(0, 86400, 4000))
        lines = [
            json.dumps({"time": (begin + dt.timedelta(seconds=int(s))).isoformat(), "page": PAGES[p]})
            for s, p in zip(seconds, pages, strict=True)
        ]
        target = folder / f"{day:03}.json"
        if not target.exists():
            draft = folder / f".{day:03}"
            draft.write_text("\n".join(lines) + "\n")
            draft.rename(target)


def main() -> None:
    """Run the query that the options ask for."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--folder", type=Path, default=Path("output/spark"))
    options.add_argument("--days", type=int, default=10)
    options.add_argument("--rate", type=int, help="events a second from Spark's rate source instead of files")
    options.add_argument("--seconds", type=int, default=60, help="how long the rate source runs")
    given = options.parse_args()
    from pyspark.sql import functions as F  # noqa: N812

    folder = given.folder / ("rate" if given.rate else "files")
    folder.mkdir(parents=True, exist_ok=True)
    key = (folder / "secret.key").absolute()
    write_key_file(key, fresh_key(), keep=True)  # the stream's own, if it is there
    spark = local_session(settings={"spark.log.level": "ERROR"})
    if given.rate:
        pages = F.concat(F.lit("page "), F.pmod(F.xxhash64("value"), F.lit(len(PAGES))).cast("string"))
        events = spark.readStream.format("rate").option("rowsPerSecond", given.rate).load()
        events = events.select(F.col("timestamp").alias("time"), pages.alias("page"))
        begun = folder / "begun"  # the first step is fixed when the stream begins, not when it goes on
        if not begun.exists():
            begun.write_text(dt.datetime.now(dt.UTC).isoformat(timespec="seconds"))
        settings = {"every": "10s", "start": begun.read_text(), "horizon": 360, "windows": ("1m",)}
        clock = driver_clock(spark, behind="5 seconds")
    else:
        write_files(folder / "events", given.days)
        schema = "time timestamp, page string"
        events = spark.readStream.schema(schema).option("maxFilesPerTrigger", 4).json(str(folder / "events"))
        settings = {"every": "1d", "start": "2026-01-01", "horizon": 365, "windows": ("7d",)}
        (folder / "clock").mkdir(exist_ok=True)
        clock = spark.readStream.schema("through timestamp").json(str(folder / "clock"))
    common = {"names": PAGES, "budget": BUDGET, **settings}
    counts = running_counts(events, name="page", time="time", shards=4, secret=str(key), clock=clock, **common)
    sink = ReleaseFile(folder / "releases.db")
    query = counts.writeStream.foreachBatch(sink.write).option("checkpointLocation", str(folder / "checkpoint")).start()
    if given.rate:
        query.awaitTermination(given.seconds)
    else:
        query.processAllAvailable()
        # Everything has been read: close the days.
        through = dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(days=given.days)
        (folder / "clock" / f"{given.days}.json").write_text(json.dumps({"through": through.isoformat()}))
        query.processAllAvailable()
    progress = query.lastProgress
    query.stop()
    if progress is not None:
        print(f"last micro-batch: {progress.processedRowsPerSecond:,.0f} events a second; left out so far in it:")
        print(
            "  "
            + ", ".join(f"{name} {number}" for name, number in progress.observedMetrics["dpstream"].asDict().items())
        )
    steps = write_page(sink, folder / "counts.db", **common | {"names": SHOWN})
    print(f"{steps} steps of {len(PAGES)} pages are published in {sink.path}.")
    last = sink.read().filter(pl.col("step") == steps, pl.col("name").is_in(SHOWN))
    for row in last.iter_rows(named=True):
        print(f"  {row['name']}: {row['value']:,} ({row['low']:,} to {row['high']:,})")
    print(f"Look at them: dpstream serve {folder / 'counts.db'}")
    spark.stop()


if __name__ == "__main__":
    main()
