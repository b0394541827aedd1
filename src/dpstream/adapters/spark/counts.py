"""running_counts, running_counts_batch, discovered_counts: private running counts of a Spark DataFrame.

Nothing is computed here: rows are cut into shards, and the processors of `dpstream.adapters.spark.processors` do the
rest on the workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from dpstream.adapters.spark.clock import closing_by
from dpstream.adapters.spark.job import Job, Workplace
from dpstream.adapters.spark.job_arguments import check_shards, declared_job, discovered_job
from dpstream.adapters.spark.requirements import check_libraries, check_session
from dpstream.adapters.spark.shard import DeclaredShard
from dpstream.adapters.spark.step_clock import StepClock
from dpstream.budget import Budget
from dpstream.errors import ColumnMissing, InvalidArgument
from dpstream.events.calendar import parse_moment
from dpstream.mechanisms.base import Mechanism
from dpstream.participation import Participation
from dpstream.release.name_spelling import check_name
from dpstream.release.named_counter import DIGITS

__all__ = ["discovered_counts", "running_counts", "running_counts_batch"]


def running_counts(
    events: Any,
    *,
    name: str,
    time: str,
    every: str,
    names: Iterable[str] | Any,
    start: str,
    horizon: int,
    clock: Any,
    budget: Budget,
    windows: Sequence[str | int] = (),
    shards: int = 32,
    secret: object = None,
    zone: str = "UTC",
    confidence: float = 0.95,
    per_person: int = 1,
    participation: Participation | None = None,
    mechanism: Mechanism | str = "auto",
    stream: str = "",
) -> Any:
    """Return private running counts of declared names, one row for each name and step, as the steps close.

    Parameters
    ----------
    events
        A streaming DataFrame, one row for each event; `running_counts_batch` takes a finished table.
    name, time
        Its columns of names (text) and times (timestamp). Rows without the one or the other are left out and counted,
        and so are rows with names that were not declared.
    every, start, horizon, zone
        How long a step is (15m, 1h, 1d, 1mo), a moment of the first one, how many there are, and the time zone whose
        days and months are meant.
    clock
        A streaming DataFrame of one column of timestamps, which closes steps: a step closes once the clock has a time
        at or after its end, in the next micro-batch. `driver_clock(spark)`, or a folder to which you write the times
        through which steps are to be closed. **Never times of `events`**: then one row would close steps for others.
        A row of a step that is closed is late. It counts in the first open step, and in the metric `late`.
    names
        The declared names, which are public: a list, or a DataFrame of one column of text. Each is released at every
        step. They are compared as they are spelled, in Unicode's normal form NFC.
    budget, per_person, participation, mechanism
        As for a `Counter` of categories: `per_person` rows of one person in one step at most. **The caller ensures
        that**; by default one row is one person.
    windows
        Lengths of time or numbers of steps whose changes are told beside each total, from the same releases.
    shards
        How many parts the names are cut into; some thousands of names each are best.
    secret
        Where each worker fetches the 32 secret bytes: a function, the path of a key file, 'env:NAME', or None for
        'env:DPSTREAM_MASTER_KEY'. One secret serves one stream of data (see `stream`).
    confidence
        How often the number of counted rows is between `low` and `high`, for each number on its own.
    stream
        Tells streams apart that have the same secret and settings.

    Returns
    -------
    DataFrame
        Columns name, step (from 1), start (of the step), value, stddev, low, high, and for each window last_7d,
        last_7d_stddev, last_7d_low, last_7d_high. Write it in append mode. The progress of the query has the metrics
        `dpstream_rows` and `dpstream`: numbers of rows that were not simply counted. **They are not private.**

    Guarantee
    ---------
    That of `NamedCounter`, whose numbers these are, name by name and step by step: the budget, for all rows together.
    A micro-batch that runs again publishes the same values, and no step is published twice with two values, as long as
    the checkpoint is kept. When steps close, and which rows are late, follows from the clock and from which micro-batch
    a row comes in; no row's time decides anything about other rows. Assumed: the secret is secret, and used for one
    stream of data; the clock does not depend on the events, and neither do the limits of a micro-batch
    (docs/spark.md, "What closes a step").

    Raises
    ------
    InvalidArgument, ColumnMissing, MissingExtra, SparkUnsupported
        Before the query starts: an argument is wrong, a library is missing or too new, the state store is not RocksDB.
    CheckpointMismatch
        From the query, before it publishes anything: the checkpoint is of other settings, or of another secret.
    """
    check_libraries()
    if not events.isStreaming:
        raise InvalidArgument("events", "a finished table", "a streaming DataFrame; running_counts_batch takes tables")
    from pyspark.sql import functions as F  # noqa: N812

    from dpstream.adapters.spark.frames import schema
    from dpstream.adapters.spark.processors import DeclaredProcessor

    spark = events.sparkSession
    check_session(spark)
    declared = _declared(spark, names, shards)
    job = declared_job(
        "stream",
        _digest(declared),
        name=name,
        time=time,
        every=every,
        start=start,
        horizon=horizon,
        budget=budget,
        windows=windows,
        shards=shards,
        secret=secret,
        zone=zone,
        confidence=confidence,
        per_person=per_person,
        participation=participation,
        mechanism=mechanism,
        stream=stream,
    )
    rows = closing_by(clock, _complete(_rows(events, time, {"name": name})))
    hashed = F.xxhash64("name")
    rows = rows.select(_shard(hashed, shards), hashed.alias("hash"), F.unix_micros("time").alias("micros"))
    initial = declared.unionByName(_without_names(spark, shards))
    found = rows.groupBy("shard").transformWithStateInPandas(
        DeclaredProcessor(job),
        outputStructType=schema(job.step_clock),
        outputMode="append",
        timeMode="EventTime",
        initialState=initial.groupBy("shard"),
    )
    return _counted_apart(found)


def discovered_counts(
    events: Any,
    *,
    name: str,
    time: str,
    person: str,
    every: str,
    start: str,
    horizon: int,
    clock: Any,
    budget: Budget,
    names_per_person: int,
    per_name: int = 1,
    windows: Sequence[str | int] = (),
    shards: int = 32,
    secret: object = None,
    zone: str = "UTC",
    confidence: float = 0.95,
    mechanism: Mechanism | str = "auto",
    stream: str = "",
) -> Any:
    """Return private running counts of names that nobody listed beforehand, by the rules of `OpenCounter`.

    A stage of its own, by shards of people, keeps everyone within `names_per_person` names and `per_name` events of
    each, over all steps. Names are published once enough people have brought them.

    Parameters
    ----------
    person
        The column of ids: text or whole numbers; `person_id` says which spellings are one person.
    names_per_person, per_name
        How many names of one person count, and how many events of each name, over all steps.
    events, name, time, every, start, horizon, clock, budget, windows, shards, secret, zone, confidence
        As for `running_counts`, and so is `stream`; the budget is always approx_dp(epsilon, delta). Only streaming
        DataFrames are taken.

    Returns
    -------
    DataFrame
        As for `running_counts`, for published names only; a window is null until its name was published that long. The
        metric `dpstream_people` counts events beyond what people may bring.

    Guarantee
    ---------
    That of `OpenCounter`, whose numbers these are; see `running_counts` for replays and the clock.
    """
    check_libraries()
    if not events.isStreaming:
        raise InvalidArgument("events", "a finished table", "a streaming DataFrame (spark.readStream)")
    from pyspark.sql import functions as F  # noqa: N812

    from dpstream.adapters.spark.frames import schema
    from dpstream.adapters.spark.processors import DiscoveredProcessor, PeopleProcessor

    spark = events.sparkSession
    check_session(spark)
    job = discovered_job(
        name=name,
        time=time,
        person=person,
        every=every,
        start=start,
        horizon=horizon,
        budget=budget,
        names_per_person=names_per_person,
        per_name=per_name,
        windows=windows,
        shards=shards,
        secret=secret,
        zone=zone,
        confidence=confidence,
        mechanism=mechanism,
        stream=stream,
    )
    rows = closing_by(clock, _complete(_rows(events, time, {"name": name, "person": person})))
    rows = rows.select(_person_shard(rows, shards), "person", "name", F.unix_micros("time").alias("micros"))
    brought = rows.groupBy("shard").transformWithStateInPandas(
        PeopleProcessor(job),
        outputStructType=PeopleProcessor.SCHEMA,
        outputMode="append",
        timeMode="None",
        initialState=_every_shard(spark, shards).groupBy("shard"),
    )
    brought = _observed(brought, "dpstream_people", PEOPLE_METRICS, "events")
    brought = brought.select(_shard(F.xxhash64("name"), shards), "name", "step", "events", "people")
    found = brought.groupBy("shard").transformWithStateInPandas(
        DiscoveredProcessor(job),
        outputStructType=schema(job.step_clock),
        outputMode="append",
        timeMode="EventTime",
        initialState=_every_shard(spark, shards).groupBy("shard"),
    )
    return _counted_apart(found)


def running_counts_batch(
    events: Any,
    *,
    name: str,
    time: str,
    every: str,
    names: Iterable[str] | Any,
    start: str,
    horizon: int,
    budget: Budget,
    windows: Sequence[str | int] = (),
    shards: int = 32,
    secret: object = None,
    through: str | None = None,
    zone: str = "UTC",
    confidence: float = 0.95,
    per_person: int = 1,
    participation: Participation | None = None,
    mechanism: Mechanism | str = "auto",
    stream: str = "",
) -> Any:
    """Return what `running_counts` would publish if all rows of a finished table had come in time.

    **Same secret, same settings, another table: the difference of the two tables is told exactly.** A table that was
    corrected afterwards needs another secret, or another `stream`, and a budget of its own.

    Parameters
    ----------
    through
        The last date or moment whose step is released; None: all `horizon` steps. It never comes from the data.
    events, name, time, every, names, start, horizon, budget, windows, shards, secret, zone, confidence
        As for `running_counts`, and so are the others.
    """
    check_libraries()
    if events.isStreaming:
        raise InvalidArgument("events", "a streaming DataFrame", "a finished table; running_counts takes streams")
    from pyspark.sql import functions as F  # noqa: N812

    from dpstream.adapters.spark.columns import step_of
    from dpstream.adapters.spark.frames import schema

    spark = events.sparkSession
    declared = _declared(spark, names, shards)
    job = declared_job(
        "table",
        _digest(declared),
        name=name,
        time=time,
        every=every,
        start=start,
        horizon=horizon,
        budget=budget,
        windows=windows,
        shards=shards,
        secret=secret,
        zone=zone,
        confidence=confidence,
        per_person=per_person,
        participation=participation,
        mechanism=mechanism,
        stream=stream,
    )
    rows = _complete(_rows(events, time, {"name": name}))
    hashed = F.xxhash64("name")
    step = step_of(job)(F.unix_micros("time"))
    rows = rows.select(_shard(hashed, shards), hashed.alias("hash"), step.alias("step"))
    counted = rows.groupBy("shard", "hash", "step").agg(F.count(F.lit(1)).alias("events"))
    last = _last_step(job.step_clock, through)
    by_name = declared.unionByName(_without_names(spark, shards)).groupBy("shard")
    found = by_name.cogroup(counted.groupBy("shard")).applyInPandas(_whole_shard(job, last), schema(job.step_clock))
    return _counted_apart(found)


# -- parts ------------------------------------------------------------------------------------------------------------

#: What the stage of people leaves out, in the order of its negative steps.
PEOPLE_METRICS = ("beyond_limit", "unreadable", "before_start", "beyond_horizon")


def _rows(events: Any, time: str, columns: dict[str, str]) -> Any:
    """Return the rows with the columns `time` and these, checked and counted; the metric is `dpstream_rows`."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import IntegralType, StringType, TimestampType

    types = {field.name: field.dataType for field in events.schema.fields}
    for column in (time, *columns.values()):
        if column not in types:
            raise ColumnMissing(source="events", column=column, columns=list(types))
    if not isinstance(types[time], TimestampType):
        raise InvalidArgument(
            "time",
            types[time].simpleString(),
            f"a column of timestamps: events.withColumn({time!r}, try_to_timestamp({time!r}))",
        )
    for role, column in columns.items():
        if not isinstance(types[column], (StringType, IntegralType) if role == "person" else StringType):
            raise InvalidArgument(
                role,
                types[column].simpleString(),
                f"a column of text: events.withColumn({column!r}, col({column!r}).cast('string'))",
            )
    chosen = events.select(F.col(time).alias("time"), *(F.col(old).alias(new) for new, old in columns.items()))
    missing = [F.count_if(F.col(one).isNull()).alias(f"no_{one}") for one in chosen.columns]
    return chosen.observe("dpstream_rows", F.count(F.lit(1)).alias("rows"), *missing)


