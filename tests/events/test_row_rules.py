"""Rows are selected by public rules, and empty cells are refused, left out or filled, always counted."""

import datetime as dt

import polars as pl
import pytest

from dpstream.errors import InvalidArgument, RowRefused
from dpstream.events.measure import Measure
from dpstream.events.row_rules import RowFilter, RowRules
from dpstream.events.table import Table
from dpstream.events.tally import TimeTally
from dpstream.events.timestamps import Timestamps

EMPTY = [None, "", "  ", "NA", "n/a", "NaN", "null", "None", "-", "."]


def table(**columns):
    return Table(pl.DataFrame(columns, strict=False), lambda row: f"line {row + 2}")


def daily(measure, missing, **columns):
    """What rows add, one a day."""
    tally = TimeTally(
        measure, None, 10, Timestamps("when"), "1d", row_filter=RowFilter(RowRules(missing=missing), measure)
    )
    days = [f"2026-01-{day + 1:02}" for day in range(len(next(iter(columns.values()))))]
    tally.take(table(when=days, **columns))
    return tally.inputs(0, tally.steps).tolist()


def selected(rules, **columns):
    found = RowFilter(rules, Measure()).apply(table(n=list(range(len(next(iter(columns.values()))))), **columns))
    return found.frame["n"].to_list()


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        (("ward=north",), [0, 3]),
        (("ward=north", "ward=A&E = 1"), [0, 1, 3]),
        (("ward=north", "age=7"), [0]),
        (("ward=",), [2, 4]),
        (("ward=nowhere",), []),
        ((), [0, 1, 2, 3, 4]),
    ],
)
def test_where(where, kept):
    ward = ["north", "A&E = 1", None, " north ", ""]
    assert selected(RowRules(where), ward=ward, age=[7, 8, 7, 8, 7]) == kept
    assert selected(RowRules(where), ward=ward, age=[7.0, 8.5, 7.0, 8.0, None]) == kept
    assert selected(RowRules(where), ward=pl.Series(ward, dtype=pl.Categorical), age=["7", "8", "7", "8", "7"]) == kept


def test_rows_that_are_not_selected_are_counted_and_not_read():
    rows = table(ward=["north", "south", "north"], when=["2026-01-01", "not a date", "2026-01-02"], n=["1", "x", "2"])
    row_filter = RowFilter(RowRules(("ward=north",)), Measure("n", 9), "when")
    tally = TimeTally(Measure("n", 9), None, 10, Timestamps("when"), "1d", row_filter=row_filter)
    assert tally.columns == ["when", "n", "ward"]
    tally.take(rows)
    assert tally.inputs(0, 2).tolist() == [1, 2]
    assert (tally.rows, tally.rows_read, row_filter.outside) == (2, 3, 1)


def test_lines_stay_known_when_rows_are_left_out():
    rows = table(ward=["south", "north", "", "north"], when=["2026-01-01", "", "", "x"])
    row_filter = RowFilter(RowRules(("ward=north",), "skip"), Measure(), "when")
    tally = TimeTally(Measure(), None, 10, Timestamps("when", "yyyy-mm-dd"), "1d", row_filter=row_filter)
    with pytest.raises(RowRefused, match="line 5, column 'when'"):
        tally.take(rows)
    assert (row_filter.outside, dict(row_filter.skipped)) == (2, {"when": 1})


@pytest.mark.parametrize("empty", EMPTY)
def test_rows_with_empty_cells_are_skipped(empty):
    measure = Measure("n", 9, by="ward", categories=("a", "b"))
    row_filter = RowFilter(RowRules(missing="skip"), measure, "when", "who")
    rows = table(
        when=["2026-01-01", empty, "2026-01-01", "2026-01-01"],
        n=["1", "1", empty, "1"],
        ward=["a", "a", empty, empty],
        who=["x"] * 4,
    )
    found = row_filter.apply(rows)
    assert found.frame.height == 1
    assert dict(row_filter.skipped) == {"when": 1, "n": 1, "ward": 1}


def test_typed_columns_have_empty_cells_too():
    row_filter = RowFilter(RowRules(missing="skip"), Measure("n", 9), "when", "who")
    rows = table(
        when=[dt.date(2026, 1, 1), None, dt.date(2026, 1, 1), dt.date(2026, 1, 1), dt.date(2026, 1, 1)],
        n=[1.0, 1.0, float("nan"), None, 2.0],
        who=[1, 2, 3, 4, None],
    )
    assert row_filter.apply(rows).frame["n"].to_list() == [1.0]
    assert dict(row_filter.skipped) == {"when": 1, "n": 2, "who": 1}


def test_words_that_mean_something_are_not_empty():
    """NA is a declared category, and somebody is called NA."""
    row_filter = RowFilter(RowRules(missing="skip"), Measure(by="land", categories=("NA", "AT")), None, "who")
    assert row_filter.apply(table(land=["NA", "AT", "-"], who=["NA", "none", "-"])).frame["land"].to_list() == [
        "NA",
        "AT",
    ]
    assert row_filter.apply(table(land=["NA", "AT"], who=[" ", "-"])).frame["land"].to_list() == ["AT"]


def test_empty_cells_are_filled_where_the_value_fits():
    measure = Measure("n", 9, by="ward", categories=("a", "0"))
    assert daily(measure, "0", n=["", "3"], ward=["a", "NA"]) == [[0, 0], [0, 3]]
    only_category = Measure("n", 9, by="ward", categories=("a", "unknown"))
    assert daily(only_category, "unknown", n=["1", "3"], ward=["a", None]) == [[1, 0], [0, 3]]
    with pytest.raises(RowRefused, match=r"line 2, column 'n': expected a whole number .* got ''; missing='skip'"):
        daily(only_category, "unknown", n=["", "3"], ward=["a", None])
    other = Measure(by="ward", categories=("a",), undeclared="other")
    assert RowFilter(RowRules(missing="other"), other).apply(table(ward=["a", ""])).frame["ward"].to_list() == [
        "a",
        "other",
    ]


def test_typed_amounts_are_filled_exactly():
    measure = Measure("n", 200, "0.01", ",")
    assert daily(measure, "0,5", n=[12.25, None, 3.0]) == [1225, 50, 300]


@pytest.mark.parametrize("value", ["unknown", "-12", "12", "1.5", ""])
def test_a_value_that_fits_nowhere(value):
    with pytest.raises(InvalidArgument, match="missing must be refuse, skip, or what empty cells count as"):
        RowFilter(RowRules(missing=value), Measure("n", 9, by="ward", categories=("a", "b")))


@pytest.mark.parametrize("empty", EMPTY)
def test_refused_by_default_with_what_to_type(empty):
    with pytest.raises(RowRefused, match=r"line 3, column 'when': .*; missing='skip' leaves such rows out$"):
        Timestamps("when").read(table(when=["2026-01-01", empty]))
    with pytest.raises(
        RowRefused, match=r"line 3, .*missing='skip' leaves such rows out, missing='0' counts them as 0"
    ):
        Measure("n", 9).amounts(table(n=["1", empty]))
    with pytest.raises(RowRefused, match=r"line 3, column 'ward': .*; missing='skip' leaves such rows out$"):
        Measure(by="ward", categories=("a",)).places(table(ward=["a", empty]))


@pytest.mark.parametrize("bad", ["ward", "=north", " =x", ""])
def test_what_is_no_rule(bad):
    with pytest.raises(InvalidArgument, match="where must be of the form COLUMN=VALUE"):
        RowRules((bad,))
