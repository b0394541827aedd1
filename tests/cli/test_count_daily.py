"""`dpstream count` every morning: a file of new rows, a store, the clock; late rows, gaps, files given twice, kills."""

import csv
import datetime as dt
import io
import itertools
import random
from collections import Counter

import numpy as np
import pytest

import dpstream as dp
from dpstream.events import counting, text_chunks
from dpstream.events.successor import extend_stream
from tests.cli.test_count import count, counted, narrow_terminal  # noqa: F401
from tests.cli.test_count_refusals import refused
from tests.cli.test_count_store import days, folder, path, save_log, state  # noqa: F401

#: With this budget there is no noise: what is released is the truth.
EXACT = ("--rho", 1e6)


@pytest.fixture
def clock(monkeypatch):
    """Sets the clock to a local time."""

    def at(moment):
        monkeypatch.setattr("dpstream.events.last_step.now", lambda: dt.datetime.fromisoformat(moment).astimezone())

    return at


@pytest.fixture
def stream(folder):  # noqa: F811
    """A stream that has released the first two days of January, with one row and two rows, and a function to go on."""
    days(folder / "first.csv", "01 02 02")
    numbers = itertools.count()
    store = ("--store", folder / "s.db")
    begin = ("--time", "when", "--from", "2026-01-01", "--until", "2026-01-31", *EXACT)
    assert len(counted(folder / "first.csv", *begin, *store, "--through", "2026-01-02")) == 2

    def go_on(text, *options):
        log = folder / f"log{next(numbers)}.csv"
        days(log, text)
        result = count(log, *store, *options)
        result.told = " ".join(result.stderr.split())
        return result

    go_on.store = folder / "s.db"
    go_on.again = lambda *options: count(folder / "first.csv", *store, *options)
    return go_on


def values(result):
    assert result.exit_code == 0, result.output
    return [int(line.split(",")[2]) for line in result.stdout.splitlines()[1:]]


def untouched(stream, steps=2):
    inputs, releases = state(stream.store)
    assert (inputs.tolist(), len(releases)) == ([1, 2], steps)


# -- late rows ----------------------------------------------------------------------------------------------------


def test_late_rows_count_in_the_next_step_and_that_is_said(stream):
    result = stream("03 01 02", "--through", "2026-01-03")
    assert values(result) == [3 + 3]
    assert "2 rows came late" in result.told
    assert "are counted in the step of 2026-01-03 (--late next)." in result.told
    assert state(stream.store)[0].tolist() == [1, 2, 3]


def test_late_rows_can_be_left_out_or_refused(stream):
    result = stream("02 03", "--through", "2026-01-03", "--late", "refuse")
    refused(
        result,
        "line 2, column 'when': expected a row of a step that is not released yet (from 2026-01-03 on), got"
        " '2026-01-02 00:00:00'; --late next counts late rows in the next step, --late drop leaves",
    )
    untouched(stream)
    result = stream("02 03", "--through", "2026-01-03", "--late", "drop")
    assert values(result) == [3 + 1]
    assert "1 row came late, for steps that were released before, and was left out (--late drop)." in result.told


def test_a_file_whose_rows_are_all_late_counts_in_the_next_step(stream):
    """Refused, it would count nothing; with one more row that is not late, all of it."""
    result = stream("02", "--through", "2026-01-03")
    assert values(result) == [4]
    assert "1 row came late" in result.told


def test_the_two_ways_of_working_do_not_mix(stream):
    refused(stream("01 02 02 03", "--whole-log"), "created with no --whole-log, but --whole-log was given")
    untouched(stream)


# -- open steps ---------------------------------------------------------------------------------------------------


def test_rows_wait_in_the_store_until_the_clock_closes_their_step(stream, clock):
    clock("2026-01-04T13:00:00")
    result = stream("03 04 04 06", "--through", "now")
    assert values(result) == [4]
    assert "3 rows wait in the store until their steps are released." in result.told
    clock("2026-01-06T07:00:00")
    result = stream("05", "--through", "now")
    assert values(result) == [4 + 2, 4 + 2 + 1]
    # Nothing to count: released all the same.
    clock("2026-01-08T00:00:00")
    result = stream("", "--through", "now")
    assert values(result) == [8, 8]
    assert "warning: no rows for 2026-01-07: released as it is. Not for publication." in result.told
    assert "taken from the data" not in result.told
    assert state(stream.store)[0].tolist() == [1, 2, 1, 2, 1, 1, 0]


