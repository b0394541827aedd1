"""Under one key, a stream with any setting changed has other noise: each setting of each kind of stream.

If a setting were missing where keys are derived, both streams would be made of the same draws, and the difference of
their releases would be the exact difference of their data. So the noise of every step of one is correlated with every
step of the other over 1,000 names, categories or coordinates. Independent noise stays below 8/√1,000 = 0.253: above by
chance in 1e-15 of all keys, for each of some 100,000 correlations. Shared draws show correlations near 1.
"""

import inspect
import itertools
import os
import warnings

import numpy as np
import polars as pl
import pytest

import dpstream as dp
from dpstream import mechanisms
from dpstream.adapters.spark import secret as spark_secret
from dpstream.adapters.spark.job import Workplace
from dpstream.adapters.spark.job_arguments import declared_job, discovered_job
from dpstream.adapters.training_noise import GivenScale, Part, TrainingNoise
from dpstream.release.named_counter import NamedCounter, digest_of_names
from dpstream.testing import fixed_key
from tests.audit.test_shared_noise import COUNTER, RUNNING_SUM, largest_correlation, noise_of_release

WIDTH, STEPS = 1_000, 3
LIMIT = 8 / np.sqrt(WIDTH)
KEY, OTHER_KEY = fixed_key("keys of streams"), fixed_key("keys of streams, another key")
NAMES = [f"page {i}" for i in range(WIDTH)]
BALANCED, TREE = mechanisms.BalancedToeplitz(8), mechanisms.SmoothBinary(8)
ZCDP, APPROX = dp.zcdp(1e-6), dp.approx_dp(0.01, 1e-6)


def named(settings, _):
    counter = NamedCounter(**settings)
    released = [counter.add({}) for _ in range(STEPS)]
    return np.array([[step[name] for name in NAMES] for step in released])


def opened(settings, _):
    counter = dp.OpenCounter(**settings)
    people = {} if settings.get("per_name", 1) > 1 else None
    released = [counter.add({}, people) for _ in range(STEPS)]
    return np.array([[step[name] for name in NAMES] for step in released])


def trained(settings, _):
    given = dict(settings)
    scale = GivenScale(given.pop("mechanism"), given.pop("scale"))
    name, part = given.pop("name"), Part((given.pop("coordinates"),), dtype=given.pop("dtype"))
    noise = TrainingNoise(scale, {name: part}, **given)
    made = np.empty((STEPS, part.coordinates), dtype=part.dtype)
    for row in made:
        noise.step(lambda _, part, row=row: part.write_to(row))
    noise.close()
    return made


def counted(settings, folder):
    """What a table without rows publishes, of a store whose random numbers are all the same as those of the others."""
    frame = pl.DataFrame(schema=dict.fromkeys(("when", "paid", "page", "place", "who", "whom", "euros"), pl.String))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = dp.count(frame, store=folder / f"{len(list(folder.iterdir()))}.db", **settings)
    steps = table.filter(pl.col("category").is_in(NAMES)).partition_by("step", maintain_order=True)
    return np.array([step["value"].to_list() for step in steps])


def spark_declared(settings, _):
    given = dict(settings)
    job = declared_job(given.pop("rows"), digest_of_names(given.pop("names")), **given)
    return of_workplace(Workplace(job))


def spark_discovered(settings, _):
    return of_workplace(Workplace(discovered_job(**settings)))


def of_workplace(work):
    tags = work.noise.tags(NAMES)
    return np.array([work.noise.values(tags, t) for t in range(1, STEPS + 1)])