def _complete(rows: Any) -> Any:
    return rows.where(" and ".join(f"{column} is not null" for column in rows.columns))


def _declared(spark: Any, names: Any, shards: int) -> Any:
    """Return the declared names as a DataFrame of shard, name and hash."""
    from pyspark.sql import functions as F  # noqa: N812

    if hasattr(names, "sparkSession"):
        if len(names.columns) != 1 or names.isStreaming:
            raise InvalidArgument("names", names.columns, "a list, or a batch DataFrame of one column of text")
        spelled = names.toDF("name").mapInPandas(_spelled, "name string").distinct()
    else:
        if isinstance(names, str) or not isinstance(names, Iterable):
            raise InvalidArgument("names", names, "a list of names, such as names=['home', 'search'], or a DataFrame")
        listed = list(dict.fromkeys(check_name(one) for one in names))
        if not listed:
            raise InvalidArgument("names", [], "at least one name; discovered_counts needs none")
        spelled = spark.createDataFrame([(one,) for one in listed], "name string")
    hashed = F.xxhash64("name")
    return spelled.select(_shard(hashed, check_shards(shards)), "name", hashed.alias("hash"))


def _spelled(frames: Iterator[Any]) -> Iterator[Any]:
    for frame in frames:
        yield frame.assign(name=[check_name(one) for one in frame["name"]])


