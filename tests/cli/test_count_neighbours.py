"""One person more or less changes values, never which steps are released.

Attack: read the number of releases and their dates, not their values. On a log with and without one person they must be
the same, whatever day that person came; before steps came from a clock they told the two apart every time.
"""

import csv
import io

import polars as pl
import pytest

from tests.cli.test_count import count, narrow_terminal  # noqa: F401
from tests.store.conftest import path  # noqa: F401

DAYS = [f"2026-01-{day:02}" for day in range(5, 21) for _ in range(3)]
#: The person who is there or not: on the last day, before the first, in the middle, alone on a day of their own.
PERSONS = ["2026-01-29", "2026-01-02", "2026-01-10", "2026-01-21"]
DATES = ("--from", "2026-01-01", "--through", "2026-01-31")


def log(file, days, users=None):
    rows = sorted(zip(days, users or ["x"] * len(days), strict=True))
    file.write_text("when,who\n" + "".join(f"{day},{who}\n" for day, who in rows))


def visible(*arguments):
    """Everything about the releases but the noisy values."""
    result = count(*arguments)
    assert result.exit_code == 0, result.output
    return [(row["step"], row["start"], row["stddev"]) for row in csv.DictReader(io.StringIO(result.stdout))]


@pytest.mark.parametrize("person", PERSONS)
@pytest.mark.parametrize(
    "dates", [DATES, ("--from", "2026-01-01", "--through", "now"), ("--from", "2026-01-01", "--until", "2026-01-31")]
)
def test_neighbouring_logs_release_the_same_steps(tmp_path, person, dates):
    end = () if "--until" in dates else ("--horizon", "365")
    seen = []
    for days in (DAYS, [*DAYS, person]):
        log(tmp_path / "log.csv", days)
        seen.append(visible(tmp_path / "log.csv", "--time", "when", "--rho", "0.5", *end, *dates))
    assert seen[0] == seen[1]
    assert len(seen[0]) == (151 if "now" in dates else 31)


@pytest.mark.parametrize("person", PERSONS)
def test_neighbouring_logs_of_a_store(path, person):  # noqa: F811
    seen = []
    for i, days in enumerate((DAYS, [*DAYS, person])):
        log(path.parent / "log.csv", days)
        arguments = ("--time", "when", "--rho", "0.5", "--horizon", "365", "--from", "2026-01-01", "--name", f"s{i}")
        seen.append(visible(path.parent / "log.csv", *arguments, "--store", path, "--through", "now"))
    assert seen[0] == seen[1]
    assert len(seen[0]) == 151


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_nobody_and_one_person(tmp_path, form):
    seen = []
    for days in ([], ["2026-01-10"]):
        frame = pl.DataFrame({"when": days}, schema={"when": pl.String})
        file = tmp_path / f"log.{form}"
        {"csv": frame.write_csv, "jsonl": frame.write_ndjson, "parquet": frame.write_parquet}[form](file)
        seen.append(visible(file, "--time", "when", "--rho", "0.5", "--horizon", "365", *DATES))
    assert seen[0] == seen[1]
    assert len(seen[0]) == 31


def test_a_user_whose_rows_are_left_out(tmp_path):
    seen = []
    for many in (0, 1000):
        users = [*(f"u{i}" for i in range(len(DAYS))), *["flood"] * many]
        log(tmp_path / "log.csv", [*DAYS, *["2026-01-12"] * many], users)
        usual = ("--time", "when", "--rho", "0.5", "--horizon", "365", "--user", "who", "--max-contributions", "1")
        seen.append(visible(tmp_path / "log.csv", *usual, *DATES))
    assert seen[0] == seen[1]


@pytest.mark.parametrize(
    ("options", "warnings"),
    [
        (DATES, []),
        (DATES[:2], ["the last step (2026-01-20) was taken from the data"]),
        (DATES[2:], ["the first step (2026-01-05) was taken from the data"]),
        ((), ["the first step (2026-01-05) was taken from the data", "the last step (2026-01-20) was taken from the"]),
    ],
)
def test_what_was_taken_from_the_data_is_warned_of(tmp_path, options, warnings):
    log(tmp_path / "log.csv", DAYS)
    result = count(tmp_path / "log.csv", "--time", "when", "--rho", 0.5, "--horizon", 365, "--quiet", *options)
    said = " ".join(result.stderr.split())
    assert said.count("warning:") == len(warnings)
    for warning in warnings:
        assert warning in said
