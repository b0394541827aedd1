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
    assert read([number]) == read([str(number)]) == [UTC_NOON]  # recognised by its size
    # Milliseconds taken for seconds are in the year 57000, and no calendar goes there.
    for wrong in (1_769_862_600_000 * factor, -(2**62), 2**63 - 1):
        for value in (wrong, str(wrong)):
            with pytest.raises(RowRefused, match=rf"line 2, column 'when': expected a number of {unit} since 1970"):
                read([value], unit)
    with pytest.raises(RowRefused, match=r"got '12\.5'"):
        read(["12.5"], unit)


def test_other_forms_are_told():
    assert read(["31.01.2026 12:30"], "%d.%m.%Y %H:%M") == [NOON]
    with pytest.raises(RowRefused) as caught:
        read(["31.01.2026", "2026-01-31"], "%d.%m.%Y")
    assert str(caught.value) == (
        "line 3, column 'when': expected a timestamp of the form dd.mm.yyyy, got '2026-01-31'; time_format='yyyy-mm-dd'"
        " would read it"
    )


@pytest.mark.parametrize("bad", ["2026-02-30", "", None, "NaN", "2026-01-31x", "-0005-01-01", "+20000-01-01", " "])
def test_bad_values_are_named(bad):
    with pytest.raises(RowRefused) as caught:
        read(["2026-01-31", "2026-01-31", bad])
    given = "an empty cell" if bad is None else repr(bad)
    given += "; missing='skip' leaves such rows out" if bad in ("", None, "NaN", " ") else ""
    assert str(caught.value) == f"line 4, column 'when': expected a timestamp of the form yyyy-mm-dd, got {given}"


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


@pytest.mark.parametrize(
    ("text", "form", "moment"),
    [
        ("31/01/2026", "dd/mm/yyyy", dt.datetime(2026, 1, 31)),
        ("01/31/2026", "mm/dd/yyyy", dt.datetime(2026, 1, 31)),
        ("31-01-2026", "dd-mm-yyyy", dt.datetime(2026, 1, 31)),
        ("31.01.2026", "dd.mm.yyyy", dt.datetime(2026, 1, 31)),
        ("1.2.2026", "dd.mm.yyyy", dt.datetime(2026, 2, 1)),
        ("2026/01/31", "yyyy/mm/dd", dt.datetime(2026, 1, 31)),
        ("20260131", "yyyymmdd", dt.datetime(2026, 1, 31)),
        ("31/01/2026 12:30", "dd/mm/yyyy hh:mm", NOON),
        ("31/01/2026 12:30:00", "dd/mm/yyyy hh:mm:ss", NOON),
        ("1/31/2026 12:30 PM", "mm/dd/yyyy hh:mm am/pm", NOON),
        ("31.01.2026, 12:30", "dd.mm.yyyy, hh:mm", NOON),
    ],
)
def test_forms_of_other_countries_are_recognised_and_said(text, form, moment):
    timestamps = Timestamps("when")
    early = text.replace("31", "02") if "31" in text else text
    found = timestamps.read(Table(pl.DataFrame({"when": [early, text, early]}), str)).to_list()
    assert found[1] == moment
    assert timestamps.recognised.startswith(f"Times in 'when' are read as {form}: ")
    assert timestamps.time_format == form
    # What is kept reads a file that could not be told apart.
    assert Timestamps("when", form).read(Table(pl.DataFrame({"when": [early]}), str)).to_list() == found[:1]


def test_the_deciding_row_is_shown():
    timestamps = Timestamps("when")
    days = ["01/02/2026"] * 1500 + ["02/13/2026"]
    assert timestamps.read(Table(pl.DataFrame({"when": days}), str))[0] == dt.datetime(2026, 1, 2)
    assert timestamps.recognised == "Times in 'when' are read as mm/dd/yyyy: 02/13/2026 is 13 February 2026."