def _digest(declared: Any) -> str:
    """Return the `digest_of_names` of the declared names."""
    from pyspark.sql import functions as F  # noqa: N812

    digest = F.conv(F.substring(F.sha2("name", 256), 1, DIGITS), 16, 10).cast("bigint")
    wide = digest.cast("decimal(20,0)")
    count, total, mixed = declared.agg(F.count("name"), F.sum(wide), F.bit_xor(digest)).first()
    if not count:
        raise InvalidArgument("names", "an empty DataFrame", "at least one name")
    return f"{count} names, {total}, {mixed}"


def _every_shard(spark: Any, shards: int) -> Any:
    """Return one row for each shard, so that all of them exist from the first micro-batch on."""
    from pyspark.sql import functions as F  # noqa: N812

    return spark.range(shards).select(F.col("id").cast("int").alias("shard"))


def _without_names(spark: Any, shards: int) -> Any:
    """Return one row for each shard beside the declared names. Its hash is no null: pandas would make floats of all."""
    from pyspark.sql import functions as F  # noqa: N812

    return _every_shard(spark, shards).select(
        "shard", F.lit(None).cast("string").alias("name"), F.lit(0).cast("bigint").alias("hash")
    )


def _shard(hashed: Any, shards: int) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    return F.pmod(hashed, F.lit(shards)).cast("int").alias("shard")


