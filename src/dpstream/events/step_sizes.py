"""Refuses steps that add up to more than a counter takes, and steps that a store keeps no room for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from dpstream.errors import InputOutOfBound, RowsTooFarAhead, SourceDamaged
from dpstream.events.tally import TimeTally
from dpstream.release.settings import StreamSettings

__all__ = ["check_parts", "check_steps", "said_by_steps"]

#: Steps that are looked at together.
PIECE = 1 << 15


def check_steps(tally: TimeTally, settings: StreamSettings, first: int) -> None:
    """Check the inputs of all steps of a tally from `first` (from 0) on.

    Raises
    ------
    SourceDamaged
        If one is too large.
    """
    for begin in range(first, tally.steps, PIECE):
        count = min(PIECE, tally.steps - begin)
        with said_by_steps(begin, count):
            settings.check_rows(tally.inputs(begin, count))


def check_parts(tally: TimeTally, settings: StreamSettings, closed: int, room: int) -> None:
    """Check what sources add to open steps, of which there are `room` after the first `closed`.

    Raises
    ------
    SourceDamaged
        If a step is too large.
    RowsTooFarAhead
        If there are rows for a step that is not open.
    """
    for part in tally.parts:
        if not part.rows.any() or tally.calendar is None:
            continue
        last = part.first + int(np.flatnonzero(part.rows)[-1])
        if last >= closed + room:
            tally.calendar.lay_out(last + 1)
            step, released = (str(tally.calendar.shown(one, 1)[0]) for one in (last, max(closed - 1, 0)))
            raise RowsTooFarAhead(step=step, last=released, room=room)
        with said_by_steps(part.first, len(part.tallies)):
            settings.check_rows(part.tallies)


@contextmanager
def said_by_steps(first: int, count: int) -> Iterator[None]:
    """Say that a step is too large in words that are not those of a single input."""
    try:
        yield
    except InputOutOfBound as error:
        raise SourceDamaged(
            where=f"one of the steps {first + 1:,} to {first + count:,}",
            what=f"what a step adds up to must be from {error.least:,} to {error.most:,}",
        ) from None
