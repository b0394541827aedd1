"""`dpstream count`: the numbers it writes are those of the library, in every form."""

import csv
import datetime as dt
import io
import json
import random

import numpy as np
import polars as pl
import pytest
import typer
from typer.testing import CliRunner

import dpstream as dp
from dpstream.cli.app import CommandGroup
from dpstream.cli.count import count as count_command
from dpstream.events import counting, text_chunks
from dpstream.mechanisms import AnytimeToeplitz, GrowingSmooth, Honaker
from dpstream.testing import fixed_key
from tests.events.event_logs import FORMATS, WARDS, expected, random_log, write

KEY = fixed_key("dpstream count")
#: What the clock shows in all tests that run within this process.
NOW = dt.datetime(2026, 6, 1, 12, tzinfo=dt.UTC)
#: The command alone: Typer builds all that an app has for every run, which would take longer than most runs.
only_count = typer.Typer(cls=CommandGroup, pretty_exceptions_enable=False, callback=lambda: None)
only_count.command()(count_command)


@pytest.fixture(autouse=True)
def narrow_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("dpstream.events.last_step.now", lambda: NOW)


@pytest.fixture
def same_noise(monkeypatch):
    """Counters without a key of their own get a fixed one."""
    monkeypatch.setattr("dpstream.release.settings.fresh_key", lambda: KEY)


def count(*arguments, **more):
    return CliRunner().invoke(only_count, ["count", *map(str, arguments)], **more)


def counted(*arguments, **more):
    """The rows that a run which must succeed writes."""
    result = count(*arguments, **more)
    assert result.exit_code == 0, result.output
    return list(csv.DictReader(io.StringIO(result.stdout)))


def counter(horizon, budget, **settings):
    """The counter that `count` makes."""
    return dp.Counter(horizon, budget, key=KEY, **settings)


def check_rows(rows, released_by, inputs, confidence=0.95, categories=None):
    """Every number of every row, held against a counter that takes the inputs one by one."""
    rows = iter(rows)
    for step, x in enumerate(inputs, start=1):
        values = np.atleast_1d(released_by.add(x if categories else int(x)))
        lows, highs = map(np.atleast_1d, released_by.estimate(confidence)[2:])
        for i, value in enumerate(values):
            row = next(rows)
            assert int(row["step"]) == step
            assert (int(row["value"]), int(row["low"]), int(row["high"])) == (value, lows[i], highs[i])
            assert float(row["stddev"]) == pytest.approx(released_by.stddev(), abs=5e-4)
            assert row.get("category") == (categories[i] if categories else None)
    assert next(rows, None) is None


def month(seed=1, rows=80):
    return random_log(random.Random(seed), dt.datetime(2026, 1, 30), dt.timedelta(days=20), rows)  # noqa: S311


@pytest.mark.parametrize(
    ("arguments", "budget"),
    [
        (("--rho", "0.5"), dp.zcdp(0.5)),
        (("--epsilon", "1", "--delta", "1e-6"), dp.approx_dp(1, 1e-6)),
        (("--epsilon", "2"), dp.pure_dp(2)),
    ],
)
@pytest.mark.parametrize("endless", [False, True])
def test_the_releases_are_those_of_a_counter(same_noise, tmp_path, arguments, budget, endless):
    path = write(month(), tmp_path, "csv")
    end = ("--unbounded",) if endless else ("--horizon", "40")
    rows = counted(path, "--time", "when", *end, *arguments)
    settings = {}
    if endless:
        settings["mechanism"] = AnytimeToeplitz() if budget.noise == "gaussian" else GrowingSmooth(noise="laplace")
    check_rows(rows, counter(None if endless else 40, budget, **settings), expected(month(), "1d", None))
    first = dt.date(2026, 1, 30)
    assert [row["start"] for row in rows] == [str(first + dt.timedelta(days=i)) for i in range(len(rows))]


def test_until_is_a_horizon(same_noise, tmp_path):
    path = write(month(), tmp_path, "csv")
    by_date = count(path, "--time", "when", "--rho", 1, "--until", "2026-03-10")
    through = count(path, "--time", "when", "--rho", 1, "--horizon", "40", "--through", "2026-03-10")
    assert by_date.stdout == through.stdout
    assert by_date.stdout.count("\n") == 1 + 40


@pytest.mark.parametrize("form", FORMATS)
def test_categories_and_values_from_every_format(same_noise, tmp_path, monkeypatch, form):
    monkeypatch.setattr(text_chunks, "CHUNK_BYTES", 500)
    path = write(month(), tmp_path, form)
    rows = counted(
        path, "--time", "when", "--by", "ward", "--values", ",".join(WARDS), "--value", "amount", "--per-person", 5,
        "--rho", 0.5, "--horizon", 30, "--confidence", 0.8,
    )  # fmt: skip
    inputs = expected(month(), "1d", None, by=True, value=True)
    check_rows(rows, counter(30, dp.zcdp(0.5), per_person=5, shape=(3,)), inputs, 0.8, WARDS)