def test_gaps_are_named_to_the_owner(stream):
    told = stream("06 09", "--through", "2026-01-09").told
    assert "no rows for 2026-01-03 to 2026-01-05 and 2026-01-07 and 2026-01-08: released as they are" in told


def test_a_long_list_of_gaps_is_shortened(stream):
    told = stream(" ".join(f"{day:02}" for day in range(4, 31, 2)), "--through", "2026-01-31").told
    assert "no rows for 2026-01-03, 2026-01-05, 2026-01-07, 2026-01-09, 2026-01-11 and 10 more steps: released" in told


@pytest.mark.parametrize(
    "more", [("--value", "n", "--per-person", 9), ("--user", "n", "--max-contributions", 1, "--max-users", 9)]
)
def test_a_step_that_adds_nothing_is_no_gap(folder, more):  # noqa: F811
    """Rows of 0, and rows of people who are counted already."""
    (folder / "log.csv").write_text("when,n\n2026-01-01,0\n2026-01-02,0\n")
    result = count(
        folder / "log.csv", "--time", "when", "--from", "2026-01-01", "--unbounded", *EXACT, *more,
        "--store", folder / "s.db", "--through", "2026-01-03",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "no rows for 2026-01-03: released" in " ".join(result.stderr.split())


def test_rows_far_ahead_are_refused_before_anything_is_written(folder):  # noqa: F811
    (folder / "log.csv").write_text("when\n2026-01-01\n2029-01-01\n")
    begin = ("--time", "when", "--from", "2026-01-01", "--unbounded", *EXACT, "--store", folder / "s.db")
    refused(
        count(folder / "log.csv", *begin, "--through", "2026-01-02"),
        "there are rows of 2029-01-01, but the store keeps rows for at most 400 steps after that of 2026-01-02: is a"
        " date wrong?",
    )
    assert not (folder / "s.db").exists()
    assert count(folder / "log.csv", *begin, "--through", "2027-11-28").exit_code == 0


# -- the same file again ------------------------------------------------------------------------------------------


def test_a_file_that_is_given_again_is_known_by_its_name(stream, folder):  # noqa: F811
    result = stream.again("--through", "2026-01-03")
    assert values(result) == [3]
    assert "first.csv was counted before: nothing of it was counted again." in " ".join(result.stderr.split())
    # Beside a new file, and before its steps are released, too.
    days(folder / "new.csv", "04 05")
    files = (folder / "first.csv", folder / "new.csv", folder / "new.csv")
    result = count(*files, "--store", stream.store, "--through", "2026-01-04")
    assert values(result) == [4]
    told = " ".join(result.stderr.split())
    assert "first.csv was counted before" in told
    assert "new.csv was counted before" in told
    assert values(count(folder / "new.csv", "--store", stream.store, "--through", "2026-01-05")) == [5]
    # Attack: under another name the same rows count, and so does one row more: a content decides nothing.
    for name, more in (("copy", ""), ("other", "04")):
        days(folder / f"{name}.csv", f"04 05 {more}")
        assert count(folder / f"{name}.csv", "--store", stream.store).exit_code == 0
    assert values(stream("", "--through", "2026-01-06")) == [5 + 2 + 3]


def test_a_file_that_has_changed_is_refused(stream, folder):  # noqa: F811
    days(folder / "first.csv", "01 02 02 03")
    refused(stream.again(), "first.csv was counted before and holds something else now; nothing was counted")
    untouched(stream)
    assert values(stream.again("--batch", "more", "--through", "2026-01-03")) == [3 + 4]


def test_standard_input_is_known_by_its_batch(stream):
    text = "when\n2026-01-03\n2026-01-04\n"
    batch = ("--store", stream.store, "--batch", "monday")
    assert values(count(*batch, "--through", "2026-01-03", input=text)) == [4]
    again = count(*batch, "--through", "2026-01-04", input=text)
    assert values(again) == [5]
    assert "was counted before" in " ".join(again.stderr.split())
    assert values(count("--store", stream.store, "--through", "2026-01-05", input=text)) == [7]
    refused(count("-", "x.csv", *batch, input=text), "--batch must be given with one file, or with standard input")


# -- kills --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("user", [False, True])
@pytest.mark.parametrize(
    "where", ["before the ingest", "after the first file", "before the release", "while releasing"]
)
def test_a_kill_loses_and_doubles_nothing(folder, monkeypatch, user, where):  # noqa: F811
    store = folder / "s.db"
    people = ("--user", "who", "--max-contributions", 1, "--max-users", 9) if user else ()
    for name, rows in (("a.csv", [(0, "x"), (1, "y"), (4, "y")]), ("b.csv", [(0, "z"), (2, "x"), (3, "w")])):
        save_log(folder / name, rows)
    begin = ("--time", "when", "--from", "2026-01-01", "--until", "2026-01-31", *EXACT, *people)
    files = (folder / "a.csv", folder / "b.csv")
    arguments = (*files, *begin, "--store", store, "--through", "2026-01-04")
    monkeypatch.setattr(counting, "PIECE", 2)
    killed = Counter()

    def killing(name, calls):
        original = getattr(dp.store.DurableCounter, name)

        def kill(self, *positional, **named):
            killed[name] += 1
            if killed[name] == calls:
                raise SystemExit(9)
            return original(self, *positional, **named)

        monkeypatch.setattr(dp.store.DurableCounter, name, kill)

    with monkeypatch.context() as monkeypatch:
        if where in ("before the ingest", "after the first file"):
            killing("ingest", 1 + (where == "after the first file"))
        else:
            killing("release_through", 1 + (where == "while releasing"))
        assert count(*arguments).exit_code == 9
    rows = counted(*arguments, "--all")
    truth = [2, 1, 0, 1] if user else [2, 1, 1, 1]
    assert [int(row["value"]) for row in rows] == np.cumsum(truth).tolist()
    assert state(store)[0].tolist() == truth


# -- the end ------------------------------------------------------------------------------------------------------


def test_a_date_before_the_last_release_is_refused(stream):
    refused(
        stream("03", "--through", "2026-01-01"),
        "--through 2026-01-01 is before the last release, which is that of 2026-01-02: released steps stay. Give a"
        " later date, or leave --through out",
    )
    untouched(stream)


@pytest.mark.parametrize("through", [("--through", "yesterday"), ("--through", "now")])
def test_a_clock_that_went_back_is_noticed(stream, clock, through):
    clock("2026-01-02T09:00:00")
    refused(
        stream("03", *through), "the step of 2026-01-02 was released, but by this machine's clock (2026-01-02 09:00"
    )
    untouched(stream)


def test_how_many_steps_are_left_is_said_in_the_last_tenth(stream):
    assert "left" not in stream("03", "--through", "2026-01-27").told
    assert "3 steps are left of 'count', the last that of 2026-01-31." in stream("", "--through", "2026-01-28").told
    result = stream("", "--through", "2026-01-30", "--warn-below", "2")
    assert result.exit_code == 3
    assert "1 step is left of 'count'" in result.told
    assert stream("", "--through", "2026-01-30", "--warn-below", "1").exit_code == 0
    told = stream("", "--through", "2026-01-31").told
    assert "the step of 2026-01-31 is the last of 'count': dpstream store extend starts a stream that carries" in told
    refused(
        stream("30", "--late", "next"),
        "the stream 'count' ended with its step 31, that of 2026-01-31: nothing more can",
    )
    result = count("-", "--store", stream.store, input="when\n2026-02-01\n")
    refused(result, "expected one of the 31 steps from 2026-01-01")
    assert "dpstream store extend" in result.stderr


def test_a_successor_goes_on_with_the_total(stream):
    assert values(stream("31", "--through", "2026-01-31"))[-1] == 4
    with dp.Store(stream.store) as store:
        extend_stream(store, "count", until="2026-02-28")
    (stream.store.parent / "log.csv").write_text("when\n2026-02-01\n2026-02-02\n2026-01-31\n")
    log = ("--store", stream.store, "--windows", "7d")
    result = count(stream.store.parent / "log.csv", *log, "--through", "2026-02-01")
    assert result.exit_code == 0, result.output
    assert "1 row came late, for steps that were released before" in result.stderr
    (row,) = csv.DictReader(io.StringIO(result.stdout))
    assert (row["step"], row["start"], row["value"], row["last_7d"]) == ("32", "2026-02-01", "6", "3")
    assert [row["value"] for row in counted("-", *log, "--through", "2026-02-02", input="when\n")] == ["7"]
    everything = counted("-", *log, "--through", "2026-02-02", "--all", input="when\n")
    assert [int(row["value"]) for row in everything] == [1] + [3] * 29 + [4, 6, 7]
    assert (
        "1 row from before the first step was not counted"
        in count("-", *log, "--through", "2026-02-03", input="when\n2025-12-31\n2026-02-03\n").stderr
    )


# -- guard rails --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        (("--epsilon", 11, "--delta", 1e-6), "ε = 11 protects hardly anybody"),
        (("--epsilon", 11), "ε = 11 protects hardly anybody"),
        (("--rho", 11), "ρ = 11 protects hardly anybody"),
        (
            ("--epsilon", 1, "--delta", 0.5),
            "δ = 0.5 is large: it should be far less than one over the number of people",
        ),
        (("--epsilon", 10, "--delta", 1e-6), None),
        (("--rho", 10), None),
    ],
)
def test_dangerous_budgets_are_named(folder, budget, said):  # noqa: F811
    days(folder / "log.csv", "01")
    result = count(
        folder / "log.csv",
        "--time",
        "when",
        "--from",
        "2026-01-01",
        "--through",
        "2026-01-01",
        "--horizon",
        40,
        *budget,
    )
    assert result.exit_code == 0
    warnings = [line for line in result.stderr.splitlines() if line.startswith("warning")]
    assert len(warnings) == (said is not None)
    assert said is None or said in " ".join(result.stderr.split())


