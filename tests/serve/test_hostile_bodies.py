"""Bodies that nobody expected: each is refused by itself and for good, and the writer goes on for all others."""

import datetime as dt
import json
import threading

import polars as pl
import pytest

import dpstream as dp
from dpstream.events import last_step
from dpstream.events.ingest import StreamIngest
from dpstream.serve import writer

from .ingesting import Ingesting, begin

AT = dt.datetime(2026, 1, 1, 0, 30, tzinfo=dt.UTC)
EVENT = {"when": "2026-01-01T05:00Z", "who": "ann", "ward": "north"}
LIMITS = {"user": "who", "max_contributions": 3, "max_users": 9}
BY = {"by": "ward", "values": ["north"], "undeclared": "other"}


class Panic(pl.exceptions.PanicException):
    """What Polars raises when it fails inside; it is no Exception."""


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setattr(last_step, "now", lambda: AT)
    token = begin(tmp_path / "counts.db", **LIMITS, **BY)
    with Ingesting(tmp_path / "counts.db", token) as server:
        yield server


def counted(server, path):
    server.stop()
    with dp.Store(path) as store:
        return int(store.true_data.open_steps("visits").tallies.sum())


def refused_for_good(answer):
    assert answer.status_code == 422, answer.text
    assert "retry-after" not in answer.headers
    assert "again, with" not in answer.json()["message"]
    return answer.json()


@pytest.mark.parametrize("column", ["when", "who", "ward"])
@pytest.mark.parametrize("kind", ["application/json", "application/x-ndjson"])
def test_half_a_character(server, tmp_path, column, kind):
    """JavaScript's slice() cuts an emoji in two, and JSON.stringify sends what is left of it."""
    event = json.dumps(EVENT | {column: "x\ud83d"}).encode()
    found = refused_for_good(server.post(b"[" + event + b"]" if kind.endswith("/json") else event, "half", kind=kind))
    assert repr(column) in found["message"]
    elsewhere = json.dumps([EVENT | {"more": "\ud83d"}]).encode()  # in a field that is not read
    assert server.post(elsewhere, "good").json()["rows"] == 1
    assert counted(server, tmp_path / "counts.db") == 1


@pytest.mark.parametrize("error", [RuntimeError("ann's secret"), Panic("ann's secret"), MemoryError()])
def test_a_body_over_which_the_reader_stumbles(server, tmp_path, monkeypatch, capfd, error):
    really = writer.read_events

    def stumble(body, form, columns):
        if b"stumble" in body:
            raise error
        return really(body, form, columns)

    monkeypatch.setattr(writer, "read_events", stumble)
    refused_for_good(server.post([EVENT | {"more": "stumble"}], "bad"))
    assert server.post([EVENT], "good").status_code == 200
    assert counted(server, tmp_path / "counts.db") == 1
    told = capfd.readouterr().err
    assert type(error).__name__ in told
    assert "secret" not in told


@pytest.mark.parametrize("error", [RuntimeError("no"), Panic("no")])
def test_a_batch_over_which_the_count_stumbles_hinders_no_other_of_its_commit(server, tmp_path, monkeypatch, error):
    """Seven batches wait for one commit, and two of them are bad."""
    really, wait = StreamIngest.take, threading.Event()

    def stumble(self, batches, **more):
        if not wait.is_set():
            return really(self, [], **more)
        if any("bad" in batch.frame["who"].to_list() for batch in batches):
            raise error
        return really(self, batches, **more)

    monkeypatch.setattr(StreamIngest, "take", stumble)
    monkeypatch.setattr(writer.Writer, "_commit_all", _patient(writer.Writer._commit_all, wait, 7))
    people = ["ann", "bad", "bob", "cat", "bad", "dan", "eve"]
    answers = {}
    senders = [
        threading.Thread(target=lambda i=i, who=who: answers.update({i: server.post([EVENT | {"who": who}], f"{i}")}))
        for i, who in enumerate(people)
    ]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join(60)
    assert [answers[i].status_code for i in range(7)] == [422 if who == "bad" else 200 for who in people]
    refused_for_good(answers[1])
    assert server.post([EVENT | {"who": "zed"}], "later").status_code == 200
    assert counted(server, tmp_path / "counts.db") == 6


def _patient(commit, wait, batches):
    """Return a commit that lets batches wait until there are so many."""

    def patient(self):
        if not wait.is_set():
            if len(self._streams["visits"].waiting) < batches:
                return
            wait.set()
        commit(self)

    return patient


def test_a_stream_that_stumbles_without_a_batch_stops_alone(tmp_path, monkeypatch, capfd):
    """Whatever is wrong with one stream, senders to another are served."""
    monkeypatch.setattr(last_step, "now", lambda: AT)
    path = tmp_path / "counts.db"
    begin(path, "bad")
    token = begin(path, "visits")
    really = StreamIngest.take

    def stumble(self, batches, **more):
        if self._options.name == "bad":
            raise RuntimeError("no")
        return really(self, batches, **more)

    monkeypatch.setattr(StreamIngest, "take", stumble)
    with Ingesting(path, token) as server:
        assert server.post([EVENT], "one").status_code == 200
        assert server.post([EVENT], "two").status_code == 200
    assert "bad: takes no events and releases nothing until" in capfd.readouterr().err
