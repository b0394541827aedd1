"""The tables of a database as Python has them: streams, batches of releases, saved states of noise.

Every column that decides what is released is under a seal, so an edited row is told from a true one here, once. (Who
was counted is in `people`.)
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstream.budget import Budget, check_budget
from dpstream.errors import MissingExtra, StateError, StoreDamaged, StreamUnknown
from dpstream.noise.stream import NoiseStream
from dpstream.participation import Participation
from dpstream.release.settings import StreamSettings
from dpstream.store.composition import budget_as_json, budget_from_json
from dpstream.store.database import Database
from dpstream.store.sealing import INPUT_BYTES, Seals, StoreSeals

__all__ = [
    "Batch",
    "Release",
    "StreamInfo",
    "StreamRow",
    "as_frame",
    "create_stream",
    "find_stream",
    "limit_as_json",
    "noise_after",
    "read_all_streams",
    "read_batches",
    "read_limit",
    "read_stream",
    "save_noise_state",
    "stream_info",
    "unchecked_streams",
]

#: Noise that is made again and thrown away is made in pieces of so many values.
DISCARDED_VALUES = 1 << 14


# -- limit ------------------------------------------------------------------------------------------------------------


def limit_as_json(limit: Budget | None) -> str:
    """Return a store's limit as it is sealed in the table `about`."""
    return json.dumps(None if limit is None else budget_as_json(check_budget(limit)), sort_keys=True)


def read_limit(database: Database, seals: StoreSeals) -> Budget | None:
    """Return the store's limit; None if it has none."""
    found = database.rows("SELECT value FROM about WHERE name = 'limit'")
    sealed = found[0][0] if found else None
    kept = seals.open_text("limit", sealed) if isinstance(sealed, bytes) else None
    if kept is None:
        raise database.damaged("the store's limit is not as it was written")
    limit = json.loads(kept)
    return None if limit is None else budget_from_json(limit, str(database.path))


# -- streams ----------------------------------------------------------------------------------------------------------

_COLUMNS = (
    "id, name, tag, configuration, seal, generation, t, first_position, retired, people, ingests, open_last,"
    " sealed, holder_pid, holder_started"
)
_TYPES: tuple[type | tuple[type, ...], ...] = (
    int, str, bytes, str, bytes, int, int, (int, type(None)), int, (int, type(None)), int, int, bytes,
    (int, type(None)), (str, type(None)),
)  # fmt: skip


@dataclass(frozen=True)
class StreamRow:
    """One stream as the database has it, its seals checked."""

    id: int
    name: str
    tag: bytes
    configuration: str
    seal: bytes
    generation: int
    t: int
    first_position: int | None
    retired: int
    people: int | None
    ingests: int
    open_last: int
    sealed: bytes
    holder_pid: int | None
    holder_started: str | None

    @property
    def place(self) -> tuple[int | None, ...]:
        """What the sealed sums are bound to."""
        return (self.t, self.first_position, self.retired, self.people, self.ingests, self.open_last)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """All settings, as JSON has them."""
        return dict(json.loads(self.configuration))

    def sums(self, seals: Seals, database: Database) -> bytes:
        """Return the true sums, decrypted."""
        opened = seals.open_sums(self.sealed, self.place)
        if opened is None:
            raise database.damaged(f"the sums of stream {self.name!r} at step {self.t} are not as they were sealed")
        return opened


def find_stream(database: Database, seals: StoreSeals, name: str) -> StreamRow | None:
    """Return the row of a stream, or None."""
    rows = database.rows(f"SELECT {_COLUMNS} FROM streams WHERE name = ?", (name,))  # noqa: S608
    return _checked(rows[0], database, seals) if rows else None


def read_stream(database: Database, seals: StoreSeals, name: str) -> StreamRow:
    """Return the row of a stream; refuse a name that no stream has."""
    row = find_stream(database, seals, name)
    if row is None:
        raise StreamUnknown(name=name)
    return row


def read_all_streams(database: Database, seals: StoreSeals) -> list[StreamRow]:
    """Return the rows of all streams, oldest first."""
    found = database.rows(f"SELECT {_COLUMNS} FROM streams ORDER BY id")  # noqa: S608
    return [_checked(row, database, seals) for row in found]


def unchecked_streams(
    query: Callable[[str, tuple[Any, ...]], list[tuple[Any, ...]]], path: str, name: str | None = None
) -> list[StreamRow]:
    """Return the rows of all streams, oldest first, or that of one, for a reader who has no key; nothing is checked."""
    chosen, values = ("", ()) if name is None else (" WHERE name = ?", (name,))
    rows = query(f"SELECT {_COLUMNS} FROM streams{chosen} ORDER BY id", values)  # noqa: S608
    if any(not isinstance(value, kind) for row in rows for value, kind in zip(row, _TYPES, strict=True)):
        raise StoreDamaged(path=path, what="a row of the table of streams has values of the wrong kind")
    return [StreamRow(*row) for row in rows]


