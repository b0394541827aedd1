"""Releases and what was left out, as pandas frames of one schema.

Rows that were not simply counted travel as rows without a name and with a negative step; they are taken out, and put
into the query's metrics, before anybody sees the result (`counted_apart`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstream.adapters.spark.job import Job
from dpstream.adapters.spark.shard import Released, Taken
from dpstream.adapters.spark.step_clock import StepClock
from dpstream.errors import InputTypeError

__all__ = ["METRICS", "release_frame", "schema", "taken_frame", "whole"]

#: The numbers of rows that were not simply counted, in the order of their negative steps -1, -2, ...
METRICS = Taken._fields


def whole(frame: Any, column: str) -> NDArray[np.int64]:
    """Return a column of whole numbers. pandas makes floats of a column with nulls, which 64 bits do not survive."""
    if frame[column].dtype.kind not in "iu":
        raise InputTypeError(given=f"a column {column!r} of type {frame[column].dtype}", allowed="whole numbers")
    return np.asarray(frame[column].to_numpy(dtype=np.int64))


def schema(clock: StepClock) -> str:
    """Return the schema of releases in Spark's words: name, step, start, value, its error, and those of each window."""
    columns = ["name string", "step bigint", "start timestamp", *_number("value", "")]
    for window in clock.windows:
        columns += _number(f"`{window.name}`", f"{window.name}_")
    return ", ".join(columns)


def _number(name: str, prefix: str) -> list[str]:
    return [f"{name} bigint", f"`{prefix}stddev` double", f"`{prefix}low` bigint", f"`{prefix}high` bigint"]


def release_frame(clock: StepClock, released: Released) -> Any:
    """Return the releases of one step."""
    value, count = released.value, len(released.value)
    columns: dict[str, Any] = {
        "name": released.names,
        "step": np.full(count, released.t),
        "start": pd.Series([pd.Timestamp(clock.begin(released.t))] * count, dtype="datetime64[us, UTC]"),
        "value": value,
        "stddev": np.full(count, released.stddev),
        "low": value - released.off,
        "high": value + released.off,
    }
    for window, change in zip(clock.windows, released.windows, strict=True):
        missing = ~change.known
        columns[window.name] = pd.array(change.value, dtype="Int64")
        columns[f"{window.name}_stddev"] = np.where(missing, np.nan, change.stddev)
        columns[f"{window.name}_low"] = pd.array(change.value - change.off, dtype="Int64")
        columns[f"{window.name}_high"] = pd.array(change.value + change.off, dtype="Int64")
        if missing.any():
            for name in (window.name, f"{window.name}_low", f"{window.name}_high"):
                columns[name][missing] = pd.NA
    return pd.DataFrame(columns)


def taken_frame(job: Job, taken: Taken) -> Any:
    """Return how many rows were not simply counted, as rows without a name."""
    found = [(-1 - i, number) for i, number in enumerate(taken) if number]
    count, clock = len(found), job.step_clock
    nothing = Released(0, np.full(count, None), np.zeros(count, dtype=np.int64), 0.0, 0, [])
    frame = release_frame(StepClock(*job.clock[:4]), nothing._replace(t=1))
    frame["step"] = np.array([step for step, _ in found], dtype=np.int64)
    frame["value"] = np.array([number for _, number in found], dtype=np.int64)
    for window in clock.windows:
        for name in (window.name, f"{window.name}_low", f"{window.name}_high"):
            frame[name] = pd.array([pd.NA] * count, dtype="Int64")
        frame[f"{window.name}_stddev"] = np.full(count, np.nan)
    return frame
