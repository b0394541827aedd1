"""Steps and what they add up to, held against plain Python on random events."""

import datetime as dt
import random

import numpy as np
import polars as pl
import pytest

from dpstream.errors import RowRefused, SourceDamaged
from dpstream.events import text_chunks
from dpstream.events.measure import Measure
from dpstream.events.people import People
from dpstream.events.tables import Table
from dpstream.events.tally import TimeTally
from dpstream.events.timestamps import Timestamps
from dpstream.release.contribution_limit import ContributionLimit
from tests.events.event_logs import FORMATS, expected, random_log, tallied, write

EVERY = ("15m", "1h", "1d", "1w", "1mo")
#: Where clocks leap, forward and back, at night, at midnight (Santiago, Havana), or never; and half hours (Kolkata).
LEAPS = (
    ("Europe/Vienna", dt.datetime(2026, 3, 28, 20)),
    ("Europe/Vienna", dt.datetime(2026, 10, 24, 20)),
    ("America/New_York", dt.datetime(2026, 3, 8)),
    ("America/New_York", dt.datetime(2026, 11, 1)),
    ("America/Santiago", dt.datetime(2024, 9, 7, 20)),
    ("America/Santiago", dt.datetime(2024, 4, 6, 20)),
    ("America/Havana", dt.datetime(2026, 11, 1)),
    ("America/Havana", dt.datetime(2026, 3, 7, 20)),
    ("Asia/Kolkata", dt.datetime(2026, 1, 1)),
    ("UTC", dt.datetime(2026, 2, 27)),
)


def shuffled(rng, events):
    return rng.sample(events, len(events))


@pytest.mark.parametrize("every", EVERY)
@pytest.mark.parametrize(("zone", "start"), LEAPS)
def test_steps_where_clocks_leap(tmp_path, monkeypatch, zone, start, every):
    rng = random.Random(f"{zone} {start} {every}")  # noqa: S311
    spread = dt.timedelta(days={"15m": 2, "1h": 3, "1d": 9, "1w": 60, "1mo": 200}[every])
    events = random_log(rng, start.replace(tzinfo=dt.UTC), spread, 120)
    wanted = expected(events, every, zone, by=True)
    monkeypatch.setattr(text_chunks, "CHUNK_BYTES", rng.randrange(300, 3000))
    found, _ = tallied(write(events, tmp_path, "csv"), every, zone, by=True)
    np.testing.assert_array_equal(found, wanted)
    found, _ = tallied(write(shuffled(rng, events), tmp_path, "csv"), every, zone, by=True, any_order=True)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("form", FORMATS)
def test_all_formats_add_up_to_the_same(tmp_path, monkeypatch, form):
    rng = random.Random(5)  # noqa: S311
    for size, by, value in ((7, True, True), (97, False, False), (1000, False, True), (1 << 24, True, False)):
        events = random_log(rng, dt.datetime(2026, 1, 30), dt.timedelta(days=40), 50)
        monkeypatch.setattr(text_chunks, "CHUNK_BYTES", size)
        found, tally = tallied(write(events, tmp_path, form), "1d", None, by=by, value=value)
        np.testing.assert_array_equal(found, expected(events, "1d", None, by=by, value=value))
        assert tally.rows == 50


@pytest.mark.parametrize("every", EVERY)
def test_empty_steps_are_steps(tmp_path, every):
    events = random_log(random.Random(1), dt.datetime(2026, 1, 1), dt.timedelta(days=90), 4)  # noqa: S311
    found, _ = tallied(write(events, tmp_path, "csv"), every, None)
    np.testing.assert_array_equal(found, expected(events, every, None))
    assert found.sum() == 4


def test_timestamps_without_an_offset_are_local(tmp_path):
    # 02:30 comes twice on that night: the first is meant. The days before and after have 25 hours between them.
    path = tmp_path / "events.csv"
    path.write_text("when\n2026-10-24 23:30:00\n2026-10-25 02:30:00\n2026-10-25 23:30:00\n2026-10-26 00:00:00\n")
    found, tally = tallied(str(path), "1h", "Europe/Vienna")
    assert np.flatnonzero(found).tolist() == [0, 3, 25, 26]
    assert tally.calendar.begin(25).isoformat() == "2026-10-25T23:00:00+01:00"


