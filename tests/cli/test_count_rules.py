"""`dpstream count --where`, `--missing` and categories that hold commas."""

import pytest

from tests.cli.test_count import count, counted, narrow_terminal, same_noise  # noqa: F401
from tests.cli.test_count_refusals import here, refused  # noqa: F401

LOG = (
    "when,ward,n\n2026-01-01,A&E,1\n2026-01-01,\"Surgery, general\",2\n,A&E,3\n2026-01-02,NA,4\n2026-01-02,A&E,\n"
    "2026-01-03,Eyes,5\n"
)  # fmt: skip
DAYS = ("--time", "when", "--from", "2026-01-01", "--through", "2026-01-03", "--horizon", "9", "--rho", "1000000")
WARDS = ("--by", "ward", "--values", 'A&E,"Surgery, general", Eyes')
SUM = ("--value", "n", "--per-person", "9")


def totals(*options):
    rows = counted("log.csv", *DAYS, *options)
    return [int(row["value"]) for row in rows if row["start"] == "2026-01-03"]


def said(*options):
    return " ".join(count("log.csv", *DAYS, *options).stderr.split())


def test_empty_cells(here):  # noqa: F811
    (here / "log.csv").write_text(LOG)
    assert totals("--missing", "skip") == [5]
    assert totals("--missing", "skip", *WARDS) == [2, 1, 1]
    assert totals("--missing", "skip", *WARDS, *SUM) == [1, 2, 5]
    words = said("--missing", "skip", *WARDS, *SUM)
    assert "6 rows read (not for publication); 3 steps released." in words
    for column in ("when", "ward", "n"):
        assert f"1 row with an empty cell in {column!r} is not counted (--missing skip)." in words
    refused(count("log.csv", *DAYS), "line 4, column 'when': expected a timestamp of the form yyyy-mm-dd, got an empty"
            " cell; --missing skip leaves such rows out")  # fmt: skip
    refused(count("log.csv", *DAYS, "--missing", "0", *SUM), "line 4, column 'when'")
    (here / "log.csv").write_text(LOG.replace("\n,", "\n2026-01-01,"))
    assert totals(*SUM, "--missing", "0") == [15]
    assert totals(*WARDS, "--missing", "Eyes") == [3, 1, 2]
    refused(count("log.csv", *DAYS, *WARDS), "line 5, column 'ward': expected one of the categories (A&E, Surgery,"
            " general, Eyes), got 'NA'; --missing skip leaves such rows out")  # fmt: skip
    other = (*WARDS, "--undeclared", "other")
    refused(
        count("log.csv", *DAYS, *other), "got 'NA'; --missing skip leaves such rows out, --missing other counts them"
    )
    assert totals(*other, "--missing", "other") == [3, 1, 1, 1]
    refused(count("log.csv", *DAYS, *WARDS, "--missing", "drop"), "--missing must be refuse, skip, or what empty cells")


def test_where(here):  # noqa: F811
    (here / "log.csv").write_text(LOG)
    assert totals("--missing", "skip", "--where", "ward=A&E") == [2]
    assert totals("--missing", "skip", "--where", "ward=A&E", "--where", "ward=Eyes") == [3]
    assert totals("--where", "ward=Surgery, general", "--where", "n=2") == [1]
    assert "5 rows are not of --where." in said("--where", "ward=Eyes")
    refused(count("log.csv", *DAYS, "--where", "Eyes"), "--where must be of the form COLUMN=VALUE, such as ward=north")
    refused(count("log.csv", *DAYS, "--where", "x=1"), "has no column 'x'")


def test_the_rules_are_the_streams(here):  # noqa: F811
    (here / "log.csv").write_text(LOG)
    store = ("--store", "s.db")
    rules = ("--where", "ward=A&E", "--where", "ward=Eyes", "--missing", "skip")
    first = count("log.csv", *DAYS, *rules, *store)
    assert first.exit_code == 0, first.output
    assert count("log.csv", *store).exit_code == 0
    swapped = ("--where", "ward=Eyes", "--where", "ward=A&E")
    assert count("log.csv", *swapped, *store).exit_code == 0
    refused(count("log.csv", "--where", "ward=A&E", *store), "created with --where ward=A&E,ward=Eyes, but --where")
    refused(count("log.csv", "--missing", "refuse", *store), "created with --missing skip")


@pytest.mark.parametrize("values", ['"A&E', 'a,"b"c'])
def test_quotes_that_do_not_match(here, values):  # noqa: F811
    (here / "log.csv").write_text(LOG)
    refused(
        count("log.csv", *DAYS, "--by", "ward", "--values", values), "--values must be categories with commas between"
    )


def test_a_category_with_a_comma_says_how_to_give_it(here):  # noqa: F811
    (here / "log.csv").write_text('when,ward\n2026-01-01,"Surgery, general"\n')
    result = count("log.csv", *DAYS, "--by", "ward", "--values", "Surgery, general")
    refused(
        result, "got 'Surgery, general'; --undeclared other counts the rest together; a category with a comma is given"
    )
