"""Kills a server that takes events, again and again, while clients send, retry and read; then counts.

usage: python -m tests.integrations.serve.torture_ingest [--kills 100] [--seed 1] [--sabotage again|early]

Each client sends batches, each with a key of its own, and sends a batch again until it is answered with 200. Meanwhile
server and writer are killed (both, or one of them), and started again. Everything that is ever read is remembered. In
the end, when all steps have closed, each client's released total must be the number of events that it sent (the budget
is so large that there is no noise): fewer are lost, more are doubled; and no release that was ever read may differ from
that of the end. With --sabotage the writer is broken on purpose, which must be found:

again   it does not recognise batches that come again -> doubled
early   it answers before it commits                  -> lost

The last line says what was found. Exit status 1 if anything was.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import httpx
import polars as pl

import dpstream as dp
from dpstream.serve import writer, writer_link
from dpstream.serve.server import listening_socket, run_server
from dpstream.serve.writer_settings import WriterSettings

CLIENTS = 4
COMMIT_EVERY = 0.05
NAMES = [f"client {i}" for i in range(CLIENTS)]
ME = [sys.executable, "-m", "tests.integrations.serve.torture_ingest"]


# -- the server, broken or not ----------------------------------------------------------------------------------------


def serve(path: str, port: int, sabotage: str) -> None:
    """Run the server; its writer is this file, which breaks it if asked to."""

    def begin(self, theirs):
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - this file
                [*ME, "writer", path, sabotage], stdin=theirs.fileno(), start_new_session=True
            )
        Path(path).with_name("writer.pid").write_text(str(self._process.pid))

    writer_link.WriterLink._begin = begin
    run_server(path, listening_socket("127.0.0.1", port), writer=WriterSettings(COMMIT_EVERY))


def write(path: str, sabotage: str) -> None:
    """Be the writer."""
    if sabotage == "again":
        from dpstream.store.batch_memory import BatchMemory

        BatchMemory.knows = lambda *_: False
    if sabotage == "early":
        really = writer.Writer._commit_all

        def early(self):
            for stream in self._streams.values():
                for one in stream.waiting:
                    rows = {"repeated": False, "rows": one.batch.frame.height}
                    self._send({"id": one.number, "status": 200, "answer": rows})
            time.sleep(0.2)  # time passes: most kills come here
            really(self)

        writer.Writer._commit_all = early
    writer.main(path, socket.socket(fileno=0), WriterSettings(COMMIT_EVERY))


# -- clients ----------------------------------------------------------------------------------------------------------


class Torture:
    """A server that is killed, its clients, and what they saw."""

    def __init__(self, folder: Path, seed: int, sabotage: str) -> None:
        self.path, self.sabotage = folder / "counts.db", sabotage
        self.chance = random.Random(seed)  # noqa: S311
        self.seen: dict[tuple[int, str], int] = {}
        self.changed: set[tuple[int, str]] = set()
        self.sent = dict.fromkeys(NAMES, 0)
        self.again = 0
        self.ending = threading.Event()
        start = dt.datetime.now(dt.UTC).replace(microsecond=0) - dt.timedelta(seconds=5)
        self.horizon = 50_000
        rows = pl.DataFrame({"when": [], "who": []}, schema={"when": pl.String, "who": pl.String})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dp.count(
                rows, time="when", every="2s", start=start.replace(tzinfo=None).isoformat(), time_zone="UTC",
                horizon=self.horizon, budget=dp.zcdp(1e6), by="who", values=NAMES, store=self.path, name="visits",
            )  # fmt: skip
        with dp.Store(self.path) as store:
            self.token = store.tokens.create("clients")
        with listening_socket("127.0.0.1", 0) as free:
            self.port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        self.server: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        log = (self.path.parent / "log").open("ab")
        self.server = subprocess.Popen(  # noqa: S603 - this file
            [*ME, "server", str(self.path), str(self.port), self.sabotage], stderr=log, start_new_session=True
        )
        log.close()
        for _ in range(1200):
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(f"{self.address}/healthz", timeout=5).status_code == 200:
                    return
            if self.server.poll() is not None:
                raise SystemExit("the server did not start:\n" + (self.path.parent / "log").read_text()[-3000:])
            time.sleep(0.05)
        raise SystemExit("the server does not answer")

    def kill(self) -> None:
        """Kill the server, its writer, or both."""
        which = self.chance.choice(("both", "server", "writer"))
        pid = int((self.path.parent / "writer.pid").read_text())
        if which in ("both", "writer"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if which in ("both", "server"):
            assert self.server is not None
            self.server.kill()
            self.server.wait()
            self.start()

    def client(self, name: str, seed: int) -> None:
        """Send batches until the end, each until it is stored."""
        chance = random.Random(seed)  # noqa: S311
        number = 0
        while not self.ending.is_set():
            number += 1
            now = dt.datetime.now(dt.UTC)
            events = [
                {"when": (now + dt.timedelta(seconds=chance.choice((-3, 0, 0, 0, 2)))).isoformat(), "who": name}
                for _ in range(chance.randint(1, 50))
            ]
            # Keys of some batches are used again right after they were answered: as a client that lost the answer.
            self.send(name, f"{name.replace(' ', '-')}-{number}", events)
            self.sent[name] += len(events)
            if chance.random() < 0.2:
                self.send(name, f"{name.replace(' ', '-')}-{number}", events)

    def send(self, name: str, key: str, events: list[dict[str, str]]) -> None:
        headers = {"authorization": f"Bearer {self.token}", "idempotency-key": key}
        attempt = 0
        while True:
            attempt += 1
            with contextlib.suppress(httpx.HTTPError):
                answer = httpx.post(
                    f"{self.address}/api/streams/visits/events", json=events, headers=headers, timeout=10
                )
                if answer.status_code == 200:
                    self.again += attempt > 1
                    return
                if answer.status_code not in (503, 429):
                    raise SystemExit(f"{answer.status_code}: {answer.text}")
            time.sleep(0.05)

    def look(self) -> None:
        """Read releases, and remember them."""
        with contextlib.suppress(httpx.HTTPError, json.JSONDecodeError):
            answer = httpx.get(f"{self.address}/api/streams/visits/releases", timeout=20)
            if answer.status_code == 200:
                self.remember(answer.json()["releases"])

    def remember(self, releases: list[dict[str, object]]) -> None:
        for one in releases:
            place = (one["step"], one["category"])
            if self.seen.setdefault(place, one["value"]) != one["value"]:
                self.changed.add(place)

    def run(self, kills: int) -> dict[str, int]:
        """Kill so many times; return what was found."""
        self.start()
        clients = [
            threading.Thread(target=self.client, args=(name, self.chance.getrandbits(32)), daemon=True)
            for name in NAMES
        ]
        for one in clients:
            one.start()
        for i in range(kills):
            before, patience = sum(self.sent.values()), time.monotonic() + 60
            while sum(self.sent.values()) == before and time.monotonic() < patience:  # a writer that works is killed
                time.sleep(0.01)
            time.sleep(self.chance.uniform(0.0, 0.4))
            if i % 5 == 0:
                self.look()
            self.kill()
        self.ending.set()
        for one in clients:
            one.join(120)
        if any(one.is_alive() for one in clients):
            raise SystemExit("a client was not answered")
        time.sleep(7)  # the steps of the last events close
        self.look()
        assert self.server is not None
        self.server.send_signal(signal.SIGINT)
        self.server.wait(60)
        with dp.Store(self.path) as store:
            values = store.release_values("visits")
            assert store.verify("visits").ok
            waiting = store.true_data.open_steps("visits").tallies.sum(axis=0)
        for step, row in enumerate(values, start=1):
            self.remember([{"step": step, "category": n, "value": int(v)} for n, v in zip(NAMES, row, strict=True)])
        stored = {name: int(values[-1][i] + waiting[i]) for i, name in enumerate(NAMES)}
        return {
            "kills": kills,
            "events": sum(self.sent.values()),
            "sent again": self.again,
            "steps": len(values),
            "lost": sum(max(0, self.sent[name] - stored[name]) for name in NAMES),
            "doubled": sum(max(0, stored[name] - self.sent[name]) for name in NAMES),
            "changed": len(self.changed),
        }


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sabotage", choices=("again", "early"), default="")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        torture = Torture(Path(folder), given.seed, given.sabotage)
        try:
            found = torture.run(given.kills)
        finally:
            torture.ending.set()
            if torture.server is not None and torture.server.poll() is None:
                torture.server.kill()
                torture.server.wait()
    print(json.dumps(found))
    return int(bool(found["lost"] or found["doubled"] or found["changed"]))


if __name__ == "__main__":
    if sys.argv[1:2] == ["server"]:
        serve(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    elif sys.argv[1:2] == ["writer"]:
        write(sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else "")
    else:
        sys.exit(main())
