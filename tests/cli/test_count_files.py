"""Files that `dpstream count` cannot read or write: one line, the right exit status, and nothing lost or replaced."""

import io
import os
import resource
import signal
import stat
import subprocess
import sys
import threading

import polars as pl
import pytest

import dpstream as dp
from dpstream.cli import targets
from dpstream.cli.targets import Target
from dpstream.events.file_options import FileOptions
from dpstream.events.tables import tables
from tests.cli.test_count import count, narrow_terminal  # noqa: F401
from tests.cli.test_count_refusals import before_and_after, here, refused  # noqa: F401

USUAL = ("--time", "when", "--rho", "0.5", "--horizon", "20000", "--from", "2026-01-01", "--through", "2026-01-31")
LOG = "when\n2026-01-01\n2026-01-03\n"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("log.csv", bytes(30_000_000), "line 1: a NUL byte: this is not text"),
        ("log.csv", b"when\n2026-01-01\n\0\n", "line 3, column 'when': expected a timestamp"),
        ("log.csv", b"when," + b"x" * 200_000 + b"\n2026-01-01,1\n", "line 1: not a CSV record"),
        ("log.jsonl", b'{"when": ' + b"[" * 100_000 + b"\n", "line 1: not a line of JSON"),
        ("log.jsonl", b"[" * 100_000 + b"]" * 100_000 + b"\n", "line 1: not a line of JSON"),
        ("log.csv", b"when,n,when\n2026-01-01,1,2026-01-02\n", "the header names the column 'when' more than once"),
        ("log.jsonl", b'{"when": "2026-01-01", "when": "2026-01-02"}\n', "line 1: gives 'when' more than once"),
        ("log.jsonl", b'{"when": "2026-01-01", "\\u0077hen": "2026-01-02"}\n', "line 1: gives 'when' more than once"),
    ],
    ids=["NULs", "a NUL", "long field", "open brackets", "brackets", "columns", "keys", "escaped keys"],
)
def test_logs_that_are_none(here, name, content, said):  # noqa: F811
    (here / name).write_bytes(content)
    before = before_and_after(here)
    refused(count(name, *USUAL, "--store", "s.db", "--output", "out.csv"), said)
    assert before_and_after(here) == before


def test_names_given_twice_that_are_not_read_do_no_harm(here):  # noqa: F811
    (here / "log.csv").write_text("when,x,x\n2026-01-01,1,2\n")
    assert count("log.csv", *USUAL).exit_code == 0
    (here / "log.jsonl").write_text('{"when": "2026-01-01", "note": "\\"when\\"", "x": {"when": 1}, "y": 1, "y": 2}\n')
    assert count("log.jsonl", *USUAL).exit_code == 0


def test_links_that_lead_nowhere(here):  # noqa: F811
    (here / "log.csv").write_text(LOG)
    os.symlink("b.csv", "a.csv")
    os.symlink("a.csv", "b.csv")
    long = "x" * 300 + ".csv"
    before = set(os.listdir())
    refused(count("a.csv", *USUAL), "a.csv: too many levels of symbolic links")
    refused(count("log.csv", *USUAL, "--output", "a.csv", "--store", "s.db"), "Too many levels of symbolic links")
    refused(count("log.csv", *USUAL, "--plot", long[:-4] + ".png", "--store", "s.db"), "File name too long")
    refused(count("log.csv", *USUAL, "--output", long, "--store", "s.db"), "File name too long")
    refused(count("log.csv", *USUAL, "--store", "s\udcff.db"), "--store must be UTF-8 text, got 's\\udcff.db'")
    assert set(os.listdir()) == before
    # Just short enough for the file, but not for any longer name beside it.
    fits = "y" * 251 + ".csv"
    assert count("log.csv", *USUAL, "--output", fits).exit_code == 0
    assert count("log.csv", *USUAL, "--output", "o\udcff.csv").exit_code == 0
    assert set(os.listdir()) == before | {fits, "o\udcff.csv"}


def test_a_link_is_followed_and_a_pipe_written_into(here):  # noqa: F811
    (here / "log.csv").write_text(LOG)
    (here / "folder").mkdir()
    (here / "folder" / "real.csv").write_text("old")
    (here / "folder" / "real.csv").chmod(0o640)
    os.symlink("folder/real.csv", "link.csv")
    assert count("log.csv", *USUAL, "--output", "link.csv").exit_code == 0
    assert (here / "link.csv").is_symlink()
    assert (here / "folder" / "real.csv").read_text().startswith("step,start")
    assert stat.S_IMODE((here / "folder" / "real.csv").stat().st_mode) == 0o640
    os.mkfifo("pipe.csv")
    got = []
    reader = threading.Thread(target=lambda: got.append((here / "pipe.csv").read_text()))
    reader.start()
    assert count("log.csv", *USUAL, "--output", "pipe.csv").exit_code == 0
    reader.join(timeout=60)
    assert got[0].count("\n") == 1 + 31
    assert stat.S_ISFIFO((here / "pipe.csv").lstat().st_mode)


