"""The stream that a store keeps for a count: found by name, with the settings that it remembers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl

from dpstream.errors import InvalidArgument, StoreMismatch
from dpstream.events.calendar import parse_moment
from dpstream.events.count_settings import BUDGET, SETTINGS
from dpstream.store import Store, StreamInfo

__all__ = [
    "check_same",
    "fixed",
    "kept_settings",
    "only_stream",
    "series_start",
    "store_at",
    "stream_named",
    "stream_settings",
]


def store_at(path: Path | None) -> Store | None:
    """Open the store at a path. One that is not there is not made yet: input may be refused."""
    return None if path is None or not path.exists() else Store(path)


def stream_named(store: Store, name: str) -> StreamInfo | None:
    """Return the stream of this name, if there is one."""
    return next((info for info in store.streams() if info.name == name), None)


def only_stream(store: Store) -> str:
    """Return the name of the only counter, or stream of names, of a store that goes on; "count" if there is none.

    Raises
    ------
    InvalidArgument
        If there are several.
    """
    counters = [info for info in store.streams() if info.kind in ("counter", "names")]
    names = [info.name for info in counters if not info.retired and info.continued_by is None]
    if len(names) > 1:
        raise InvalidArgument("name", None, f"given where there are several streams: {', '.join(names)}, or a new one")
    return names[0] if names else "count"


def kept_settings(info: StreamInfo) -> dict[str, Any]:
    """Return what a stream's creator said is counted, by the names of settings; nothing, if `count` did not."""
    try:
        kept = json.loads(info.source or "{}")
    except ValueError:
        return {}
    return kept if isinstance(kept, dict) else {}


def stream_settings(store: Store, info: StreamInfo) -> dict[str, Any]:
    """Return all settings of a stream, by name: what it counts, its end, its budget, its mechanism."""
    budget = {part: getattr(info.budget, part) for part in BUDGET if hasattr(info.budget, part)}
    end = {"unbounded": True} if info.horizon is None else {"horizon": info.horizon}
    kept = {name: value for name, value in kept_settings(info).items() if name in SETTINGS}
    if info.kind == "names":
        found = store.open_settings(info.name)
        return kept | budget | end | {"max_pairs": info.people, "mechanism": found.mechanism}
    settings = store.settings(info.name)
    room = {} if info.people is None else {"max_users": info.people}
    return kept | budget | end | room | {"mechanism": settings.mechanism}


def series_start(store: Store, info: StreamInfo) -> pl.Series | None:
    """Return when the first of the streams began that this one goes on with; None if it goes on with none."""
    if info.continues is None:
        return None
    kept = kept_settings(store.series(info.name)[0])
    return parse_moment("start", kept["start"], kept.get("time_zone")) if "start" in kept else None


def fixed(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that must be the same in every run."""
    return {name: value for name, value in settings.items() if name in SETTINGS and SETTINGS[name].kept == "same"}


def check_same(name: str, stored: dict[str, Any], given: dict[str, Any]) -> None:
    """Refuse the first setting that a stream has otherwise."""
    for setting in {**stored, **given}:
        if stored.get(setting) != given.get(setting):
            raise StoreMismatch(name=name, setting=setting, stored=stored.get(setting), given=given.get(setting))
