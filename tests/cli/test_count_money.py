"""`dpstream count` sums amounts such as 12.50: read exactly, limited by name, shown in their unit."""

import json
from decimal import Decimal

import numpy as np
import polars as pl
import pytest

import dpstream as dp
from tests.cli.test_count import KEY, count, counted, narrow_terminal, same_noise  # noqa: F401
from tests.cli.test_count_refusals import here, refused  # noqa: F401

SALES = "when,amount\n2026-01-01,12.50\n2026-01-01,-3\n2026-01-02,250.10\n2026-01-04,0.05\n"
DAYS = ("--time", "when", "--from", "2026-01-01", "--through", "2026-01-04", "--horizon", "10", "--rho", "0.5")
SUM = ("--value", "amount", "--unit", "0.01", "--per-person", "200")


def test_sums_are_the_counters_in_cents(here, same_noise):  # noqa: F811
    (here / "sales.csv").write_text(SALES)
    rows = counted("sales.csv", *DAYS, *SUM, "--clip")
    assert all(len(row[name].split(".")[1]) == 2 for row in rows for name in ("value", "low", "high"))
    expected = dp.Counter(10, dp.zcdp(0.5), per_person=20_000, key=KEY)
    for row, cents in zip(rows, [950, 20_000, 0, 5], strict=True):
        value = expected.add(cents)
        stddev, low, high = expected.estimate(0.95)[1:]
        assert [Decimal(row[name]) * 100 for name in ("value", "low", "high")] == [value, low, high]
        assert float(row["stddev"]) == pytest.approx(stddev / 100, rel=1e-4)


def test_clipped_rows_are_counted_and_said(here):  # noqa: F811
    (here / "sales.csv").write_text(SALES)
    result = count("sales.csv", *DAYS, *SUM, "--clip")
    assert "warning: 1 row with an amount outside -200.00 to 200.00 counts as the nearer of the two" in " ".join(
        result.stderr.split()
    )
    assert "Not for publication." in " ".join(result.stderr.split())
    unclipped = count("sales.csv", *DAYS, "--value", "amount", "--unit", "0.01", "--per-person", "300", "--clip")
    assert "outside" not in unclipped.stderr


def test_every_form_shows_amounts(here):  # noqa: F811
    (here / "sales.csv").write_text(SALES)
    more = ("--clip", "--mechanism", "Binary", "--store", "s.db", "--all")
    csv = [row["value"] for row in counted("sales.csv", *DAYS, *SUM, *more)]
    lines = count("sales.csv", *DAYS, *SUM, *more, "--json").stdout.splitlines()
    assert [json.loads(line)["value"] for line in lines] == list(map(float, csv))
    assert count("sales.csv", *DAYS, *SUM, *more, "--output", "o.parquet").exit_code == 0
    assert [f"{value:.2f}" for value in pl.read_parquet("o.parquet")["value"]] == csv
    table = count("sales.csv", *DAYS, *SUM, *more, "--as", "table", "--plot", "o.png", "--compare-with-truth")
    assert table.exit_code == 0, table.output
    assert f"{float(csv[0]):,.2f}" in table.stdout
    assert (here / "o.png").stat().st_size > 1000


def test_the_noise_is_said_in_the_unit(here):  # noqa: F811
    (here / "sales.csv").write_text(SALES)
    cents = count("sales.csv", *DAYS, *SUM, "--clip").stderr
    (here / "cents.csv").write_text(SALES.replace("12.50", "1250").replace("250.10", "20000").replace("0.05", "5"))
    whole = count("cents.csv", *DAYS, "--value", "amount", "--per-person", "20000").stderr
    noise = int(whole.split("at most ±")[1].split(" ")[0].replace(",", ""))
    assert f"at most ±{noise / 100:,.2f} (95 %)" in cents


def test_another_unit_is_another_stream(here):  # noqa: F811
    (here / "sales.csv").write_text(SALES)
    assert count("sales.csv", *DAYS, *SUM, "--clip", "--store", "s.db").exit_code == 0
    other = (*DAYS, "--value", "amount", "--unit", "0.05", "--per-person", "1000", "--clip", "--store", "s.db")
    refused(count("sales.csv", *other), "created with --unit 0.01, but --unit 0.05 was given")
    assert count("sales.csv", *DAYS, "--store", "s.db").exit_code == 0  # the stream knows the unit and the limit


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((*SUM,), "line 4, column 'amount': expected a multiple of 0.01 from -200.00 to 200.00 (--per-person 200), got"
         " '250.10'; --clip counts it as 200.00"),
        (("--value", "amount", "--per-person", "300"), "line 2, column 'amount': expected a whole number from -300 to"
         " 300 (--per-person 300), got '12.50'; for amounts such as 12.50, give --unit 0.01"),
        ((*SUM, "--decimal", ","), "got '12.50'; for amounts such as 12.50, give --decimal ."),
        ((*SUM, "--decimal", ";"), "--decimal must be '.' or ','"),
        (("--value", "amount", "--unit", "0.01", "--per-person", "0.005"), "--per-person must be a multiple of 0.01"),
        (("--value", "amount", "--unit", "0.01", "--per-person", "a lot"), "--per-person must be a number above 0"),
        (("--value", "amount", "--unit", "0.01", "--per-person", str(2**40)), "--per-person must be at most"
         " 10,995,116,277.76"),
        (("--value", "amount", "--unit", "cent", "--per-person", "2"), "--unit must be a number above 0"),
        (("--unit", "0.01"), "--unit must be used with --value"),
        (("--clip",), "--clip must be used with --value"),
    ],
)  # fmt: skip
def test_refused(here, options, message):  # noqa: F811
    (here / "sales.csv").write_text(SALES)
    refused(count("sales.csv", *DAYS, *options, "--store", "s.db"), message)
    assert [path.name for path in here.iterdir()] == ["sales.csv"]


def test_decimal_commas(here, same_noise):  # noqa: F811
    (here / "sales.csv").write_text(SALES)
    quoted = "\n".join(f'{a},"{b.replace(".", ",")}"' for a, b in (line.split(",") for line in SALES.split()))
    (here / "comma.csv").write_text(quoted)
    with_comma = counted("comma.csv", *DAYS, *SUM, "--clip", "--decimal", ",")
    assert with_comma == counted("sales.csv", *DAYS, *SUM, "--clip")


def test_clipping_is_by_row_before_the_sum(here, same_noise):  # noqa: F811
    """Attack: one row of any size moves no release by more than a row at the limit."""
    released = []
    for amount in ("200", "1000000"):
        (here / "sales.csv").write_text(f"{SALES}2026-01-04,{amount}\n2026-01-04,-150\n")
        released.append(np.array([float(row["value"]) for row in counted("sales.csv", *DAYS, *SUM, "--clip")]))
    np.testing.assert_array_equal(*released)
