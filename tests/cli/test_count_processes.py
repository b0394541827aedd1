"""`dpstream count` in real processes: Ctrl-C, readers that go away, a disk that is full."""

import os
import signal
import subprocess
import sys

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


def interrupt(process):
    """Ctrl-C; once more if it came in the instant before a read began, in which Python does not hear it."""
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=PATIENCE / 3)
        except subprocess.TimeoutExpired:
            continue
        return


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
