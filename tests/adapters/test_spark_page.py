"""Releases from Spark as a store to look at, without Spark."""

import datetime as dt

import pytest

import dpstream as dp
from dpstream.adapters.spark.page import write_page
from dpstream.adapters.spark.sink import ReleaseFile
from dpstream.errors import InvalidArgument
from dpstream.events.stored_stream import StoredStream
from dpstream.release.change_errors import change_errors
from dpstream.release.named_counter import NamedCounter
from dpstream.store import PublishedStore
from dpstream.testing import fixed_key

GIVEN = {"every": "1d", "start": "2026-01-01", "horizon": 12, "budget": dp.zcdp(0.5)}


def test_a_store_to_look_at(tmp_path):
    mechanism = dp.mechanisms.BalancedToeplitz(12)
    counter = NamedCounter(["a", "b", "c"], 12, dp.zcdp(0.5), mechanism=mechanism, key=fixed_key("page"))
    sink, first = ReleaseFile(tmp_path / "releases.db"), dt.datetime(2026, 1, 1)
    expected = []
    for step in range(1, 5):
        released = counter.add({"a": 10 * step, "b": 1})
        expected.append([released["c"], released["a"]])
        start, (stddev, _) = first + dt.timedelta(days=step - 1), change_errors(counter.settings, [step], [0])
        rows = [(name, step, start, value, float(stddev[0])) for name, value in released.items()]
        sink.write_rows(["name", "step", "start", "value", "stddev"], rows)
    for _ in range(2):  # it is written over
        assert write_page(sink, tmp_path / "page.db", names=["c", "a"], mechanism=mechanism, **GIVEN) == 4
    stream = StoredStream(PublishedStore(tmp_path / "page.db"), "counts")
    assert stream.releases().tolist() == expected
    assert stream.names == ("c", "a")
    assert str(stream.calendar.begin(0)) == "2026-01-01 00:00:00+00:00"
    assert stream.settings.scale == counter.settings.scale
    with pytest.raises(InvalidArgument, match="names with releases of all steps"):
        write_page(sink, tmp_path / "page.db", names=["z"], mechanism=mechanism, **GIVEN)
    # What the page would promise must be what the releases were made with.
    for wrong, message in (
        ({"budget": dp.zcdp(5.0)}, "budget must be that of the releases"),
        ({"per_person": 2}, "budget must be that of the releases"),
        ({"mechanism": dp.mechanisms.SmoothBinary(12)}, "budget must be that of the releases"),
        ({"start": "2026-02-01"}, "start must be that of the releases: step 1 begins at 2026-01-01 00:00:00 UTC"),
        ({"every": "1h"}, "start must be that of the releases: step 2 begins at 2026-01-02 00:00:00 UTC"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            write_page(sink, tmp_path / "page.db", names=["a"], **{"mechanism": mechanism, **GIVEN, **wrong})
    with pytest.raises(InvalidArgument, match="windows must be those of this file"):
        sink.write_rows(["name", "step", "start", "value", "stddev", "last_2d"], [("a", 5, first, 1, 1.0, 2)])
