"""`dpstream count --store`: tomorrow goes on where today stopped, and counts nobody and nothing twice."""

import csv
import datetime as dt
import io
import random
import sqlite3
from collections import Counter

import numpy as np
import pytest

import dpstream as dp
from dpstream.cli import publication as publication_module
from dpstream.events import text_chunks
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
        inputs = opened.recorded_inputs(name, 1, info.t) if info.t else np.zeros(0)
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
        result = count(file, *arguments, "--store", store)
        assert result.exit_code == 0, result.output
        assert result.stdout.startswith(last)
        assert "too late" not in result.stderr
        last = result.stdout
    inputs, releases = state(store)
    np.testing.assert_array_equal(inputs, expected(events, "1d", None, by=True))
    assert [int(row["value"]) for row in csv.DictReader(io.StringIO(last))] == [x for row in releases for x in row]


def test_late_rows_are_refused_and_counted(folder):
    store, file = folder / "s.db", folder / "log.csv"
    arguments = (file, "--time", "when", "--rho", 0.5, "--unbounded", "--store", store)
    file.write_text("when\n2026-01-01\n2026-01-02\n2026-01-02\n")
    first = count(*arguments).stdout
    # One of the three is missing, three are late, one is new.
    file.write_text("when\n2026-01-01\n2026-01-01\n2026-01-01\n2026-01-02\n2026-01-02\n2026-01-02\n2026-01-03\n")
    result = count(*arguments)
    assert "warning: 3 rows came too late, for steps already released, and were not counted." in result.stderr
    assert "2 steps had been released before; their rows were not counted again." in result.stderr
    assert result.stdout.startswith(first)
    assert state(store)[0].tolist() == [1, 2, 1]
    again = count(*arguments)
    assert again.stdout == result.stdout
    assert "0 steps released" in again.stderr


def test_the_last_day_stays_open_until_the_next(folder):
    store, file = folder / "s.db", folder / "log.csv"
    arguments = (file, "--time", "when", "--rho", 0.5, "--unbounded", "--store", store, "--leave-last-open")
    file.write_text("when\n2026-01-01\n2026-01-02\n")
    assert len(counted(*arguments)) == 1
    file.write_text("when\n2026-01-01\n2026-01-02\n2026-01-02\n2026-01-04\n")
    assert len(counted(*arguments)) == 3
    assert state(store)[0].tolist() == [1, 2, 0]


def test_rows_as_steps_go_on_after_the_last_row(folder):
    store, file = folder / "s.db", folder / "log.csv"
    arguments = (file, "--value", "n", "--bound", 9, "--rho", 0.5, "--horizon", 50, "--store", store)
    file.write_text("n\n3\n4\n")
    first = count(*arguments).stdout
    file.write_text("n\n3\n4\n5\n")
    assert count(*arguments).stdout.startswith(first)
    before = state(store)
    assert before[0].tolist() == [3, 4, 5]
    file.write_text("n\n3\n9\n5\n6\n")
    result = count(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "position 1 was counted at step 2 with another value" in result.stderr
    assert state(store)[0].tolist() == [3, 4, 5]
    file.write_text("n\n3\n")
    assert len(counted(*arguments)) == 3
    assert state(store)[1] == before[1]


def test_two_streams_in_one_store(folder):
    store, file = folder / "s.db", folder / "log.csv"
    file.write_text("when,n\n2026-01-01,1\n2026-01-02,2\n")
    for name, more in (("visits", ()), ("sums", ("--value", "n", "--bound", 2))):
        counted(file, "--time", "when", "--rho", 0.5, "--unbounded", "--store", store, "--name", name, *more)
    assert state(store, "visits")[0].tolist() == [1, 1]
    assert state(store, "sums")[0].tolist() == [1, 2]


def test_the_zone_and_the_start_come_back(folder):
    store, file = folder / "s.db", folder / "log.csv"
    arguments = (file, "--time", "when", "--every", "1h", "--time-zone", "Europe/Vienna", "--rho", 0.5, "--unbounded")
    file.write_text("when\n2026-10-25T00:30:00Z\n2026-10-25T01:30:00Z\n")
    first = count(*arguments, "--store", store).stdout
    file.write_text("when\n2026-10-25T02:30:00Z\n")
    rows = count(*arguments, "--store", store).stdout
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
@pytest.mark.parametrize("order", [(), ("--any-order",)], ids=str)
def test_nobody_is_counted_more_often_than_allowed(folder, monkeypatch, end, order):
    """A plain count of who is kept, over several runs with old rows fed again and again."""
    monkeypatch.setattr(text_chunks, "CHUNK_BYTES", 150)
    monkeypatch.setattr(publication_module, "PIECE", 4)
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
        leave = ("--leave-last-open",) if run % 2 else ()
        rows = counted(*arguments, "--user", "who", "--max-contributions", 3, *leave)
        allowed = kept.copy()
        new = np.zeros(max(day for day, _ in fed) + 1 - released, dtype=np.int64)
        closed = released + len(new) - len(leave)
        for day, who in fed:
            if day >= released and allowed[who] < 3:
                allowed[who] += 1
                new[day - released] += 1
                kept[who] += day < closed
        inputs += new[: closed - released].tolist()
        released = closed
        assert len(rows) == released
        assert state(store)[0].tolist() == inputs
    assert max(kept.values()) <= 3
    assert sum(inputs) == kept.total() > 20
    with dp.Store(store) as opened:
        settled = opened.streams()[0]
        assert settled.t == released


def test_rows_as_steps_limit_people_too(folder):
    store, file = folder / "s.db", folder / "log.csv"
    arguments = (file, "--value", "n", "--bound", 5, "--user", "who", "--max-contributions", 2, "--rho", 0.5)
    arguments += ("--horizon", 50, "--store", store)
    file.write_text("n,who\n1,ann\n2,bob\n3,ann\n4,ann\n")
    counted(*arguments)
    file.write_text("n,who\n1,ann\n2,bob\n3,ann\n4,ann\n5,ann\n1,bob\n2,bob\n")
    counted(*arguments)
    assert state(store)[0].tolist() == [1, 2, 3, 0, 0, 1, 0]


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
    assert "Rows beyond 2 a user were dropped. How many is withheld: it would be a figure about people" in said
    said = " ".join(count(*usual, "--report-dropped", 5000).stderr.split())
    assert "Users with dropped rows (private, ρ = 5000 more): 2, between 2 and 2." in said


def test_a_store_whose_people_were_touched_counts_no_further(folder):
    store, file = folder / "s.db", folder / "log.csv"
    arguments = (file, "--time", "when", "--rho", 0.5, "--until", "2026-12-31", "--store", store)
    arguments += ("--user", "who", "--max-contributions", 1)
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
