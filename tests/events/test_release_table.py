"""Tables of releases: the columns of windows and views, in pieces as at once; their bars cover the truth."""

import numpy as np
import polars as pl
import pytest
from scipy import stats

import dpstream as dp
from dpstream.errors import InvalidArgument
from dpstream.events.calendar import Calendar
from dpstream.events.release_table import ReleaseTable
from dpstream.events.windows import Window, windows_of
from dpstream.release.error_bars import change_error
from dpstream.testing import fixed_key
from tests.events.test_calendar import moments

KEY = fixed_key("tables")


def released(shape=(), steps=60):
    counter = dp.Counter(steps, dp.zcdp(0.05), shape=shape, key=KEY, mechanism=dp.mechanisms.BalancedToeplitz(steps))
    return counter, counter.extend(np.arange(steps * max(np.prod(shape, dtype=int), 1)).reshape(steps, *shape) % 13)


@pytest.mark.parametrize("shape", [(), (3,)])
def test_every_number_of_every_window(shape):
    """Against the counter's own answers, release by release."""
    counter, values = released(shape)
    names = ("a", "b", "c")[: shape[0]] if shape else ()
    table = ReleaseTable(counter.settings, None, names, windows=windows_of("1,7,59,90"), confidence=0.9).rows(values)
    rows = iter(table.iter_rows(named=True))
    for t in range(1, len(values) + 1):
        for i in range(len(names) or 1):
            row = next(rows)
            assert row["step"] == t
            assert row.get("category") == (names[i] if names else None)
            for window in (1, 7, 59, 90):
                since = max(t - window, 0)
                value = values[t - 1] - (values[since - 1] if since else 0)
                value = int(value[i] if shape else value)
                if since:
                    stddev, h = change_error(counter.settings, t, since, 0.9)
                else:
                    stddev, h = row["stddev"], row["value"] - row["low"]
                found = [row[f"last_{window}{part}"] for part in ("", "_low", "_high")]
                assert found == [value, value - h, value + h]
                assert row[f"last_{window}_stddev"] == pytest.approx(stddev, rel=1e-4)
    assert next(rows, None) is None


@pytest.mark.parametrize("pieces", [(1,), (7, 1, 30), (59, 1), (2, 5)])
def test_in_pieces_as_at_once(pieces):
    """Windows of months, views and dates; some pieces are passed over, as those of earlier runs."""
    counter, values = released((2,), 120)

    def table():
        days = Calendar("1d", moments("2026-01-15"))
        return ReleaseTable(
            counter.settings, days, ("a", "b"), windows=windows_of("1d,1mo,100"), non_negative=True, monotone=True
        )

    whole, cut = table().rows(values), table()
    frames, at, i = [], 0, 0
    while at < len(values):
        size = pieces[i % len(pieces)]
        if i % 3 == 1:
            cut.skip(values[at : at + size])
        else:
            frames.append(cut.rows(values[at : at + size]))
        at, i = at + size, i + 1
    found = pl.concat(frames)
    assert found.equals(whole.filter(pl.col("step").is_in(found["step"].unique().to_list())))
    assert cut.t == 120
    assert len(cut._past) == 100


def test_views():
    """Beside the release, never instead of it; a later release changes none of them."""
    counter, _ = released()
    values = np.array([-3, 5, 4, 9, 7])
    table = ReleaseTable(counter.settings, windows=[Window("2")], non_negative=True, monotone=True).rows(values)
    assert table["value"].to_list() == [-3, 5, 4, 9, 7]
    assert table["non_negative"].to_list() == [0, 5, 4, 9, 7]
    assert table["monotone"].to_list() == [-3, 5, 5, 9, 9]
    assert table["last_2"].to_list() == [-3, 5, 7, 4, 3]
    assert table["last_2_non_negative"].to_list() == [0, 5, 7, 4, 3]
    plain = ReleaseTable(counter.settings, windows=[Window("2")]).rows(values)
    assert plain.columns == [name for name in table.columns if "negative" not in name and name != "monotone"]
    assert plain.equals(table.select(plain.columns))