#: One kind of stream: how its noise is read, its usual settings, and for every setting other values (a dictionary says
#: what else has to change with it).
NAMED = (
    named,
    {"names": NAMES, "horizon": 8, "budget": ZCDP, "per_person": 9, "mechanism": BALANCED, "key": KEY},
    {
        "names": [[*NAMES, "another"], [*NAMES, "a third", "a fourth"]],
        "horizon": [{"horizon": 9, "mechanism": mechanisms.BalancedToeplitz(9)}, 7],
        "budget": [dp.zcdp(1.1e-6), APPROX],
        "per_person": [10],
        "participation": [dp.Participation(2), dp.Participation(2, 9)],
        "windows": [(2,), (2, 3)],
        "mechanism": [TREE],
        "name": ["a"],
        "key": [OTHER_KEY],
    },
)
OPEN = (
    opened,
    {"declared": NAMES, "horizon": 8, "budget": APPROX, "names_per_person": 9, "mechanism": BALANCED, "key": KEY},
    {
        "declared": [[*NAMES, "another"], NAMES[::-1]],
        "horizon": [{"horizon": 9, "mechanism": mechanisms.BalancedToeplitz(9)}, 7],
        "budget": [dp.approx_dp(0.01, 1.1e-6)],
        "names_per_person": [10],
        "per_name": [2],
        "windows": [(2,), (2, 3)],
        "mechanism": [TREE],
        "threshold_share": [0.4],
        "people_share": [0.4],
        "name": ["a"],
        "key": [OTHER_KEY],
    },
)
TRAINING = (
    trained,
    {"mechanism": TREE, "scale": 1e3, "name": "w", "coordinates": WIDTH, "dtype": "float32", "key": KEY},
    {
        "mechanism": [BALANCED, mechanisms.SmoothBinary(9)],
        "scale": [1e3 + 1],
        "name": ["v"],
        "coordinates": [WIDTH + 1],
        "dtype": ["float64"],
        "which": ["prefix"],
        "key": [OTHER_KEY],
    },
)
STORE_COUNT = (
    counted,
    {
        "time": "when",
        "every": "1d",
        "start": "2025-01-01",
        "through": "2025-01-03",
        "horizon": 8,
        "budget": ZCDP,
        "mechanism": TREE,
        "by": "page",
        "values": NAMES,
        "user": "who",
        "max_contributions": 9,
        "max_users": 100,  # room in the file, which is all written
        "name": "visits",
    },
    {
        "time": ["paid"],
        "every": ["2d", "12h"],
        "start": ["2024-12-31"],
        "until": [{"horizon": None, "until": "2025-01-06"}],
        "horizon": [7],
        "unbounded": [{"horizon": None, "unbounded": True, "mechanism": None}],
        "budget": [dp.zcdp(1.1e-6), APPROX],
        "windows": [("2d",), ("2d", "3d")],
        "by": ["place"],
        "values": [[*NAMES, "another"], NAMES[::-1]],
        "undeclared": ["other"],
        "value": [{"value": "euros", "per_person": 1}],
        "per_person": [{"value": "euros", "per_person": 2}],
        "unit": [{"value": "euros", "per_person": 1, "unit": "0.5"}],
        "clip": [{"value": "euros", "per_person": 1, "clip": True}],
        "decimal": [{"value": "euros", "per_person": 1, "decimal": ","}],
        "where": [["place=here"]],
        "missing": ["skip"],
        "user": ["whom", {"user": None, "max_contributions": None, "max_users": None}],
        "max_contributions": [10],
        "fold_case": [True],
        "neighbours": ["replace-anywhere"],
        "mechanism": [BALANCED],
        "time_format": ["%d.%m.%Y"],
        "time_zone": ["UTC", "Europe/Copenhagen"],
        "late": ["drop", "refuse"],
        "whole_log": [True],
        "name": ["visitors"],
    },
)
STORE_NAMES = (
    counted,
    {name: value for name, value in STORE_COUNT[1].items() if name not in ("max_contributions", "max_users")}
    | {"discover": True, "max_pairs": 20_000, "names_per_person": 9, "budget": APPROX, "mechanism": BALANCED},
    {
        **{name: STORE_COUNT[2][name] for name in ("time", "every", "start", "by", "where", "missing", "fold_case")},
        **{name: STORE_COUNT[2][name] for name in ("windows", "time_format", "time_zone", "late", "name")},
        "horizon": [7],
        "budget": [dp.approx_dp(0.01, 1.1e-6)],
        "values": [[*NAMES, "another"], NAMES[::-1]],
        "names_per_person": [10],
        "per_name": [2],
        "user": ["whom"],
        "mechanism": [TREE],
    },
)
SPARK = {
    "name": "page",
    "time": "when",
    "every": "1d",
    "start": "2026-01-01",
    "horizon": 8,
    "windows": (),
    "shards": 1,
    "secret": "env:DPSTREAM_SPARK_TEST",
    "zone": "UTC",
    "confidence": 0.9,
    "mechanism": BALANCED,
    "stream": "",
}
SPARK_OTHERS = {
    "name": ["place"],
    "time": ["paid"],
    "every": ["1h", "2d"],
    "start": ["2026-01-02"],
    "horizon": [7],
    "windows": [("2d",), ("2d", "3d")],
    "secret": ["env:DPSTREAM_SPARK_OTHER"],
    "zone": ["Europe/Copenhagen"],
    "mechanism": [TREE],
    "stream": ["a"],
}
SPARK_DECLARED = (
    spark_declared,
    SPARK | {"rows": "stream", "names": NAMES, "budget": ZCDP, "per_person": 9, "participation": None},
    SPARK_OTHERS
    | {
        "rows": ["table"],
        "names": [[*NAMES, "another"], [*NAMES, "a third", "a fourth"]],
        "budget": [dp.zcdp(1.1e-6), APPROX],
        "per_person": [10],
        "participation": [dp.Participation(2), dp.Participation(2, 9)],
    },
)
SPARK_DISCOVERED = (
    spark_discovered,
    SPARK | {"person": "who", "budget": APPROX, "names_per_person": 9, "per_name": 1},
    SPARK_OTHERS
    | {"person": ["whom"], "budget": [dp.approx_dp(0.01, 1.1e-6)], "names_per_person": [10], "per_name": [2]},
)


