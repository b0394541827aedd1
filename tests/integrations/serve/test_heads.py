"""Connections whose request does not come or has no end, and clients that do not read: closed after a while."""

import contextlib
import socket
import time

import httpx
import numpy as np
import pytest

import dpstream as dp
from dpstream.mechanisms import SmoothBinary
from dpstream.serve import answers, http_protocol
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


def test_a_slow_head_is_closed_also_after_a_good_request(server):
    with connected(server) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        seen = b""
        while not seen.endswith(b"ok\n"):
            seen += connection.recv(4096)
        connection.settimeout(0.1)
        with contextlib.suppress(ConnectionError):  # it was closed while this was sent
            connection.sendall(b"GET / HTTP/1.1\r\n")
            for i in range(100):  # twenty times as long as a head may take
                connection.sendall(b"X-%d: y\r\n" % i)
                with contextlib.suppress(TimeoutError):
                    assert connection.recv(100) == b""
                    break
            else:
                raise AssertionError("it is still open")
    assert server.get("/healthz").status_code == 200


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A store whose releases are 8 MB of JSON, which is more than sockets hold."""
    path = tmp_path_factory.mktemp("large") / "counts.db"
    with dp.Store(path) as store:
        many = store.counter("many", 400, dp.zcdp(0.5), shape=250, mechanism=SmoothBinary(400))
        many.extend(np.full((300, 250), 3))
    return path


def test_clients_that_do_not_read_are_dropped(large, monkeypatch):
    """They may wait for so many bytes of answers that are not kept, and only for so long."""
    monkeypatch.setattr(http_protocol, "TAKEN_SECONDS", 3.0, raising=False)
    monkeypatch.setattr(answers, "MOST_UNDER_WAY", 1 << 20, raising=False)
    with Served(large) as server:
        address = "/api/streams/many/releases"
        whole = len(server.get(address).content)
        assert whole > 5_000_000
        idle = []
        for query in ("?from=1", ""):
            connection = socket.socket()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
            connection.settimeout(60)
            connection.connect(("127.0.0.1", server.port))
            connection.sendall(f"GET {address}{query} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert connection.recv(12) == b"HTTP/1.1 200"
            idle.append(connection)
        refused = server.get(f"{address}?from=2")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        assert server.get(address).status_code == 200  # which is kept: it takes no memory
        for _ in range(300):
            if server.get(f"{address}?from=2").status_code == 200:
                break
            time.sleep(0.1)
        else:
            raise AssertionError("the memory was not given back")
        time.sleep(3.5)
        for connection in idle:
            taken = 12
            with connection, contextlib.suppress(ConnectionError):
                while piece := connection.recv(1 << 20):
                    taken += len(piece)
            assert taken < whole


def test_a_slow_reader_gets_everything(large, monkeypatch):
    monkeypatch.setattr(http_protocol, "TAKEN_SECONDS", 1.0, raising=False)
    with Served(large) as server, httpx.stream("GET", f"{server.address}/api/streams/many/releases?to=300") as answer:
        taken = 0
        for piece in answer.iter_raw(1 << 18):
            taken += len(piece)
            time.sleep(0.1)
        assert taken == int(answer.headers["content-length"]) > 5_000_000


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
