"""`dpstream count --windows`: what was counted in the last days, from the same releases, in every run of a stream."""

import csv
import datetime as dt
import io
import random

import numpy as np
import pytest
from scipy import stats

import dpstream as dp
from dpstream.events import counting
from dpstream.mechanisms import FittedToeplitz
from dpstream.release.plan import choose
from dpstream.release.settings import _complete
from tests.cli.test_count import KEY, count, counted, narrow_terminal, same_noise  # noqa: F401
from tests.events.event_logs import WARDS, expected, random_log, write
from tests.store.conftest import path  # noqa: F401

FIRST, LAST, DAYS = "2026-01-10", "2026-03-20", 70
STEPS = ("--time", "when", "--from", FIRST, "--through", LAST, "--horizon", 100)


@pytest.fixture(scope="module")
def events():
    return random_log(random.Random(5), dt.datetime(2026, 1, 10), dt.timedelta(days=DAYS), 3000)  # noqa: S311


@pytest.fixture
def log(events, tmp_path):
    return write(events, tmp_path, "csv")


@pytest.mark.parametrize(
    ("budget", "options"),
    [
        (dp.zcdp(0.5), ("--rho", 0.5)),
        (dp.pure_dp(0.7), ("--epsilon", 0.7)),
        (dp.zcdp(0.5), ("--rho", 0.5, "--mechanism", "Honaker")),
    ],
)
def test_the_columns_are_the_counters_own(same_noise, events, log, budget, options, monkeypatch):  # noqa: F811
    """Every number of every window, held against a counter that is asked day by day; released in pieces of 16."""
    monkeypatch.setattr(counting, "PIECE", 16)
    rows = counted(log, *STEPS, *options, "--windows", "1d,7d,30", "--confidence", 0.9)
    mechanism = dp.mechanisms.Honaker(100) if "Honaker" in options else "auto"
    counter = dp.Counter(100, budget, key=KEY, windows=(1, 7, 30), mechanism=mechanism)
    inputs = expected(events, "1d", None)
    assert len(rows) == len(inputs) == DAYS
    for row, x in zip(rows, inputs, strict=True):
        assert int(row["value"]) == counter.add(int(x))
        for name, steps in (("last_1d", 1), ("last_7d", 7), ("last_30", 30)):
            value, stddev, low, high = counter.window(steps, 0.9)
            assert [int(row[f"{name}{part}"]) for part in ("", "_low", "_high")] == [value, low, high]
            assert float(row[f"{name}_stddev"]) == pytest.approx(stddev, rel=1e-4)


def test_the_noise_is_fitted_to_the_windows(same_noise, log):  # noqa: F811
    """A day is told more exactly than from a stream that was made for totals."""
    fitted = counted(log, *STEPS, "--rho", 0.05, "--windows", "1d,7d")[-1]
    totals = counted(log, *STEPS, "--rho", 0.05, "--windows", "1d,7d", "--mechanism", "BalancedToeplitz")[-1]
    assert float(fitted["last_1d_stddev"]) < 0.8 * float(totals["last_1d_stddev"])
    assert float(fitted["stddev"]) > float(totals["stddev"])


def test_months(same_noise, log):  # noqa: F811
    """The last month up to the end of February is February; until there is a month, it is since the beginning."""
    rows = counted(log, *STEPS, "--rho", 0.5, "--windows", "1mo")
    by_day = {row["start"]: row for row in rows}
    value = {day: int(row["value"]) for day, row in by_day.items()}
    month = {day: int(row["last_1mo"]) for day, row in by_day.items()}
    assert month["2026-02-28"] == value["2026-02-28"] - value["2026-01-31"]
    assert month["2026-03-20"] == value["2026-03-20"] - value["2026-02-20"]
    assert month["2026-02-09"] == value["2026-02-09"]
    assert month["2026-02-10"] == value["2026-02-10"] - value["2026-01-10"]
    result = count(log, *STEPS, "--rho", 0.5, "--windows", "1mo")
    said = " ".join(result.stderr.split())
    largest = max(int(row["last_1mo_high"]) - int(row["last_1mo"]) for row in rows)
    assert f"Windows: last_1mo at most ±{largest}; until enough steps exist, windows start at the first step." in said


