"""A store with releases to look at, made once."""

import json
import shutil
import threading

import httpx
import numpy as np
import pytest
import uvicorn

import dpstream as dp
from dpstream.mechanisms import SmoothBinary
from dpstream.serve.app import make_app
from dpstream.serve.server import listening_socket, server_settings

DAYS = 100
SOURCE = {"time": "when", "every": "1d", "start": "2026-01-01"}
WARDS = ["surgery", '<script>alert("ward")</script>', "A&E, 'night'"]
EVIL = '<script>alert(1)</script>" onmouseover="x'


def open_visits(store, name="visits", **more):
    return store.counter(
        name, 3650, dp.zcdp(0.5), mechanism=SmoothBinary(3650), source=json.dumps(SOURCE | more), open_steps=4
    )


def fill(path):
    chance = np.random.default_rng(7)
    with dp.Store(path) as store:
        open_visits(store).extend(chance.integers(80, 120, DAYS))
        wards = store.counter(
            "by ward/2026",
            400,
            dp.approx_dp(1, 1e-6),
            shape=3,
            mechanism=SmoothBinary(400),
            source=json.dumps(SOURCE | {"by": "ward", "categories": WARDS}),
        )
        wards.extend(chance.integers(5, 40, (30, 3)))
        store.counter(EVIL, 10, dp.pure_dp(1.0), mechanism=SmoothBinary(10, noise="laplace")).extend([1, 2])
        store.counter("x" * 200, None, dp.zcdp(0.1))
        store.running_sum("gradients", 10, dp.zcdp(1.0), shape=4)


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("serve")
    fill(folder / "counts.db")
    return folder


@pytest.fixture
def path(made, tmp_path):
    """A copy that a test may write to; it stays on the disk, so the store goes on with `adopt`."""
    for suffix in ("", ".key", ".witness"):
        shutil.copy2(made / f"counts.db{suffix}", tmp_path / f"counts.db{suffix}")
    with dp.Store(tmp_path / "counts.db", adopt=True):
        pass
    return tmp_path / "counts.db"


class Served:
    """A server in a thread, on a port of its own."""

    def __init__(self, path, port=0, **options):
        self._socket = listening_socket("127.0.0.1", port)
        self.port = self._socket.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        self._server = uvicorn.Server(server_settings(make_app(path, **options)))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]})
        self._thread.start()

    def get(self, address, **options):
        return httpx.get(self.address + address, timeout=60, **options)

    def stop(self):
        self._server.should_exit = True
        self._thread.join(60)
        self._socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


@pytest.fixture(scope="session")
def served(made):
    with Served(made / "counts.db") as server:
        yield server
