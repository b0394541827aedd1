"""What a row adds and to what, or why it is refused."""

from decimal import Decimal

import polars as pl
import pytest

from dpstream.errors import InvalidArgument, RowRefused
from dpstream.events.measure import Measure
from dpstream.events.tables import Table

#: What is said of a cell that is empty.
EMPTY = "missing='skip' leaves such rows out, missing='0' counts them as 0"


def table(**columns):
    return Table(pl.DataFrame(columns), lambda row: f"line {row + 2}")


@pytest.mark.parametrize(
    "values", [["1", "-3", "0"], [1, -3, 0], [1.0, -3.0, 0.0], pl.Series([1, -3, 0], dtype=pl.Int8)]
)
def test_whole_numbers_in_any_type(values):
    assert Measure("n", 3).amounts(table(n=values)).units.tolist() == [1, -3, 0]


@pytest.mark.parametrize(
    "bad",
    ["4", "-4", "1.5", "NaN", "inf", "", None, "x", "1e3", "99999999999999999999", 4, 1.5, float("nan"), 1e300, 2**63],
)
def test_what_is_no_whole_number_within_bounds(bad):
    good = "1" if isinstance(bad, str) or bad is None else type(bad)(1)
    values = pl.Series([good, bad], dtype=pl.UInt64) if bad == 2**63 else [good, bad]
    with pytest.raises(
        RowRefused, match=r"line 3, column 'n': expected a whole number from -3 to 3 \(per_person=3\), got"
    ):
        Measure("n", 3).amounts(table(n=values))


def cents(*values, clip=False, decimal=".", unit="0.01", per_person="200"):
    measure = Measure("n", per_person, unit, decimal, clip)
    return measure.amounts(table(n=list(values)))


def clipped(*values):
    units, cut = cents(*values, clip=True)
    return units.tolist(), cut


@pytest.mark.parametrize(
    ("values", "decimal", "units"),
    [
        (["12.50", "-3", " 7.1 ", "+0.05", ".5", "12.500", "2."], ".", [1250, -300, 710, 5, 50, 1250, 200]),
        (["12,50", "-3", "0,05"], ",", [1250, -300, 5]),
        (["-1.100,50", "1,5", "0.100,00"], ",", [-110_050, 150, 10_000]),
        (["1,100.50", "1.5"], ".", [110_050, 150]),
        ([28.47, 0.1 + 0.2, -200.0, 9.99], ".", [2847, 30, -20000, 999]),
        ([28.47, 3.0], ",", [2847, 300]),
        ([28, -3], ".", [2800, -300]),
        ([Decimal("28.47"), Decimal("0.10")], ".", [2847, 10]),
    ],
)
def test_amounts_become_whole_units(values, decimal, units):
    assert cents(*values, decimal=decimal, per_person="2000").units.tolist() == units


def test_every_amount_of_two_decimals_is_read_exactly():
    """No cent is lost on the way through text or binary floating point."""
    every = range(-20_000, 20_001)
    texts = [f"{Decimal(n) / 100:.2f}" for n in every]
    assert cents(*texts).units.tolist() == list(every)
    assert cents(*map(float, texts)).units.tolist() == list(every)
    assert cents(*(text.replace(".", ",") for text in texts), decimal=",").units.tolist() == list(every)


def test_units_other_than_powers_of_ten():
    assert cents("0.05", "-199.95", unit="0.05").units.tolist() == [1, -3999]
    assert cents("5000", "-12000", unit="1000", per_person="20000").units.tolist() == [5, -12]
    assert cents("12.00", "3", unit=1, per_person=20).units.tolist() == [12, 3]
    with pytest.raises(RowRefused, match=r"expected a multiple of 0\.05 from -200\.00 to 200\.00 .* got '0\.07'$"):
        cents("0.07", unit="0.05")


