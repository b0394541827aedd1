"""What one row changes in what a run says is marked as not for publication: standard error, warnings of dp.count."""

import warnings

import polars as pl
import pytest

import dpstream as dp
from dpstream.errors import CountWarning
from tests.cli.test_count import count, narrow_terminal  # noqa: F401

MARK = "not for publication"
HEADER = "when,ward,paid,who\n"
ROWS = [f"2026-01-0{day},a,1,p{day}" for day in (1, 2, 4) for _ in range(3)]
USUAL = ("--time", "when", "--from", "2026-01-01", "--until", "2026-12-31", "--through", "2026-01-05", "--rho", 0.5)
#: One row more, and what the run is asked beside the usual.
CASES = {
    "in a step": ("2026-01-02,a,1,p9", ()),
    "in an empty step": ("2026-01-03,a,1,p9", ()),
    "before the first step": ("2025-12-31,a,1,p9", ()),
    "after the last step": ("2026-01-06,a,1,p9", ()),
    "outside where": ("2026-01-02,b,1,p9", ("--where", "ward=a")),
    "an empty cell": ("2026-01-02,a,,p9", ("--value", "paid", "--per-person", 5, "--missing", "skip")),
    "clipped": ("2026-01-02,a,9,p9", ("--value", "paid", "--per-person", 5, "--clip")),
    "beyond the limit": ("2026-01-02,a,1,p1", ("--user", "who", "--max-contributions", 3)),
}


def said(log, row, *more):
    rows = sorted([*ROWS, row] if row else ROWS)
    log.write_text(HEADER + "".join(f"{one}\n" for one in rows))
    result = count(log, *USUAL, *more)
    assert result.exit_code == 0, result.output
    return result.stderr.splitlines()


@pytest.fixture
def log(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    return tmp_path / "log.csv"


@pytest.mark.parametrize("stored", [False, True], ids=["alone", "store"])
@pytest.mark.parametrize("case", CASES)
def test_what_one_row_changes_is_not_for_publication(case, stored, log, tmp_path):
    row, options = CASES[case]
    one, other = (
        said(log, extra, *options, *(("--store", tmp_path / f"{i}.db") if stored else ()))
        for i, extra in enumerate(("", row))
    )
    changed = set(one) ^ set(other)
    assert changed
    assert {line for line in changed if MARK not in line.lower()} == set()


def test_late_rows_and_files_given_again(log, tmp_path):
    """The second run of a store: one row of a released step, or the very file of the first run."""
    store = ("--store", tmp_path / "s.db")
    said(log, "", *store)
    (tmp_path / "late.csv").write_text(f"{HEADER}2026-01-06,a,1,p1\n2026-01-02,a,1,p2\n")
    late = count(tmp_path / "late.csv", *store, "--through", "2026-01-06", env={"COLUMNS": "1000"}).stderr.splitlines()
    assert [line for line in late if "came late" in line and MARK in line.lower()]
    again = said(log, "", *store, "--through", "2026-01-06")
    assert [line for line in again if "was counted before" in line and MARK in line.lower()]


def test_how_many_people_had_rows_left_out(log):
    (line,) = (
        line
        for line in said(log, "", "--user", "who", "--max-contributions", 2, "--report-dropped", 1)
        if "Users with rows left out" in line
    )
    assert MARK in line


def test_warnings_of_a_data_frame(log):
    """dp.count warns of the same, with the same words."""
    frame = pl.DataFrame({"when": ["2025-12-31", "2026-01-02", "2026-01-09"], "paid": [1, 9, 1]})
    settings = {"time": "when", "start": "2026-01-01", "through": "2026-01-05", "horizon": 9, "budget": dp.zcdp(0.5)}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dp.count(frame, **settings, value="paid", per_person=5, clip=True)
    texts = [str(one.message) for one in caught if issubclass(one.category, CountWarning)]
    assert len(texts) == 3
    assert [text for text in texts if MARK not in text.lower()] == []