def test_categories_and_amounts(same_noise, tmp_path):  # noqa: F811
    """Windows of each category, in the unit in which amounts are told."""
    log = tmp_path / "sales.csv"
    days = [f"2026-01-{day:02}" for day in range(1, 21)]
    log.write_text(
        "when,shop,price\n" + "".join(f"{day},{shop},{i}.25\n" for i, day in enumerate(days) for shop in "ab")
    )
    rows = counted(log, "--time", "when", "--value", "price", "--per-person", 50, "--unit", "0.01", "--by", "shop",
                   "--values", "a,b", "--from", days[0], "--through", days[-1], "--horizon", 30, "--rho", 50,
                   "--windows", "1d,7d")  # fmt: skip
    assert [row["category"] for row in rows] == ["a", "b"] * 20
    for shop in "ab":
        own = [row for row in rows if row["category"] == shop]
        values = [round(100 * float(row["value"])) for row in own]
        weeks = [values[t] - (values[t - 7] if t >= 7 else 0) for t in range(20)]
        assert [row["last_7d"] for row in own] == [f"{week / 100:.2f}" for week in weeks]
        true = sum(i + 0.25 for i in range(13, 20))
        assert float(own[-1]["last_7d_low"]) <= true <= float(own[-1]["last_7d_high"])
        assert float(own[-1]["last_7d_stddev"]) < 50


def test_a_grand_total_beside_categories(same_noise, log):  # noqa: F811
    """The sum of the released categories, last of each step, with bars of its own; categories stay as they are."""
    arguments = (log, *STEPS, "--rho", 0.05, "--by", "ward", "--values", ",".join(WARDS), "--windows", "7d")
    rows, plain = counted(*arguments, "--total", "--monotone"), counted(*arguments)
    assert [row["category"] for row in rows] == [*WARDS, "total"] * DAYS
    assert [{name: row[name] for name in plain[0]} for row in rows if row["category"] != "total"] == plain
    for at in range(0, len(rows), len(WARDS) + 1):
        *own, total = rows[at : at + len(WARDS) + 1]
        for name in ("value", "last_7d"):
            assert int(total[name]) == sum(int(row[name]) for row in own)
        bars = [int(row["high"]) - int(row["value"]) for row in (own[0], total)]
        assert bars[0] < bars[1] < len(WARDS) * bars[0]
    refused = count(log, *STEPS, "--rho", 0.05, "--total")
    assert refused.exit_code == 2
    assert "--total must be used with --by" in " ".join(refused.stderr.split())


def test_day_by_day_with_a_store(path, events, monkeypatch):  # noqa: F811
    """A stream goes on with its windows and without another fit; each run says what one run over all would have."""
    store, folder = path.parent / "s.db", path.parent
    log = write(events, folder, "csv")
    common = ("--time", "when", "--from", FIRST, "--horizon", 100, "--rho", 0.5, "--windows", "1d,7d,1mo")
    assert count(log, *common, "--through", "2026-01-31", "--store", store).exit_code == 0
    for cache in (choose, _complete):
        cache.cache_clear()
    monkeypatch.setattr(FittedToeplitz, "fit", lambda *_, **__: pytest.fail("fitted once more"))
    last = counted(log, "--through", "2026-02-20", "--store", store)[-1]
    rows = counted(log, *common, "--through", LAST, "--store", store)
    with dp.Store(store) as opened:
        assert opened.settings("count").windows == (1, 7, 31)
        releases = [int(release.value) for release in opened.releases("count")]
        assert opened.window("count", 7, through=42) == (
            int(last["last_7d"]), pytest.approx(float(last["last_7d_stddev"]), rel=1e-4),
            int(last["last_7d_low"]), int(last["last_7d_high"]),
        )  # fmt: skip
    assert int(rows[-1]["last_7d"]) == releases[-1] - releases[-8]
    assert int(last["last_1mo"]) == releases[41] - releases[10]
    # Another window is answered, too, with its true error, and the stream stays what it is.
    other = counted(log, "--through", LAST, "--store", store, "--windows", "14d", "--all")[-1]
    assert int(other["last_14d"]) == releases[-1] - releases[-15]
    with dp.Store(store) as opened:
        assert int(other["last_14d_high"]) == opened.window("count", 14).high
        assert opened.settings("count").windows == (1, 7, 31)
    assert "last_1mo" not in other
    assert "last_1mo" in counted(log, "--through", LAST, "--store", store, "--all")[-1]


