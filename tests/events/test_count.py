"""dp.count: the run of `dpstream count` on data frames."""

import datetime as dt
import warnings

import pandas as pd
import polars as pl
import pytest

import dpstream as dp
from dpstream.errors import (
    ColumnMissing,
    CountWarning,
    InvalidArgument,
    RowRefused,
    SettingsMissing,
    StoreMismatch,
)
from tests.cli.test_count import count as by_command
from tests.cli.test_count import narrow_terminal, same_noise  # noqa: F401
from tests.store.conftest import path  # noqa: F401

#: With this budget there is no noise: what is released is the truth.
#: The standard deviation of amounts in cents is below 0.005: a wrong cent comes once in 10^1000 runs.
EXACT = dp.zcdp(1e10)
FRAME = pl.DataFrame(
    {
        "when": [dt.datetime(2026, 1, day, 12) for day in (3, 1, 1, 2)],
        "ward": ["north", "south", "north", "south"],
        "who": [7, 7, 8, 7],
        "paid": ["1.50", "2.25", "0.10", "3.00"],
    }
)
DAYS = {"time": "when", "start": "2026-01-01", "through": "2026-01-03"}


@pytest.fixture(autouse=True)
def no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error", CountWarning)
        warnings.filterwarnings("ignore", ".*protects hardly anybody", CountWarning)
        yield


def test_the_table_is_that_of_the_command(same_noise, tmp_path):  # noqa: F811
    FRAME.sort("when").write_csv(tmp_path / "log.csv")
    settings = {"by": "ward", "values": ["north", "south"], "windows": ["2d"], "confidence": 0.8}
    found = dp.count(FRAME, **DAYS, **settings, budget=dp.approx_dp(1, 1e-6))
    written = by_command(
        tmp_path / "log.csv", "--time", "when", "--from", "2026-01-01", "--through", "2026-01-03", "--by", "ward",
        "--values", "north,south", "--windows", "2d", "--confidence", 0.8, "--epsilon", 1, "--delta", 1e-6,
    )  # fmt: skip
    assert written.exit_code == 0, written.output
    assert found.write_csv() == written.stdout


def test_every_way_to_count():
    assert dp.count(FRAME, **DAYS, budget=EXACT)["value"].to_list() == [2, 3, 4]
    amounts = dp.count(FRAME, **DAYS, value="paid", per_person=3, unit="0.01", budget=EXACT)
    assert [str(amount) for amount in amounts["value"]] == ["2.35", "5.35", "6.85"]
    people = dp.count(FRAME, **DAYS, user="who", max_contributions=1, budget=EXACT)
    assert people["value"].to_list() == [1, 1, 2]  # the first row of user 7 is that of the third day
    some = dp.count(FRAME, **DAYS, where=["ward=north"], budget=EXACT, every="1d")
    assert some["value"].to_list() == [1, 1, 2]
    weeks = dp.count(
        FRAME, time="when", every="1w", start=dt.date(2026, 1, 1), through=dt.date(2026, 1, 8), budget=EXACT
    )
    assert weeks["value"].to_list() == [4, 4]


@pytest.mark.parametrize("zone", [None, "Europe/Vienna"])
def test_pandas_in_pandas_out(zone):
    frame = FRAME.to_pandas()
    if zone:
        frame["when"] = frame["when"].dt.tz_localize(zone)
    frame["ward"] = frame["ward"].astype("category")
    frame.index = list("wxyz")
    before = frame.copy()
    found = dp.count(frame, **DAYS, by="ward", values=["north", "south"], time_zone=zone, budget=EXACT)
    assert isinstance(found, pd.DataFrame)
    assert found["value"].tolist() == [1, 1, 1, 2, 2, 2]
    assert [str(day)[:10] for day in found["start"]] == [f"2026-01-0{day}" for day in (1, 1, 2, 2, 3, 3)]
    pd.testing.assert_frame_equal(frame, before)


def test_a_store_goes_on_without_settings(path):  # noqa: F811
    first = dp.count(FRAME, time="when", start="2026-01-01", until="2026-12-31", through="2026-01-02", budget=EXACT,
                     user="who", max_contributions=2, store=path, batch="first")  # fmt: skip
    assert first["value"].to_list() == [2, 2]  # of user 7, the rows of the third day and of the first
    # The same batch again: what waited is released.
    with pytest.warns(CountWarning, match="the batch 'first' was counted before"):
        assert dp.count(FRAME, store=path, through="2026-01-03", batch="first")["value"].to_list() == [3]
    late = pl.DataFrame({"when": [dt.datetime(2026, 1, 4), dt.datetime(2026, 1, 1)], "who": [8, 9]})
    with pytest.warns(CountWarning, match=r"1 row came late, .* and is counted in the step of 2026-01-04"):
        assert dp.count(late, store=path, through=dt.date(2026, 1, 4))["value"].to_list() == [5]
    everything = dp.count(FRAME.clear(), store=path, through="2026-01-04", everything=True)
    assert everything["value"].to_list() == [2, 2, 3, 5]
    with pytest.raises(StoreMismatch, match="max_contributions=2, but max_contributions=3 was given"):
        dp.count(late, store=path, max_contributions=3)


def test_what_is_taken_from_the_data_is_said():
    with pytest.warns(CountWarning) as said:
        dp.count(FRAME, time="when", horizon=10, budget=EXACT)
    texts = [str(one.message) for one in said]
    assert any("the first step (2026-01-01) was taken from the data" in text for text in texts)
    assert any("the last step (2026-01-03) was taken from the data" in text for text in texts)
    with pytest.warns(CountWarning, match="1 row from before the first step was not counted"):
        dp.count(FRAME[[0, 1, 3]], time="when", start="2026-01-02", through="2026-01-03", budget=EXACT)


def test_refusals(path):  # noqa: F811
    with pytest.raises(SettingsMissing, match=r"`time` .*; one of `horizon` .*; `budget`"):
        dp.count(FRAME)
    with pytest.raises(SettingsMissing, match="one of `horizon`"):
        dp.count(FRAME, **DAYS, budget=EXACT, store=path)
    with pytest.raises(ColumnMissing, match="the frame has no column 'day'"):
        dp.count(FRAME, **{**DAYS, "time": "day"}, budget=EXACT)
    with pytest.raises(RowRefused, match="row 2, column 'ward': expected one of the categories"):
        dp.count(FRAME, **DAYS, by="ward", values=["north"], budget=EXACT)
    with pytest.raises(InvalidArgument, match="a data frame of Polars or pandas"):
        dp.count([1, 2], **DAYS, budget=EXACT)
    with pytest.raises(InvalidArgument, match="budget"):
        dp.count(FRAME, **DAYS, budget=0.5)
    assert not path.exists()