def test_a_mechanism_by_name(same_noise, tmp_path):
    path = write(month(), tmp_path, "csv")
    result = count(path, "--time", "when", "--rho", 0.5, "--horizon", 40, "--mechanism", "honaker", "-v")
    assert "Mechanism: Honaker, as asked." in result.stderr
    rows = csv.DictReader(io.StringIO(result.stdout))
    check_rows(rows, counter(40, dp.zcdp(0.5), mechanism=Honaker(40)), expected(month(), "1d", None))


@pytest.mark.heavy
def test_pieces_do_not_show(same_noise, tmp_path, monkeypatch):
    path = write(month(), tmp_path, "csv")
    arguments = (path, "--time", "when", "--every", "1h", "--rho", 0.5, "--unbounded")
    whole = count(*arguments).stdout
    monkeypatch.setattr(counting, "PIECE", 7)
    assert count(*arguments).stdout == whole
    starts = [row["start"] for row in csv.DictReader(io.StringIO(whole))]
    assert {len(start) for start in starts} == {len("2026-01-30T00:00:00")}


def test_zones_show_where_midnight_is(same_noise, tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("when\n2026-03-28T23:30:00Z\n2026-03-29T01:30:00Z\n2026-03-29T22:30:00Z\n")
    hours = counted(path, "--time", "when", "--every", "1h", "--time-zone", "Europe/Vienna", "--rho", 1, "--unbounded")
    assert [row["start"] for row in hours[:3]] == [
        "2026-03-29T00:00:00+01:00",
        "2026-03-29T01:00:00+01:00",
        "2026-03-29T03:00:00+02:00",
    ]
    days = counted(path, "--time", "when", "--time-zone", "Europe/Vienna", "--rho", 1, "--unbounded")
    assert [row["start"] for row in days] == ["2026-03-29", "2026-03-30"]
    check_rows(days, counter(None, dp.zcdp(1), mechanism=AnytimeToeplitz()), [2, 1])


def test_all_forms_of_output_hold_the_same(same_noise, tmp_path):
    path = write(month(), tmp_path, "csv")
    arguments = (path, "--time", "when", "--by", "ward", "--values", ",".join(WARDS), "--rho", 0.5, "--horizon", 30)
    rows = counted(*arguments)
    lines = [json.loads(line) for line in count(*arguments, "--json").stdout.splitlines()]
    assert [{key: str(value) for key, value in line.items()} for line in lines] == rows
    assert count(*arguments, "--as", "jsonl").stdout == count(*arguments, "--json").stdout
    for name in ("out.csv", "out.jsonl", "out.parquet"):
        result = count(*arguments, "--output", tmp_path / name)
        assert (result.exit_code, result.stdout) == (0, "")
        assert f"Written: {tmp_path / name}" in result.stderr.replace("\n", "")
    assert list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines())) == rows
    assert [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()] == lines
    frame = pl.read_parquet(tmp_path / "out.parquet")
    assert frame["start"].dtype == pl.Date
    exact = frame.with_columns(pl.col("start").cast(pl.String))
    assert exact.drop("stddev").equals(pl.DataFrame(lines).drop("stddev"))
    np.testing.assert_allclose(pl.DataFrame(lines)["stddev"], exact["stddev"], rtol=1e-3)
    packed = count(*arguments, "--as", "parquet")
    assert pl.read_parquet(io.BytesIO(packed.stdout_bytes)).equals(frame)


def test_standard_input_and_several_files(same_noise, tmp_path):
    events = month()
    (tmp_path / "1").mkdir()
    (tmp_path / "2").mkdir()
    first, second = write(events[:30], tmp_path / "1", "csv"), write(events[30:], tmp_path / "2", "jsonl")
    whole = write(events, tmp_path, "csv")
    end = ("--time", "when", "--rho", 0.5, "--horizon", 30)
    wanted = count(whole, *end).stdout
    assert count(first, second, *end).stdout == wanted
    with open(whole, "rb") as file:
        assert count(*end, input=file.read()).stdout == wanted
    with open(write(events, tmp_path, "csv.gz"), "rb") as file:
        assert count("-", *end, input=file.read()).stdout == wanted
    with open(write(events, tmp_path, "parquet"), "rb") as file:
        assert count("-", *end, "--format", "parquet", input=file.read()).stdout == wanted


