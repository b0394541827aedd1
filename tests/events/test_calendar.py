"""Where steps begin: by the wall for days and longer, by the clock for hours and shorter."""

import datetime as dt

import numpy as np
import polars as pl
import pytest

from dpstream.errors import InvalidArgument
from dpstream.events.calendar import Calendar, check_every, parse_moment


def moments(*texts, zone=None):
    return pl.concat([parse_moment("start", text, zone) for text in texts])


@pytest.mark.parametrize("every", ["", "d", "1", "1x", "0d", "-1d", "1D", " 1d", "1i", "1d12h", "1mo1d", "9999999999d"])
def test_lengths_that_are_none(every):
    with pytest.raises(InvalidArgument, match="every must be a length of time like 1d, 1h, 15m"):
        check_every(every)


@pytest.mark.parametrize("every", ["100ms", "1s", "15m", "6h", "1d", "2w", "1mo", "1q", "1y"])
def test_steps_follow_each_other_without_gaps(every):
    days = Calendar(every, moments("2026-02-27T13:14:15"))
    days.lay_out(50)
    begins = days.begins(0, 50)
    assert (begins.diff().drop_nulls() > dt.timedelta(0)).all()
    assert days.steps(begins).tolist() == list(range(50))
    just_before = begins - dt.timedelta(microseconds=1)
    assert days.steps(just_before).tolist() == list(range(-1, 49))


def test_days_where_midnight_does_not_exist():
    days = Calendar("1d", moments("2024-09-07T12:00", zone="America/Santiago"))
    days.lay_out(4)
    assert [begin.isoformat() for begin in days.begins(0, 4)] == [
        "2024-09-07T00:00:00-04:00",
        "2024-09-08T01:00:00-03:00",
        "2024-09-09T00:00:00-03:00",
        "2024-09-10T00:00:00-03:00",
    ]
    assert [str(day) for day in days.shown(0, 3)] == ["2024-09-07", "2024-09-08", "2024-09-09"]
    later = Calendar("1d", moments("2024-09-08T12:00", zone="America/Santiago"))
    assert later.back_to(moments("2024-09-06", zone="America/Santiago")[0]) == 2
    assert later.begin(2).isoformat() == "2024-09-08T01:00:00-03:00"


def test_a_day_that_was_left_out_is_no_step():
    # Samoa went from 29 to 31 December 2011 over night.
    days = Calendar("1d", moments("2011-12-29T12:00", zone="Pacific/Apia"))
    assert days.steps(moments("2011-12-29T23:59", "2011-12-31", "2012-01-01", zone="Pacific/Apia")).tolist() == [
        0,
        1,
        2,
    ]
    assert [str(day) for day in days.shown(0, 3)] == ["2011-12-29", "2011-12-31", "2012-01-01"]
    days.lay_out(10)
    assert days.begins(0, 10).n_unique() == 10


def test_hours_by_the_clock_on_days_of_23_and_25_hours():
    for day, hours in (("2026-03-29", 23), ("2026-10-25", 25), ("2026-10-26", 24)):
        calendar = Calendar("1h", moments(day, zone="Europe/Vienna"))
        assert calendar.reach(parse_moment("until", day, "Europe/Vienna", end_of_day=True)[0]) == hours


def test_going_back_keeps_the_steps():
    for every in ("15m", "1h", "1d", "1w", "1mo"):
        calendar = Calendar(every, moments("2026-03-05T10:10"))
        some = moments("2026-03-05T10:10", "2026-04-07T11:00")
        before = calendar.steps(some)
        moved = calendar.back_to(moments("2026-01-13T17:23")[0])
        np.testing.assert_array_equal(calendar.steps(some), before + moved)


def test_a_moment_far_away_is_a_mistake():
    with pytest.raises(InvalidArgument, match="so long that there are at most 16,777,216 steps"):
        Calendar("1s", moments("2026-01-01")).reach(dt.datetime(9998, 12, 31))


def test_with_and_without_an_offset_is_utc():
    plain, offset = moments("2026-01-01"), moments("2026-01-03T01:00+02:00")
    assert Calendar("1d", plain).steps(offset).tolist() == [1]
    assert Calendar("1d", offset).steps(moments("2026-01-03")).tolist() == [1]


@pytest.mark.parametrize("text", ["", "tomorrow", "31.01.2026", "2026-13-01", "2026-02-30", "0001-01-01T00:00+14:00"])
def test_moments_that_are_none(text):
    with pytest.raises(InvalidArgument, match="start must be a date such as 2026-01-31"):
        parse_moment("start", text, "Europe/Vienna")


def test_the_last_day_is_a_whole_one():
    hours = Calendar("1h", moments("2026-01-01"))
    assert hours.reach(parse_moment("until", "2026-01-02", None, end_of_day=True)[0]) == 48
    assert hours.reach(parse_moment("until", "2026-01-02T06:00", None, end_of_day=True)[0]) == 31
