"""Events over HTTP: who may send, what is answered, and that what is answered is stored, once."""

import datetime as dt
import time
import types

import httpx
import pytest

import dpstream as dp
from dpstream.errors import StoreFull, WriterNotStarted
from dpstream.events import last_step
from dpstream.events.ingest import StreamIngest
from dpstream.serve import intake, steady_clock
from dpstream.serve.intake import IntakeLimits

from .ingesting import Ingesting, ThreadLink, WriterSettings, begin

pytestmark = pytest.mark.filterwarnings("ignore::dpstream.errors.CountWarning")
AT = dt.datetime(2026, 1, 1, 0, 30, tzinfo=dt.UTC)
EVENT = {"when": "2026-01-01T05:00Z", "who": "ann", "ward": "north"}


@pytest.fixture
def clock(monkeypatch):
    """A function that sets the clock."""

    def put(moment):
        monkeypatch.setattr(last_step, "now", lambda: moment)

    put(AT)
    return put


@pytest.fixture
def path(tmp_path):
    return tmp_path / "counts.db"


@pytest.fixture
def server(path, clock):
    token = begin(path)
    with Ingesting(path, token) as server:
        yield server


def counted(path, hour, stream="visits"):
    with dp.Store(path) as store:
        return int(store.true_data.open_steps(stream, hour + 1, hour + 1).tallies.sum())


def test_what_is_answered_is_stored_once(server, path):
    sent = {
        "one": ([EVENT, EVENT], "application/json"),
        "two": ({"events": [EVENT]}, "application/json; charset=utf-8"),
        "three": (b'{"when": "2026-01-01T05:10Z"}\n\n{"when": "2026-01-01T05:20Z", "a": [1]}\n', "application/jsonl"),
        "four": (b"who,when\nann,2026-01-01T05:59:59Z\n\"b,c\",2026-01-01T05:00:00Z\n", "text/csv"),
        "five": ([], "application/json"),
    }  # fmt: skip
    for again in (False, True):
        for key, (events, kind) in sent.items():
            answer = server.post(events, key, kind=kind)
            assert answer.status_code == 200, answer.text
            assert answer.json()["repeated"] is again
            assert answer.headers["cache-control"] == "no-store"
    assert server.post([EVENT], '"one"').status_code == 422  # a key with quotes is the same key
    assert server.post([EVENT, EVENT], '"one"').json() == {"repeated": True, "rows": 2}
    server.stop()
    assert counted(path, 5) == 7


def test_nothing_is_told_of_others(server, path):
    """Two senders use the same key for different events: neither learns of the other."""
    with dp.Store(path) as store:
        other = store.tokens.create("other", ["visits"])
    for _ in range(200):
        if server.post([EVENT], "wait", token=other).status_code == 200:
            break
    ours = server.post([EVENT], "key")
    theirs = server.post([EVENT, EVENT], "key", token=other)
    assert ours.json() == {"repeated": False, "rows": 1, "late": 0, "before": 0, "left_out": 0, "clipped": 0}
    assert theirs.json() == ours.json() | {"rows": 2}


def test_tokens_come_and_go_while_the_server_runs(server, path, clock):
    with dp.Store(path) as store:
        short = store.tokens.create("short", ["visits"], expires=AT + dt.timedelta(minutes=1))

    def until(status, key):
        for i in range(400):
            answer = server.post([EVENT], f"{key}{i}", token=short)
            if answer.status_code == status:
                return answer.json()["message"] if status != 200 else answer
            time.sleep(0.02)
        raise AssertionError(answer.text)

    until(200, "a")
    clock(AT + dt.timedelta(seconds=25))
    clock(AT + dt.timedelta(minutes=2))
    assert "has expired" in until(401, "b")
    clock(AT)
    until(200, "c")
    with dp.Store(path) as store:
        store.tokens.revoke("short")
    assert "not one of this store" in until(401, "d")


