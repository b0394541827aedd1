"""The server benchmarks: live connections, requests, latency, durable ingest, and memory, on loopback.

The client is a process of its own (this file, run as a program), written for the purpose: it keeps connections open,
sends prepared requests and reads answers by their length, so that most of the time is the server's. Both may use all
cores of this machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
import warnings
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
#: A quick run, to see that everything works, has a hundredth of the requests.
QUICK = bool(os.environ.get("DPSTREAM_BENCH_QUICK"))
REQUESTS = 10_000 if QUICK else 1_000_000
LIVE = 100 if QUICK else 1000
SECONDS = 3.0 if QUICK else 15.0


# -- the client -------------------------------------------------------------------------------------------------------


async def one_connection(port: int, requests: list[bytes], until: float, gap: float, times: list[float]) -> None:
    """Send requests one after the other, or one every `gap` seconds, until a moment; note how long each took."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    number, following = 0, time.perf_counter() + gap * (id(reader) % 97) / 97
    while time.perf_counter() < until:
        if gap:
            await asyncio.sleep(max(0.0, following - time.perf_counter()))
            following += gap
        # From when it was due: a server that is late is late for everybody behind.
        began = min(time.perf_counter(), following) if gap else time.perf_counter()
        writer.write(requests[number % len(requests)])
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        await reader.readexactly(int(length[1]) if length else 0)
        if b" 200 " not in head[:20] and b" 304 " not in head[:20]:
            raise SystemExit(head.decode())
        times.append(time.perf_counter() - began)
        number += 1
    writer.close()


async def load(port: int, requests: list[list[bytes]], seconds: float, rate: float) -> dict[str, float]:
    """Keep a connection for each list of requests busy: `rate` requests a second in all, 0: as many as can be."""
    times: list[float] = []
    began = time.perf_counter()
    gap = len(requests) / rate if rate else 0.0
    await asyncio.gather(*(one_connection(port, own, began + seconds, gap, times) for own in requests))
    taken = time.perf_counter() - began
    times.sort()
    return {"requests": len(times), "rate": len(times) / taken, "p99": times[int(0.99 * (len(times) - 1))] * 1000}


async def stay_live(port: int, count: int) -> None:
    """Open live connections, say so, and keep them open."""

    async def one() -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /api/streams/visits/events-stream HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"retry: 1000")
        return reader

    readers = [await one() for _ in range(count)]
    print("open", flush=True)
    with contextlib.suppress(asyncio.IncompleteReadError):  # until the server ends
        await asyncio.gather(*(reader.readuntil(b"event: release") for reader in readers))


def client(what: str, port: int, *rest: str) -> None:
    """Be the client."""
    if what == "live":
        asyncio.run(stay_live(port, int(rest[0])))
    elif what == "read":
        pages = ("/", "/api/streams", "/streams/visits.html", "/api/streams/visits/releases", "/metrics")
        requests = [f"GET {page} HTTP/1.1\r\nHost: x\r\n\r\n".encode() for page in pages]
        print(json.dumps(asyncio.run(load(port, [requests] * 32, float(rest[0]), float(rest[1])))))
    else:
        token, seconds, now = rest[0], float(rest[1]), dt.datetime.now(dt.UTC)
        body = json.dumps([{"when": now.isoformat(), "who": f"u{i}"} for i in range(100)]).encode()
        head = "POST /api/streams/visits/events HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        head += f"Authorization: Bearer {token}\r\nContent-Length: {len(body)}\r\nIdempotency-Key: "
        several = [
            [f"{head}{time.time_ns()}-{i}-{j}\r\n\r\n".encode() + body for j in range(int(seconds) * 4 + 8)]
            for i in range(512)
        ]
        print(json.dumps(asyncio.run(load(port, several, seconds, 0.0))))


