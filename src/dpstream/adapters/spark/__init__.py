"""Private running counts inside Apache Spark: see docs/spark.md."""

from dpstream.adapters.spark.clock import driver_clock
from dpstream.adapters.spark.counts import discovered_counts, running_counts, running_counts_batch
from dpstream.adapters.spark.requirements import local_session

__all__ = ["discovered_counts", "driver_clock", "local_session", "running_counts", "running_counts_batch"]