def run(*arguments, file_size=None, **more):
    """In a process of its own, in which files may not grow larger than `file_size` bytes."""

    def limited():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        if file_size is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))

    return subprocess.run(  # noqa: S603
        [sys.executable, "-m", "dpstream", "count", *map(str, arguments)],
        stderr=subprocess.PIPE,
        env=os.environ | {"COLUMNS": "500", "NO_COLOR": "1"},
        preexec_fn=limited,
        check=False,
        **more,
    )


def test_a_full_disk_says_what_was_spent(here):  # noqa: F811
    (here / "log.csv").write_text(LOG)
    with open("/dev/full", "wb") as full:
        found = run("log.csv", *USUAL, "--store", "s.db", stdout=full)
    assert found.returncode == 4
    said = found.stderr.decode().splitlines()[-1]
    assert said == (
        "dpstream count: standard output: No space left on device. 31 steps were released before that and are kept in"
        " s.db: read them again with dpstream store releases s.db count, or run the same command again with"
        " --all"
    )
    with dp.Store("s.db") as store:
        released = [row.value for row in store.releases("count")]
    # What the message says: the same command gives the same releases.
    again = count("log.csv", *USUAL, "--store", "s.db", "--all")
    assert [int(line.split(",")[2]) for line in again.stdout.splitlines()[1:]] == released


@pytest.mark.heavy
def test_a_file_that_does_not_fit(here):  # noqa: F811
    (here / "log.csv").write_text(LOG)
    (here / "out.csv").write_text("old")
    days = (
        "--time",
        "when",
        "--rho",
        "0.5",
        "--horizon",
        "20000",
        "--from",
        "2026-01-01",
        "--mechanism",
        "SmoothBinary",
    )
    # Without a store nothing has left the process: refused, and nothing is spent.
    found = run("log.csv", *days, "--through", "2050-01-01", "--output", "out.csv", file_size=100_000)
    assert found.returncode == 2, found.stderr
    assert b"--output out.csv must be a file that can be written (File too large)" in found.stderr
    assert sorted(os.listdir()) == ["log.csv", "out.csv"]
    assert (here / "out.csv").read_text() == "old"
    # A picture comes after the releases were written.
    found = run(
        "log.csv", *days, "--through", "2026-03-31", "--output", "out.csv", "--plot", "out.png", file_size=20_000
    )
    assert found.returncode == 4, found.stderr
    assert b"--plot out.png: File too large. 90 steps were released and the budget is spent" in found.stderr
    assert sorted(os.listdir()) == ["log.csv", "out.csv"]
    assert (here / "out.csv").read_text().count("\n") == 1 + 90


def test_drafts_of_killed_processes_are_swept(here):  # noqa: F811
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    dead = here / f".dpstream-{targets._host()}-{process.pid}-abc.draft"
    alive = here / f".dpstream-{targets._host()}-{os.getpid()}-abc.draft"
    elsewhere = here / f".dpstream-{targets._host()}else-{process.pid}-abc.draft"
    for draft in (dead, alive, elsewhere):
        draft.write_text("")
    target = Target("--output", here / "out.csv")
    target.discard()
    assert {path.name for path in here.iterdir()} == {alive.name, elsewhere.name}


def test_parquet_from_a_pipe_is_never_written_to_a_file(tmp_path, monkeypatch):
    """Attack: look at every file that is opened for writing while a secret log comes in by standard input."""
    held = io.BytesIO()
    pl.DataFrame({"when": ["2026-01-01"] * 10}).write_parquet(held)
    program = (
        "import os, sys\n"
        "written = []\n"
        "def look(event, given):\n"
        "    if event in ('open', 'os.mkdir', 'tempfile.mkstemp', 'tempfile.mkdtemp'):\n"
        "        mode = given[1] if event == 'open' else 'w'\n"
        "        flags = given[2] if event == 'open' and isinstance(given[2], int) else 0\n"
        "        if (isinstance(mode, str) and set(mode) & set('wax+')) or flags & (os.O_WRONLY | os.O_RDWR):\n"
        "            written.append(given)\n"
        "from dpstream.events.file_options import FileOptions\n"
        "from dpstream.events.tables import tables\n"
        "parquet = FileOptions('parquet')\n"
        "sys.addaudithook(look)\n"
        "print(sum(t.frame.height for t in tables(['-'], ['when'], files=parquet)), written)\n"
    )
    found = subprocess.run(  # noqa: S603
        [sys.executable, "-c", program],
        input=held.getvalue(),
        capture_output=True,
        check=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert found.stdout.decode().split(maxsplit=1) == ["10", "[]\n"]


def test_parquet_of_a_pipe_is_read_in_pieces(monkeypatch):
    monkeypatch.setattr("dpstream.events.tables.PARQUET_ROWS", 100)
    held = io.BytesIO()
    pl.DataFrame({"n": range(1000)}).write_parquet(held, row_group_size=100)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(held.getvalue())))
    assert sum(table.frame["n"].sum() for table in tables(["-"], ["n"], files=FileOptions("parquet"))) == 499_500
