"""`dpstream count --store`: tomorrow goes on where today stopped, and counts nobody and nothing twice."""

import csv
import datetime as dt
import io
import random
import sqlite3
from collections import Counter

import numpy as np
import polars as pl
import pytest

import dpstream as dp
from dpstream.errors import SourceDamaged
from dpstream.events import counting, text_chunks
from dpstream.events.count_options import CountOptions
from dpstream.events.counting import CountRun
from dpstream.events.measure import Measure
from dpstream.events.tables import Table
from dpstream.release.settings import StreamSettings
from tests.cli.test_count import count, counted, month, narrow_terminal  # noqa: F401
from tests.events.event_logs import WARDS, expected, write
from tests.store.conftest import path  # noqa: F401


@pytest.fixture
def folder(path):  # noqa: F811
    return path.parent


def state(store, name="count"):
    """What the store has counted: the true inputs and the releases."""
    with dp.Store(store) as opened:
        (info,) = [info for info in opened.streams() if info.name == name]
        assert opened.verify(name).ok
        inputs = opened.true_data.inputs(name, 1, info.t) if info.t else np.zeros(0)
        return inputs, [np.asarray(row.value).tolist() for row in opened.releases(name)]


@pytest.mark.parametrize("again", ["all rows", "new rows", "some old rows"])
def test_day_by_day(folder, again):
    store, events = folder / "s.db", month()
    arguments = ("--time", "when", "--by", "ward", "--values", ",".join(WARDS), "--rho", 0.5, "--horizon", 40)
    days = sorted({event.when.date() for event in events})
    last = ""
    for i, day in enumerate(days):
        first = {"all rows": days[0], "new rows": day, "some old rows": days[max(i - 2, 0)]}[again]
        file = write([event for event in events if first <= event.when.date() <= day], folder, "csv")
        way = () if again == "new rows" else ("--whole-log",)
        result = count(file, *arguments, "--through", day, "--store", store, "--all", "--batch", day, *way)
        assert result.exit_code == 0, result.output
        assert result.stdout.startswith(last)
        assert "late" not in result.stderr
        last = result.stdout
    inputs, releases = state(store)
    np.testing.assert_array_equal(inputs, expected(events, "1d", None, by=True))
    assert [int(row["value"]) for row in csv.DictReader(io.StringIO(last))] == [x for row in releases for x in row]


def days(file, text):
    file.write_text("when\n" + "".join(f"2026-01-{day}\n" for day in text.split()))


@pytest.mark.parametrize(
    ("again", "said"),
    [
        (
            "01 02 02 03",
            "3 rows are for steps that were released before, as many as were counted then: they are not counted",
        ),
        (
            "02 02 03",
            "2 rows are for steps that were released before, as many as were counted then: they are not counted",
        ),
        # One of the three is missing, three are late, one is new.
        ("01 01 01 02 02 02 03", "At least 3 of them came late: there are more than were counted then."),
        # Only new rows: a late one of the second day is less than was counted then.
        ("02 03", "warning: 1 row is for steps that were released before; it is not counted. Whether they were"),
        ("03", None),
    ],
)
def test_rows_of_the_whole_log_are_never_left_out_silently(folder, again, said):
    store, file = folder / "s.db", folder / "log.csv"
    arguments = (file, "--time", "when", "--rho", 0.5, "--unbounded", "--store", store, "--whole-log", "--all")
    days(file, "01 02 02")
    first = count(*arguments, "--through", "2026-01-02").stdout
    days(file, again)
    result = count(*arguments, "--through", "2026-01-03")
    assert (result.exit_code, result.stdout.startswith(first)) == (0, True)
    told = " ".join(result.stderr.split())
    assert "2 steps were released in earlier runs." in told
    assert (said in told) if said else ("released before" not in told)
    assert ("warning" in told) == ("warning" in (said or "") or "late" in (said or ""))
    assert "looks like" not in told
    assert "of the true total" not in told
    assert state(store)[0].tolist() == [1, 2, 1]
    assert count(*arguments, "--through", "2026-01-03").stdout == result.stdout


def test_late_rows_of_people_and_sums_cannot_be_told(folder):
    file = folder / "log.csv"
    for name, more in (
        ("people", ("--user", "who", "--max-contributions", 1)),
        ("sums", ("--value", "n", "--per-person", 9)),
    ):
        arguments = (file, "--time", "when", "--from", "2026-01-01", "--rho", 0.5, "--unbounded", *more)
        arguments += ("--store", folder / "s.db", "--name", name, "--whole-log")
        file.write_text("when,who,n\n2026-01-01,ann,4\n2026-01-01,ann,3\n")
        assert len(counted(*arguments, "--through", "2026-01-01")) == 1
        file.write_text("when,who,n\n2026-01-01,bob,1\n2026-01-01,bob,2\n2026-01-02,cid,1\n")
        told = " ".join(count(*arguments, "--through", "2026-01-02").stderr.split())
        assert "2 rows are for steps that were released before; they are not counted. Whether they were" in told