def test_rates_are_limited(path, clock, monkeypatch):
    """By a clock that stands still: as many as in a second at once, and one more half a second later."""
    now = [100.0]
    monkeypatch.setattr(intake, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    token = begin(path)
    with Ingesting(path, token, IntakeLimits(requests_a_second=2, failures_a_second=0.3)) as server:
        found = [server.post([EVENT], f"{i}") for i in range(4)]
        assert [answer.status_code for answer in found] == [200, 200, 429, 429]
        assert found[2].json()["error"] == "TooManyRequests"
        assert int(found[2].headers["retry-after"]) >= 1
        now[0] += 0.5
        assert [server.post([EVENT], f"{i}").status_code for i in (2, 3)] == [200, 429]
        wrong = [server.post([EVENT], f"{i}", token="no").status_code for i in range(4)]  # noqa: S106
        assert wrong == [401, 401, 401, 429]
        # Whoever says that the request came from elsewhere is not believed.
        hidden = [server.post([EVENT], f"{i}", token="no", **{"x-forwarded-for": f"192.0.2.{i}"}) for i in range(3)]  # noqa: S106
        assert [answer.status_code for answer in hidden] == [429, 429, 429]


def test_steps_close_by_the_clock_and_late_rows_are_said(server, clock, monkeypatch):
    def released(steps):
        for _ in range(1000):
            found = server.get("/api/streams/visits/releases").json()["releases"]
            if len(found) == steps:
                return [row["value"] for row in found]
            time.sleep(0.01)
        raise AssertionError(found)

    monkeypatch.setattr(steady_clock, "PROOF_SECONDS", 0.0)
    assert server.post([EVENT, EVENT], "one").status_code == 200
    assert released(1) == [0]
    clock(dt.datetime(2026, 1, 1, 7, 0, 1, tzinfo=dt.UTC))
    assert released(7) == [0, 0, 0, 0, 0, 2, 2]
    # A row of a step that is closed counts in the first that is open, and the sender is told.
    assert server.post([EVENT, EVENT | {"when": "2026-01-01T08:00Z"}], "two").json()["late"] == 1
    # The clock goes back: nothing is opened again. It goes on: steps close with what came meanwhile.
    clock(AT)
    assert server.post([EVENT], "three").json()["late"] == 1
    clock(dt.datetime(2026, 1, 1, 9, 0, 1, tzinfo=dt.UTC))
    assert released(9) == [0, 0, 0, 0, 0, 2, 2, 4, 5]


def test_a_clock_that_jumps_for_a_moment_closes_nothing(server, clock):
    clock(AT + dt.timedelta(days=300))
    answers = [server.post([EVENT], f"{i}").json() for i in range(3)]
    assert [answer.get("late") for answer in answers] == [0, 0, 0]
    clock(AT)
    assert server.post([EVENT], "again").json()["late"] == 0
    assert len(server.get("/api/streams/visits/releases").json()["releases"]) == 1


def test_a_clock_that_is_wrong_at_the_start_closes_nothing(path, clock, capfd, monkeypatch):
    """Six hours ahead, as after a boot without a network; then somebody corrects it."""
    token = begin(path)
    clock(AT + dt.timedelta(hours=6))
    with Ingesting(path, token) as server:
        assert server.post([EVENT], "one").json()["late"] == 0
        assert server.post([EVENT], "two").json()["late"] == 0
        assert len(server.get("/api/streams/visits/releases").json()["releases"]) == 1
        clock(AT)
        assert server.post([EVENT], "three").json()["late"] == 0
        clock(AT + dt.timedelta(hours=6))  # if it stays so it is believed
        monkeypatch.setattr(steady_clock, "PROOF_SECONDS", 0.0)
        for _ in range(1000):
            found = [row["value"] for row in server.get("/api/streams/visits/releases").json()["releases"]]
            if len(found) == 6:
                break
            time.sleep(0.01)
        assert found == [0, 0, 0, 0, 0, 3]
    told = capfd.readouterr().err
    assert told.count("visits: steps that ended more than 5 minutes ago are not released yet") == 1
    assert "The clock was set to 2026-01-01 00:30:00 UTC soon after the start." in told


def test_steps_that_ended_just_now_close_at_once(path, clock):
    """A server that is started again goes on where it was."""
    token = begin(path)
    clock(AT + dt.timedelta(minutes=94))
    with Ingesting(path, token) as server:
        for _ in range(1000):
            if len(server.get("/api/streams/visits/releases").json()["releases"]) == 2:
                break
            time.sleep(0.01)
        else:
            raise AssertionError("the step is not released")


def test_a_full_disk_is_503_and_nothing_is_lost(server, path, monkeypatch):
    really = StreamIngest.take

    def full(self, batches, **more):
        raise StoreFull(path="/secret/place")

    monkeypatch.setattr(StreamIngest, "take", full)
    answer = server.post([EVENT], "one")
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) > 0
    assert "same Idempotency-Key" in answer.json()["message"]
    assert "secret" not in answer.text
    monkeypatch.setattr(StreamIngest, "take", really)
    assert server.post([EVENT], "one").json()["repeated"] is False
    server.stop()
    assert counted(path, 5) == 1


