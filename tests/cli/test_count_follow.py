"""`dpstream count --follow` and real processes: pipes that stay open, Ctrl-C, readers that go away."""

import csv
import datetime as dt
import io
import os
import signal
import subprocess
import sys
import time

import pytest

import dpstream as dp
from tests.store.conftest import path  # noqa: F401

COMMAND = [sys.executable, "-m", "dpstream", "count"]
USUAL = ["--time", "when", "--rho", "0.5", "--horizon", "50000", "--mechanism", "SmoothBinary", "--from", "2026-01-01"]
#: Longer than starting a process takes on a busy machine.
PATIENCE = 60


def start(*arguments, **more):
    environment = os.environ | {"COLUMNS": "500", "NO_COLOR": "1", "PYTHONUNBUFFERED": ""}
    return subprocess.Popen(  # noqa: S603
        [*COMMAND, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        # Tests that run in the background have Ctrl-C switched off, and so would their children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        **more,
    )


@pytest.fixture
def following():
    """Starts processes, and ends what a failed test leaves behind."""
    started = []

    def follow(*arguments, usual=USUAL):
        started.append(start(*usual, "--follow", *arguments))
        return started[-1]

    yield follow
    for process in started:
        process.kill()
        process.communicate()


def interrupt(process):
    """Ctrl-C; once more if it came in the instant before a read began, in which Python does not hear it."""
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=PATIENCE / 3)
        except subprocess.TimeoutExpired:
            continue
        return


def feed(process, text):
    process.stdin.write(text.encode())
    process.stdin.flush()


def test_a_release_appears_as_soon_as_its_step_closes(following, path):  # noqa: F811
    process = following("--store", path)
    feed(process, "when\n2026-01-01\n2026-01-01\n2026-01-03\n")
    header, first, second = (process.stdout.readline().decode() for _ in range(3))
    assert header == "step,start,value,stddev,low,high\n"
    assert first.startswith("1,2026-01-01,")
    assert second.startswith("2,2026-01-02,")
    # The pipe is still open, and half a line is no row yet.
    feed(process, "2026-01-02\n2026-01-04\n2026-")
    assert process.stdout.readline().startswith(b"3,2026-01-03,")
    with dp.Store(path) as store:
        assert store.streams()[0].t == 3
    feed(process, "01-03\n2026-01-06\n")
    assert [process.stdout.readline()[:12] for _ in range(2)] == [b"4,2026-01-04", b"5,2026-01-05"]
    rest, said = process.communicate(timeout=PATIENCE)
    assert rest.startswith(b"6,2026-01-06,")
    assert process.returncode == 0
    assert "warning: 2 rows came too late, for steps already released, and were not counted." in said.decode()
    with dp.Store(path) as store:
        assert store.true_data.inputs("count", 1, 6).tolist() == [2, 0, 1, 1, 0, 1]
        assert store.verify("count").ok
    # Another day: old rows are recognised, new ones counted.
    process = following("--store", path, "--json")
    rest, said = process.communicate(b"when\n2026-01-06\n2026-01-07\n", timeout=PATIENCE)
    assert rest.startswith(b'{"step":7,"start":"2026-01-07",')
    assert rest.count(b"\n") == 1
    assert b"6 steps were released in earlier runs" in said


@pytest.mark.heavy
def test_rows_as_steps_are_released_at_once(following, path):  # noqa: F811
    sums = (
        "--every",
        "row",
        "--value",
        "n",
        "--per-person",
        "9",
        "--rho",
        "0.5",
        "--horizon",
        "5",
        "--mechanism",
        "Binary",
    )
    process = following("--store", path, usual=sums)
    feed(process, "n\n4\n")
    assert process.stdout.readline().startswith(b"step,value")
    assert process.stdout.readline().startswith(b"1,")
    feed(process, "7\n")
    assert process.stdout.readline().startswith(b"2,")
    feed(process, "10\n")  # more than the bound: refused, and what was released stays
    rest, said = process.communicate(timeout=PATIENCE)
    assert (rest, process.returncode) == (b"", 2)
    assert b"standard input, line 4, column 'n': expected a whole number from -9 to 9" in said
    with dp.Store(path) as store:
        assert store.true_data.inputs("count", 1, 2).tolist() == [4, 7]
    # A process that goes on sees all rows again, a few at a time.
    process = following("--store", path, usual=sums)
    feed(process, "n\n4\n")
    time.sleep(0.2)  # so that it comes as a table of its own
    feed(process, "7\n1\n")
    rest, said = process.communicate(timeout=PATIENCE)
    assert [row["step"] for row in csv.DictReader(io.StringIO(rest.decode()))] == ["3"], said