def test_two_streams_in_one_store(folder):
    store, file = folder / "s.db", folder / "log.csv"
    file.write_text("when,n\n2026-01-01,1\n2026-01-02,2\n")
    for name, more in (("visits", ()), ("sums", ("--value", "n", "--per-person", 2))):
        counted(
            file,
            "--time",
            "when",
            "--rho",
            0.5,
            "--unbounded",
            "--store",
            store,
            "--name",
            name,
            "--through",
            "2026-01-02",
            *more,
        )
    assert state(store, "visits")[0].tolist() == [1, 1]
    assert state(store, "sums")[0].tolist() == [1, 2]


def test_the_zone_and_the_start_come_back(folder):
    store, file = folder / "s.db", folder / "log.csv"
    arguments = (file, "--time", "when", "--every", "1h", "--time-zone", "Europe/Vienna", "--rho", 0.5, "--unbounded")
    file.write_text("when\n2026-10-25T00:30:00Z\n2026-10-25T01:30:00Z\n")
    first = count(*arguments, "--store", store, "--through", "2026-10-25T02:30+01:00").stdout
    file.write_text("when\n2026-10-25T02:30:00Z\n")
    more = ("--through", "2026-10-25T03:00+01:00", "--all", "--batch", "next")
    rows = count(*arguments, "--store", store, *more).stdout
    assert rows.startswith(first)
    assert [line.split(",")[1] for line in rows.splitlines()[1:]] == [
        "2026-10-25T02:00:00+02:00",
        "2026-10-25T02:00:00+01:00",
        "2026-10-25T03:00:00+01:00",
    ]


# -- people -----------------------------------------------------------------------------------------------------------


def user_log(rng, days, rows):
    """(day, user) pairs in order."""
    return sorted((rng.choice(days), rng.choice("abcdefghij")) for _ in range(rows))


def save_log(file, rows):
    start = dt.date(2026, 1, 1)
    file.write_text("when,who\n" + "".join(f"{start + dt.timedelta(day)},{who}\n" for day, who in rows))


@pytest.mark.parametrize("end", [("--horizon", 60), ("--until", "2026-02-28"), ("--unbounded",)], ids=str)
@pytest.mark.parametrize("order", [(), pytest.param(("--any-order",), marks=pytest.mark.heavy)], ids=str)
def test_nobody_is_counted_more_often_than_allowed(folder, monkeypatch, end, order):
    """A plain count of who is kept, over several runs with old rows fed again and again."""
    monkeypatch.setattr(text_chunks, "CHUNK_BYTES", 150)
    monkeypatch.setattr(counting, "PIECE", 4)
    rng = random.Random(f"{end} {order}")  # noqa: S311
    store, file = folder / "s.db", folder / "log.csv"
    log, released, kept = [], 0, Counter()
    inputs = []
    for run in range(5):
        log += user_log(rng, range(6 * run, 6 * run + 6), 25)
        log.sort()
        fed = [row for row in log if rng.random() < 0.9 or row[0] >= released]
        if order:
            rng.shuffle(fed)
        save_log(file, fed)
        arguments = (file, "--time", "when", "--from", "2026-01-01", "--rho", 0.5, *end, *order, "--store", store)
        closed = max(day for day, _ in fed) + rng.randrange(-1, 2)
        through = ("--through", dt.date(2026, 1, 1) + dt.timedelta(closed - 1))
        rows = counted(*arguments, "--user", "who", "--max-contributions", 3, *through, "--whole-log", "--all")
        new = np.zeros(closed - released, dtype=np.int64)
        for day, who in fed:
            if released <= day < closed and kept[who] < 3:
                kept[who] += 1
                new[day - released] += 1
        inputs += new.tolist()
        released = closed
        assert len(rows) == released
        assert state(store)[0].tolist() == inputs
    assert max(kept.values()) <= 3
    assert sum(inputs) == kept.total() > 20
    with dp.Store(store) as opened:
        settled = opened.streams()[0]
        assert settled.t == released