def test_delta_is_held_against_the_users_that_were_declared_and_not_against_those_there_are(folder):  # noqa: F811
    save_log(folder / "log.csv", [(0, "a")])
    for users, warned in ((1000, False), (1001, True)):
        result = count(
            folder / "log.csv", "--time", "when", "--from", "2026-01-01", "--through", "2026-01-01", "--horizon", 40,
            "--user", "who", "--max-contributions", 1, "--max-users", users, "--epsilon", 1, "--delta", 1e-3,
            "--store", folder / f"{users}.db",
        )  # fmt: skip
        told = " ".join(result.stderr.split())
        assert ("δ = 0.001 is more than one over 1,001, the users there may be" in told) is warned


def test_an_end_within_a_week_is_named(folder, clock):  # noqa: F811
    clock("2026-01-02T09:00:00")
    days(folder / "log.csv", "01")
    for until, warned in (("2026-01-08", True), ("2026-01-20", False)):
        result = count(
            folder / "log.csv", "--time", "when", "--from", "2026-01-01", "--until", until, *EXACT,
            "--store", folder / f"{until}.db",
        )  # fmt: skip
        told = " ".join(result.stderr.split())
        assert (f"'count' ends within a week, with the step of {until}" in told) is warned


def test_what_two_streams_promise_together_is_said(folder):  # noqa: F811
    days(folder / "log.csv", "01")
    begin = ("--time", "when", "--from", "2026-01-01", "--through", "2026-01-01", "--horizon", 40, "--rho", 0.25)
    said = "All 2 streams together have promised ρ = 0.5, which is ε = 4.887 at δ = 1e-06."
    for name, expected in (("a", False), ("b", True)):
        result = count(folder / "log.csv", *begin, "--store", folder / "s.db", "--name", name)
        assert (said in " ".join(result.stderr.split())) is expected
    again = count(folder / "log.csv", "--store", folder / "s.db", "--name", "b", "--through", "2026-01-02")
    assert "together have promised" not in again.stderr


