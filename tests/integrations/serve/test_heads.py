"""Connections whose request does not come, or has no end: closed after a while, refused after so many bytes."""

import socket

import pytest

from dpstream.serve import http_protocol
from tests.serve.conftest import Served, made  # noqa: F401


@pytest.fixture
def server(made, monkeypatch):  # noqa: F811
    monkeypatch.setattr(http_protocol, "HEAD_SECONDS", 0.5)
    with Served(made / "counts.db") as server:
        yield server


def connected(server):
    return socket.create_connection(("127.0.0.1", server.port), timeout=60)


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "])
def test_half_open_connections_are_closed(server, sent):
    with connected(server) as connection:
        connection.sendall(sent)
        assert connection.recv(100) == b""  # within the minute that the socket waits
    assert server.get("/healthz").status_code == 200


def test_live_connections_stay(server):
    """The limit is on the head of a request, not on an answer that has no end."""
    with connected(server) as connection:
        connection.sendall(b"GET /api/streams/visits/events-stream?after=99 HTTP/1.1\r\nHost: x\r\n\r\n")
        seen = b""
        while b"id: 100" not in seen:
            seen += connection.recv(4096)
        connection.settimeout(2.0)  # four times the limit
        with pytest.raises(TimeoutError):
            while True:
                assert connection.recv(4096) != b""


def test_a_head_without_end_is_refused(server):
    with connected(server) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")
        seen = b""
        try:
            for i in range(3000):
                connection.sendall(b"X-%d: " % i + b"y" * 1000 + b"\r\n")
        except OSError:  # it was closed meanwhile
            pass
        else:
            seen = connection.recv(100)
        assert seen[:12] in (b"", b"HTTP/1.1 400")
    assert server.get("/healthz").status_code == 200
