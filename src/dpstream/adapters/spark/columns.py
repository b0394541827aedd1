"""Columns that Spark cannot compute itself: the step of a moment, the one spelling of a person's id."""

from __future__ import annotations

from typing import Any

import pandas as pd
from pyspark.sql.functions import pandas_udf

from dpstream.adapters.spark.job import Job
from dpstream.errors import InvalidArgument
from dpstream.release.person_id import person_id

__all__ = ["spelled_id", "step_of"]


def spelled_id() -> Any:
    """Return the column function that gives ids their one spelling; empty for what is none, which its shard counts."""
    return pandas_udf(_spelled, "string")  # made here: workers, which import this file, can make none


def _spelled(ids: pd.Series) -> pd.Series:
    return ids.map(_readable)


def _readable(one: object) -> str:
    try:
        return person_id(one)
    except InvalidArgument:
        return ""


def step_of(job: Job) -> Any:
    """Return the column function that says which step (from 0) a moment in microseconds falls into."""

    @pandas_udf("bigint")
    def step(moments: pd.Series) -> pd.Series:
        return pd.Series(job.step_clock.steps(moments.to_numpy()))

    return step