# -- against a plain count ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("late", ["next", "drop"])
@pytest.mark.parametrize("user", [False, True])
def test_twelve_mornings_are_those_of_a_plain_count(folder, monkeypatch, user, late):  # noqa: F811
    """Rows in any order, late ones, some ahead of the clock; days with no file or with two; files given again."""
    monkeypatch.setattr(text_chunks, "CHUNK_BYTES", 150)
    monkeypatch.setattr(counting, "PIECE", 2)
    rng = random.Random(f"{user} {late}")  # noqa: S311
    store, first = folder / "s.db", dt.date(2026, 1, 1)
    begin = ("--time", "when", "--from", first, "--until", "2026-02-28", *EXACT, "--store", store, "--late", late)
    begin += ("--user", "who", "--max-contributions", 3, "--max-users", 20) if user else ()
    open_steps, kept, counted_rows, given, released = Counter(), Counter(), Counter(), [], 0
    options = begin
    for today in range(12):
        fresh = []
        for part in range(rng.randrange(3)):
            rows = [(max(today - rng.choice([0, 0, 0, 1, 2, -1]), 0), rng.choice("abcdefghij")) for _ in range(8)]
            file = folder / f"{today}-{part}.csv"
            save_log(file, rows)
            fresh.append(file)
            for day, who in rows:
                if day < released and late == "drop":
                    continue
                if user and kept[who] >= 3:
                    continue
                kept[who] += 1
                open_steps[max(day, released)] += 1
        given += fresh
        again = rng.sample(given, min(len(given), 1))
        files = [*again, *fresh] if again and again[0] not in fresh else fresh
        if not files:
            save_log(folder / "empty.csv", [])
            files = [folder / "empty.csv"]
        rows = counted(*files, *options, "--through", first + dt.timedelta(today))
        options = ("--store", store)
        assert len(rows) == today + 1 - released
        for step in range(released, today + 1):
            counted_rows[step] = open_steps[step]
        released = today + 1
        assert int(rows[-1]["value"]) == sum(counted_rows.values())
    assert state(store)[0].tolist() == [counted_rows[step] for step in range(12)]
    assert max(kept.values()) <= 3 or not user


