"""Successors: a stream that goes on where another one ended, and the series that they make together.

A stream has a horizon and a budget for all of its releases, and neither can be changed. A successor is a stream of its
own, with its own noise and budget; it begins with the total that was released last, which is public, as a constant. The
stream before it is ended in the same commit, so that a series never has two next steps.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstream.errors import InvalidArgument, StepsNotReleased, StreamContinued, StreamUnknown
from dpstream.release.secret_state import SecretState
from dpstream.release.settings import StreamSettings
from dpstream.store.lease import check_age, lock
from dpstream.store.ledger import read_open_steps
from dpstream.store.people import CountedPeople, write_people
from dpstream.store.settings import OWN_SETTINGS, check_name
from dpstream.store.store_files import StoreFiles
from dpstream.store.tables import (
    StreamInfo,
    StreamRow,
    create_stream,
    read_all_streams,
    read_batches,
    read_stream,
    stream_info,
)
from dpstream.store.witness import Record

__all__ = [
    "all_series",
    "carried",
    "check_not_continued",
    "end_stream",
    "next_name",
    "series_of",
    "start_successor",
    "stream_infos",
]


# -- the series -------------------------------------------------------------------------------------------------------


def stream_infos(rows: Iterable[StreamRow], path: str) -> list[StreamInfo]:
    """Return what is listed of streams, with the names of their successors."""
    infos = [stream_info(row, path) for row in rows]
    after = {info.continues: info.name for info in infos if info.continues is not None}
    return [replace(info, continued_by=after.get(info.name)) for info in infos]


def series_of(infos: list[StreamInfo], name: str) -> list[StreamInfo]:
    """Return the streams of which this one is part, each the successor of the one before.

    Raises
    ------
    StreamUnknown
        If there is no such stream.
    """
    for parts in all_series(infos):
        if any(part.name == name for part in parts):
            return parts
    raise StreamUnknown(name=name)


def all_series(infos: list[StreamInfo]) -> list[list[StreamInfo]]:
    """Return every stream that continues no other, in order, each with those that go on with it."""
    by_name = {info.name: info for info in infos}
    series = [[info] for info in infos if info.continues is None]
    for parts in series:
        while (after := parts[-1].continued_by) is not None:
            parts.append(by_name[after])
    return series


def carried(parts: list[StreamInfo], values: list[NDArray[Any]]) -> NDArray[Any]:
    """Return the releases of a series: those of its streams, each with the total that was carried over to it."""
    return np.concatenate([np.asarray(part.carried, dtype=np.int64) + v for part, v in zip(parts, values, strict=True)])


# -- starting one -----------------------------------------------------------------------------------------------------


def next_name(row: StreamRow, taken: set[str]) -> str:
    """Return the name of a successor: visits-2 after visits, visits-3 after visits-2."""
    stem, number = row.name, 2
    found = re.fullmatch(r"(.+)-(\d+)", row.name)
    if row.settings["continues"] is not None and found is not None:
        stem, number = found[1], int(found[2]) + 1
    while f"{stem}-{number}" in taken:
        number += 1
    return check_name(f"{stem}-{number}")


def check_not_continued(files: StoreFiles, name: str) -> list[StreamInfo]:
    """Return all streams; refuse the name of one that has a successor."""
    infos = stream_infos(read_all_streams(files.database, files.seals), str(files.database.path))
    for info in infos:
        if info.name == name and info.continued_by is not None:
            raise StreamContinued(name=name, by=info.continued_by)
    return infos


def start_successor(
    files: StoreFiles,
    name: str,
    settings: StreamSettings,
    *,
    new_name: str | None,
    source: str | None,
    check_limit: Callable[[str, dict[str, Any]], None],
) -> str:
    """End a stream and create the one that goes on with it, in one commit; see `Store.start_successor`."""
    slot = None
    try:
        with files.database.atomic() as connection:
            row = read_stream(files.database, files.seals, name)
            others = check_not_continued(files, name)
            slot, record = lock(files.witness, files.seals, row)
            if not row.retired:
                check_age(row, record)
            seals = files.seals.stream(row.tag)
            still = read_open_steps(files.database, seals, row)
            if still.rows.any() or still.tallies.any():
                last = row.t + 1 + int(np.flatnonzero(still.rows)[-1])
                raise StepsNotReleased(name=name, first=row.t + 1, last=last)
            taken = {info.name for info in others}
            wanted = next_name(row, taken) if new_name is None else check_name(new_name)
            if wanted in taken:
                raise InvalidArgument("new_name", wanted, "a name that no stream of this store has")
            own = {setting: row.settings[setting] for setting in OWN_SETTINGS}
            own["source"] = own["source"] if source is None else source
            own["continues"] = _carry_over(files, row)
            configuration = settings.as_json() | own
            check_limit(wanted, configuration)
            made = create_stream(
                connection,
                files.seals,
                wanted,
                json.dumps(configuration, sort_keys=True),
                SecretState.start(settings).sums_as_bytes(),
                row.people,
            )
            if made.people is not None:
                write_people(connection, files.seals.stream(made.tag), made, CountedPeople.nobody())
            ended = end_stream(connection, files, row, record)
        files.witness.write(slot, ended)
        return wanted
    finally:
        if slot is not None:
            files.witness.unlock(slot)


def _carry_over(files: StoreFiles, row: StreamRow) -> dict[str, Any]:
    """Return what a successor knows of the stream before it: its name, the steps so far, the last released total."""
    before = row.settings["continues"]
    steps, total = (0, 0) if before is None else (before["steps"], before["total"])
    released = np.asarray(total, dtype=np.int64) + np.zeros(row.settings["shape"], dtype=np.int64)
    if row.t:
        (batch,) = read_batches(files.database, row, files.seals.stream(row.tag), row.t, row.t)
        released = released + batch.values[0]
    return {"stream": row.name, "steps": steps + row.t, "total": released.tolist()}


def end_stream(connection: Any, files: StoreFiles, row: StreamRow, record: Record) -> Record:
    """Inside a transaction: end a stream for good. Returns what is to be written to the witness then."""
    seals = files.seals.stream(row.tag)
    sealed = seals.seal_sums(row.sums(seals, files.database), replace(row, retired=1).place)
    connection.execute("UPDATE streams SET retired = 1, sealed = ? WHERE id = ?", (sealed, row.id))
    return Record(
        record.name_digest,
        row.tag,
        max(record.generation, row.generation),
        max(record.last, row.t),
        retired=True,
        ingests=max(record.ingests, row.ingests),
    )
