"""Releases from Spark as a store to look at, without Spark."""

import datetime as dt

import pytest

import dpstream as dp
from dpstream.adapters.spark.page import write_page
from dpstream.adapters.spark.sink import ReleaseFile
from dpstream.errors import InvalidArgument
from dpstream.events.stored_stream import StoredStream
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
        rows = [(name, step, first + dt.timedelta(days=step - 1), value) for name, value in released.items()]
        sink.write_rows(["name", "step", "start", "value"], rows)
    for _ in range(2):  # it is written over
        assert write_page(sink, tmp_path / "page.db", names=["c", "a"], mechanism=mechanism, **GIVEN) == 4
    stream = StoredStream(PublishedStore(tmp_path / "page.db"), "counts")
    assert stream.releases().tolist() == expected
    assert stream.names == ("c", "a")
    assert str(stream.calendar.begin(0)) == "2026-01-01 00:00:00+00:00"
    assert stream.settings.scale == counter.settings.scale
    with pytest.raises(InvalidArgument, match="names with releases of all steps"):
        write_page(sink, tmp_path / "page.db", names=["z"], mechanism=mechanism, **GIVEN)
