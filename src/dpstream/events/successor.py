"""Goes on with a stream of `count` past its end: a successor that begins on the day after the last release."""

from __future__ import annotations

import json

from dpstream.budget import Budget
from dpstream.errors import InvalidArgument
from dpstream.events.calendar import Calendar, parse_moment
from dpstream.events.stored_stream import StoredStream
from dpstream.store import Store, StreamInfo

__all__ = ["extend_stream"]


def extend_stream(
    store: Store,
    name: str,
    *,
    horizon: int | None = None,
    until: str | None = None,
    budget: Budget | None = None,
    new_name: str | None = None,
) -> StreamInfo:
    """End a stream and start its successor, which counts the same from the next step on.

    Parameters
    ----------
    store, name
        The store and the stream to go on with.
    horizon, until
        How many steps the successor has, or the date of its last one; None and None: it has no last step.
    budget, new_name
        See `Store.start_successor`.

    Raises
    ------
    InvalidArgument
        If both ends are given, or `until` where steps have no dates, or if it is before the next step.
    StreamUnknown, StreamContinued, StepsNotReleased, BudgetLimitExceeded, StoreBusy, StoreOutdated
        As `Store.start_successor`. Whatever is raised, nothing changes.
    """
    if horizon is not None and until is not None:
        raise InvalidArgument("until", until, "left out where `horizon` is given")
    if any(info.name == name and info.kind == "names" for info in store.streams()):
        raise InvalidArgument(
            "name",
            name,
            "a counter: the threshold of discovered names is that of a fixed number of steps. Begin a stream of another"
            " name with the step after the last one, whose `categories` are the names that are published",
        )
    stream = StoredStream(store, name)
    source = None
    if stream.calendar is not None:
        so_far = stream.info.steps_before + stream.info.t
        stream.calendar.lay_out(so_far + 1)
        begin = stream.calendar.shown(so_far, 1)[0].isoformat()
        source = json.dumps(json.loads(stream.info.source) | {"start": begin}, ensure_ascii=False)
        if until is not None:
            zone = stream.source.get("time_zone")
            calendar = Calendar(stream.calendar.every, parse_moment("start", begin, zone))
            last = parse_moment("until", until, zone, end_of_day=True)
            if last[0] < calendar.start:
                raise InvalidArgument("until", until, f"{begin} or later: the next step begins there")
            horizon = calendar.reach(last)
    elif until is not None:
        raise InvalidArgument("until", until, f"used where steps have dates: those of {name} have none; give `horizon`")
    return store.start_successor(name, horizon, budget, new_name=new_name, source=source)