def test_more_people_than_there_is_room_for_stop_the_stream(path, clock):
    """What would be released after that depends on who was left out: 503, for others too, until a restart."""
    limits = {"user": "who", "max_contributions": 2, "max_users": 3}
    token = begin(path, **limits)
    with Ingesting(path, token) as server:
        assert server.post([EVENT | {"who": str(i)} for i in range(3)], "room").status_code == 200
        before = server.get("/api/streams/visits/releases").json()["releases"]
        refused = server.post([EVENT | {"who": "one too many"}], "full")
        after = server.post([EVENT | {"who": "0"}], "known")
        assert (refused.status_code, after.status_code) == (503, 503)
        assert refused.json() == after.json()  # which does not tell who it was
        assert "same Idempotency-Key" in refused.json()["message"]
        clock(AT + dt.timedelta(hours=9))
        assert server.get("/api/streams/visits/releases").json()["releases"] == before
    assert counted(path, 5) == 3


def test_streams_that_are_over_say_so(path, clock, monkeypatch):
    """410 for one whose last step has closed, 409 for one that was ended and one that takes no events."""
    monkeypatch.setattr(steady_clock, "PROOF_SECONDS", 0.0)
    tokens = {"short": begin(path, "short", horizon=2), "over": begin(path, "over")}
    with dp.Store(path) as store:
        store.retire("over")
        store.counter("plain", 10, dp.zcdp(0.5))
        tokens["plain"] = store.tokens.create("for plain", ["plain"])
        store.open_names("searches", 10, dp.approx_dp(1, 1e-6), names_per_person=1, pairs=1000)
        tokens["searches"] = store.tokens.create("for searches", ["searches"])
    clock(AT + dt.timedelta(hours=9))
    with Ingesting(path) as server:
        found = {name: server.post([EVENT], "one", stream=name, token=token) for name, token in tokens.items()}
        ended = server.post([EVENT], "two", stream="short", token=tokens["short"])
        assert {name: answer.status_code for name, answer in found.items()} == {
            "short": 410,
            "over": 409,
            "plain": 409,
            "searches": 409,
        }
        assert ended.json()["error"] == "StreamEnded"
        assert all(answer.json()["message"] for answer in found.values())


def test_one_writer_a_stream(server, path, monkeypatch):
    monkeypatch.setattr("dpstream.serve.writer.PATIENCE_SECONDS", 0.0)
    second = ThreadLink(path, WriterSettings())
    with pytest.raises(WriterNotStarted, match="visits"):
        second.start()
    second._thread.join(60)
    assert server.post([EVENT], "one").status_code == 200


def test_a_server_without_ingest_says_so(served):
    answer = httpx.post(f"{served.address}/api/streams/visits/events", content=b"[]", timeout=60)
    assert (answer.status_code, answer.json()["error"]) == (404, "EventsNotTaken")


def test_cors_only_if_asked_for(path, clock):
    begin(path)
    with Ingesting(path, origins=["https://example.org"]) as server:
        asked = {"origin": "https://example.org", "access-control-request-method": "POST"}
        answer = httpx.options(f"{server.address}/api/streams/visits/events", headers=asked, timeout=60)
        assert answer.headers["access-control-allow-origin"] == "https://example.org"
        other = server.get("/api/streams", headers={"origin": "https://evil.example"})
        assert "access-control-allow-origin" not in other.headers
