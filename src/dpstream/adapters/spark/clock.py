"""The clock that closes the steps of a stream: a stream of times of its own, never the rows that are counted.

Spark's watermark is the latest time of a column. Of the rows that are counted it would let one row, with a later time
than the others, close steps before the others come. So the watermark is that of another stream: the driver's clock, or
times that the owner writes down.
"""

from __future__ import annotations

import contextlib
import io
from typing import Any

from dpstream.errors import InvalidArgument

__all__ = ["closing_by", "driver_clock"]


def driver_clock(spark: Any, *, behind: str = "10 minutes") -> Any:
    """Return the clock of the driver as a stream: a row a second, with the time that it was `behind` ago.

    A step closes so long after its end, and rows that come later are late. The first row comes when the query begins;
    after a pause the clock catches up at once.
    """
    from pyspark.sql import functions as F  # noqa: N812

    ticks = spark.readStream.format("rate").option("rowsPerSecond", 1).option("numPartitions", 1).load()
    return ticks.select((F.col("timestamp") - F.expr(f"INTERVAL {behind}")).alias("through"))


def closing_by(clock: Any, rows: Any) -> Any:
    """Return these rows, with the watermark of the clock; the clock adds no row."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import TimestampType

    kind = [field.dataType for field in clock.schema.fields] if hasattr(clock, "schema") else []
    if len(kind) != 1 or not isinstance(kind[0], TimestampType) or not clock.isStreaming:
        raise InvalidArgument(
            "clock",
            clock,
            "a streaming DataFrame of one column of timestamps, such as clock=driver_clock(spark)"
            " (dpstream.adapters.spark), or a folder to which you write the times through which steps are closed",
        )
    if _has_watermark(rows) or _has_watermark(clock):
        raise InvalidArgument(
            "events, clock", "a DataFrame with a watermark", "DataFrames without: clock= closes steps"
        )
    ticks = clock.toDF("through").withWatermark("through", "0 seconds")
    # No row is left: Spark's times begin with the year 1. The condition looks at the column of the watermark; Spark
    # would move another one, or one that is plainly false, below the watermark, which would then see no time at all.
    none = ticks.where(F.unix_micros("through") < F.lit(-(1 << 62)))
    return rows.unionByName(
        none.select(*(F.lit(None).cast(field.dataType).alias(field.name) for field in rows.schema.fields))
    )


def _has_watermark(frame: Any) -> bool:
    """Say whether a DataFrame, or what it was made from, has a watermark: Spark would wait for it besides the clock."""
    plan = io.StringIO()
    with contextlib.redirect_stdout(plan):
        frame.explain(extended=True)
    return "EventTimeWatermark" in plan.getvalue()