@pytest.mark.parametrize(("mark", "time"), [("/", ""), ("-", ""), ("/", " 10:30"), ("-", " 10:30:59")])
def test_days_that_may_be_months_are_refused_with_both_readings(mark, time):
    text = f"03{mark}04{mark}2026{time}"
    spelled = f"{mark}".join(("dd", "mm", "yyyy")) + {"": "", " 10:30": " hh:mm", " 10:30:59": " hh:mm:ss"}[time]
    swapped = spelled.replace("dd", "x").replace("mm", "dd", 1).replace("x", "mm")
    with pytest.raises(RowRefused) as caught:
        read(["01" + text[2:].replace("04", "01", 1), text])
    assert str(caught.value) == (
        f"line 3, column 'when': expected a day above 12 in some row, which tells the day from the month, got {text!r};"
        f" time_format={spelled!r} reads it as 3 April 2026, time_format={swapped!r} reads it as 4 March 2026"
    )
    assert read([text], spelled)[0].date() == dt.date(2026, 4, 3)
    assert read([text], swapped)[0].date() == dt.date(2026, 3, 4)


def test_all_rows_are_held_against_the_form_of_the_first():
    """Attack: rows of the other form after the form was recognised, in the same table and in a later one."""
    timestamps = Timestamps("when")
    first, later = (
        Table(pl.DataFrame({"when": ["13/01/2026"]}), str),
        Table(pl.DataFrame({"when": ["01/14/2026"]}), str),
    )
    timestamps.read(first)
    for attempt in (lambda: timestamps.read(later), lambda: read(["13/01/2026", "14/01/2026", "01/14/2026"])):
        with pytest.raises(RowRefused, match=r"dd/mm/yyyy, got '01/14/2026'; it can be read as mm/dd/yyyy only: the"):
            attempt()


@pytest.mark.parametrize("mixed", [["1767225600", "1767225600000"], [1767225600, 1767225600000]])
def test_seconds_and_milliseconds_are_not_mixed(mixed):
    """Attack: after seconds were recognised, milliseconds would be in the year 57970; after those, seconds in 1970."""
    for rows in (mixed[:1] * 1000 + mixed[1:], mixed[1:] * 1000 + mixed[:1]):
        with pytest.raises(RowRefused, match=r"line 1002, .* expected a number of m?s since 1970, got '?1767225600"):
            read(rows)
    with pytest.raises(RowRefused, match=r"line 2, .* expected a timestamp such as 2026-01-31"):
        read(mixed)


def test_the_year_25_is_no_year():
    for attempt in (lambda: read(["31/12/25"]), lambda: read(["31/12/25"], "dd/mm/yyyy")):
        with pytest.raises(RowRefused, match="got '31/12/25'"):
            attempt()
    assert read(["31/12/25"], "dd/mm/yy") == [dt.datetime(2025, 12, 31)]


@pytest.mark.parametrize(
    ("spelled", "text", "moment"),
    [
        ("dd/mm/yyyy", "01/02/2026", dt.datetime(2026, 2, 1)),
        ("%d/%m/%Y", "01/02/2026", dt.datetime(2026, 2, 1)),
        ("MM/DD/YYYY hh:mm", "01/31/2026 12:30", NOON),
        ("yyyy-MM-ddTHH:mm:ss", "2026-01-31T12:30:00", NOON),
        ("hh:mm dd.mm.yy", "12:30 31.01.26", NOON),
        ("d mmm yyyy", "31 Jan 2026", dt.datetime(2026, 1, 31)),
        ("dd/mm/yyyy hh:mm am/pm", "31/01/2026 12:30 PM", NOON),
        ("dd/mm/yyyy hh:mm:ss+hh:mm", "31/01/2026 13:30:00+01:00", UTC_NOON),
        ("dd/mm/yyyy hh:mm:ss.fff", "31/01/2026 12:30:00.000", NOON),
        ("%d/%m/%Y %H:%M:%S.%f", "31/01/2026 12:30:00.000000", NOON),
        ("yyyymmdd", "20260131", dt.datetime(2026, 1, 31)),
    ],
)
def test_forms_in_either_spelling(spelled, text, moment):
    assert read([text], spelled) == [moment]


@pytest.mark.parametrize(
    "bad", ["", "iso", "day/month", "%d/%m", "dd/mm", "hh:mm", "%Q", "%", "yyyy", "dd/mm/yyyy hh:qq", "%d/%m/%Y %f"]
)
def test_what_is_no_form(bad):
    with pytest.raises(
        InvalidArgument, match="time_format must be a form with day, month and year, such as dd/mm/yyyy"
    ):
        Timestamps("when", bad)


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
