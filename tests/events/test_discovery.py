"""Counting by names that nobody listed beforehand: an OpenCounter's values, from frames, with and without a store."""

import warnings

import numpy as np
import polars as pl
import pytest

import dpstream as dp
from dpstream.errors import BudgetError, CountWarning, InvalidArgument, RowRefused, StoreMismatch
from dpstream.events.stored_names import StoredNames
from dpstream.events.windows import windows_of
from dpstream.noise import keystream
from dpstream.store import PublishedStore
from dpstream.testing import fixed_key

BUDGET = dp.approx_dp(6, 1e-6)
DAYS = 4


@pytest.fixture(autouse=True)
def _no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CountWarning)
        yield


@pytest.fixture(scope="module")
def log():
    chance = np.random.default_rng(4)
    rows = 3000
    return pl.DataFrame(
        {
            "when": [f"2026-03-{day:02d}" for day in chance.integers(1, DAYS + 1, rows)],
            "who": chance.integers(0, 700, rows),
            "term": [f"t{min(i, 30)}" for i in chance.geometric(0.2, rows).tolist()],
        }
    )


def counted(frame, **given):
    settings = {
        "time": "when", "start": "2026-03-01", "through": f"2026-03-{DAYS:02d}", "budget": BUDGET, "by": "term",
        "discover": True, "user": "who", "names_per_person": 3,
    }  # fmt: skip
    return dp.count(frame, **{name: value for name, value in (settings | given).items() if value is not None})


def in_memory(log, **given):
    """What an OpenCounter publishes of the log's days, read in their order."""
    settings = {"names_per_person": 3, "key": fixed_key("log")} | given
    counter = dp.OpenCounter(DAYS, BUDGET, **settings)
    for day in range(1, DAYS + 1):
        now = log.filter(pl.col("when") == f"2026-03-{day:02d}")
        yield counter.add_events(now["who"].to_list(), now["term"].to_list())


@pytest.mark.parametrize(
    "given", [{}, {"per_name": 2}, {"values": ["t3", "never"]}], ids=["people", "rows", "declared"]
)
def test_the_values_of_an_open_counter(log, monkeypatch, given):
    for module in (keystream, dp.release.open_settings):
        monkeypatch.setattr(module, "fresh_key", lambda: fixed_key("log"))
    table = counted(log, **given)
    own = {"declared": given["values"]} if "values" in given else given
    expected = [
        (day, name, value)
        for day, released in enumerate(in_memory(log, **own), start=1)
        for name, value in released.items()
    ]
    assert list(zip(table["step"], table["category"], table["value"], strict=True)) == expected
    assert table["step"].max() == DAYS
    assert table["category"].n_unique() > 5
    assert (table["high"] - table["value"]).min() > 0
    assert str(table["start"][-1]) == f"2026-03-{DAYS:02d}"


