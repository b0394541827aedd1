"""What a row adds and to what, or why it is refused."""

import polars as pl
import pytest

from dpstream.errors import InvalidArgument, RowRefused
from dpstream.events.measure import Measure
from dpstream.events.tables import Table


def table(**columns):
    return Table(pl.DataFrame(columns), lambda row: f"line {row + 2}")


@pytest.mark.parametrize(
    "values", [["1", "-3", "0"], [1, -3, 0], [1.0, -3.0, 0.0], pl.Series([1, -3, 0], dtype=pl.Int8)]
)
def test_whole_numbers_in_any_type(values):
    assert Measure("n", 3, -3).amounts(table(n=values)).tolist() == [1, -3, 0]


@pytest.mark.parametrize(
    "bad",
    ["4", "-4", "1.5", "NaN", "inf", "", None, "x", "1e3", "99999999999999999999", 4, 1.5, float("nan"), 1e300, 2**63],
)
def test_what_is_no_whole_number_within_bounds(bad):
    good = "1" if isinstance(bad, str) or bad is None else type(bad)(1)
    values = pl.Series([good, bad], dtype=pl.UInt64) if bad == 2**63 else [good, bad]
    with pytest.raises(RowRefused, match=r"line 3, column 'n': expected a whole number from -3 to 3 \(bound=3\), got"):
        Measure("n", 3, -3).amounts(table(n=values))


def test_other_types_are_refused():
    with pytest.raises(RowRefused, match="expected a whole number"):
        Measure("n", 3).amounts(table(n=[[1]]))


def test_categories():
    measure = Measure(by="ward", categories=("b", "a"))
    assert measure.places(table(ward=["a", "b", "a"])).tolist() == [1, 0, 1]
    assert measure.places(table(ward=pl.Series(["a", "b"], dtype=pl.Categorical))).tolist() == [1, 0]
    for bad in ("c", "", None, "A", " a"):
        with pytest.raises(RowRefused, match=r"line 3, column 'ward': expected one of the categories \(b, a\)"):
            measure.places(table(ward=["a", bad]))
    other = Measure(by="ward", categories=("b", "a"), undeclared="other")
    assert other.names == ("b", "a", "other")
    assert other.places(table(ward=["a", "c", None, "b"])).tolist() == [1, 2, 2, 0]
    assert Measure(by="n", categories=("1", "2")).places(table(n=[2, 1])).tolist() == [1, 0]


def test_what_was_declared_must_make_sense():
    with pytest.raises(InvalidArgument, match="categories must be given"):
        Measure(by="ward")
    with pytest.raises(InvalidArgument, match="by must be given"):
        Measure(categories=("a",))
    with pytest.raises(InvalidArgument, match="categories must be each category once, got 'a, b'"):
        Measure(by="ward", categories=("a", "b", "a", "b", "c"))
    many = tuple(f"c{i}" for i in range(100_000))
    assert len(Measure(by="ward", categories=many).names) == 100_000
    with pytest.raises(InvalidArgument, match=r"each category once, got 'c0, c1, c10, c100, c1000, \.\.\.'"):
        Measure(by="ward", categories=many + many)
    with pytest.raises(InvalidArgument, match="without the name"):
        Measure(by="ward", categories=("a", "other"), undeclared="other")