def test_an_hour_that_does_not_exist_is_refused(tmp_path):
    path = tmp_path / "events.csv"
    path.write_text("when\n2026-03-29 01:30:00\n2026-03-29 02:30:00\n")
    with pytest.raises(RowRefused, match=r"line 3, column 'when'.*that exists in Europe/Vienna, got '2026-03-29 02:30"):
        tallied(str(path), "1h", "Europe/Vienna")


def frame(**columns):
    return Table(pl.DataFrame(columns), lambda row: f"row {row}")


def days(*numbers):
    return [f"2026-01-{number:02}" for number in numbers]


def time_tally(horizon=1000, people=None, measure=None, **more):
    return TimeTally(measure or Measure(), people, horizon, Timestamps("when"), "1d", **more)


def test_rows_of_an_earlier_step_are_refused_and_named():
    with pytest.raises(RowRefused, match=r"row 2, .* expected rows in order.* got '2026-01-01"):
        time_tally().take(frame(when=days(1, 2, 1)))
    sorted_tally = time_tally()
    sorted_tally.take(frame(when=days(3, 4)))
    with pytest.raises(RowRefused, match="row 0"):
        sorted_tally.take(frame(when=days(3)))


def test_rows_before_the_start_are_counted_apart():
    tally = time_tally(start=pl.Series([dt.datetime(2026, 1, 3, 12)]), any_order=True)
    tally.take(frame(when=days(5, 1, 3, 2)))
    assert (tally.before, tally.inputs(0, tally.steps).tolist()) == (2, [1, 0, 1])
    tally.take(frame(when=days(1)))
    assert (tally.before, tally.rows, tally.steps) == (3, 5, 3)


def test_the_horizon_is_a_step_and_until_a_moment():
    tally = time_tally(horizon=3)
    tally.take(frame(when=days(1, 3)))
    with pytest.raises(RowRefused, match=r"one of the 3 steps from 2026-01-01 00:00:00 on"):
        tally.take(frame(when=days(4)))
    assert tally.inputs(0, tally.steps).tolist() == [1, 0, 1]
    until = time_tally(until=pl.Series([dt.datetime(2026, 1, 4)]), any_order=True)
    until.take(frame(when=days(4, 3)))
    assert until.horizon == 2
    until.take(frame(when=days(1)))
    assert until.horizon == 4
    with pytest.raises(RowRefused):
        until.take(frame(when=days(5)))


def test_large_values_never_wrap_around():
    tally = time_tally(measure=Measure(value="n", per_person=2**62))
    with pytest.raises(SourceDamaged, match="one step adds up beyond"):
        for _ in range(4):
            tally.take(frame(when=days(1), n=[2**62 - 1]))


def test_contributions_move_with_their_steps():
    people = People("who", ContributionLimit(2), remember=True)
    tally = time_tally(people=people, any_order=True)
    tally.take(frame(when=days(9, 9, 9), who=["ann", "ann", "ann"]))
    tally.take(frame(when=days(5, 7), who=["bob", "ann"]))
    assert tally.inputs(0, tally.steps).tolist() == [1, 0, 0, 0, 2]
    assert set(tally.contributions.iter_rows()) == {("ann", 4, 2), ("bob", 0, 1)}


def test_rows_of_steps_already_released_are_not_limited_again():
    people = People("who", ContributionLimit(1), remember=True)
    tally = time_tally(people=people, seen=2, start=pl.Series([dt.datetime(2026, 1, 1)]))
    tally.take(frame(when=days(1, 1, 2, 3, 3), who=["ann", "ann", "ann", "ann", "ann"]))
    assert tally.inputs(0, tally.steps).tolist() == [2, 1, 1]
    assert tally.contributions.rows() == [("ann", 2, 1)]
