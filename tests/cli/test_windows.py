"""`dpstream windows`: each week's figure from a store, in every form; the numbers are those of the library."""

import csv
import io
import json

import polars as pl
import pytest
from typer.testing import CliRunner

import dpstream as dp
from dpstream.cli.app import app
from dpstream.events.stored_stream import StoredStream
from dpstream.events.window_figures import window_figures
from tests.cli.test_count import count, month, narrow_terminal  # noqa: F401
from tests.events.event_logs import WARDS, write
from tests.store.conftest import path  # noqa: F401


def windows(*arguments):
    return CliRunner().invoke(app, ["windows", *map(str, arguments)])


@pytest.fixture
def store(path):  # noqa: F811
    """Twenty days from 30 January 2026, a Friday."""
    log = write(month(), path.parent, "csv")
    file = path.parent / "s.db"
    made = count(log, "--time", "when", "--rho", 0.5, "--horizon", 40, "--from", "2026-01-30", "--through",
                 "2026-02-18", "--store", file, "--name", "visits", "--windows", "7d")  # fmt: skip
    assert made.exit_code == 0, made.output
    return file


def figures(store, *arguments, **more):
    with dp.Store(store) as opened:
        return window_figures(StoredStream(opened, "visits").released(), *arguments, **more)


def test_every_form(store, tmp_path):
    expected = figures(store, "1w")
    result = windows(store, "visits", "--as", "csv")
    assert result.exit_code == 0, result.output
    assert pl.read_csv(io.StringIO(result.stdout), try_parse_dates=True).equals(expected)
    rows = json.loads(windows(store, "--as", "json").stdout)
    lines = [json.loads(line) for line in windows(store, "--json").stdout.splitlines()]
    assert rows == lines == json.loads(expected.write_json())
    table = windows(store, "--as", "table").stdout
    assert "Visits per week" in table
    for row in expected.iter_rows(named=True):
        assert f"{row['value']:,}" in table
    assert table.count(" no ") == 2
    for suffix in ("csv", "json", "jsonl", "parquet"):
        assert windows(store, "--output", tmp_path / f"out.{suffix}").exit_code == 0
    assert pl.read_parquet(tmp_path / "out.parquet").equals(expected)
    assert json.loads((tmp_path / "out.json").read_text()) == rows


def test_what_is_not_whole_is_said(store):
    result = windows(store, "--over", "1w")
    assert "2 figures are not of a whole window (complete: false)." in " ".join(result.stderr.split())
    assert "complete" in windows(store, "--over", "1w", "--as", "table").stdout
    days = windows(store, "--over", "1d", "--as", "table")
    assert "not of a whole window" not in days.stderr
    assert "complete" not in days.stdout  # a column that would be the same in every row


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        (("--over", "1d"), {"over": "1d"}),
        (("--over", "7d", "--rolling"), {"over": "7d", "rolling": True}),
        (("--over", "7d", "--every", "1d", "--confidence", 0.8), {"over": "7d", "every": "1d", "confidence": 0.8}),
        (("--over", "1mo", "--from", "2026-02-01"), {"over": "1mo", "start": "2026-02-01"}),
        (("--over", "3", "--from", "2026-02-01", "--through", "2026-02-10"),
         {"over": "3", "start": "2026-02-01", "through": "2026-02-10"}),
    ],
)  # fmt: skip
def test_options(store, options, arguments):
    """A window that was not asked for when the stream began is answered, too."""
    result = windows(store, *options, "--as", "csv")
    assert result.exit_code == 0, result.output
    assert pl.read_csv(io.StringIO(result.stdout), try_parse_dates=True).equals(figures(store, **arguments))


def test_categories(path):  # noqa: F811
    log = write(month(), path.parent, "csv")
    file = path.parent / "wards.db"
    arguments = ("--time", "when", "--rho", 0.5, "--horizon", 40, "--from", "2026-01-30", "--through", "2026-02-18")
    assert count(log, *arguments, "--by", "ward", "--values", ",".join(WARDS), "--store", file).exit_code == 0
    rows = list(csv.DictReader(io.StringIO(windows(file, "--over", "1w", "--as", "csv").stdout)))
    assert [row["category"] for row in rows] == [*WARDS] * 4


def test_a_picture(store, tmp_path):
    for suffix in ("png", "svg", "html"):
        picture = tmp_path / f"out.{suffix}"
        result = windows(
            store, "--over", "1d", "--plot", picture, "--title", "A clinic", "--output", tmp_path / "o.csv"
        )
        assert result.exit_code == 0, result.output
        assert f"Written: {picture}" in " ".join(result.stderr.split())
    assert "visits per day" in (tmp_path / "out.svg").read_text()
    assert "<h1>A clinic</h1>" in (tmp_path / "out.html").read_text()


def test_refusals(store, tmp_path):
    with dp.Store(store) as opened:
        opened.counter("other", 10, dp.zcdp(0.5))
    for arguments, message in (
        ((store,), "STREAM must be given where there is not exactly one: visits, other"),
        ((store, "nobody"), "there is no stream 'nobody' in this store"),
        ((store, "other", "--over", "7"), "there is no release yet"),
        ((store, "visits", "--over", "1h"), "--over must be a whole number of steps of 1d, such as 1d or 4d, got '1h'"),
        ((store, "visits", "--over", "week"), "--over must be a number of steps such as 7, or a length of time"),
        ((store, "visits", "--every", "1h"), "--every must be a whole number of steps of 1d"),
        ((store, "visits", "--every", "1d", "--rolling"), "--every must be left out with --rolling"),
        ((store, "visits", "--from", "soon"), "--from must be a date such as 2026-01-31"),
        ((store, "visits", "--from", "2027-01-01"), "--over must be such that a window ends between the dates"),
        ((store, "visits", "--confidence", "1"), "--confidence must be a number strictly between 0 and 1"),
        ((store, "visits", "--as", "xml"), "--as must be one of csv, json, jsonl, parquet, table"),
        ((store, "visits", "--plot", "x.gif"), "a file ending in .png, .svg, .pdf, .html"),
        ((tmp_path / "none.db", "visits"), "there is no such file"),
    ):
        result = windows(*arguments)
        assert result.exit_code == 2, (arguments, result.output)
        assert message in " ".join(result.stderr.split()), result.stderr
        assert result.stdout == ""