def test_the_budget_is_that_of_all_rows_of_a_person(folder):
    file = folder / "log.csv"
    save_log(file, [(0, "a"), (1, "a"), (1, "b")])
    usual = (file, "--time", "when", "--rho", 0.5, "--horizon", 10)
    alone = [float(row["stddev"]) for row in counted(*usual)]
    with_user = [float(row["stddev"]) for row in counted(*usual, "--user", "who", "--max-contributions", 7)]
    np.testing.assert_allclose(with_user, 7 * np.array(alone), rtol=0.02)  # rounding adds a little to the small ones


def test_how_many_were_dropped_is_withheld_or_private(folder, monkeypatch):
    file = folder / "log.csv"
    save_log(file, [(0, who) for who in "aaabbbc"])
    usual = (file, "--time", "when", "--rho", 0.5, "--horizon", 10, "--user", "who", "--max-contributions", 2)
    said = " ".join(count(*usual).stderr.split())
    assert (
        "Rows beyond 2 of each user are not counted. Their number is not shown, because it is a figure about people"
        in said
    )
    said = " ".join(count(*usual, "--report-dropped", 5000).stderr.split())
    assert (
        "Users with rows left out: 2, between 2 and 2 (not for publication: this run spent ρ = 5000 more on it)."
        in said
    )


def test_a_store_whose_people_were_touched_counts_no_further(folder):
    store, file = folder / "s.db", folder / "log.csv"
    arguments = (file, "--time", "when", "--rho", 0.5, "--until", "2026-12-31", "--store", store)
    arguments += ("--user", "who", "--max-contributions", 1, "--through", "2026-01-03")
    save_log(file, [(0, "a"), (1, "b")])
    counted(*arguments)
    before = state(store)
    with sqlite3.connect(store) as connection:
        kept = connection.execute("SELECT * FROM people").fetchall()
        connection.execute("DELETE FROM people")
    connection.close()
    save_log(file, [(0, "a"), (1, "b"), (2, "a")])
    result = count(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "who was counted in stream 'count' is missing or changed" in result.stderr
    with sqlite3.connect(store) as connection:
        connection.executemany("INSERT INTO people VALUES (?, ?, ?)", kept)
    connection.close()
    after = state(store)
    assert after[1] == before[1]


@pytest.mark.parametrize("kept", [True, False])
def test_settings_are_built_and_steps_are_checked_once(folder, kept, monkeypatch):
    calls = Counter()

    def counting_calls(name):
        original = getattr(StreamSettings, name)
        plain = getattr(original, "__func__", original)

        def counted_call(self, *arguments, **settings):
            calls[name] += 1
            return plain(self, *arguments, **settings)

        monkeypatch.setattr(StreamSettings, name, classmethod(counted_call) if original is not plain else counted_call)

    file = write(month(), folder, "csv")
    counting_calls("for_counter")
    counting_calls("check_rows")
    store = ("--store", folder / "s.db") if kept else ()
    counted(
        file, "--time", "when", "--rho", 0.5, "--horizon", 40, "--from", "2026-01-30", "--through", "2026-02-20", *store
    )
    # With a store, what the file adds is checked, and what its steps add up to with rows of earlier files.
    assert calls == {"for_counter": 1, "check_rows": 1 + kept}


def test_rows_that_came_after_the_check_are_checked(folder):
    """`release` hands steps to the counter as checked: rows since the last check must be looked at."""
    options = CountOptions(
        Measure(value="amount", per_person=2**40),
        dp.zcdp(8),
        time="when",
        start="2026-01-01",
        any_order=True,
        horizon=2**20,
    )
    run = CountRun(options)
    frame = pl.DataFrame({"when": ["2026-01-01"], "amount": [2**40]})
    run.tally.take(Table(frame, str))
    settings = run.open()
    for _ in range(settings.input_range[1] // 2**40):
        run.tally.take(Table(frame, str))
    with pytest.raises(SourceDamaged, match="what a step adds up to must be from"):
        next(run.release(1))


def test_more_users_than_there_is_room_for(folder):
    store, file = folder / "s.db", folder / "log.csv"
    file.write_text("when,user\n2026-01-01,ann\n2026-01-01,bob\n2026-01-02,cem\n")
    arguments = (file, "--time", "when", "--from", "2026-01-01", "--rho", 0.5, "--horizon", 9, "--user", "user")
    arguments += ("--max-contributions", 1, "--through", "2026-01-02", "--store", store)
    refused = count(*arguments, "--max-users", 2)
    assert refused.exit_code == 2
    said = " ".join(refused.stderr.split())
    assert "there are more than 2 users, which is what --max-users makes room for; nothing was released." in said
    assert "such as --max-users 4" in said
    assert not store.exists()
    assert len(counted(*arguments, "--max-users", 4)) == 2
