"""Each week's figure from a stream that exists: which steps are in it, its value, its true error."""

import datetime as dt
import json

import numpy as np
import polars as pl
import pytest

import dpstream as dp
from dpstream.errors import InvalidArgument, NoReleaseYet, StreamUnknown
from dpstream.events.stored_stream import StoredStream
from dpstream.events.window_figures import window_figures as figures_of
from dpstream.release.error_bars import change_error, error_bars


def window_figures(stream, *arguments, **more):
    return figures_of(stream.released(), *arguments, **more)


DAYS = {"time": "when", "every": "1d", "time_zone": None, "start": "2026-01-01"}  # a Thursday


def made(tmp_path, steps=70, source=DAYS, shape=(), **more):
    """A store with a stream that has released so many steps; and the releases."""
    store = dp.Store(tmp_path / "s.db")
    counter = store.counter(
        "visits",
        100,
        dp.zcdp(0.05),
        shape=shape,
        mechanism=dp.mechanisms.BalancedToeplitz(100),
        source=json.dumps(source) if source else "",
        **more,
    )
    values = counter.extend((np.arange(steps * (shape[0] if shape else 1)) % 9).reshape(steps, *shape))
    return StoredStream(store, "visits"), values


def check(stream, values, row, t, since, confidence=0.95, category=None):
    value = values[t - 1] - (values[since - 1] if since else 0)
    value = int(value if category is None else value[category])
    if since:
        stddev, h = change_error(stream.settings, t, since, confidence)
    else:
        (stddev,), (h,) = error_bars(stream.settings, t, 1, confidence)
    assert (row["value"], row["low"], row["high"], row["steps"]) == (value, value - h, value + h, t - since)
    assert row["stddev"] == pytest.approx(stddev, rel=1e-4)


def day(number):
    return dt.date(2026, 1, 1) + dt.timedelta(number - 1)


def test_weeks_of_the_calendar(tmp_path):
    """From Monday to Sunday; the first and the last are not whole, and that is said."""
    stream, values = made(tmp_path)
    table = window_figures(stream, "1w")
    ends = [4, 11, 18, 25, 32, 39, 46, 53, 60, 67, 70]
    assert table["through"].to_list() == [day(t) for t in ends]
    assert table["complete"].to_list() == [False, *[True] * 9, False]
    for row, t, since in zip(table.iter_rows(named=True), ends, [0, *ends], strict=False):
        assert row["from"] == day(since + 1)
        check(stream, values, row, t, since)
    assert table.filter("complete")["from"].dt.weekday().unique().to_list() == [1]
    # Every step is in one figure.
    assert table["steps"].sum() == 70
    assert table["value"].sum() == values[-1]


def test_months_and_days(tmp_path):
    stream, values = made(tmp_path)
    months = window_figures(stream, "1mo", confidence=0.8)
    assert months["steps"].to_list() == [31, 28, 11]
    assert months["complete"].to_list() == [True, True, False]
    for row, t, since in zip(months.iter_rows(named=True), (31, 59, 70), (0, 31, 59), strict=True):
        check(stream, values, row, t, since, 0.8)
    days = window_figures(stream, "1d")
    assert days.height == 70
    assert days["complete"].all()
    assert days["value"].to_list() == np.diff(values, prepend=0).tolist()


def test_seven_days_from_the_first_step_or_from_a_date(tmp_path):
    stream, values = made(tmp_path)
    table = window_figures(stream, "7d")
    assert table["through"].to_list() == [day(t) for t in range(7, 71, 7)]
    assert table["complete"].all()
    later = window_figures(stream, "7d", start="2026-01-10", through="2026-02-01")
    assert later["from"].to_list() == [day(t) for t in (10, 17, 24)]
    for row, t in zip(later.iter_rows(named=True), (16, 23, 30), strict=True):
        check(stream, values, row, t, t - 7)
    same = window_figures(stream, "7", start="2026-01-10", through="2026-02-01")
    assert same.equals(later)


def test_rolling(tmp_path):
    stream, values = made(tmp_path)
    table = window_figures(stream, "7d", rolling=True)
    assert table["complete"].to_list() == [False] * 6 + [True] * 64
    for t, row in enumerate(table.iter_rows(named=True), start=1):
        assert (row["from"], row["through"]) == (day(max(t - 6, 1)), day(t))
        check(stream, values, row, t, max(t - 7, 0))
    months = window_figures(stream, "1mo", rolling=True, start="2026-02-27", through="2026-03-02")
    assert months["steps"].to_list() == [31, 28, 28, 28]
    assert months["from"].to_list() == [dt.date(2026, 1, 28), *(dt.date(2026, 2, d) for d in (1, 2, 3))]


