"""Server-sent events: tells of releases as they are made; whoever connects again gets what was missed.

One task looks at the store's file, for all connections together. An event holds what the file shows by then, and
nothing but releases, so a page can never see a step before its commit.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable

from starlette.concurrency import run_in_threadpool

from dpstream.errors import DpstreamError
from dpstream.serve.downloads import as_records
from dpstream.serve.figures import Figures
from dpstream.serve.shown_stream import ShownStream

__all__ = ["LiveReleases"]

#: How often the file is looked at, and how often a connection without news is kept alive.
LOOK_SECONDS = 0.5
ALIVE_SECONDS = 15.0
#: Values that are turned into events at once. A client that does not read keeps so many in memory.
PIECE = 500
#: Pieces that are kept for others who ask for the same. Whoever connects says where to begin, so they must be bounded.
MOST_PIECES = 64


class LiveReleases:
    """Sends releases to whoever listens.

    Parameters
    ----------
    figures
        What is read.
    most
        How many connections there may be.
    """

    def __init__(self, figures: Figures, most: int = 2000) -> None:
        self._figures = figures
        self._most = most
        self.connections = 0
        self._looked = asyncio.Event()
        self._steps: dict[str, int] = {}
        self._pieces: OrderedDict[tuple[str, int, int], list[tuple[int, str]]] = OrderedDict()
        self._task: asyncio.Task[None] | None = None

    @property
    def full(self) -> bool:
        """Whether there are as many connections as there may be."""
        return self.connections >= self._most

    async def look(self) -> None:
        """Look at the file now, and wake those who wait if there are releases that were not there before."""
        try:
            streams = await run_in_threadpool(self._figures.streams)
        except DpstreamError:  # it is being replaced, or damaged: whoever asks for a page is told
            return
        steps = {stream.name: stream.t for stream in streams}
        if steps != self._steps:
            self._steps = steps
            self._pieces.clear()
            looked, self._looked = self._looked, asyncio.Event()
            looked.set()

    async def _watch(self) -> None:
        while self.connections:
            await self.look()
            await asyncio.sleep(LOOK_SECONDS)
        self._task = None

    async def _connected(
        self, following: Callable[[int], AsyncIterator[tuple[int, str]]], after: int
    ) -> AsyncIterator[str]:
        self.connections += 1
        try:
            if self._task is None:
                await self.look()
                self._task = self._task or asyncio.create_task(self._watch())
            yield "retry: 1000\n\n"
            while True:
                looked = self._looked
                async for step, event in following(after):
                    after = step
                    yield event
                try:
                    await asyncio.wait_for(looked.wait(), ALIVE_SECONDS)
                except TimeoutError:
                    yield ": nothing new\n\n"
        finally:
            self.connections -= 1

    def of_stream(self, name: str, after: int) -> AsyncIterator[str]:
        """Yield the events of one stream's releases after a step, without end; id is the step."""

        async def following(after: int) -> AsyncIterator[tuple[int, str]]:
            last = self._steps.get(name, 0)
            while after < last:
                try:
                    piece = await self._piece(name, after)
                except DpstreamError:  # as in `look`
                    return
                missed = [(step, event) for step, event in piece if step > after]
                if not missed:  # the store was replaced by an older one
                    return
                for step, event in missed:
                    yield step, event
                after = missed[-1][0]

        return self._connected(following, after)

    async def _piece(self, name: str, after: int) -> list[tuple[int, str]]:
        """Return the events of a piece of steps, the one after `after` among them; pieces are cut alike for all."""
        stream = await run_in_threadpool(self._figures.stream, name)
        size = PIECE if stream.discovers else max(1, PIECE // max(1, len(stream.names)))
        first = after - after % size + 1
        last = min(first + size - 1, stream.t)
        found = self._pieces.pop((name, first, last), None)
        if found is None:
            found = await run_in_threadpool(self._events, stream, first, last)
        self._pieces[name, first, last] = found
        if len(self._pieces) > MOST_PIECES:
            self._pieces.popitem(last=False)
        return found

    def of_all(self, after: int) -> AsyncIterator[str]:
        """Yield an event whenever any stream has new releases; id is how many steps all of them have together."""

        async def following(after: int) -> AsyncIterator[tuple[int, str]]:
            steps = sum(self._steps.values())
            if steps > after:
                yield steps, _event(steps, json.dumps({"steps": steps}))

        return self._connected(following, after)

    @staticmethod
    def _events(stream: ShownStream, first: int, last: int) -> list[tuple[int, str]]:
        if stream.discovers:  # there may be very many: whoever is told asks for what it shows
            numbers = [{"step": step, "names": int(stream.course[step - 1])} for step in range(first, last + 1)]
            return [(one["step"], _event(one["step"], json.dumps(one))) for one in numbers]
        frame = stream.select(first, last)
        by_step: dict[int, list[dict[str, object]]] = {}
        for record in as_records(frame):
            by_step.setdefault(record["step"], []).append(record)
        return [(step, _event(step, json.dumps(records, ensure_ascii=False))) for step, records in by_step.items()]


def _event(step: int, data: str) -> str:
    return f"event: release\nid: {step}\ndata: {data}\n\n"
