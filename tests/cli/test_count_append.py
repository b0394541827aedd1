"""`dpstream count FILE --store S` keeps rows, and closes no step: only --through does.

Attack: look at which steps are out. Before, a file released every step up to the clock, so a file of March that was
given in June, or one that had been counted already, released months without rows, for good.
"""

import csv
import io
import shlex

import polars as pl
import pytest

import dpstream as dp
from dpstream.errors import InvalidArgument
from tests.cli.test_count import count, counted, narrow_terminal  # noqa: F401
from tests.cli.test_count_refusals import refused
from tests.cli.test_count_store import folder  # noqa: F401
from tests.store.conftest import path  # noqa: F401

EXACT = ("--rho", "5e5")
BEGIN = ("--time", "when", "--from", "2026-03-01", "--until", "2026-12-31", *EXACT)
NAMES = ("--by", "who", "--discover", "--user", "who", "--names-per-person", 1, "--epsilon", 1, "--delta", 1e-6)


def out(store):
    """How many steps of each stream are out."""
    with dp.Store(store) as opened:
        return {info.name: info.t for info in opened.streams()}


@pytest.fixture(autouse=True)
def no_standard_input(monkeypatch):
    """Commands without files read nothing, as they do in a job of the night."""
    monkeypatch.setattr("dpstream.cli.count_run.closed_streams", {0})


@pytest.fixture
def march(folder):  # noqa: F811
    (folder / "march.csv").write_text("when,who\n2026-03-01,ann\n2026-03-02,bob\n")
    return folder / "march.csv"


@pytest.mark.parametrize("more", [EXACT, ("--by", "who", "--values", "ann,bob", *EXACT), NAMES])
def test_a_file_closes_no_step(march, path, more):  # noqa: F811
    begin = ("--time", "when", "--from", "2026-03-01", "--until", "2026-12-31", *more)
    result = count(march, *begin, "--store", path)
    assert result.exit_code == 0, result.output
    assert list(csv.DictReader(io.StringIO(result.stdout))) == []
    assert result.stdout.startswith("step,start,")
    assert out(path) == {"count": 0}
    said = " ".join(result.stderr.split())
    assert "2 rows wait in the store until their steps are released." in said
    # The same file again, a file without rows, another file: nothing is closed by any of them.
    (path.parent / "nobody.csv").write_text("when,who\n")
    (path.parent / "april.csv").write_text("when,who\n2026-04-01,ann\n")
    for name in ("march", "nobody", "april"):
        assert count(path.parent / f"{name}.csv", "--store", path).exit_code == 0
        assert out(path) == {"count": 0}


def commands_in(said):
    return [shlex.split(line)[2:] for line in said.splitlines() if line.startswith("    dpstream count")]


def test_what_to_type_is_said_and_works(march, folder):  # noqa: F811
    store = folder / "the store.db"
    first = count(march, *BEGIN, "--store", store)
    now, date = commands_in(first.stderr)
    assert now == ["--store", str(store), "--through", "now"]
    assert date == ["--store", str(store), "--through", "2026-05-31"]  # the clock shows 1 June
    assert [int(row["value"]) for row in counted(*date[:-1], "2026-03-03")] == [1, 2, 2]
    assert len(counted(*now)) == 89
    assert out(store) == {"count": 92}
    (folder / "june.csv").write_text("when\n2026-06-01\n")
    again = count(folder / "june.csv", "--store", store)
    assert "1 row waits in the store until its step is released." in " ".join(again.stderr.split())
    assert commands_in(again.stderr)[1][-1] == "2026-06-01"  # no further step has ended
    # Of several streams it says which.
    other = count(march, *BEGIN, "--store", store, "--name", "weekly", "--every", "1w")
    now, date = commands_in(other.stderr)
    assert now[2:4] == ["--name", "weekly"]
    assert date[-1] == "2026-05-31"
    assert len(counted(*now)) == 14
    assert commands_in(count(march, "--store", store, "--name", "weekly", "--quiet").stderr) == []


def test_what_to_type_for_hours(folder):  # noqa: F811
    (folder / "log.csv").write_text("when\n2026-05-31T20:30\n")
    begin = (
        "--time",
        "when",
        "--from",
        "2026-05-31",
        "--every",
        "1h",
        "--time-zone",
        "Asia/Tokyo",
        "--unbounded",
        *EXACT,
    )
    _, date = commands_in(count(folder / "log.csv", *begin, "--store", folder / "s.db").stderr)
    assert date[-1] == "2026-06-01T20:00:00+09:00"  # noon in Greenwich is nine in the evening
    assert len(counted(*date)) == 45


def test_a_run_without_files_needs_an_end(march, path):  # noqa: F811
    assert count(march, *BEGIN, "--store", path).exit_code == 0
    refused(
        count("--store", path),
        "--through must be given where there are no files: --through now releases every step that has ended",
    )
    assert out(path) == {"count": 0}


def test_the_whole_log_needs_an_end(march, path):  # noqa: F811
    refused(count(march, *BEGIN, "--store", path, "--whole-log"), "--through must be given with --whole-log")
    assert not path.exists()
    assert len(counted(march, *BEGIN, "--store", path, "--whole-log", "--through", "2026-03-05")) == 5


def test_rows_of_a_long_time_ago_wait(folder):  # noqa: F811
    """Steps are open up to the clock and some more, not only some after the first."""
    (folder / "log.csv").write_text("when\n2024-01-01\n2026-05-30\n")
    begin = ("--time", "when", "--from", "2024-01-01", "--unbounded", *EXACT, "--store", folder / "s.db")
    assert count(folder / "log.csv", *begin).exit_code == 0
    assert counted("--store", folder / "s.db", "--through", "now")[-1]["value"] == "2"


@pytest.mark.parametrize("pandas", [False, True])
def test_a_frame_closes_no_step(path, pandas):  # noqa: F811
    frame = pl.DataFrame({"when": ["2026-03-01", "2026-03-02"]})
    given = frame.to_pandas() if pandas else frame
    begun = dp.count(
        given, time="when", start="2026-03-01", horizon=200, budget=dp.zcdp(10), store=path, windows=["7d"]
    )
    assert type(begun) is type(given)
    assert len(begun) == 0
    assert out(path) == {"count": 0}
    none = frame.clear().to_pandas() if pandas else frame.clear()
    released = dp.count(none, store=path, through="2026-03-02")
    assert list(begun.columns) == list(released.columns)
    assert len(released) == 2
    with pytest.raises(InvalidArgument, match="through must be given with `whole_log`"):
        dp.count(given, time="when", horizon=9, budget=dp.zcdp(10), store=path, name="all", whole_log=True)