def test_a_date_inside_a_week_is_refused(folder):  # noqa: F811
    """The rest of the week would come late, and a release is final; steps of days know no such date."""
    log = _weeks(folder)
    arguments = (log, "--time", "when", "--every", "1w", "--from", "2026-01-05", "--until", "2026-12-31")
    arguments += ("--rho", 0.5, "--store", folder / "weeks.db")
    result = count(*arguments, "--through", "2026-01-14")
    refused(result, "--through 2026-01-14 lies inside the step from 2026-01-12 to 2026-01-18")
    refused(result, "--through 2026-01-11 releases the steps before it; --through 2026-01-18 releases it")
    assert len(counted(*arguments, "--through", "2026-01-11")) == 1
    # A date inside a step that was released before asks for nothing new.
    (folder / "more.csv").write_text("when,who\n2026-01-15,a\n")
    assert counted(folder / "more.csv", "--store", folder / "weeks.db", "--through", "2026-01-07") == []
    # Of a moment it is known what is meant.
    (folder / "last.csv").write_text("when,who\n2026-01-16,a\n")
    assert len(counted(folder / "last.csv", "--store", folder / "weeks.db", "--through", "2026-01-14T12:00")) == 1


def _weeks(folder):  # noqa: F811
    log = folder / "weeks.csv"
    log.write_text("when,who\n" + "".join(f"2026-01-{day:02},p{day}\n" for day in (5, 9, 13)))
    return log


def test_the_figures_of_weeks_say_their_last_day(folder):  # noqa: F811
    from dpstream.events.stored_stream import StoredStream
    from dpstream.events.window_figures import window_figures
    from dpstream.store import PublishedStore

    log = _weeks(folder)
    arguments = (log, "--time", "when", "--every", "1w", "--from", "2026-01-05", "--until", "2026-12-31")
    counted(*arguments, "--rho", 0.5, "--store", folder / "weeks.db", "--name", "weeks", "--through", "2026-01-25")
    released = StoredStream(PublishedStore(folder / "weeks.db"), "weeks").released()
    figures = window_figures(released, "1w")
    assert figures["from"].to_list() == [dt.date(2026, 1, day) for day in (5, 12, 19)]
    assert figures["through"].to_list() == [dt.date(2026, 1, day) for day in (11, 18, 25)]
    assert window_figures(released, "2w")["through"].to_list()[0] == dt.date(2026, 1, 18)
