"""Counting in real Spark: the values of one machine, restarts, replays, changed settings, bad input."""

import datetime as dt
import shutil

import pytest
from pyspark.errors import StreamingQueryException

import dpstream as dp
from dpstream.adapters.spark import driver_clock, running_counts_batch
from dpstream.adapters.spark.sink import ReleaseFile
from dpstream.errors import ColumnMissing, InvalidArgument, ReleaseConflict, SparkUnsupported
from dpstream.testing import fixed_key
from tests.integrations.spark import streams
from tests.integrations.spark.streams import DAYS, KEY, ZCDP

NAMES = streams.names(3000)


def days():
    return streams.made_up_days(len(NAMES), 2000, seed=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Eight days of 3,000 names, and a row after them; each day closes with the file of the next."""
    made = tmp_path_factory.mktemp("events")
    for day, rows in enumerate([*days(), streams.THE_END]):
        streams.write_day(made / "in", day, rows)
        streams.tick(made / "clock", min(day, DAYS - 1), day)
    return made


def declared(spark, folder, **changed):
    events, clock = streams.read(spark, folder / "in", 3), streams.clock(spark, folder / "clock", 3)
    return streams.declared(events, **{"known": NAMES, "clock": clock} | changed)


def run(counts, checkpoint, sink=None):
    """Run a query until there is nothing more to do; return its rows and its progress."""
    rows = []

    def collect(batch, number):
        found = batch.collect()
        rows.extend(found)
        if found:
            LAST_WITH_ROWS[str(checkpoint)] = number
        if sink is not None:
            sink.write_rows(batch.columns, [tuple(row) for row in found])

    query = counts.writeStream.foreachBatch(collect).option("checkpointLocation", str(checkpoint)).start()
    try:
        query.processAllAvailable()
        return rows, list(query.recentProgress)
    finally:
        query.stop()


#: The last micro-batch of each checkpoint that published something.
LAST_WITH_ROWS = {}


def metrics(progress, name):
    """The numbers of rows that were not simply counted, over all micro-batches."""
    found = {}
    for one in progress:
        if name in one.observedMetrics:
            for field, number in one.observedMetrics[name].asDict().items():
                found[field] = found.get(field, 0) + number
    return found


def other_secret():
    return fixed_key("another secret")


@pytest.fixture(scope="module")
def kept(spark, folder, tmp_path_factory):
    """A query over half of the files, then started again from its checkpoint over all of them."""
    scratch = tmp_path_factory.mktemp("kept")
    part, checkpoint, sink = scratch / "part", scratch / "checkpoint", ReleaseFile(scratch / "releases.db")
    shutil.copytree(folder, part, ignore=lambda _, found: [f for f in found if f[0] == "0" and f > "0004.json"])
    counts = declared(spark, part)
    plan = counts._jdf.queryExecution().toString()
    before, progress = run(counts, checkpoint, sink)
    shutil.copytree(folder, part, dirs_exist_ok=True)
    after, more = run(declared(spark, part), checkpoint, sink)
    return part, checkpoint, sink, plan, before, after, progress + more


def test_declared_names_have_the_values_of_one_machine(kept):
    """Name by name and step by step, over a restart from the checkpoint."""
    _, _, sink, _, before, after, progress = kept
    expected, rows = streams.single_declared(days(), NAMES), before + after
    assert {(row.name, row.step): row.value for row in rows} == expected
    assert len(rows) == len(expected) == len(NAMES) * DAYS == sink.read().height
    assert 0 < len(before) < len(rows)
    for row in rows:
        assert row.last_3d == row.value - (expected[row.name, row.step - 3] if row.step > 3 else 0)
        assert row.low < row.value < row.high
        assert row.last_3d_low < row.last_3d < row.last_3d_high
    # The session's time zone is not that of the steps; collect() tells times on this machine's clock.
    begins = {row.start.astimezone(dt.UTC) for row in rows if row.step == 2}
    assert begins == {dt.datetime(2026, 1, 2, tzinfo=dt.UTC)}
    assert metrics(progress, "dpstream") == {"late": 0, "undeclared": 0, "before_start": 0, "beyond_horizon": 1}


def test_a_micro_batch_that_runs_again_publishes_the_same(spark, kept):
    part, checkpoint, sink, *_ = kept
    last = LAST_WITH_ROWS[str(checkpoint)]
    for log, first in (("commits", last), ("offsets", last + 1)):  # as if it had been killed before its commit
        for path in (checkpoint / log).glob("[0-9]*"):
            if int(path.name) >= first:
                path.unlink()
                (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
    again, _ = run(declared(spark, part), checkpoint, sink)
    expected = streams.single_declared(days(), NAMES)
    assert {(row.name, row.step): row.value for row in again}.items() <= expected.items()
    assert len(again) >= len(NAMES)


def test_the_checkpoint_and_the_plan_hold_no_secret_and_no_sum(kept):
    _, checkpoint, _, plan, *_ = kept
    totals = {}
    for rows in days():
        for _, name, _ in rows:
            totals[name] = totals.get(name, 0) + 1
    largest = max(totals.values()).to_bytes(8, "little")
    files = [path for path in checkpoint.rglob("*") if path.is_file()]
    assert any(b"dpshard" in path.read_bytes() for path in files)  # what is looked through is where shards are
    for path in files:
        data = path.read_bytes()
        for secret in (KEY, KEY.hex().encode(), largest, b"page 17"):
            assert secret not in data, path
    assert "TransformWithState" in plan
    assert KEY.hex() not in plan


@pytest.mark.parametrize(
    ("setting", "changed"),
    [
        ("shards", {"shards": 5}),
        ("every", {"every": "2d", "windows": ()}),
        ("horizon", {"horizon": DAYS + 1}),
        ("rho", {"budget": dp.zcdp(0.25)}),
        ("windows", {"windows": ("2d",)}),
        ("secret", {"secret": other_secret}),
        ("names", {"names": NAMES[:-1]}),
    ],
)
def test_changed_settings_are_refused_before_anything_is_published(spark, kept, tmp_path, setting, changed):
    part, kept_checkpoint, *_ = kept
    checkpoint = tmp_path / "checkpoint"
    shutil.copytree(kept_checkpoint, checkpoint)
    streams.write_day(part / "in", DAYS + 1, [(1, "page 1", "x")], number=100)
    published = []
    counts = declared(spark, part, **changed_known(changed))
    query = (
        counts.writeStream.foreachBatch(lambda batch, _: published.extend(batch.collect()))
        .option("checkpointLocation", str(checkpoint))
        .start()
    )
    with pytest.raises(StreamingQueryException, match=f"written with {setting} "):
        query.processAllAvailable()
    query.stop()
    assert published == []
    (part / "in" / "0100.json").unlink()


def changed_known(changed):
    return {"known" if name == "names" else name: value for name, value in changed.items()}


def test_discovered_names_have_the_values_of_one_machine(spark, folder, tmp_path):
    expected, dropped = streams.single_discovered(days())
    events, clock = streams.read(spark, folder / "in", 3), streams.clock(spark, folder / "clock", 3)
    rows, progress = run(streams.discovered(events, clock), tmp_path / "checkpoint")
    assert {(row.name, row.step): row.value for row in rows} == expected
    assert len(rows) == len(expected) > 50
    assert metrics(progress, "dpstream_people")["beyond_limit"] == dropped > 0
    published = {}
    for row in sorted(rows, key=lambda row: row.step):
        first = published.setdefault(row.name, row.step)
        assert (row.last_3d is None) == (row.step > 3 and first > row.step - 3)


def test_a_finished_table_has_the_values_of_one_machine(spark, folder):
    events = spark.read.schema(streams.SCHEMA).json(str(folder / "in"))
    listed = spark.createDataFrame([(name,) for name in NAMES], "anything string")
    counts = running_counts_batch(events, **streams.COMMON, names=listed, budget=ZCDP, through="2026-01-06")
    found = {(row.name, row.step): row.value for row in counts.collect()}
    expected = streams.single_declared(days(), NAMES, rows="table")
    assert found == {place: value for place, value in expected.items() if place[1] <= 6}


def test_rows_that_do_not_count_are_told_and_no_row_closes_a_step(spark, tmp_path):
    """Late, undeclared, without a time or a name, before the first step, after the last one, and years after it."""
    folder, clock, known, rows = tmp_path / "events", tmp_path / "clock", streams.names(20), []
    streams.write_day(folder, 0, [(5, "page 1", "a"), (6, "other", "b"), (None, "page 1", "c"), (7, None, "d")])
    streams.write_day(folder, -3, [(5, "page 1", "a")], number=1)
    streams.write_day(folder, 3, [(7200, "page 2", "a")], number=2)
    streams.write_day(folder, 365 * 50, [(9, "page 3", "z")], number=3)
    query = (
        streams.declared(streams.read(spark, folder, 1), known, streams.clock(spark, clock))
        .writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    query.processAllAvailable()
    assert rows == []
    streams.write_day(folder, 0, [(9, "page 1", "b")], number=4)  # after rows of later days, and in time
    query.processAllAvailable()
    streams.tick(clock, 2)
    query.processAllAvailable()
    streams.write_day(folder, 0, [(9, "page 3", "z")], number=5)  # late
    query.processAllAvailable()
    assert {row.step for row in rows} == {1, 2, 3}
    streams.tick(clock, 3)
    query.processAllAvailable()
    progress = list(query.recentProgress)
    query.stop()
    told = metrics(progress, "dpstream")
    assert told == {"late": 1, "undeclared": 1, "before_start": 1, "beyond_horizon": 1}
    assert metrics(progress, "dpstream_rows") == {"rows": 9, "no_time": 1, "no_name": 1}
    first, last = [(5, "page 1", "a"), (9, "page 1", "b")], [(7200, "page 2", "a"), (9, "page 3", "z")]
    single = streams.single_declared([first, [], [], last], known)
    assert {(row.name, row.step): row.value for row in rows} == single
    assert all(state.numRowsDroppedByWatermark == 0 for one in progress for state in one.stateOperators)


WRONG = {
    "known": ([], "at least one name"),
    "shards": (0, "whole number"),
    "clock": (None, "driver_clock"),
    "every": ("1x", "length of time"),
    "start": ("x", "date such as"),
    "zone": ("Nowhere/Town", "time zone"),
    "windows": (("5h",), "whole number of steps"),
    "secret": (KEY, "not the key itself"),
    "horizon": (0, "whole number"),
    "budget": (dp.pure_dp(1.0), "Gaussian"),
}


def test_what_can_be_known_before_the_query_starts(spark, tmp_path):
    streams.write_day(tmp_path / "in", 0, [(1, "page 1", "a")])
    events, clock = streams.read(spark, tmp_path / "in"), driver_clock(spark)
    for argument, (value, said) in WRONG.items():
        with pytest.raises(InvalidArgument, match=said):
            streams.declared(events, **{"known": ["page 1"], "clock": clock} | {argument: value})
    with pytest.raises(InvalidArgument, match="1970"):
        streams.declared(events, ["page 1"], clock, start="1969-12-01")
    with pytest.raises(ColumnMissing, match="'nope'"):
        streams.declared(events, ["page 1"], clock, name="nope")
    late, behind = events.withWatermark("time", "1 hour"), clock.withWatermark("through", "1 hour")
    hidden = events.withColumn("when", events.time).withWatermark("when", "1 hour").drop("when")
    for rows, times in ((late, clock), (hidden, clock), (events, behind)):
        with pytest.raises(InvalidArgument, match="with a watermark"):
            streams.declared(rows, ["page 1"], times)
    text = spark.readStream.schema("time string, name string, person string").json(str(tmp_path / "in"))
    with pytest.raises(InvalidArgument, match="try_to_timestamp"):
        streams.declared(text, ["page 1"], clock)
    table = spark.read.schema(streams.SCHEMA).json(str(tmp_path / "in"))
    for count in (lambda: streams.discovered(table, clock), lambda: streams.declared(table, ["page 1"], clock)):
        with pytest.raises(InvalidArgument, match="finished table"):
            count()
    with pytest.raises(InvalidArgument, match="clock must be a streaming DataFrame"):
        streams.declared(events, ["page 1"], table.select("time"))
    provider = "spark.sql.streaming.stateStore.providerClass"
    rocksdb = spark.conf.get(provider)
    spark.conf.set(provider, "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider")
    try:
        with pytest.raises(SparkUnsupported, match="RocksDB"):
            streams.declared(events, ["page 1"], clock)
    finally:
        spark.conf.set(provider, rocksdb)


def test_the_sink_takes_a_batch_twice_and_refuses_another_value(tmp_path):
    sink, day = ReleaseFile(tmp_path / "releases.db"), dt.datetime(2026, 1, 1)
    columns = ["name", "step", "start", "value"]
    rows = [("a", 1, day, 7), ("b", 1, day, 8)]
    assert sink.write_rows(columns, rows) == 2
    assert sink.write_rows(columns, rows) == 0
    with pytest.raises(ReleaseConflict, match="published as 8, and now it would be 9"):
        sink.write_rows(columns, [("c", 1, day, 1), ("b", 1, day, 9)])
    assert sink.read().rows() == [("a", 1, "2026-01-01 00:00:00", 7), ("b", 1, "2026-01-01 00:00:00", 8)]