def _checked(row: tuple[Any, ...], database: Database, seals: StoreSeals) -> StreamRow:
    if any(not isinstance(value, kind) for value, kind in zip(row, _TYPES, strict=True)):
        raise database.damaged("a row of the table of streams has values of the wrong kind")
    made = StreamRow(*row)
    try:
        expected = seals.stream_seal(made.name, made.tag, made.configuration)
    except UnicodeEncodeError:
        expected = b""
    if made.seal != expected:
        raise database.damaged("the settings of a stream are not as they were sealed")
    # Opening the sums checks t and the numbers after it.
    made.sums(seals.stream(made.tag), database)
    return made


def create_stream(
    connection: sqlite3.Connection,
    seals: StoreSeals,
    name: str,
    configuration: str,
    nothing: bytes,
    people: int | None = None,
) -> StreamRow:
    """Inside a transaction: make a stream with a tag of its own, before its first step, whose sums are `nothing`."""
    tag = os.urandom(16)
    seal = seals.stream_seal(name, tag, configuration)
    sealed = seals.stream(tag).seal_sums(nothing, (0, None, 0, people, 0, 0))
    added = connection.execute(
        "INSERT INTO streams"
        " (name, tag, configuration, seal, generation, t, retired, people, ingests, open_last, sealed)"
        " VALUES (?, ?, ?, ?, 0, 0, 0, ?, 0, 0, ?)",
        (name, tag, configuration, seal, people, sealed),
    )
    assert added.lastrowid is not None  # noqa: S101
    return StreamRow(added.lastrowid, name, tag, configuration, seal, 0, 0, None, 0, people, 0, 0, sealed, None, None)


@dataclass(frozen=True)
class StreamInfo:
    """A stream as `Store.streams` lists it.

    Attributes
    ----------
    name, kind, t, horizon, budget, retired
        What it is called and is, how many releases were made and can be made, what they promise together, whether it
        was ended.
    position
        The position of the last step, if the caller gives positions.
    source
        What the caller said is counted.
    rows_per_person
        To whom it is promised: everyone, because the store counts at most so many rows of a person, in whatever steps.
        None: those who are in no more than `participation` says and add no more than `per_person` to a step; whoever
        adds up a step's total ensures that.
    people
        How many people there is room for, if rows are limited; of a stream of names, how many pairs of a person and a
        name.
    per_person, participation
        What one person adds to one step at most, and in how many steps.
    opened
        How often it was opened for writing.
    shape, dtype
        Those of a release.
    continues, steps_before, carried
        The stream that this one goes on with, how many steps the series has before it, and the total that was released
        last before it, which is to be added to its releases (`Store.start_successor`).
    continued_by
        The stream that goes on with this one.
    """

    name: str
    kind: Literal["counter", "running sum", "names"]
    t: int
    horizon: int | None
    budget: Budget
    position: int | None
    retired: bool
    source: str
    rows_per_person: int | None
    people: int | None
    per_person: float
    participation: Participation
    opened: int
    shape: tuple[int, ...]
    dtype: str
    continues: str | None = None
    steps_before: int = 0
    carried: Any = 0
    continued_by: str | None = None

    @property
    def remaining(self) -> int | None:
        """How many more releases there can be; None without a horizon."""
        return None if self.horizon is None else self.horizon - self.t


def stream_info(row: StreamRow, path: str) -> StreamInfo:
    """Return what `Store.streams` lists of a stream in the database at `path`."""
    settings = row.settings
    names = settings["lane"] == "names"
    before = settings["continues"] or {"stream": None, "steps": 0, "total": 0}
    return StreamInfo(
        row.name,
        "names" if names else "counter" if settings["lane"] == "exact" else "running sum",
        row.t,
        settings["horizon"],
        budget_from_json(settings["budget"], path),
        None if row.first_position is None or row.t == 0 else row.first_position + row.t - 1,
        bool(row.retired),
        settings["source"],
        settings["rows_per_person"],
        row.people,
        settings["per_name"] if names else settings["per_person"],
        Participation() if names else Participation(**settings["participation"]),
        row.generation,
        () if names else tuple(settings["shape"]),
        "int64" if names else settings["dtype"],
        before["stream"],
        before["steps"],
        before["total"],
    )


# -- releases ---------------------------------------------------------------------------------------------------------


class Release(NamedTuple):
    """One release: its step, the caller's position if there is one, and the published value."""

    step: int
    position: int | None
    value: Any


