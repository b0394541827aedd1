"""Random event logs, written in every format, and what plain Python makes of them."""

import csv
import datetime as dt
import gzip
import io
import json
import random
from collections import Counter
from dataclasses import dataclass
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl

from dpstream.events.measure import Measure
from dpstream.events.tables import tables
from dpstream.events.tally import TimeTally
from dpstream.events.timestamps import Timestamps

WARDS = ("north", "south", "west")
FORMATS = ("csv", "csv.gz", "crlf.csv", "bom.csv", "no-end.csv", "tsv", "jsonl", "jsonl.gz", "parquet")
#: What a note may hold: everything that makes records hard to find.
NOTES = ("", "plain", "two\nlines", 'says "no"', "a, b", '"\n"', "tab\there", "\n\n", "é", ",,\n,,")


@dataclass(frozen=True)
class Event:
    when: dt.datetime
    ward: str
    amount: int
    note: str


def random_log(rng: random.Random, start: dt.datetime, spread: dt.timedelta, count: int) -> list[Event]:
    """Events in order; with a zone if `start` has one."""
    moments = sorted(start + dt.timedelta(seconds=rng.randrange(int(spread.total_seconds()))) for _ in range(count))
    return [Event(when, rng.choice(WARDS), rng.randint(-5, 5), rng.choice(NOTES)) for when in moments]


def write(events, folder, form):
    """The events as a file of this form; its path."""
    path = folder / f"events.{form}"
    rows = [[event.when.isoformat(), event.ward, str(event.amount), event.note] for event in events]
    names = ["when", "ward", "amount", "note"]
    if form == "parquet":
        pl.DataFrame(rows, schema=names, orient="row").with_columns(pl.col("amount").cast(pl.Int64)).write_parquet(path)
        return str(path)
    if form.startswith("jsonl"):
        text = "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)
    else:
        held = io.StringIO()
        end = "\r\n" if form == "crlf.csv" else "\n"
        writer = csv.writer(held, delimiter="\t" if form == "tsv" else ",", lineterminator=end)
        writer.writerows([names, *rows])
        text = held.getvalue()
    data = text.encode()
    if form == "bom.csv":
        data = b"\xef\xbb\xbf" + data
    if form == "no-end.csv":
        data = data.removesuffix(b"\n")
    path.write_bytes(gzip.compress(data) if form.endswith(".gz") else data)
    return str(path)


def number_of(when: dt.datetime, every: str, zone: str | None) -> int:
    """The number of the step on some calendar of the zone: days and longer by the wall, hours by the clock."""
    wall = when.astimezone(ZoneInfo(zone)) if zone else when
    if every == "1d":
        return wall.toordinal()
    if every == "1w":
        return (wall.toordinal() - 1) // 7  # day 1 was a Monday
    if every == "1mo":
        return 12 * wall.year + wall.month
    seconds = {"15m": 900, "1h": 3600}[every]
    passed = wall.replace(tzinfo=None) - (wall.utcoffset() or dt.timedelta()) - dt.datetime(1970, 1, 1)
    # Clocks leap by whole hours here, so that any offset of the zone gives the same edges.
    return int((passed + (wall.utcoffset() or dt.timedelta()) % dt.timedelta(hours=1)) // dt.timedelta(seconds=seconds))


def expected(events, every, zone, *, by=False, value=False, first=None):
    """The inputs of all steps from the first event's on, added up one by one."""
    numbers = [number_of(event.when, every, zone) for event in events]
    first = min(numbers) if first is None else first
    sums = Counter()
    for number, event in zip(numbers, events, strict=True):
        sums[number - first, WARDS.index(event.ward) if by else 0] += event.amount if value else 1
    inputs = np.zeros((max(numbers) - first + 1, len(WARDS) if by else 1), dtype=np.int64)
    for place, total in sums.items():
        inputs[place] = total
    return inputs if by else inputs[:, 0]


def tallied(path, every, zone, *, by=False, value=False, any_order=False, start=None):
    """The same from the library."""
    measure = Measure(
        value="amount" if value else None,
        per_person=5,
        by="ward" if by else None,
        categories=WARDS if by else (),
    )
    tally = TimeTally(measure, None, 10**6, Timestamps("when", None, zone), every, any_order=any_order, start=start)
    for table in tables([path], tally.columns):
        tally.take(table)
    return tally.inputs(0, tally.steps), tally