@pytest.mark.parametrize("budget", [dp.zcdp(0.05), dp.pure_dp(0.5)], ids=repr)
def test_a_grand_total_beside_categories(budget):
    """Its bars hold the truth in at least 90 of 100 cases; 500 keys.

    Four comparisons with a chance of 1e-7 each: a false alarm has a chance below 1e-6. Bars of a single category in
    their place are noticed.
    """
    mechanism = dp.mechanisms.SmoothBinary(20, noise=budget.noise)
    x = np.arange(20 * 4).reshape(20, 4) % 7
    inside, narrow = {"value": 0, "last_7": 0}, {"value": 0, "last_7": 0}
    for i in range(500):
        counter = dp.Counter(20, budget, shape=4, mechanism=mechanism, key=fixed_key(f"total {i}"))
        values = counter.extend(x)
        table = ReleaseTable(counter.settings, None, ("a", "b", "c", "d"), windows=[Window("7")], total=True,
                             confidence=0.9)  # fmt: skip
        table.skip(values[:19])
        *_, one, total = table.rows(values[19:]).to_dicts()
        assert total["category"] == "total"
        assert total["value"] == values[-1].sum()
        assert total["last_7"] == (values[-1] - values[-8]).sum()
        assert total["stddev"] == pytest.approx(2 * one["stddev"], rel=1e-4)
        for name, prefix, true in (("value", "", x.sum()), ("last_7", "last_7_", x[-7:].sum())):
            inside[name] += total[f"{prefix}low"] <= true <= total[f"{prefix}high"]
            narrow[name] += abs(total[name] - true) <= one[f"{prefix}high"] - one[name]
    for name in inside:
        assert stats.binomtest(inside[name], 500, 0.9, alternative="less").pvalue > 1e-7
        assert inside[name] < 0.99 * 500
        assert stats.binomtest(narrow[name], 500, 0.9, alternative="less").pvalue < 1e-7


def test_a_total_needs_categories():
    settings = dp.Counter(10, dp.zcdp(0.5), shape=2).settings
    for names in (("a", "total"),):
        with pytest.raises(InvalidArgument, match="total must be used with categories"):
            ReleaseTable(settings, None, names, total=True)
    with pytest.raises(InvalidArgument, match="total must be used with categories"):
        ReleaseTable(dp.Counter(10, dp.zcdp(0.5)).settings, total=True)


def test_no_rows_have_the_same_columns():
    counter, values = released((2,))
    table = ReleaseTable(counter.settings, None, ("a", "b"), windows=windows_of("1,7"), monotone=True)
    nothing = table.rows(values[:0])
    assert nothing.schema == table.rows(values).schema
    assert nothing.height == 0


def test_only_counts():
    with pytest.raises(InvalidArgument, match="a counter of single numbers or of categories"):
        ReleaseTable(dp.RunningSum(10, dp.zcdp(0.5)).settings)
    with pytest.raises(InvalidArgument, match="a counter of single numbers or of categories"):
        ReleaseTable(dp.Counter(10, dp.zcdp(0.5), shape=(2, 2)).settings)


#: (name, horizon, budget): the mechanisms that `count --windows` takes if nothing else is said.
DEFAULTS = {
    "Gaussian, fitted": (30, dp.zcdp(0.002)),
    "Gaussian, no end": (None, dp.zcdp(0.002)),
    "Laplace": (30, dp.pure_dp(0.05)),
    "Laplace, no end": (None, dp.pure_dp(0.05)),
}
KEYS, PEOPLE = 4, 2000
CONFIDENCE = 0.9


@pytest.mark.parametrize("name", DEFAULTS)
def test_bars_cover_the_true_windows(name):
    """2,000 categories under each of 4 keys: 8,000 independent streams, and windows up to their last step.

    12 comparisons, each with a chance of a false alarm below 5e-8: together below 1e-6. Bars that are a fifth narrower
    are noticed. Noise is so wide that the intervals cover hardly more than they say.
    """
    horizon, budget = DEFAULTS[name]
    windows = windows_of("1,7,20")
    names = tuple(map(str, range(PEOPLE)))
    x = (np.arange(30)[:, None] * 7 + np.arange(PEOPLE)) % 11
    found = []
    for i in range(KEYS):
        counter = dp.Counter(
            horizon, budget, shape=PEOPLE, windows=() if horizon is None else (1, 7, 20), key=fixed_key(f"cover {i}")
        )
        table = ReleaseTable(counter.settings, None, names, windows=windows, confidence=CONFIDENCE)
        table.skip(counter.extend(x[:29]))
        found.append(table.rows(counter.extend(x[29:])))
    rows = pl.concat(found)
    for window in (1, 7, 20):
        true = np.tile(x[-window:].sum(axis=0), KEYS)
        value, low, high = (rows[f"last_{window}{part}"].to_numpy() for part in ("", "_low", "_high"))
        inside = int(((low <= true) & (true <= high)).sum())
        assert stats.binomtest(inside, len(true), CONFIDENCE, alternative="less").pvalue > 5e-8
        assert inside < len(true) * (CONFIDENCE + 0.03)
        near = int((np.abs(value - true) <= 0.8 * (high - value)).sum())
        assert stats.binomtest(near, len(true), CONFIDENCE, alternative="less").pvalue < 5e-8
