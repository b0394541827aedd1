"""Live events: each release once, in order, also for whoever connects again, after a restart too."""

import asyncio
import json
from contextlib import contextmanager

import httpx
import numpy as np
import pytest

import dpstream as dp
from dpstream.serve import live
from dpstream.serve.figures import Figures

from .conftest import Served, open_visits

VISITS = "/api/streams/visits/events-stream"


@pytest.fixture(autouse=True)
def _look_often(monkeypatch):
    monkeypatch.setattr(live, "LOOK_SECONDS", 0.02)


@contextmanager
def following(server, address=VISITS, **headers):
    """Yield an iterator over the events of a connection: (id, data)."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with httpx.stream("GET", server.address + address, headers=named, timeout=60) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield events(answer.iter_lines())


def events(lines):
    event = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            event[name] = value
        elif "event" in event:
            yield int(event["id"]), json.loads(event["data"])
            event = {}


def test_a_release_is_told_once_it_is_made(path):
    with dp.Store(path) as store, Served(path) as server, following(server) as told:
        visits = open_visits(store)
        for step in (101, 102, 103):
            release = visits.add(100)
            found, (record,) = next(told)
            assert (found, record["step"], record["value"]) == (step, step, release)
            assert record["low"] < release < record["high"]


def test_whoever_connects_again_gets_what_was_missed(path):
    """Also from another server, started after the first one was stopped."""
    with dp.Store(path) as store:
        visits = open_visits(store)
        with Served(path) as server, following(server, f"{VISITS}?after=98") as told:
            assert [next(told)[0] for _ in range(2)] == [99, 100]
        values = visits.extend(np.full(7, 100))
        with Served(path, server.port) as server, following(server, Last_Event_ID="100") as told:
            found = [next(told) for _ in range(7)]
            assert [step for step, _ in found] == list(range(101, 108))
            assert [record["value"] for _, (record,) in found] == values.tolist()


def test_many_missed_steps_come_in_pieces(path, monkeypatch):
    monkeypatch.setattr(live, "PIECE", 7)
    with Served(path) as server, following(server, f"{VISITS}?after=0") as told:
        assert [next(told)[0] for _ in range(100)] == list(range(1, 101))


def test_whoever_says_where_to_begin_does_not_fill_the_memory(path, monkeypatch):
    """A hundred beginnings, each once: pieces are cut alike for all, and only so many are kept."""
    monkeypatch.setattr(live, "PIECE", 10)
    monkeypatch.setattr(live, "MOST_PIECES", 4, raising=False)
    releases = live.LiveReleases(Figures(path))

    async def begin(after, stream="visits"):
        connection = releases.of_stream(stream, after)
        try:
            assert (await anext(connection)).startswith("retry")
            return [int((await anext(connection)).split("id: ")[1].split("\n")[0]) for _ in range(2)]
        finally:
            await connection.aclose()

    async def begin_everywhere():
        for after in range(98):
            assert await begin(after) == [after + 1, after + 2]
        for after in range(28):
            assert await begin(after, "by ward/2026") == [after + 1, after + 2]
        releases._task.cancel()

    asyncio.run(begin_everywhere())
    assert sum(len(piece) for piece in releases._pieces.values()) <= 4 * 10


def test_categories_come_together(path):
    with Served(path) as server, following(server, "/api/streams/by%20ward%2F2026/events-stream?after=29") as told:
        step, records = next(told)
        assert (step, len(records)) == (30, 3)


def test_the_overview_hears_of_every_stream(path):
    with dp.Store(path) as store, Served(path) as server, following(server, "/api/events-stream") as told:
        open_visits(store).add(100)
        assert next(told)[0] == 100 + 30 + 2 + 1


def test_connections_are_limited_and_given_back(path):
    with Served(path, most_live=2) as server:
        with following(server, f"{VISITS}?after=99") as one, following(server, f"{VISITS}?after=99") as two:
            assert next(one)[0] == next(two)[0] == 100
            refused = server.get(VISITS)
            assert refused.status_code == 503
            assert "too many live connections" in refused.json()["message"]
        for _ in range(3):  # one after the other: those that ended do not count
            with following(server, f"{VISITS}?after=99") as told:
                assert next(told)[0] == 100


def test_a_connection_without_news_is_kept_alive(path, monkeypatch):
    monkeypatch.setattr(live, "ALIVE_SECONDS", 0.05)
    with Served(path) as server, httpx.stream("GET", server.address + VISITS, timeout=60) as answer:
        lines = answer.iter_lines()
        assert next(line for line in lines if line.startswith(":")) == ": nothing new"
