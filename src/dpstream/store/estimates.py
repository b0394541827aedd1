"""Estimates from the releases that a store keeps: of any of them, and of the change between any two."""

from __future__ import annotations

from typing import Any

from dpstream.arguments import check_whole
from dpstream.errors import InvalidArgument, NoReleaseYet
from dpstream.release.error_bars import Estimate, estimate_from_releases
from dpstream.release.settings import StreamSettings
from dpstream.store.database import Database
from dpstream.store.sealing import Seals
from dpstream.store.tables import StreamRow, read_batches

__all__ = ["estimate_from_store", "window_from_store"]


def estimate_from_store(
    database: Database,
    row: StreamRow,
    seals: Seals,
    settings: StreamSettings,
    confidence: float,
    *,
    since: int = 0,
    through: int | None = None,
) -> Estimate[Any]:
    """Return release `through` (the last one if None), or its change since an earlier release, with its error bars."""
    t, since = check_through(row, through), check_whole("since", since, least=0)
    if since >= t:
        raise InvalidArgument("since", since, f"an earlier release than {t}")
    found = []
    for step in (t, since) if since else (t,):
        (batch,) = read_batches(database, row, seals, step, step)
        found.append(batch.values[0] if row.settings["lane"] == "float" or settings.shape else int(batch.values[0]))
    return estimate_from_releases(settings, t, found[0], confidence, since, found[-1])


def window_from_store(
    database: Database,
    row: StreamRow,
    seals: Seals,
    settings: StreamSettings,
    confidence: float,
    *,
    steps: int,
    through: int | None = None,
) -> Estimate[Any]:
    """Return the sum of `steps` steps up to release `through`, since the start if there are fewer."""
    t = check_through(row, through)
    since = max(t - check_whole("steps", steps), 0)
    return estimate_from_store(database, row, seals, settings, confidence, since=since, through=t)


def check_through(row: StreamRow, through: int | None) -> int:
    """Return the release that is meant; refuse one that has not been made."""
    if not row.t:
        raise NoReleaseYet
    t = row.t if through is None else check_whole("through", through)
    if t > row.t:
        raise InvalidArgument("through", through, f"at most {row.t}, the last release")
    return t