def test_any_order_and_a_chosen_start(same_noise, tmp_path):
    events = month()
    path = write(random.Random(2).sample(events, len(events)), tmp_path, "csv")  # noqa: S311
    rows = counted(path, "--time", "when", "--any-order", "--rho", 0.5, "--horizon", 30)
    check_rows(rows, counter(30, dp.zcdp(0.5)), expected(events, "1d", None))
    result = count(path, "--time", "when", "--any-order", "--rho", 0.5, "--horizon", 30, "--from", "2026-02-01")
    early = sum(event.when < dt.datetime(2026, 2, 1) for event in events)
    assert f"warning: {early} rows from before the first step were not counted." in result.stderr
    later = [event for event in events if event.when >= dt.datetime(2026, 2, 1)]
    first = dt.date(2026, 2, 1).toordinal()
    check_rows(
        csv.DictReader(io.StringIO(result.stdout)),
        counter(30, dp.zcdp(0.5)),
        expected(later, "1d", None, first=first),
    )


def test_undeclared_categories_are_other(same_noise, tmp_path):
    path = write(month(), tmp_path, "csv")
    names = tmp_path / "wards.txt"
    names.write_text("south\n\nnorth\n")
    rows = counted(
        path, "--time", "when", "--by", "ward", "--values-file", names, "--undeclared", "other", "--rho", 0.5,
        "--horizon", 30,
    )  # fmt: skip
    inputs = expected(month(), "1d", None, by=True)[:, [1, 0, 2]]
    check_rows(rows, counter(30, dp.zcdp(0.5), shape=(3,)), inputs, categories=("south", "north", "other"))


def test_through_names_the_last_step(same_noise, tmp_path):
    path = write(month(), tmp_path, "csv")
    arguments = (path, "--time", "when", "--rho", 0.5, "--horizon", 30)
    everything = counted(*arguments)
    some = counted(*arguments, "--through", "2026-02-10")
    assert some == everything[: len(some)]
    assert some[-1]["start"] == "2026-02-10"
    # Steps after the last row are released like any other, up to the horizon.
    assert counted(*arguments, "--through", "2026-02-20")[: len(everything)] == everything
    assert counted(*arguments, "--through", "now")[-1] == counted(*arguments, "--through", "2030-01-01")[-1]
    assert len(counted(*arguments, "--through", "now")) == 30


@pytest.mark.parametrize(
    ("every", "through", "last"),
    [
        ("1d", "now", "2026-05-31"),
        ("1d", "yesterday", "2026-05-31"),
        ("1h", "now", "2026-06-01T13:00:00+02:00"),
        ("1h", "yesterday", "2026-05-31T23:00:00+02:00"),
        ("1w", "now", "2026-05-25"),
        ("1mo", "now", "2026-05-01"),
        ("1mo", "2026-05-07", "2026-05-01"),
        ("1h", "2026-05-31T10:00", "2026-05-31T10:00:00+02:00"),
    ],
)
def test_the_clock_says_which_steps_have_ended(tmp_path, every, through, last):
    # The clock shows 14:00 on a Monday in Vienna.
    path = tmp_path / "log.csv"
    path.write_text("when\n2026-05-04T12:00:00\n2026-06-01T13:59:00\n2026-06-01T14:00:00\n")
    zone = ("--time", "when", "--time-zone", "Europe/Vienna", "--rho", 1, "--unbounded", "--every", every)
    result = count(path, *zone, "--from", "2026-05-04", "--through", through)
    assert result.exit_code == 0, result.output
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert rows[-1]["start"] == last
    after = 1 if last.startswith("2026-06-01") else 2
    said = " ".join(result.stderr.split())
    assert f"{after} row{'s' * (after > 1)} after the last step released ({rows[-1]['start'][:10]}" in said
    assert "taken from the data" not in said


@pytest.mark.parametrize("name", ["out.csv", "out.jsonl", "out.parquet"])
def test_nothing_is_released_before_a_step_has_ended(tmp_path, name):
    path = tmp_path / "log.csv"
    path.write_text("when\n2026-06-01\n2026-06-01\n")
    out = tmp_path / name
    usual = (path, "--time", "when", "--rho", 1, "--unbounded", "--through", "now")
    result = count(*usual, "--output", out, "--plot", tmp_path / "out.png")
    assert result.exit_code == 0, result.output
    assert "2 rows read (not for publication); 0 steps released." in result.stderr
    read = {"out.csv": pl.read_csv, "out.jsonl": None, "out.parquet": pl.read_parquet}[name]
    assert out.read_bytes() == b"" if read is None else read(out).height == 0
    result = count(*usual, "--as", "table")
    assert result.stdout == "Nothing is released yet.\n"


def test_quiet_says_nothing_but_warnings(tmp_path):
    path = write(month(), tmp_path, "csv")
    dates = ("--from", "2026-01-30", "--through", "2026-02-18")
    result = count(path, "--time", "when", "--rho", 0.5, "--horizon", 30, *dates, "--quiet")
    assert result.stderr == ""
    result = count(path, "--time", "when", "--rho", 0.5, "--horizon", 300, *dates[:2], "-q")
    assert " ".join(result.stderr.split()).startswith("warning: the last step (2026-02-18) was taken from the data")