def test_interrupted_with_a_store(following, path):  # noqa: F811
    process = following("--store", path)
    feed(process, "when\n2026-01-01\n2026-01-03\n")
    assert [process.stdout.readline()[:1] for _ in range(3)] == [b"s", b"1", b"2"]
    interrupt(process)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    last = said.decode().splitlines()[-1]
    assert last.startswith(f"dpstream count: interrupted. 2 steps are safe in {path}. Run the same command again")
    assert "2026-01-03 00:00:00" in last
    assert b"Traceback" not in said
    with dp.Store(path) as store:
        assert store.true_data.inputs("count", 1, 2).tolist() == [1, 0]


def test_interrupted_while_reading(tmp_path):
    pipe = tmp_path / "log.csv"
    os.mkfifo(pipe)
    process = start(pipe, *USUAL, "--output", tmp_path / "out.csv")
    with pipe.open("w") as file:
        file.write("when\n2026-01-01\n")
        file.flush()
        interrupt(process)
        rest, said = process.communicate(timeout=PATIENCE)
    assert (rest, process.returncode) == (b"", 130)
    assert said.decode().splitlines()[-1] == (
        "dpstream count: interrupted. Nothing was released and no budget is spent: run the same command again."
    )
    assert list(tmp_path.iterdir()) == [pipe]


def test_a_reader_that_goes_away(tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("when\n2026-01-01\n2027-01-01\n")
    process = start(log, *USUAL, "--every", "15m", "--quiet", "--through", "2027-01-01")
    assert process.stdout.readline() == b"step,start,value,stddev,low,high\n"
    process.stdout.close()
    process.stdin.close()
    assert process.wait(timeout=PATIENCE) != 0
    assert process.stderr.read() == b""
    process.stderr.close()


def test_a_disk_that_is_full(tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("when\n2026-01-01\n2027-01-01\n")
    with open("/dev/full", "wb") as full:
        found = subprocess.run(  # noqa: S603
            [*COMMAND, log, *USUAL], stdout=full, stderr=subprocess.PIPE, timeout=PATIENCE, check=False
        )
    assert found.returncode == 4
    said = " ".join(found.stderr.decode().split())
    assert "Traceback" not in said
    assert "dpstream count: standard output: No space left on device. 366 steps were released and the budget is" in said
    assert "treat what was written as published" in said


def test_the_clock_closes_steps_of_a_quiet_pipe(following, path):  # noqa: F811
    """With --through now steps are released when they have ended, whether or not a row comes."""
    every = ["--time", "when", "--time-zone", "UTC", "--every", "1s", "--rho", "0.5", "--unbounded", "--through", "now"]
    first = dt.datetime.now(dt.UTC).replace(microsecond=0) - dt.timedelta(seconds=2)
    process = following("--store", path, "--from", first.isoformat(), usual=every)
    feed(process, f"when\n{first.isoformat()}\n{first.isoformat()}\n")
    header, *lines = (process.stdout.readline().decode() for _ in range(6))
    assert header == "step,start,value,stddev,low,high\n"
    assert [line.split(",")[0] for line in lines] == ["1", "2", "3", "4", "5"]
    feed(process, f"{first.isoformat()}\n")  # too late, however quiet it was
    assert process.stdout.readline().startswith(b"6,")
    interrupt(process)
    process.communicate(timeout=PATIENCE)
    with dp.Store(path) as store:
        inputs = store.true_data.inputs("count", 1, store.streams()[0].t).tolist()
    assert sum(inputs) == inputs[0] == 2


@pytest.mark.heavy
def test_rows_ahead_of_the_clock_close_nothing(following):
    every = ["--time", "when", "--time-zone", "UTC", "--rho", "5e5", "--unbounded", "--through", "now"]
    today = dt.datetime.now(dt.UTC).date()
    start, ahead = today - dt.timedelta(days=2), today + dt.timedelta(days=3)
    process = following("--from", start, usual=every)
    rows = [start, ahead, start, today, today - dt.timedelta(days=1)]
    rest, said = process.communicate(b"when\n" + b"".join(f"{day}\n".encode() for day in rows), timeout=PATIENCE)
    assert [line.split(",")[2] for line in rest.decode().splitlines()[1:]] == ["2", "3"]
    assert b"too late" not in said