@dataclass(frozen=True)
class Batch:
    """The releases of consecutive steps that were committed together."""

    first: int
    values: NDArray[Any]
    inputs: bytes | None

    def part(self, first: int, last: int) -> Batch:
        """The steps from `first` to `last` of this batch."""
        low, high = max(first - self.first, 0), min(last + 1 - self.first, len(self.values))
        digests = None if self.inputs is None else self.inputs[low * INPUT_BYTES : high * INPUT_BYTES]
        return Batch(self.first + low, self.values[low:high], digests)


def read_batches(database: Database, row: StreamRow, seals: Seals, first: int, last: int) -> Iterator[Batch]:
    """The batches that hold the steps from `first` to `last`, cut to them; all steps are there, or it raises."""
    settings = row.settings
    shape, dtype = tuple(settings["shape"]), np.dtype(settings["dtype"]).newbyteorder("<")
    width = math.prod(shape) * dtype.itemsize
    step = first
    while step <= last:
        found = database.rows(
            "SELECT first, count, sealed FROM batches WHERE stream = ?1 AND first <= ?2 AND first >="
            " (SELECT max(first) FROM batches WHERE stream = ?1 AND first <= ?3) ORDER BY first LIMIT 4096",
            (row.id, last, step),
        )
        if not found:
            raise database.damaged(f"step {step} of stream {row.name!r} is missing")
        for start, count, sealed in found:
            opened = None
            if isinstance(start, int) and isinstance(count, int) and isinstance(sealed, bytes):
                opened = seals.open_batch(start, count, sealed, count * width)
            if opened is None:
                raise database.damaged(f"the releases of stream {row.name!r} near step {step} are not as sealed")
            if not start <= step < start + count:
                raise database.damaged(f"step {step} of stream {row.name!r} is missing")
            releases, inputs = opened
            values = np.frombuffer(releases, dtype).reshape(count, *shape).astype(dtype.newbyteorder("="))
            yield Batch(start, values, inputs).part(step, last)
            step = start + count
            if step > last:
                return


def as_frame(rows: list[Release], *, single_counts: bool) -> Any:
    """Return releases as a Polars data frame.

    Raises
    ------
    MissingExtra
        If Polars is not installed.
    """
    try:
        import polars  # here, because it takes long to load, and only the extra `cli` brings it
    except ModuleNotFoundError:
        raise MissingExtra(extra="cli", needs="Polars") from None

    kinds = {"step": polars.Int64, "position": polars.Int64}
    if single_counts:
        kinds["value"] = polars.Int64
    return polars.DataFrame(
        {
            "step": [row.step for row in rows],
            "position": [row.position for row in rows],
            "value": [row.value for row in rows],
        },
        schema_overrides=kinds,  # also where there are no rows to tell
    )


# -- noise ------------------------------------------------------------------------------------------------------------


def save_noise_state(connection: sqlite3.Connection, stream: int, t: int, step: int, state: bytes) -> None:
    """Save this state; of the older ones keep only the newest at or before step t: noise is made ahead."""
    connection.execute("INSERT OR REPLACE INTO noise_states VALUES (?, ?, ?)", (stream, step, state))
    connection.execute(
        "DELETE FROM noise_states WHERE stream = ?1 AND step <"
        " (SELECT max(step) FROM noise_states WHERE stream = ?1 AND step <= ?2)",
        (stream, t),
    )


def _saved_states(database: Database, row: StreamRow, t: int) -> list[tuple[int, bytes]]:
    """Return the states that were saved no later than step t, newest first; not checked."""
    found = database.rows(
        "SELECT step, state FROM noise_states WHERE stream = ? AND step <= ? ORDER BY step DESC", (row.id, t)
    )
    return [(step, state) for step, state in found if isinstance(step, int) and isinstance(state, bytes)]


def noise_after(
    database: Database, row: StreamRow, settings: StreamSettings, key: bytes, t: int, *, threads: int | None = None
) -> tuple[NoiseStream, int]:
    """Return the stream's noise, standing after step t, and the step of the saved state that it was made from.

    Trees need no state. A recurrence would have to be replayed from its first step without one. A state that does not
    open is passed over (step 0: none did): noise is a function of the step, so it can be made without.
    """
    for step, state in _saved_states(database, row, t):
        try:
            noise = settings.noise_stream(key, threads=threads, state=state)
            if noise.t <= t:
                _discard(noise, settings, t)
                return noise, step
        except (StateError, TypeError):
            continue
    noise = settings.noise_stream(key, threads=threads)
    noise.seek(t)
    return noise, 0


def _discard(noise: NoiseStream, settings: StreamSettings, t: int) -> None:
    """Make the noise up to step t and throw it away, in pieces."""
    coordinates = math.prod(settings.shape)
    unused = np.empty(settings.shape, dtype=settings.dtype) if coordinates > DISCARDED_VALUES else None
    while noise.t < t:
        if unused is not None:
            noise.step(unused)
        else:
            noise.block(min(t - noise.t, DISCARDED_VALUES // coordinates))