@pytest.mark.parametrize(
    ("given", "decimal", "unit", "said"),
    [
        ("12.505", ".", "0.01", "got '12.505'; for amounts such as 12.505, give unit='0.001'"),
        ("28.47", ".", 1, "got '28.47'; for amounts such as 28.47, give unit='0.01'"),
        ("12,50", ".", "0.01", "got '12,50'; for amounts such as 12,50, give decimal=','"),
        ("12,5", ".", 1, "got '12,5'; for amounts such as 12,5, give decimal=',' and unit='0.01'"),
        ("12.50", ",", "0.01", "got '12.50'; for amounts such as 12.50, give decimal='.'"),
        ("1e2", ".", "0.01", "got '1e2'"),
        ("1,234.50", ",", "0.01", "got '1,234.50'"),
        ("1,23.50", ".", "0.01", "got '1,23.50'"),
        ("1,100", ".", "0.01", "got '1,100'; for amounts such as 1,100, give decimal=','"),
        ("1,234", ".", "0.01", "got '1,234'; for amounts such as 1,234, give decimal=',' and unit='0.001'"),
        ("12.5.0", ".", "0.01", "got '12.5.0'"),
        ("€ 12", ".", "0.01", "got '€ 12'"),
        (".", ".", "0.01", f"got '.'; {EMPTY}"),
        ("-", ".", "0.01", f"got '-'; {EMPTY}"),
        ("200.01", ".", "0.01", "got '200.01'; clip=True counts it as 200.00"),
        ("-9" + 40 * "9", ".", "0.01", "got '-9" + 40 * "9" + "'"),
        (0.125, ".", "0.01", "got 0.125; for amounts such as 0.125, give unit='0.001'"),
        (float("inf"), ".", "0.01", "got inf"),
        (float("nan"), ".", "0.01", f"got nan; {EMPTY}"),
    ],
)
def test_amounts_that_are_refused_say_what_to_type(given, decimal, unit, said):
    with pytest.raises(RowRefused) as caught:
        cents("1" if isinstance(given, str) else 1.0, given, decimal=decimal, unit=unit)
    assert str(caught.value).startswith("line 3, column 'n': expected a ")
    assert str(caught.value).endswith(said)


def test_amounts_beyond_the_limit_are_clipped_and_counted():
    assert clipped("200.01", "-1000", "5", "9" * 30) == ([20_000, -20_000, 500, 20_000], 3)
    assert clipped(1e300, -1e18, 5.25) == ([20_000, -20_000, 525], 2)
    with pytest.raises(RowRefused):  # no number at all stays no number
        cents("x", clip=True)


def test_releases_are_shown_in_the_unit():
    frame = pl.DataFrame({"step": [7, 8], "value": [123456, -5], "stddev": [212.89, 0.0], "low": [0, 2**61]})
    shown = Measure("n", 200, "0.01").in_unit(frame)
    assert shown.write_csv().splitlines()[1:] == ["7,1234.56,2.1289,0.00", "8,-0.05,0.0,23058430092136939.52"]
    assert Measure("n", 200).in_unit(frame).equals(frame)
    assert Measure("n", 2000, 1000).in_unit(frame)["value"].to_list() == [123_456_000, -5000]


def test_what_makes_no_unit():
    for unit in ("0", "-1", "x", "nan", "inf", True, "1e-40"):
        with pytest.raises(InvalidArgument, match="unit must be a number above 0"):
            Measure("n", 1, unit)
    with pytest.raises(InvalidArgument, match=r"per_person must be a multiple of 0\.01 .*, got '0\.005'"):
        Measure("n", "0.005", "0.01")
    with pytest.raises(InvalidArgument, match=r"decimal must be '\.' or ','"):
        Measure("n", decimal=";")
    with pytest.raises(InvalidArgument, match="unit must be used with `value`"):
        Measure(unit="0.01")
    with pytest.raises(InvalidArgument, match="clip must be used with `value`"):
        Measure(clip=True)


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
    assert other.places(table(ward=["a", "c", "b"])).tolist() == [1, 2, 0]
    for empty in ("", None, "NA", " "):
        with pytest.raises(RowRefused, match=r"line 3, .* missing='skip' .*, missing='other' counts them as other"):
            other.places(table(ward=["a", empty]))
    named = Measure(by="land", categories=("AT", "NA"), undeclared="other")  # Namibia
    assert named.places(table(land=["NA", "FR"])).tolist() == [1, 2]
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