def test_views_are_beside_the_release(same_noise, log):  # noqa: F811
    arguments = (log, *STEPS, "--epsilon", 0.01, "--windows", "1d", "--by", "ward", "--values", ",".join(WARDS))
    plain = counted(*arguments)
    result = count(*arguments, "--non-negative", "--monotone")
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    highest = {}
    for row, other in zip(rows, plain, strict=True):
        assert {name: row[name] for name in other} == other
        value = int(row["value"])
        highest[row["category"]] = max(highest.get(row["category"], value), value)
        assert int(row["monotone"]) == highest[row["category"]]
        assert int(row["non_negative"]) == max(value, 0)
        assert int(row["last_1d_non_negative"]) == max(int(row["last_1d"]), 0)
    assert any(int(row["value"]) < 0 for row in rows)
    said = " ".join(result.stderr.split())
    assert "non_negative and monotone are views of the releases, without further budget" in said
    assert "for the views they are not exact" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--windows", "7x"), "--windows must be a number of steps such as 7, or a length of time such as 1d"),
        (("--windows", "1h"), "--windows must be a whole number of steps of 1d, such as 1d or 4d, got '1h'"),
        (("--windows", "7d,7d"), "--windows must be each window once"),
        (("--windows", ""), "--windows must be a number of steps"),
        (("--value", "amount", "--per-person", 9, "--monotone"), "--monotone must be left out with --value"),
    ],
)
def test_refusals(log, arguments, message):
    result = count(log, *STEPS, "--rho", 0.5, *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert result.stdout == ""


def test_a_settings_file_names_windows(log, tmp_path):
    toml = tmp_path / "visits.toml"
    toml.write_text(
        f'time = "when"\nfrom = "{FIRST}"\nhorizon = 100\nrho = 0.5\nwindows = ["1d", "7"]\nmonotone = true\n'
    )
    from dpstream.events.count_settings import read_settings

    assert read_settings(toml)["windows"] == ("1d", "7")


KEYS, PLACES = 25, 480


@pytest.mark.parametrize(
    ("options", "budget"), [(("--rho", 0.001), dp.zcdp(0.001)), (("--epsilon", 0.05), dp.pure_dp(0.05))]
)
def test_the_bars_of_weeks_cover_the_truth_over_many_keys(options, budget, tmp_path):
    """25 runs with fresh keys, 480 places each: bars of 12,000 independent weeks hold the truth as often as they do.

    Of whole numbers no bar holds it in 80 of 100 cases: it is compared with the exact chance, which the law of the
    noise has for this very bar. Two budgets with a chance of 4e-7 each: a false alarm has a chance below 1e-6. Bars
    that are a tenth too narrow or too wide are noticed: bars are so long that whole numbers let them differ by more
    than 8 %, which is 10 standard deviations of what is counted, and 5 are asked for.
    """
    places = [f"p{i}" for i in range(PLACES)]
    log = tmp_path / "log.csv"
    log.write_text("when,place\n" + "".join(f"2026-01-{day:02},{one}\n" for day in range(1, 15) for one in places))
    arguments = (log, "--time", "when", "--from", "2026-01-01", "--through", "2026-01-14", "--horizon", 14)
    arguments += ("--by", "place", "--values", ",".join(places), "--windows", "7d", "--confidence", 0.8, *options)
    rows = [row for _ in range(KEYS) for row in counted(*arguments)[-PLACES:]]
    off = np.array([abs(int(row["last_7d"]) - 7) for row in rows])
    (bar,) = {int(row["last_7d_high"]) - int(row["last_7d"]) for row in rows}
    law = dp.Counter(14, budget, shape=PLACES, windows=(7,)).settings.change_between(14, 7)
    # Noise is wide, so that G_s is uniform modulo 1: the chance is the mean over an interval of length 1.
    exact = 1 - float(law.difference.beyond(np.linspace(bar, bar + 1, 1001)).mean())
    assert 0.8 <= exact < 0.83
    assert law.unevenness < 1e-4

    def chance(width):
        return stats.binomtest(int((off <= width).sum()), KEYS * PLACES, exact).pvalue

    assert chance(bar) > 4e-7
    assert chance(0.9 * bar) < 4e-7
    assert chance(1.1 * bar) < 4e-7