def test_day_by_day_with_a_store(log, tmp_path):
    """Late rows count in the next step, a batch that is given again counts nothing, and readers need no key."""
    store = tmp_path / "terms.db"
    yesterday = None
    for day in range(1, DAYS + 1):
        now = log.filter(pl.col("when") == f"2026-03-{day:02d}")
        late = log.filter(pl.col("when") == f"2026-03-{day - 1:02d}")[:50].with_columns(who=pl.col("who") + 10_000)
        settings = {"until": f"2026-03-{DAYS:02d}", "windows": ("1d", "3d"), "max_pairs": 9000}
        arguments = {"store": store, "through": f"2026-03-{day:02d}", "batch": f"day {day}"}
        if day == 1:
            table = counted(now, **settings, **arguments)
        else:
            table = dp.count(pl.concat([now, late]), **arguments)
            assert dp.count(pl.concat([now, late]), **arguments).height == 0
        assert table["step"].unique().to_list() == [day]
        released = dict(zip(table["category"], table["value"], strict=True))
        window = dict(zip(table["category"], table["last_1d"], strict=True))
        for name, value in released.items():
            new = day > 1 and name not in yesterday
            assert window[name] == (None if new else value - (yesterday or {}).get(name, 0))
        yesterday = released
    everything = dp.count(log[:0], store=store, through=f"2026-03-{DAYS:02d}", everything=True)
    assert everything["step"].max() == DAYS
    looked_at = StoredNames(PublishedStore(store), "count").table(windows=windows_of("1d,3d"))
    assert looked_at.equals(everything)
    assert StoredNames(PublishedStore(store), "count").table(since=2)["step"].unique().to_list() == [3, 4]
    late_rows = 50 * (DAYS - 1)
    with dp.Store(store) as opened:
        kept = opened.verify("count")
        assert kept.ok
        with pytest.raises(StoreMismatch, match="names_per_person"):
            dp.count(log, store=store, names_per_person=4)
    everyone = log.unique(["who", "term"]).height + late_rows
    assert everything.filter(pl.col("step") == DAYS)["value"].sum() < everyone


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        ({"user": None}, InvalidArgument, "user"),
        ({"by": None}, InvalidArgument, "by"),
        ({"names_per_person": None}, InvalidArgument, "names_per_person"),
        ({"names_per_person": 0}, InvalidArgument, "names_per_person"),
        ({"per_name": 0}, InvalidArgument, "per_name"),
        ({"max_contributions": 3}, InvalidArgument, "names_per_person` limits"),
        ({"value": "who", "per_person": 1000}, InvalidArgument, "value"),
        ({"total": True}, InvalidArgument, "total"),
        ({"monotone": True}, InvalidArgument, "monotone"),
        ({"undeclared": "other"}, InvalidArgument, "undeclared"),
        ({"unbounded": True, "through": None}, InvalidArgument, "every step"),
        ({"max_users": 5}, InvalidArgument, "`max_pairs` says"),
        ({"budget": dp.zcdp(1)}, BudgetError, "give `epsilon` and `delta`, the small chance"),
        ({"budget": dp.pure_dp(1)}, InvalidArgument, "delta must be given"),
        ({"discover": False, "user": None, "values": ["a"]}, InvalidArgument, "`discover`"),
    ],
)
def test_settings_that_do_not_go_together(log, given, error, match):
    with pytest.raises(error, match=match):
        counted(log, **given)


@pytest.mark.parametrize(
    ("row", "match"),
    [
        ({"term": ""}, "row 3001, column 'term'.*a name.*missing='skip'"),
        ({"term": None}, "row 3001, column 'term'.*a name"),
        ({"term": "x" * 100_000}, r"row 3001, column 'term'.*at most 4,096 characters, got 'x+… \(100,000 characters"),
        ({"who": None}, "row 3001, column 'who'.*a user"),
    ],
)
def test_rows_that_cannot_be_counted_name_their_place(log, tmp_path, row, match):
    store = tmp_path / "terms.db"
    bad = pl.concat([log, log[:1].with_columns(**{name: pl.lit(cell) for name, cell in row.items()}).cast(log.schema)])
    with pytest.raises(RowRefused, match=match):
        counted(bad, store=store, until="2026-03-31")
    assert not store.exists()


def test_a_name_is_text(log):
    with pytest.raises(RowRefused, match="row 1, column 'term': expected a name that is text"):
        counted(log.with_columns(term=pl.concat_list("term")))


def test_empty_cells_can_be_left_out_or_named_and_spellings_are_joined(log):
    crowd = pl.DataFrame(
        {
            "when": ["2026-03-01"] * 400,
            "who": range(400),
            "term": ["", "NA"] * 50 + ["caf\u00e9"] * 150 + ["cafe\u0301"] * 150,
        }
    )
    assert set(counted(crowd, missing="skip")["category"]) == {"caf\u00e9"}
    assert set(counted(crowd, missing="nothing")["category"]) == {"caf\u00e9", "nothing"}
    assert set(counted(crowd, missing="skip", values=["NA"])["category"]) == {"caf\u00e9", "NA"}


def test_pandas_in_pandas_out(log):
    table = counted(log[:500].to_pandas(), start="2026-03-01")
    assert type(table).__module__.startswith("pandas")
    assert {"category", "value", "high"} <= set(table.columns)