def _person_shard(rows: Any, shards: int) -> Any:
    """Return the shard of a person: the same for all spellings of an id."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import IntegralType

    from dpstream.adapters.spark.columns import spelled_id

    person = F.col("person")
    if not isinstance(rows.schema["person"].dataType, IntegralType):
        person = spelled_id()(person)
    return _shard(F.xxhash64(person.cast("string")), shards)


def _whole_shard(job: Job, last: int) -> Any:
    def whole_shard(key: tuple[int], names: Any, counted: Any) -> Any:
        import pandas as pd

        from dpstream.adapters.spark.frames import release_frame, taken_frame, whole

        work = Workplace.of(job)
        names = names[names["name"].notna()]
        shard = DeclaredShard.begin(work, int(key[0]), names["name"].tolist(), whole(names, "hash"))
        columns = (whole(counted, column) for column in ("hash", "step", "events"))
        taken = taken_frame(job, shard.add_steps(*columns))
        return pd.concat([taken, *(release_frame(work.clock, released) for released in shard.close_steps(last))])

    return whole_shard


def _last_step(clock: StepClock, through: str | None) -> int:
    if through is None:
        return clock.horizon
    moment = parse_moment("through", through, clock.zone, end_of_day=True).to_physical().to_numpy()
    return min(max(int(clock.steps(moment)[0]) + 1, 0), clock.horizon)


def _counted_apart(found: Any) -> Any:
    """Put the numbers of rows that were not simply counted into the metric `dpstream`, and leave the releases."""
    from dpstream.adapters.spark.frames import METRICS

    return _observed(found, "dpstream", METRICS, "value")


def _observed(found: Any, metric: str, fields: Sequence[str], value: str) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    numbers = [
        F.coalesce(F.sum(F.when(F.col("step") == -1 - i, F.col(value))), F.lit(0)).alias(field)
        for i, field in enumerate(fields)
    ]
    return found.observe(metric, *numbers).where("step >= 0" if metric == "dpstream_people" else "step > 0")
