"""One row, or one person, more or less moves the totals of Spark's counts as far as promised, and nobody else's rows.

`make test-integrations` takes 60 histories of each way in, `make distance` 200, and the planted mistakes. They run
together, so that more of them take hardly longer.
"""

import os

import pytest
from pyspark.sql import functions as F  # noqa: N812

from dpstream.adapters.spark import counts
from tests.integrations.spark import distance

HEAVY = os.environ.get("DPSTREAM_HEAVY") == "1"
WAYS = {"table": distance.Table, "stream": distance.Stream, "discovered": distance.Discovered}


@pytest.fixture(autouse=True)
def few_workers(spark):
    """Two shards on one worker: starting workers takes most of the time."""
    setting = "spark.sql.shuffle.partitions"
    before = spark.conf.get(setting)
    spark.conf.set(setting, "1")
    yield
    spark.conf.set(setting, before)


@pytest.mark.parametrize("way", WAYS)
def test_one_unit_moves_no_more_than_promised(way, spark, tmp_path):
    distance.hold(WAYS[way](spark, tmp_path), examples=200 if HEAVY else 60)


def watermark_of_the_rows(clock, rows):
    """The latest time of the rows closes steps, as rows of the clock do."""
    ticks = clock.select(F.col("through").alias("time"), F.lit("the clock").alias("name"))
    both = rows.unionByName(ticks).withColumn("when", F.least("time", F.current_timestamp()))
    return both.withWatermark("when", "0 seconds").drop("when")


def by_row(rows, shards):
    """Each shard of people sees some of a person's rows only."""
    return counts._shard(F.xxhash64("person", "name", "time"), shards)


PLANTED = {
    "a watermark of the rows": ("stream", "closing_by", watermark_of_the_rows, "unit|Anyone can see"),
    "a person on two workers": ("discovered", "_person_shard", by_row, "moves the totals by 2"),
}


@pytest.mark.heavy
@pytest.mark.parametrize("mistake", PLANTED)
def test_a_mistake_is_found(mistake, spark, tmp_path, monkeypatch):
    way, part, wrong, said = PLANTED[mistake]
    monkeypatch.setattr(counts, part, wrong)
    with pytest.raises(AssertionError, match=said):
        distance.hold(WAYS[way](spark, tmp_path), examples=60)
