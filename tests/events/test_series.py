"""A stream and its successor are one series: tables and windows, with and without the key."""

import json

import numpy as np
import pytest

import dpstream as dp
from dpstream.errors import InvalidArgument, StreamContinued, StreamUnknown
from dpstream.events.stored_stream import StoredStream
from dpstream.events.successor import extend_stream
from dpstream.events.window_figures import window_figures
from dpstream.events.windows import windows_of
from dpstream.mechanisms import SmoothBinary
from dpstream.release.change_errors import change_errors
from dpstream.store import PublishedStore

SOURCE = {"time": "when", "every": "1d", "start": "2026-03-01", "time_zone": "Europe/Vienna", "categories": ["a", "b"]}


@pytest.fixture
def store(tmp_path):
    with dp.Store(tmp_path / "counts.db") as opened:
        with opened.counter(
            "visits", 31, dp.zcdp(0.1), shape=2, source=json.dumps(SOURCE), mechanism=SmoothBinary(31)
        ) as counter:
            counter.extend(np.ones((31, 2), dtype=int))
        made = extend_stream(opened, "visits", until="2026-12-31")
        with opened.counter(
            made.name,
            made.horizon,
            made.budget,
            shape=2,
            source=made.source,
            mechanism=opened.settings(made.name).mechanism,
        ) as counter:
            counter.extend(np.ones((20, 2), dtype=int))
        yield opened


def test_the_successor_begins_on_the_next_day(store):
    second = store.series("visits")[1]
    assert json.loads(second.source) == SOURCE | {"start": "2026-04-01"}
    assert (second.horizon, second.steps_before) == (275, 31)  # through a change to summer time
    third = extend_stream(store, "visits-2", horizon=7)
    assert json.loads(third.source)["start"] == "2026-04-21"


def test_tables_and_windows_of_a_series(store):
    for opened in (store, PublishedStore(store.path)):
        stream = StoredStream(opened, "visits")
        assert stream.names == ("a", "b")
        frame = stream.released().table(windows=windows_of("7d"))
        assert frame.columns[:4] == ["step", "start", "category", "value"]
        assert frame["step"].to_list() == [step for step in range(1, 52) for _ in "ab"]
        assert str(frame["start"][-1]) == "2026-04-20"
        np.testing.assert_array_equal(frame["value"].to_numpy(), store.series_values("visits").reshape(-1))
        values = store.series_values("visits")
        np.testing.assert_array_equal(frame["last_7d"].to_numpy()[14:].reshape(-1, 2), values[7:] - values[:-7])
        # A week that lies in one stream is as exact as that stream makes it; one that lies in both is less so.
        widths = (frame["last_7d_high"] - frame["last_7d"]).to_numpy()[::2]
        assert widths[50] == change_errors(store.settings("visits-2"), [20], [13])[1][0]
        assert widths[33] > widths[50]
        pieces = stream.table()
        pieces.skip(values[:40])
        whole = frame.select("step", "start", "category", "value", "stddev", "low", "high")
        assert pieces.rows(values[40:]).rows() == whole.rows()[80:]
    april = window_figures(stream.released(), "1mo").filter(category="a")
    assert april["value"].to_list() == [values[30, 0], values[50, 0] - values[30, 0]]


def test_what_cannot_be_extended(store):
    with pytest.raises(StreamContinued):
        extend_stream(store, "visits", horizon=5)
    with pytest.raises(StreamUnknown):
        extend_stream(store, "nobody", horizon=5)
    with pytest.raises(InvalidArgument, match="2026-04-21 or later"):
        extend_stream(store, "visits-2", until="2026-04-20")
    with pytest.raises(InvalidArgument, match="until must be left out"):
        extend_stream(store, "visits-2", until="2026-05-20", horizon=5)
