"""Windows of time: how many steps they have, and which releases are before them, against the calendar of Python."""

import datetime as dt

import numpy as np
import pytest

from dpstream.errors import InvalidArgument
from dpstream.events.calendar import Calendar
from dpstream.events.windows import Window, fitting_lengths, windows_of
from tests.events.test_calendar import moments


@pytest.mark.parametrize(
    "text", ["", "d", "0d", "-7d", "7 d", "1.5d", "7x", "07d", "1e3", "9999999999d", "7d,1d", "٧d"]
)
def test_no_window(text):
    with pytest.raises(InvalidArgument, match="windows must be a number of steps such as 7, or a length of time"):
        Window(text)


@pytest.mark.parametrize(
    ("window", "every", "longest"),
    [
        ("7", "1d", 7), ("7d", "1d", 7), ("1w", "1d", 7), ("14d", "1w", 2), ("24h", "1h", 24), ("1d", "1h", 24),
        ("1d", "15m", 96), ("24h", "1d", 1), ("1mo", "1d", 31), ("2mo", "1d", 62), ("1q", "1d", 92), ("1y", "1d", 366),
        ("4y", "1d", 1461), ("5y", "1d", 1827), ("1y", "1mo", 12), ("1y", "1q", 4), ("1mo", "12h", 62), ("6d", "2d", 3),
    ],
)  # fmt: skip
def test_longest(window, every, longest):
    assert Window(window).longest(every) == longest


@pytest.mark.parametrize(
    ("window", "every"),
    [
        ("1d", "1w"),
        ("10d", "1w"),
        ("1h", "1d"),
        ("7d", "1mo"),
        ("1mo", "1w"),
        ("1q", "1y"),
        ("1mo", "2d"),
        ("7d", "2d"),
    ],
)
def test_windows_that_are_no_whole_number_of_steps(window, every):
    with pytest.raises(
        InvalidArgument, match=f"windows must be a whole number of steps of {every}, such as .*, got '{window}'"
    ):
        Window(window).longest(every)


def test_steps_without_dates():
    assert Window("7").longest(None) == 7
    assert Window("3").since(None, 1, 4).tolist() == [0, 0, 1, 2]
    with pytest.raises(InvalidArgument, match="a number of steps where steps have no dates, such as 7, got '7d'"):
        Window("7d").longest(None)


def months_back(day, count):
    """The same day of an earlier month, or its last one if that has fewer days."""
    month = day.year * 12 + day.month - 1 - count
    for back in range(4):
        try:
            return dt.date(month // 12, month % 12 + 1, day.day - back)
        except ValueError:
            continue
    raise AssertionError


@pytest.mark.parametrize("zone", [None, "Europe/Vienna", "Pacific/Auckland"])
@pytest.mark.parametrize(("text", "count"), [("1mo", 1), ("1q", 3), ("1y", 12), ("13mo", 13)])
def test_months_of_days(text, count, zone):
    """Three years with a leap day: each window begins on the same day of an earlier month as it ends."""
    start = dt.date(2023, 1, 15)
    days = Calendar("1d", moments("2023-01-15", zone=zone))
    since, inside = Window(text).stretches(days, 0, 1100)
    for i in range(1100):
        begin = months_back(start + dt.timedelta(i + 1), count)
        assert since[i] == max((begin - start).days, 0)
        assert inside[i] == (begin >= start)
    assert (np.arange(1, 1101) - since).max() <= Window(text).longest("1d")
    # In pieces it is the same.
    pieces = [Window(text).since(days, first, 100) for first in range(0, 1100, 100)]
    np.testing.assert_array_equal(np.concatenate(pieces), since)


def test_a_month_up_to_its_last_day_is_that_month():
    days = Calendar("1d", moments("2025-12-01"))
    ends = [31, 62, 90, 121]  # 31 December, January, 28 February, 31 March
    since = Window("1mo").since(days, 0, 121)
    assert [int(since[end - 1]) for end in ends] == [0, 31, 62, 90]


def test_days_of_hours_when_the_clock_changes():
    hours = Calendar("1h", moments("2026-03-28", zone="Europe/Vienna"))
    assert hours.begins(0, 1)[0].isoformat() == "2026-03-28T00:00:00+01:00"
    since = Window("1d").since(hours, 0, 24 + 23 + 24)
    assert (24 - since[23], 47 - since[46], 71 - since[70]) == (24, 23, 24)
    autumn = Calendar("1h", moments("2026-10-24", zone="Europe/Vienna"))
    assert 49 - Window("1d").since(autumn, 48, 1)[0] == 25
    assert 49 - Window("24h").since(autumn, 48, 1)[0] == 24
    plain = Calendar("1h", moments("2026-03-28"))
    assert (np.arange(1, 72) - Window("1d").since(plain, 0, 71)).max() == 24


def test_the_text_of_an_option():
    assert [window.text for window in windows_of(" 1d, 7d ,1mo,12")] == ["1d", "7d", "1mo", "12"]
    assert [window.text for window in windows_of(["1d", 7])] == ["1d", "7"]
    for bad in ("1d,,7d", "1d,", "1d,1d"):
        with pytest.raises(InvalidArgument, match="windows must be"):
            windows_of(bad)


def test_what_a_mechanism_is_fitted_to():
    windows = windows_of("1mo,7d,1w,1y,1d")
    assert fitting_lengths(windows, "1d", 400) == (1, 7, 31, 366)
    assert fitting_lengths(windows, "1d", 90) == (1, 7, 31, 90)
    assert fitting_lengths(windows, "1d", None) == (1, 7, 31, 366)
    assert fitting_lengths((), "1d", 90) == ()


def test_periods():
    """Weeks begin on Mondays, months on their first days; others with the step that is asked for."""
    days = Calendar("1d", moments("2026-01-01"))  # a Thursday
    assert days.periods("1w", 20).tolist()[:4] == [0, 4, 11, 18]
    assert days.periods("1mo", 40).tolist()[:3] == [0, 31, 41]
    assert days.periods("1mo", 59).tolist()[:3] == [0, 31, 59]
    assert days.periods("7d", 20, anchor=2).tolist()[:3] == [2, 9, 16]
    assert days.begins_period("1mo")
    assert not days.begins_period("1w")