# -- the server -------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def served(*options: str) -> Iterator[tuple[int, str, int, Path]]:
    """Yield port, token, process number and store of a server whose stream has a month of hours behind it."""
    import polars as pl

    import dpstream as dp

    with tempfile.TemporaryDirectory() as made:
        path = Path(made) / "counts.db"
        start = (dt.datetime.now(dt.UTC) - dt.timedelta(days=30)).strftime("%Y-%m-%dT%H:00")
        rows = pl.DataFrame({"when": [], "who": []}, schema={"when": pl.String, "who": pl.String})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dp.count(
                rows, time="when", every="1h", start=start, time_zone="UTC", horizon=100_000,
                budget=dp.approx_dp(1, 1e-6), store=path, name="visits",
            )  # fmt: skip
        with dp.Store(path) as store:
            token = store.tokens.create("bench")
        server = subprocess.Popen(  # noqa: S603 - this program
            [sys.executable, "-m", "dpstream", "serve", str(path), "--port", "0", *options],
            stdout=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=_all_cores,
        )  # fmt: skip
        try:
            assert server.stdout is not None
            port = int(re.search(r":(\d+)/", server.stdout.readline())[1])  # type: ignore[index]
            for _ in range(200):
                with contextlib.suppress(OSError):
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz").read()
                    break
                time.sleep(0.1)
            yield port, token, server.pid, path
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(60)


def _all_cores() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, range(os.cpu_count() or 1))


def ask(*arguments: object) -> dict[str, float]:
    """Run the client to its end; return what it found."""
    run = subprocess.run(  # noqa: S603 - this file
        [sys.executable, __file__, *map(str, arguments)], capture_output=True, text=True, check=True,
        preexec_fn=_all_cores,
    )  # fmt: skip
    found: dict[str, float] = json.loads(run.stdout)
    return found


def _megabytes(pid: int) -> float:
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) / 1024  # type: ignore[index]


def _row(work: str, ours: float, wanted: float, unit: str, *, at_most: bool = False):  # type: ignore[no-untyped-def]
    from measure import Row

    ratio = wanted / ours if at_most else ours / wanted
    said = f"≤ {wanted:g}" if at_most else f"≥ {wanted:g}"
    return Row(work, "issue", ours, wanted, unit, ratio, said, ratio >= 1)


def reading():  # type: ignore[no-untyped-def]
    """Pages and the API, with live connections open, as many as can be and at half of what is wanted."""
    with served() as (port, _, pid, _path):
        command = [sys.executable, __file__, "live", str(port), str(LIVE)]
        live = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=_all_cores)  # noqa: S603
        try:
            assert live.stdout is not None
            opened = live.stdout.readline().strip() == "open"
            ask("read", port, 2.0, 0)
            before = _megabytes(pid)
            most = ask("read", port, SECONDS, 0)
            half = ask("read", port, SECONDS, 1000)
            yield _row(f"live connections open ({LIVE:,} asked for)", LIVE if opened else 0, LIVE, "")
            yield _row("pages and API, as many as can be", most["rate"], 2000, "a second")
            yield _row("pages and API at 1,000 a second, p99", half["p99"], 100, "ms", at_most=True)
            done = most["requests"] + half["requests"]
            while done < REQUESTS:
                done += ask("read", port, 30.0, 0)["requests"]
            grown = max(_megabytes(pid) - before, 0.01)
            yield _row(f"memory after {REQUESTS:,} requests, grown by", grown, 30, "MB", at_most=True)
        finally:
            live.kill()
            live.wait()


def ingesting():  # type: ignore[no-untyped-def]
    """Events in batches of 100, each batch answered when it is on the disk."""
    import dpstream as dp

    with served("--ingest", "--max-rate", "100000") as (port, token, _, path):
        found = ask("send", port, token, SECONDS)
        yield _row("events in batches of 100, durable", 100 * found["rate"], 20_000, "events/s")
        yield _row("a batch of 100 is answered, p99", found["p99"], 3000, "ms", at_most=True)
        with dp.Store(path) as store:  # which reads what is waiting, beside the writer
            waiting = store.true_data.open_steps("visits").tallies.sum()
        yield _row("events in the open step over events answered", waiting / (100 * found["requests"]), 1, "")


ALL = [reading, ingesting]

if __name__ == "__main__":
    client(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
