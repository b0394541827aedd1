"""From the arguments of `running_counts` and `discovered_counts` to a `Job`, checked. No Spark is needed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal

from dpstream.adapters.spark.job import Job
from dpstream.adapters.spark.secret import SecretSource
from dpstream.adapters.spark.step_clock import StepClock
from dpstream.arguments import check_horizon, check_probability, check_whole
from dpstream.budget import Budget
from dpstream.errors import InvalidArgument
from dpstream.mechanisms.base import Mechanism
from dpstream.participation import Participation
from dpstream.release.named_counter import named_settings
from dpstream.release.open_settings import OpenSettings
from dpstream.release.settings import StreamSettings

__all__ = ["check_shards", "declared_job", "discovered_job"]

#: The largest number of shards: each has a few kilobytes of its own.
MOST_SHARDS = 1 << 20


def declared_job(
    rows: Literal["stream", "table"],
    digest: str,
    *,
    name: str,
    time: str,
    every: str,
    start: str,
    horizon: int,
    budget: Budget,
    windows: Sequence[str | int],
    shards: int,
    secret: object,
    zone: str,
    confidence: float,
    per_person: int,
    participation: Participation | None,
    mechanism: Mechanism | str,
    stream: str,
) -> Job:
    """Return the job of declared names, whose `digest_of_names` is given."""
    clock = StepClock(every, start, zone, check_horizon(horizon, most=1 << 20), windows)
    settings = named_settings(
        horizon,
        budget,
        per_person=per_person,
        participation=participation,
        windows=clock.lengths,
        mechanism=mechanism,
        name=stream,
    )
    columns = {"time": time, "name": name}
    return _job(settings, clock, columns, rows, shards, confidence, digest, secret)


def discovered_job(
    *,
    name: str,
    time: str,
    person: str,
    every: str,
    start: str,
    horizon: int,
    budget: Budget,
    names_per_person: int,
    per_name: int,
    windows: Sequence[str | int],
    shards: int,
    secret: object,
    zone: str,
    confidence: float,
    mechanism: Mechanism | str,
    stream: str,
) -> Job:
    """Return the job of discovered names."""
    clock = StepClock(every, start, zone, check_horizon(horizon, most=1 << 20), windows)
    settings = OpenSettings.of(
        horizon,
        budget,
        names_per_person=names_per_person,
        per_name=per_name,
        windows=clock.lengths,
        mechanism=mechanism,
        name=stream,
    )
    columns = {"time": time, "name": name, "person": person}
    return _job(settings, clock, columns, "stream", shards, confidence, "", secret)


def _job(
    settings: StreamSettings | OpenSettings,
    clock: StepClock,
    columns: dict[str, str],
    rows: Literal["stream", "table"],
    shards: int,
    confidence: float,
    names: str,
    secret: object,
) -> Job:
    return Job(
        settings=json.dumps(settings.as_json()),
        clock=(clock.every, clock.start, clock.zone, clock.horizon, tuple(w.text for w in clock.windows)),
        columns=", ".join(f"{role}={column!r}" for role, column in columns.items()),
        rows=rows,
        shards=check_shards(shards),
        confidence=check_probability("confidence", confidence),
        names=names,
        secret=SecretSource.of(secret),
    )


def check_shards(shards: object) -> int:
    """Return the number of shards; refuse what is none."""
    number = check_whole("shards", shards)
    if number > MOST_SHARDS:
        raise InvalidArgument("shards", shards, f"at most {MOST_SHARDS:,}")
    return number
