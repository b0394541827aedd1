"""Events as files, queries over them, and what one machine says: shared by the tests and by what is killed."""

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd

import dpstream as dp
from dpstream.adapters.spark import discovered_counts, running_counts
from dpstream.adapters.spark.job import Workplace
from dpstream.adapters.spark.job_arguments import declared_job, discovered_job
from dpstream.release.named_counter import NamedCounter, digest_of_names
from dpstream.testing import fixed_key

KEY = fixed_key("spark streams")
SECRET = "env:DPSTREAM_SPARK_TEST"  # noqa: S105 (where the secret is)
SCHEMA = "time timestamp, name string, person string"
START, DAYS = "2026-01-01", 8
#: What files say of when they were written: this moment, and as many seconds later as their number.
EPOCH = 1_767_225_600
ZCDP, APPROX = dp.zcdp(0.5), dp.approx_dp(6, 1e-6)
LIMIT = 3
COMMON = {
    "name": "name",
    "time": "time",
    "every": "1d",
    "start": START,
    "horizon": DAYS,
    "windows": ("3d",),
    "shards": 4,
    "secret": SECRET,
}


def names(count):
    return [f"page {i}" for i in range(count)]


def write_day(folder: Path, day: int, rows, number=None):
    """Write one file: rows of (second of the day, name, person). It is there as a whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    begin = pd.Timestamp(START, tz="UTC") + pd.Timedelta(days=day)
    number = day if number is None else number
    draft = folder / f".{number}"
    with draft.open("w") as file:
        for second, name, person in rows:
            moment = None if second is None else (begin + pd.Timedelta(seconds=second)).isoformat()
            file.write(json.dumps({"time": moment, "name": name, "person": person}) + "\n")
    os.utime(draft, (EPOCH + number, EPOCH + number))  # Spark takes files in the order of their times
    draft.rename(folder / f"{number:04}.json")


def tick(folder: Path, day: int, number=None):
    """Close all steps up to this day: write its end into a file of the clock."""
    folder.mkdir(parents=True, exist_ok=True)
    through = pd.Timestamp(START, tz="UTC") + pd.Timedelta(days=day + 1)
    number = day if number is None else number
    draft = folder / f".{number}"
    draft.write_text(json.dumps({"through": through.isoformat()}) + "\n")
    os.utime(draft, (EPOCH + number, EPOCH + number))
    draft.rename(folder / f"{number:04}.json")


def clock(spark, folder, files=1):
    """The folder of the clock as a stream; it may be empty."""
    folder.mkdir(parents=True, exist_ok=True)
    return spark.readStream.schema("through timestamp").option("maxFilesPerTrigger", files).json(str(folder))


def made_up_days(count: int, per_day: int, seed: int, days=DAYS):
    """Rows of every day, in the order of their times; names follow a power law, people bring more than they may."""
    rng, known = np.random.default_rng(seed), names(count)
    made = []
    for _ in range(days):
        which = np.minimum(rng.zipf(1.4, per_day) - 1, count - 1)
        people = rng.integers(0, per_day // 3, per_day)
        made.append([(second, known[i], f"p{p}") for second, i, p in zip(range(per_day), which, people, strict=True)])
    return made


#: Rows after the last step.
THE_END = [(5 * 3600, "page 0", "nobody")]


def noise_key(make, *given, windows, **own):
    """The key that a query derives from the secret and from everything that decides what it counts."""
    defaults = {"zone": "UTC", "confidence": 0.95, "mechanism": "auto", "stream": ""}
    os.environ[SECRET.removeprefix("env:")] = KEY.hex()
    return Workplace(make(*given, **COMMON | defaults | own | {"windows": [f"{n}d" for n in windows]})).noise_key


def single_declared(days, known, windows=(3,), rows="stream"):
    """What one machine releases: {(name, step): value}."""
    own = {"budget": ZCDP, "per_person": 1, "participation": None}
    key = noise_key(declared_job, rows, digest_of_names(known), windows=windows, **own)
    counter = NamedCounter(known, DAYS, ZCDP, windows=windows, key=key)
    found = {}
    for step, rows in enumerate(days, 1):
        counts = dict.fromkeys(known, 0)
        for _, name, _ in rows:
            counts[name] += 1
        found |= {(name, step): value for name, value in counter.add(counts).items()}
    return found


def single_discovered(days, windows=(3,)):
    """What one machine releases, and how many events it drops."""
    own = {"person": "person", "budget": APPROX, "names_per_person": LIMIT, "per_name": 1}
    key = noise_key(discovered_job, windows=windows, **own)
    counter = dp.OpenCounter(DAYS, APPROX, names_per_person=LIMIT, windows=windows, key=key)
    found = {}
    for step, rows in enumerate(days, 1):
        released = counter.add_events([person for _, _, person in rows], [name for _, name, _ in rows])
        found |= {(name, step): value for name, value in released.items()}
    return found, counter.dropped


def read(spark, folder, files=1):
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", files).json(str(folder))


def declared(events, known, clock, **changed):
    return running_counts(events, **COMMON | {"names": known, "budget": ZCDP, "clock": clock} | changed)


def discovered(events, clock, **changed):
    given = COMMON | {"person": "person", "budget": APPROX, "names_per_person": LIMIT, "clock": clock}
    return discovered_counts(events, **given | changed)