def plain(kind):
    """A kind of stream of the audit's own test of this, with as many coordinates as here."""
    make, _, usual, others = kind
    width, key = {"shape": (WIDTH,), "key": KEY}, {"shape": [(WIDTH + 1,), (WIDTH, 1)], "key": [OTHER_KEY]}
    return lambda settings, _: noise_of_release(make, settings), usual | width, others | key


KINDS = {
    "Counter": plain(COUNTER),
    "RunningSum": plain(RUNNING_SUM),
    "NamedCounter": NAMED,
    "OpenCounter": OPEN,
    "training": TRAINING,
    "store, count": STORE_COUNT,
    "store, names": STORE_NAMES,
    "Spark, declared": SPARK_DECLARED,
    "Spark, discovered": SPARK_DISCOVERED,
}


@pytest.fixture(autouse=True)
def one_key(monkeypatch):
    monkeypatch.setenv("DPSTREAM_SPARK_TEST", KEY.hex())
    monkeypatch.setenv("DPSTREAM_SPARK_OTHER", OTHER_KEY.hex())
    monkeypatch.setattr(spark_secret, "_fetched", {})
    # Stores draw their keys, and a tag for each stream, at random: nothing but the settings may make the difference.
    monkeypatch.setattr(os, "urandom", bytes)


def alone(settings, setting, value):
    return settings | (value if isinstance(value, dict) else {setting: value})


@pytest.mark.parametrize("kind", KINDS)
def test_every_setting_of_every_stream_changes_its_noise(kind, tmp_path):
    noise, usual, others = KINDS[kind]
    accepted = set(inspect.signature(dp.count).parameters) if noise is counted else set(others)
    found = {"usual": noise(usual, tmp_path)}
    for setting, values in others.items():
        if setting in accepted:
            for value in values:
                changed = alone(usual, setting, value)
                found[f"{setting}={str(value)[:60]}"] = noise(changed, tmp_path)
    for (name, first), (other, second) in itertools.combinations(found.items(), 2):
        assert largest_correlation(first, second) < LIMIT, (name, other)
    assert np.array_equal(noise(usual, tmp_path), found["usual"])


#: What changes no total, and must not change the noise: other noise for the same totals would only tell more of them.
NO_SETTING = {"shards", "confidence", "digest", "capacity"}
#: What is read or written, and what is made of a store's releases; a store's streams have tags of their own.
OF_A_RUN = {"batch", "frame", "store", "through", "everything", "max_pairs", "max_users", "confidence"} | {
    "non_negative",
    "monotone",
    "total",
}


@pytest.mark.parametrize(
    ("make", "kind", "free"),
    [
        (NamedCounter, NAMED, NO_SETTING),
        (dp.OpenCounter, OPEN, NO_SETTING),
        (declared_job, SPARK_DECLARED, NO_SETTING),
        (discovered_job, SPARK_DISCOVERED, NO_SETTING),
        (dp.count, STORE_COUNT, OF_A_RUN | set(STORE_NAMES[2]) | {"discover"}),
    ],
    ids=["NamedCounter", "OpenCounter", "Spark, declared", "Spark, discovered", "count"],
)
def test_no_setting_is_forgotten(make, kind, free):
    """A new argument must be added above: with another value, or as no setting."""
    assert set(inspect.signature(make).parameters) <= set(kind[2]) | free


@pytest.mark.parametrize("kind", ["Spark, declared", "Spark, discovered"])
def test_what_changes_no_total_changes_no_noise(kind, tmp_path):
    noise, usual, _ = KINDS[kind]
    expected = noise(usual, tmp_path)
    for setting, value in {"shards": 2, "confidence": 0.5}.items():
        assert np.array_equal(noise(usual | {setting: value}, tmp_path), expected)
