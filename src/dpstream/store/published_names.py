"""Releases of names in clear, one row a step: the names that were published in it, and the values of all until then.

As the releases of counters (`dpstream.store.published`) they are written when the step is closed on the disk, in a
commit of their own; what a crash takes from it is computed and written again when the stream is opened. A keyed digest
in each row tells whoever has the key whether it is as it was written. Readers without a key take it as it is.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstream.errors import InvalidArgument, StoreDamaged
from dpstream.store.sealing import Seals
from dpstream.store.tables import StreamRow

__all__ = [
    "NamedRelease",
    "PublishedNames",
    "in_pieces",
    "named_steps",
    "read_named_releases",
    "read_published_names",
    "write_named_releases",
]

Query = Callable[[str, tuple[Any, ...]], list[tuple[Any, ...]]]
#: Values that are written, or shown, at a time.
PIECE_VALUES = 1 << 18
#: Steps that are read at a time.
STEPS_AT_ONCE = 64


class NamedRelease(NamedTuple):
    """What was released in one step: the published names, those of this step last, and a value for each."""

    step: int
    names: tuple[str, ...]
    values: NDArray[np.int64]


@dataclass(frozen=True)
class PublishedNames:
    """All releases of a stream of names.

    Attributes
    ----------
    names
        In the order of their publication, those of one step by their spelling; declared ones first.
    since
        The step in which each was published; 0 for declared ones, which are released from step 1 on.
    values
        For each step the values of the names that were published until then, in the same order.
    """

    names: tuple[str, ...]
    since: NDArray[np.int64]
    values: tuple[NDArray[np.int64], ...]

    def of(self, name: str) -> NDArray[np.int64]:
        """Return the releases of one name, from the step on in which it was published."""
        at = self.names.index(name)
        return np.array([values[at] for values in self.values if len(values) > at], dtype=np.int64)


def write_named_releases(
    connection: sqlite3.Connection, seals: Seals, row: StreamRow, known: int, releases: Iterable[NamedRelease]
) -> None:
    """Inside a transaction: write releases of consecutive steps; `known` names were published before them."""
    for release in releases:
        names = json.dumps(release.names[known:], ensure_ascii=False)
        values = release.values.astype("<i8").tobytes()
        seal = seals.published_seal(release.step, names, values)
        connection.execute(
            "INSERT OR REPLACE INTO published_names VALUES (?, ?, ?, ?, ?)", (row.id, release.step, names, values, seal)
        )
        known = len(release.names)


def in_pieces(releases: Iterable[NamedRelease], values: int = PIECE_VALUES) -> Iterator[list[NamedRelease]]:
    """Yield releases in lists of about so many values."""
    piece: list[NamedRelease] = []
    size = 0
    for release in releases:
        piece.append(release)
        size += len(release.values)
        if size >= values:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def named_steps(query: Query, row: StreamRow) -> int:
    """Return how many steps of a stream of names are published."""
    (last,) = query("SELECT max(step) FROM published_names WHERE stream = ?", (row.id,))[0]
    return last if isinstance(last, int) else 0


def read_named_releases(
    query: Query, row: StreamRow, last: int, path: str, seals: Seals | None = None, first: int = 1
) -> Iterator[NamedRelease]:
    """Yield the releases of the steps from `first` to `last`, compared with their seals if there is a key.

    Raises
    ------
    StoreDamaged
        If a step is missing, or is not as it was written.
    """
    damaged = StoreDamaged(path=path, what=f"published names of stream {row.name!r} are missing or changed")
    names: tuple[str, ...] = tuple(row.settings["declared"])
    if first > 1:
        before = query("SELECT names FROM published_names WHERE stream = ? AND step < ? ORDER BY step", (row.id, first))
        for (listed,) in before:
            names = (*names, *_names(listed, damaged))
    for low in range(first, last + 1, STEPS_AT_ONCE):
        high = min(low + STEPS_AT_ONCE - 1, last)
        found = query(
            "SELECT step, names, released, seal FROM published_names WHERE stream = ? AND step BETWEEN ? AND ?"
            " ORDER BY step",
            (row.id, low, high),
        )
        if [step for step, *_ in found] != list(range(low, high + 1)):
            raise damaged
        for step, listed, values, seal in found:
            names = (*names, *_names(listed, damaged))
            if not isinstance(values, bytes) or len(values) != 8 * len(names):
                raise damaged
            if seals is not None and seals.published_seal(step, listed, values) != seal:
                raise damaged
            yield NamedRelease(step, names, np.frombuffer(values, "<i8").astype(np.int64))


def _names(listed: object, damaged: StoreDamaged) -> list[str]:
    try:
        found = json.loads(listed) if isinstance(listed, str) else None
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise damaged
    return found


def read_published_names(query: Query, row: StreamRow, path: str, seals: Seals | None = None) -> PublishedNames:
    """Return all published releases of a stream of names; raises as `read_named_releases`."""
    if row.settings["lane"] != "names":
        raise InvalidArgument("name", row.name, "a stream of discovered names")
    releases = read_named_releases(query, row, named_steps(query, row), path, seals)
    declared = tuple(row.settings["declared"])
    names, since, values = declared, [0] * len(declared), []
    for release in releases:
        since += [release.step] * (len(release.names) - len(names))
        names = release.names
        values.append(release.values)
    return PublishedNames(names, np.array(since, dtype=np.int64), tuple(values))
