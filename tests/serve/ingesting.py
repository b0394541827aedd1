"""A server that takes events, its writer in a thread: the same code as the process, without its start-up."""

import contextlib
import datetime as dt
import threading
import warnings

import httpx
import polars as pl
import uvicorn

import dpstream as dp
from dpstream.errors import CountWarning
from dpstream.events import last_step
from dpstream.serve import writer
from dpstream.serve.app import make_app
from dpstream.serve.server import listening_socket, server_settings
from dpstream.serve.writer_link import WriterLink
from dpstream.serve.writer_settings import WriterSettings

#: With this budget there is no noise: what is released is the truth.
EXACT = dp.zcdp(1e6)
#: A commit every so many seconds.
OFTEN = 0.02


def begin(path, name="visits", start="2026-01-01T00:00", every="1h", **more):
    """Make a stream of hours that has released nothing yet, and a token for it."""
    settings = {"time": "when", "every": every, "start": start, "through": start, "horizon": 10_000, "budget": EXACT}
    rows = pl.DataFrame({"when": [], "who": [], "ward": []}, schema=dict.fromkeys(("when", "who", "ward"), pl.String))
    with standing_clock(), warnings.catch_warnings():
        warnings.simplefilter("ignore", CountWarning)
        dp.count(rows, **settings | more, time_zone="UTC", store=path, name=name)
    with dp.Store(path) as store:
        return store.tokens.create(f"for {name}", [name])


@contextlib.contextmanager
def standing_clock():
    """The clock of the package stands, while a stream is made, before its second step ends."""
    really, last_step.now = last_step.now, lambda: dt.datetime(2026, 1, 1, 0, 30, tzinfo=dt.UTC)
    try:
        yield
    finally:
        last_step.now = really


class ThreadLink(WriterLink):
    """A link to a writer in a thread."""

    def _begin(self, theirs):
        def run():
            with theirs:
                writer.main(self._path, theirs, self._settings)

        self._thread = threading.Thread(target=run)
        self._thread.start()

    def end(self):
        super().end()
        self._thread.join(60)


class Ingesting:
    """A server that takes events."""

    def __init__(self, path, token="", limits=None, commit_every=OFTEN, **options):
        self.link = ThreadLink(path, WriterSettings(commit_every))
        self.link.start()
        self.token = token
        self._socket = listening_socket("127.0.0.1", 0)
        self.port = self._socket.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        self._server = uvicorn.Server(server_settings(make_app(path, writer=self.link, limits=limits, **options)))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]})
        self._thread.start()

    def post(self, events, key, *, stream="visits", kind="application/json", token=None, **headers):
        given = {
            "authorization": f"Bearer {self.token if token is None else token}",
            "content-type": kind,
            "idempotency-key": key,
            **headers,
        }
        body = {"content": events} if isinstance(events, bytes) else {"json": events}
        headers = {name: value for name, value in given.items() if value is not None}
        return httpx.post(f"{self.address}/api/streams/{stream}/events", headers=headers, timeout=60, **body)

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
