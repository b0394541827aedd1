"""The server benchmarks: live connections, requests, latency, durable ingest, and memory, on loopback.

As many requests as can be are made by wrk (`apt-get install wrk`) if it is there, else by the client of this file, a
process of its own: it keeps connections open, sends prepared requests and reads answers by their length. What the
client costs is said beside each figure. Server and client may use all cores of this machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import os
import re
import resource
import shutil
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
#: The requests after which memory is looked at are ended after so many seconds, so that a run has an end.
MOST_SECONDS = 200.0
PAGES = ("/", "/api/streams", "/streams/visits.html", "/api/streams/visits/releases", "/metrics")
WRK_SCRIPT = """
local pages, i = {%s}, 0
request = function() i = i %% #pages + 1; return wrk.format("GET", pages[i]) end
done = function(summary, latency)
  local failed = summary.errors.status + summary.errors.connect + summary.errors.read + summary.errors.timeout
  local p99 = latency:percentile(99)
  io.write(string.format("RESULT %%d %%d %%f %%d\\n", summary.requests, summary.duration, p99, failed))
end
"""


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
    """Open live connections, say so, keep them open, and say when all of them were told of a release."""

    async def one() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /api/streams/ticks/events-stream HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"retry: 1000")
        return reader, writer  # a writer that nobody holds closes its connection

    opened = [await one() for _ in range(count)]
    print("open", flush=True)
    await asyncio.gather(*(reader.readuntil(b"event: release") for reader, _ in opened))
    print("told", flush=True)


def client(what: str, port: int, *rest: str) -> None:
    """Be the client."""
    if what == "live":
        asyncio.run(stay_live(port, int(rest[0])))
    elif what == "read":
        requests = [f"GET {page} HTTP/1.1\r\nHost: x\r\n\r\n".encode() for page in PAGES]
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
                budget=dp.approx_dp(1, 1e-6), store=path, name="visits", through="now",
            )  # fmt: skip
        with dp.Store(path) as store:
            token = store.tokens.create("bench")
            store.counter("ticks", 1000, dp.zcdp(0.5), mechanism=dp.mechanisms.SmoothBinary(1000)).add(1)
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
    """Run the client to its end; return what it found, and its processor time."""
    began = _children_seconds()
    run = subprocess.run(  # noqa: S603 - this file
        [sys.executable, __file__, *map(str, arguments)], capture_output=True, text=True, check=True,
        preexec_fn=_all_cores,
    )  # fmt: skip
    found: dict[str, float] = json.loads(run.stdout)
    return found | {"client": _children_seconds() - began}


def read_all(port: int, seconds: float) -> dict[str, float]:
    """Make as many requests as can be, by wrk if it is there."""
    wrk = os.environ.get("DPSTREAM_WRK") or shutil.which("wrk")
    if wrk is None:
        return ask("read", port, seconds, 0)
    began = _children_seconds()
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(WRK_SCRIPT % ", ".join(f'"{page}"' for page in PAGES))
        script.flush()
        command = [wrk, "-t1", "-c32", f"-d{seconds:.0f}s", "-s", script.name, f"http://127.0.0.1:{port}"]
        run = subprocess.run(command, capture_output=True, text=True, check=True, preexec_fn=_all_cores)  # noqa: S603
    line = re.search(r"RESULT (\d+) (\d+) ([\d.]+) (\d+)", run.stdout)
    assert line is not None, run.stdout
    requests, microseconds, p99, failed = (float(part) for part in line.groups())
    if failed:
        raise SystemExit(run.stdout)
    return {
        "requests": requests,
        "rate": requests / microseconds * 1e6,
        "p99": p99 / 1000,
        "client": _children_seconds() - began,
    }


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _megabytes(pid: int) -> float:
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) / 1024  # type: ignore[index]


def _row(work: str, ours: float, wanted: float, unit: str, *, at_most: bool = False):  # type: ignore[no-untyped-def]
    from measure import Row

    ratio = wanted / ours if at_most else ours / wanted
    said = f"≤ {wanted:g}" if at_most else f"≥ {wanted:g}"
    return Row(work, "wanted", ours, wanted, unit, ratio, said, ratio >= 1)


def reading():  # type: ignore[no-untyped-def]
    """Pages and the API, with live connections open, as many as can be and at half of what is wanted."""
    import dpstream as dp

    by = "wrk" if os.environ.get("DPSTREAM_WRK") or shutil.which("wrk") else "a Python client: wrk is not installed"
    with served() as (port, _, pid, path):
        command = [sys.executable, __file__, "live", str(port), str(LIVE)]
        live = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=_all_cores)  # noqa: S603
        try:
            assert live.stdout is not None
            opened = live.stdout.readline().strip() == "open"
            yield _row(f"live connections open ({LIVE:,} asked for)", LIVE if opened else 0, LIVE, "")
            for page in PAGES:  # made once, which takes seconds for a stream of 100,000 steps
                urllib.request.urlopen(f"http://127.0.0.1:{port}{page}").read()
            read_all(port, 2.0)
            before, used = _megabytes(pid), _seconds(pid)
            most = read_all(port, SECONDS)
            cost, own = (1000 * part / most["requests"] for part in (_seconds(pid) - used, most["client"]))
            half = ask("read", port, SECONDS, 1000)
            client = 1000 * half["client"] / half["requests"]
            yield _row(
                f"pages and API, as many as can be (by {by}: {own:.3f} ms a request)", most["rate"], 2000, "a second"
            )
            yield _row("processor time of the server, a request", cost, 0.2, "ms", at_most=True)
            yield _row(
                f"pages and API at {half['rate']:.0f} a second, p99 (by a Python client: {client:.2f} ms a request)",
                half["p99"], 100, "ms", at_most=True,
            )  # fmt: skip
            done, until = most["requests"] + half["requests"], time.monotonic() + MOST_SECONDS
            while done < REQUESTS and time.monotonic() < until:
                done += read_all(port, 5.0 if QUICK else 20.0)["requests"]
            grown = max(_megabytes(pid) - before, 0.01)
            yield _row(f"memory after {done:,.0f} requests, grown by", grown, 30, "MB", at_most=True)
            with dp.Store(path) as store:
                ticks = store.counter("ticks", 1000, dp.zcdp(0.5), mechanism=dp.mechanisms.SmoothBinary(1000))
                ticks.add(1)
                began = time.perf_counter()
                told = live.stdout.readline().strip() == "told"
            taken = 1000 * (time.perf_counter() - began) if told else float("inf")
            yield _row(f"a release is told to all {LIVE:,} live connections, after", taken, 2000, "ms", at_most=True)
        finally:
            live.kill()
            live.wait()


def ingesting():  # type: ignore[no-untyped-def]
    """Events in batches of 100, each batch answered when it is on the disk."""
    import dpstream as dp

    with served("--ingest", "--max-rate", "100000") as (port, token, pid, path):
        written = _written(path)
        time.sleep(5)
        idle = (_written(path) - written) / 5000
        used = _seconds(pid)
        found = ask("send", port, token, SECONDS)
        cost, own = (1000 * part / found["requests"] for part in (_seconds(pid) - used, found["client"]))
        yield _row(
            f"events in batches of 100, durable (server without writer {cost:.2f}, Python client {own:.2f} ms a batch)",
            100 * found["rate"], 20_000, "events/s",
        )  # fmt: skip
        yield _row("a batch of 100 is answered, p99", found["p99"], 3000, "ms", at_most=True)
        with dp.Store(path) as store:  # which reads what is waiting, beside the writer
            waiting = int(store.true_data.open_steps("visits").tallies.sum())
        yield _row("events in the open step over events answered", waiting / (100 * found["requests"]), 1, "")
        yield _row("written to the disk while nothing comes", idle, 500, "kB/s", at_most=True)


def _written(path: Path) -> int:
    """Bytes that the processes that have this store open for writing have sent to the disk."""
    total = 0
    for status in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if b"dpstream.serve.writer" in status.read_bytes() and str(path).encode() in status.read_bytes():
                total += int(re.search(r"^write_bytes: (\d+)", (status.parent / "io").read_text(), re.M)[1])  # type: ignore[index]
    return total


ALL = [reading, ingesting]

if __name__ == "__main__":
    client(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
