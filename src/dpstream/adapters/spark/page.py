"""Releases from Spark as a store to look at: `dpstream serve` and `dpstream export` show it.

Such a store holds what is published and nothing else: no sums, no key of the stream. It cannot be counted on in; it is
written anew whenever there are more releases.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import polars as pl

from dpstream.adapters.spark.sink import ReleaseFile
from dpstream.adapters.spark.step_clock import StepClock
from dpstream.budget import Budget
from dpstream.errors import InvalidArgument
from dpstream.mechanisms.base import Mechanism
from dpstream.participation import Participation
from dpstream.release.change_errors import change_errors
from dpstream.release.name_spelling import check_name
from dpstream.release.named_counter import named_settings
from dpstream.release.settings import StreamSettings
from dpstream.store import Store
from dpstream.store.published import PART_VALUES

__all__ = ["write_page"]


def write_page(
    releases: ReleaseFile,
    path: str | Path,
    *,
    names: Sequence[str],
    every: str,
    start: str,
    horizon: int,
    budget: Budget,
    windows: Sequence[str | int] = (),
    zone: str = "UTC",
    per_person: int = 1,
    participation: Participation | None = None,
    mechanism: Mechanism | str = "auto",
    stream: str = "counts",
) -> int:
    """Write the releases of some names as a store that can be looked at; return how many steps it shows.

    Parameters
    ----------
    releases
        The file that `running_counts` was written to.
    path
        The store. What is there is written over.
    names
        Which names to show, in this order. Choose them without looking at the data, or from the releases only.
    every, start, horizon, budget, windows, zone, per_person, participation, mechanism
        As they were given to `running_counts`.
    stream
        What the stream is called on the page.

    Raises
    ------
    InvalidArgument
        If a name has no releases, or some steps are missing; if dates or standard deviations of the releases are not
        those of these settings; or if the releases are of discovered names, whose errors are others.
    """
    clock = StepClock(every, start, zone, horizon, windows)
    settings = named_settings(
        horizon,
        budget,
        per_person=per_person,
        participation=participation,
        windows=clock.lengths,
        mechanism=mechanism,
    )
    shown = [check_name(name) for name in names]
    found = releases.read()
    steps = 0 if found.is_empty() else int(found["step"].max())  # type: ignore[arg-type]
    values = np.zeros((steps, len(shown)), dtype="<i8")
    for i, name in enumerate(shown):
        own = found.filter(found["name"] == name).sort("step")
        if own["step"].to_list() != list(range(1, steps + 1)):
            raise InvalidArgument("names", name, f"names with releases of all steps from 1 to {steps}")
        values[:, i] = own["value"].to_numpy()
        if i == 0:  # dates and errors are those of all names
            _check_settings(own, clock, settings)
    path = Path(path)
    for old in (path, path.with_name(path.name + ".key"), path.with_name(path.name + ".witness")):
        old.unlink(missing_ok=True)
    source = {"time": "time", "every": every, "start": start, "time_zone": zone, "by": "name", "categories": shown}
    with Store(path) as store:
        store.counter(
            stream,
            horizon,
            budget,
            shape=len(shown),
            per_person=per_person,
            participation=participation,
            mechanism=settings.mechanism,
            windows=clock.lengths,
            source=json.dumps(source | {"windows": [window.text for window in clock.windows]}),
        )
    size = max(1, PART_VALUES // len(shown))
    parts = [(part, values[at : at + size].tobytes()) for part, at in enumerate(range(0, steps, size))]
    with closing(sqlite3.connect(path)) as database, database:
        database.executemany("INSERT INTO published SELECT max(id), ?, ? FROM streams", parts)
    return steps


def _check_settings(own: pl.DataFrame, clock: StepClock, settings: StreamSettings) -> None:
    """Refuse settings that the releases were not made with: the page would promise something else."""
    steps = np.arange(1, own.height + 1)
    begins = [clock.begin(int(t)).replace(tzinfo=None).isoformat(sep=" ") for t in steps]
    if own["start"].to_list() != begins:
        at = next(i for i, (one, other) in enumerate(zip(own["start"], begins, strict=True)) if one != other)
        raise InvalidArgument(
            "start",
            f"{clock.start} (and every={clock.every!r})",
            f"that of the releases: step {at + 1} begins at {own['start'][at]} UTC",
        )
    stated, _ = change_errors(settings, steps, np.zeros_like(steps))
    if not np.allclose(own["stddev"].to_numpy(), stated, rtol=1e-9):
        raise InvalidArgument(
            "budget",
            repr(settings.budget),
            "that of the releases, and so must be horizon, windows, per_person, participation and mechanism: their"
            f" standard deviation at step 1 is {own['stddev'][0]:.6g}, and would be {stated[0]:.6g}."
            " Discovered names cannot be shown in this way",
        )