def test_windows_that_overlap(tmp_path):
    """Four weeks up to the end of each week: only weeks that have ended."""
    stream, values = made(tmp_path)
    table = window_figures(stream, "4w", every="1w")
    ends = [4, 11, 18, 25, 32, 39, 46, 53, 60, 67]
    assert table["through"].to_list() == [day(t) for t in ends]
    assert table["complete"].to_list() == [False] * 4 + [True] * 6
    for row, t in zip(table.iter_rows(named=True), ends, strict=True):
        check(stream, values, row, t, max(t - 28, 0))


def test_categories_and_hours(tmp_path):
    source = {"time": "when", "every": "1h", "time_zone": "Europe/Vienna", "start": "2026-03-28T00:00"}
    source |= {"categories": ["north", "south"], "undeclared": "other"}
    stream, values = made(tmp_path, 80, source, shape=(3,))
    table = window_figures(stream, "1d")
    assert table["category"].to_list() == ["north", "south", "other"] * 4
    assert table["steps"].to_list() == [24] * 3 + [23] * 3 + [24] * 3 + [9] * 3
    for i, row in enumerate(table.iter_rows(named=True)):
        t, since = ((24, 0), (47, 24), (71, 47), (80, 71))[i // 3]
        check(stream, values, row, t, since, category=i % 3)
    assert str(table["from"][3]) == "2026-03-29 00:00:00+01:00"
    assert str(table["through"][3]) == "2026-03-29 23:00:00+02:00"


def test_amounts(tmp_path):
    """Cents that were counted are shown as amounts, to the last digit."""
    stream, values = made(tmp_path, source=DAYS | {"value": "price", "unit": "0.01"})
    table = window_figures(stream, "1mo")
    assert [str(value) for value in table["value"]] == [
        f"{x / 100:.2f}" for x in np.diff(values[[30, 58, 69]], prepend=0)
    ]
    stddev, _ = change_error(stream.settings, 59, 31, 0.95)
    assert table["stddev"][1] == pytest.approx(stddev / 100, rel=1e-4)
    assert table["steps"].to_list() == [31, 28, 11]
    total = stream.released().table()
    assert str(total["value"][-1]) == f"{values[-1] / 100:.2f}"
    assert total["step"].to_list() == list(range(1, 71))


def test_a_stream_without_dates(tmp_path):
    stream, values = made(tmp_path, source=None)
    assert stream.calendar is None
    table = window_figures(stream, "30")
    assert table.select("from", "through", "complete").rows() == [(1, 30, True), (31, 60, True), (61, 70, False)]
    check(stream, values, table.row(1, named=True), 60, 30)
    some = window_figures(stream, "5", start="11", through="20")
    assert some.select("from", "through").rows() == [(11, 15), (16, 20)]
    with pytest.raises(InvalidArgument, match="over must be a number of steps where steps have no dates"):
        window_figures(stream, "7d")
    for bad in ("2026-01-01", "0", "x"):
        with pytest.raises(InvalidArgument, match="start must be the number of a step"):
            window_figures(stream, "5", start=bad)


def test_a_window_that_nobody_asked_for(tmp_path):
    """A stream fitted to weeks answers months, with their true error."""
    with dp.Store(tmp_path / "s.db") as store:
        counter = store.counter("visits", 60, dp.zcdp(0.05), windows=(7,), source=json.dumps(DAYS))
        values = counter.extend([3] * 60)
        stream = StoredStream(store, "visits")
        assert stream.settings.windows == (7,)
        row = window_figures(stream, "1mo").row(1, named=True)
        check(stream, values, row, 59, 31)


def test_refusals(tmp_path):
    stream, _ = made(tmp_path)
    for over, problem in (("7x", "a number of steps such as 7"), ("1h", "a whole number of steps of 1d")):
        with pytest.raises(InvalidArgument, match=f"over must be {problem}"):
            window_figures(stream, over)
    with pytest.raises(InvalidArgument, match="every must be a whole number of steps"):
        window_figures(stream, "1w", every="1h")
    with pytest.raises(InvalidArgument, match="every must be left out with `rolling`"):
        window_figures(stream, "1w", every="1d", rolling=True)
    with pytest.raises(InvalidArgument, match="such that a window ends between the dates"):
        window_figures(stream, "1w", start="2026-05-01")
    with pytest.raises(InvalidArgument, match="start must be a date"):
        window_figures(stream, "1w", start="soon")
    store = stream._store
    with pytest.raises(StreamUnknown):
        StoredStream(store, "visit")
    store.running_sum("sums", 10, dp.zcdp(0.5))
    with pytest.raises(InvalidArgument, match="name must be a counter"):
        StoredStream(store, "sums")
    store.counter("empty", 10, dp.zcdp(0.5))
    with pytest.raises(NoReleaseYet):
        window_figures(StoredStream(store, "empty"), "7")
    assert isinstance(window_figures(stream, "1w"), pl.DataFrame)
