"""Clients that send nonsense, never read, or stay away halfway: they get a named answer, and others are served."""

import random
import socket
import struct
import threading
import time

import httpx
import pytest

from dpstream.store import PublishedStore

from .conftest import Served


def talk(served, sent, size=4096):
    with socket.create_connection(("127.0.0.1", served.port), timeout=30) as connection:
        connection.sendall(sent)
        return connection.recv(size)


@pytest.mark.parametrize(
    "sent",
    [
        b"hello\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: " + b"y" * 70_000 + b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",  # the beginning of TLS
    ],
)
def test_what_is_not_http(served, sent):
    assert talk(served, sent).startswith(b"HTTP/1.1 400 ")
    assert served.get("/healthz").status_code == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_only_reading_is_allowed(served, method):
    for address in ("/", "/api/streams", "/api/streams/visits/releases", "/api/streams/visits/events-stream"):
        answer = httpx.request(method, served.address + address, content=b"x" * 1000, timeout=60)
        assert answer.status_code == 405
        assert "access-control-allow-origin" not in answer.headers


def test_whoever_never_reads_or_stays_away_halfway_stops_nobody(served):
    idle = []
    for i in range(30):
        connection = socket.create_connection(("127.0.0.1", served.port), timeout=30)
        connection.sendall(
            b"GET /api/streams/visits/events-stream?after=0 HTTP/1.1\r\nHost: x\r\n\r\n" if i % 2 else b"GET / HT"
        )
        idle.append(connection)
    try:
        assert served.get("/streams/visits.html").status_code == 200
    finally:
        for connection in idle:
            connection.close()


def test_a_client_that_resets_leaves_no_traceback(made, monkeypatch, capfd):
    """Three requests at once, and gone after the first is answered: the second is answered to nobody."""
    asked, calls = threading.Event(), iter(range(3))

    def check(_):
        if next(calls) == 1:
            asked.set()
            while server._server.server_state.connections:
                time.sleep(0.01)

    monkeypatch.setattr(PublishedStore, "check", check)
    with Served(made / "counts.db") as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" * 3)
            assert asked.wait(60)
        while server._server.server_state.tasks:
            time.sleep(0.01)
    assert "Traceback" not in capfd.readouterr().err


def test_strange_queries_are_answered(served):
    """Random steps, dates, forms and headers: 200 or a refusal that says why, and never a failure of the server."""
    chance = random.Random(11)  # noqa: S311
    words = [
        "",
        "0",
        "-1",
        "1e9",
        "9" * 30,
        "2026-02-30",
        "2026-01-01T25:00",
        "％",
        "\x00",
        "null",
        "'; --",
        "NaN",
        "٣",
    ]
    for _ in range(40):
        query = {name: chance.choice(words) for name in ("from", "to") if chance.random() < 0.7}
        if chance.random() < 0.3:
            query["format"] = chance.choice([*words, "csv"])
        answer = served.get("/api/streams/visits/releases", params=query)
        assert answer.status_code in (200, 400), (query, answer.text)
        if answer.status_code == 400:
            assert answer.json()["message"]
    for after in words:
        with httpx.stream(
            "GET", f"{served.address}/api/streams/visits/events-stream", params={"after": after}, timeout=60
        ) as answer:
            assert answer.status_code in (200, 400), after
