"""Timestamps are read as they are meant, or refused with what was expected."""

import datetime as dt

import polars as pl
import pytest

from dpstream.errors import InvalidArgument, RowRefused
from dpstream.events.tables import Table
from dpstream.events.timestamps import Timestamps

NOON = dt.datetime(2026, 1, 31, 12, 30)
UTC_NOON = NOON.replace(tzinfo=dt.UTC)


def read(values, time_format=None, zone=None):
    table = Table(pl.DataFrame({"when": values}), lambda row: f"line {row + 2}")
    return Timestamps("when", time_format, zone).read(table).to_list()


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-31 12:30:00", NOON),
        ("2026-01-31T12:30:00", NOON),
        ("2026-01-31 12:30:00.000", NOON),
        ("2026-01-31T12:30", NOON),
        ("2026-01-31 12:30", NOON),
        ("2026-01-31", dt.datetime(2026, 1, 31)),
        ("2026-01-31T12:30:00Z", UTC_NOON),
        ("2026-01-31T13:30:00+01:00", UTC_NOON),
        ("2026-01-31 07:00:00.0-0530", UTC_NOON),
        ("2026-01-31T13:30+01:00", UTC_NOON),
        ("2026-01-31 12:30Z", UTC_NOON),
    ],
)
def test_iso_forms_need_no_words(text, moment):
    assert read([text, text]) == [moment, moment]


@pytest.mark.parametrize(("unit", "factor"), [("s", 1), ("ms", 1000), ("us", 10**6)])
def test_numbers_since_1970(unit, factor):
    number = int(UTC_NOON.timestamp()) * factor
    assert read([number, -number], unit)[0] == UTC_NOON
    assert read([str(number)], unit, "Europe/Vienna") == [UTC_NOON]
    with pytest.raises(RowRefused, match="numbers since 1970: time_format='s', 'ms' or 'us'"):
        read([number])
    # Milliseconds taken for seconds are in the year 57000, and no calendar goes there.
    for wrong in (1_769_862_600_000 * factor, -(2**62), 2**63 - 1):
        for value in (wrong, str(wrong)):
            with pytest.raises(RowRefused, match=rf"line 2, column 'when': expected a number of {unit} since 1970"):
                read([value], unit)
    with pytest.raises(RowRefused, match=r"got '12\.5'"):
        read(["12.5"], unit)


def test_other_forms_are_told():
    assert read(["31.01.2026 12:30"], "%d.%m.%Y %H:%M") == [NOON]
    with pytest.raises(RowRefused, match=r"line 3, .* expected a timestamp of the form %d\.%m\.%Y, got '2026-01-31'"):
        read(["31.01.2026", "2026-01-31"], "%d.%m.%Y")


def test_days_and_months_are_not_guessed():
    with pytest.raises(RowRefused, match=r"line 2, .* such as 2026-01-31 or .* got '03/04/2026'"):
        read(["03/04/2026"])


@pytest.mark.parametrize("bad", ["2026-02-30", "", None, "NaN", "2026-01-31x", "-0005-01-01", "+20000-01-01", " "])
def test_bad_values_are_named(bad):
    with pytest.raises(RowRefused) as caught:
        read(["2026-01-31", "2026-01-31", bad])
    given = "an empty cell" if bad is None else repr(bad)
    assert str(caught.value) == f"line 4, column 'when': expected a timestamp of the form %Y-%m-%d, got {given}"


def test_columns_that_are_no_time():
    for values in ([1.5], [True], [dt.time(1)], [dt.timedelta(1)], pl.Series([None])):
        with pytest.raises(RowRefused, match="line 2, column 'when': expected a timestamp"):
            read(values)


def test_typed_columns(tmp_path):
    assert read([dt.date(2026, 1, 31)]) == [dt.datetime(2026, 1, 31)]
    assert read([NOON]) == [NOON]
    nanoseconds = pl.Series([NOON]).dt.cast_time_unit("ns").dt.replace_time_zone("Asia/Tokyo")
    assert read(nanoseconds, zone="Europe/Vienna") == [NOON.replace(tzinfo=dt.timezone(dt.timedelta(hours=9)))]
    with pytest.raises(RowRefused, match="expected a timestamp, got an empty cell"):
        read(pl.Series([NOON, None]))


def test_zones_move_the_calendar_not_the_moment():
    (moment,) = read(["2026-01-31T23:30:00Z"], zone="Europe/Vienna")
    assert moment == dt.datetime(2026, 1, 31, 23, 30, tzinfo=dt.UTC)
    assert moment.isoformat() == "2026-02-01T00:30:00+01:00"
    (moment,) = read(["2026-01-31T23:30:00"], zone="Europe/Vienna")
    assert moment.isoformat() == "2026-01-31T23:30:00+01:00"


@pytest.mark.parametrize("zone", ["", "Vienna", "../../etc/passwd", "Europe", "utc+1"])
def test_unknown_zones(zone):
    with pytest.raises(InvalidArgument, match="time_zone must be a name such as Europe/Vienna"):
        Timestamps("when", None, zone)


@pytest.mark.parametrize("text", ["2016-12-31T23:59:60", "2016-12-31 23:59:60.5", "2016-12-31T23:59:60Z"])
def test_a_leap_second_stays_on_its_day(text):
    (moment,) = read([text])
    assert (moment.year, moment.month, moment.day, moment.hour, moment.minute) == (2016, 12, 31, 23, 59)
    before, same, after = read(["2016-12-31T23:59:59", "2016-12-31T23:59:60", "2017-01-01T00:00:00"])
    assert before == same < after


def test_hours_that_come_twice_are_counted():
    timestamps = Timestamps("when", None, "Europe/Vienna")
    texts = ["2026-10-25 01:59:59", "2026-10-25 02:00:00", "2026-10-25 02:59:59", "2026-10-25 03:00:00"]
    moments = timestamps.read(Table(pl.DataFrame({"when": texts}), str))
    assert timestamps.ambiguous == 2
    offsets = [moment.utcoffset() for moment in moments]
    assert offsets == [dt.timedelta(hours=hours) for hours in (2, 2, 2, 1)]
    aware = Timestamps("when", None, "Europe/Vienna")
    aware.read(Table(pl.DataFrame({"when": ["2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00"]}), str))
    assert (aware.ambiguous, aware.offsets) == (0, True)
