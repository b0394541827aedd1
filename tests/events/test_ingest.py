"""StreamIngest: batches of rows, several in one commit, into the open steps of a stream; the clock closes them."""

import datetime as dt

import numpy as np
import polars as pl
import pytest

import dpstream as dp
from dpstream.errors import (
    BatchConflict,
    ColumnMissing,
    InvalidArgument,
    RowRefused,
    RowsTooFarAhead,
    StoreBusy,
    StoreError,
    StoreFull,
    StreamEnded,
    StreamUnknown,
)
from dpstream.events.ingest import Batch, StreamIngest
from dpstream.store import durable_streams
from tests.store.conftest import path  # noqa: F401

#: With this budget there is no noise: what is released is the truth.
EXACT = dp.zcdp(1e6)
pytestmark = pytest.mark.filterwarnings("ignore::dpstream.errors.CountWarning")


def begun(path, rows=("01",), **settings):  # noqa: F811
    """A stream that has released the first day of January."""
    dp.count(
        frame(rows),
        **{"time": "when", "start": "2026-01-01", "through": "2026-01-01", "horizon": 31, "budget": EXACT} | settings,
        store=path,
        name="visits",
    )


def frame(days, who=None, ward=None):
    days = list(days)
    return pl.DataFrame(
        {
            "when": [f"2026-01-{day}" for day in days],
            "n": [1] * len(days),
            "who": who or ["ann"] * len(days),
            "ward": ward or ["north"] * len(days),
        }
    )


def batch(name, *days, **more):
    return Batch(frame(days, **more), name.encode())


def noon(day):
    return dt.datetime(2026, 1, day, 12).astimezone()


@pytest.fixture
def stream(path):  # noqa: F811
    begun(path)
    with dp.Store(path) as store, StreamIngest(store, "visits") as opened:
        opened.inputs = lambda: store.true_data.inputs("visits", 1, opened.released).tolist()
        opened.waiting = lambda: store.true_data.open_steps("visits", opened.released + 1, 31).tallies
        yield opened


def test_several_batches_in_one_commit_and_steps_by_the_clock(stream, monkeypatch):
    commits = []
    commit = durable_streams.DurableCounter._commit_ingest
    monkeypatch.setattr(
        durable_streams.DurableCounter,
        "_commit_ingest",
        lambda *given, **more: (commits.append(1), commit(*given, **more))[1],
    )
    first, second = stream.take([batch("a", "02", "03"), batch("b", "03", "01", "05")], now=noon(3))
    assert (first.new, first.rows, first.late) == (True, 2, 0)
    assert (second.new, second.rows, second.late) == (True, 3, 1)
    assert commits == [1]
    assert stream.close_steps(noon(3)) == 1
    assert stream.inputs() == [1, 2]  # the late row counts in the first open step
    assert stream.close_steps(noon(3)) == stream.close_steps(noon(1)) == 0  # nor if the clock goes back
    assert stream.close_steps(noon(6)) == 3
    assert stream.inputs() == [1, 2, 2, 0, 1]
    assert (stream.released, stream.remaining) == (5, 26)


def test_a_batch_counts_once(stream, path):  # noqa: F811
    taken = stream.take([batch("a", "02"), batch("a", "02"), batch("b", "02")], now=noon(2))
    assert [one.new for one in taken] == [True, False, True]
    assert [one.new for one in stream.take([batch("b", "02"), batch("c", "02")], now=noon(2))] == [False, True]
    stream.close()
    with dp.Store(path) as store, StreamIngest(store, "visits") as again:
        assert not again.take([batch("c", "02")], now=noon(2))[0].new
        again.close_steps(noon(3))
        assert store.true_data.inputs("visits", 1, 2).tolist() == [1, 3]


def test_a_refused_batch_does_not_hinder_the_others(stream):
    taken = stream.take(
        [
            batch("good", "02"),
            batch("bad", "02", "0x"),
            Batch(frame(["02"]).drop("when"), b"no column"),
            batch("fine", "03"),
        ],
        now=noon(2),
    )
    assert [one.new for one in taken] == [True, False, False, True]
    assert [type(one.error) for one in taken] == [type(None), RowRefused, ColumnMissing, type(None)]
    assert "row 2, column 'when'" in str(taken[1].error)
    assert stream.waiting()[:3].tolist() == [1, 1, 0]
    # What was refused is not remembered: once it is mended, it may come under the same name.
    assert stream.take([batch("bad", "02", "02")], now=noon(2))[0].new
    assert stream.waiting()[:3].tolist() == [3, 1, 0]


def test_rows_too_far_ahead_are_refused(path):  # noqa: F811
    begun(path, horizon=3650)
    with dp.Store(path) as store, StreamIngest(store, "visits") as stream:
        rows = pl.DataFrame({"when": ["2029-01-01"]})
        (taken,) = stream.take([Batch(rows, b"a")], now=noon(2))
        assert isinstance(taken.error, RowsTooFarAhead)
        assert stream.take([Batch(rows, b"a")], now=dt.datetime(2028, 12, 1, tzinfo=dt.UTC))[0].new


def test_people_are_limited_over_all_batches(path):  # noqa: F811
    begun(path, user="who", max_contributions=2, max_users=3)
    with dp.Store(path) as store, StreamIngest(store, "visits") as stream:
        # Too many people: nothing is taken, and the rows of those who are in it count for nothing.
        many = [batch("a", "02", who=["bob"]), batch("b", "02", "02", "02", who=["bob", "cid", "dan"])]
        assert [one.new for one in stream.take([*many, batch("c", "02", who=["ann"])], now=noon(2))] == [False] * 3
        fewer = [batch("a", "02", who=["bob"]), batch("c", "02", "02", "02", who=["bob", "bob", "ann"])]
        assert [one.new for one in stream.take(fewer, now=noon(2))] == [True, True]
        stream.take([batch("d", "03", "03", who=["ann", "cid"])], now=noon(3))
        stream.close_steps(noon(4))
        assert store.true_data.inputs("visits", 1, 3).tolist() == [1, 1 + 1 + 1, 1]
    with dp.Store(path) as store, StreamIngest(store, "visits") as stream:
        stream.take([batch("e", "04", "04", "04", who=["ann", "bob", "cid"])], now=noon(4))
        stream.close_steps(noon(5))
        assert store.true_data.inputs("visits", 4, 4).tolist() == [1]


@pytest.mark.parametrize("zed", [{"when": "2020-01-01"}, {"n": 99}, {"when": "02.01.2026"}])
def test_a_row_that_needs_a_closer_look_moves_nobody(path, zed):  # noqa: F811
    """Attack: in one of several batches a row from before the first step, a clipped amount, another form of dates."""
    begun(path, rows=(), user="who", max_contributions=1, max_users=2000, value="n", per_person=5, clip=True)
    others = [batch(f"a{i}", *["02"] * 25, who=[f"p{i}-{k}" for k in range(25)]) for i in range(4)]
    theirs = Batch(pl.DataFrame({"when": "2026-01-02", "who": "zed", "n": 1} | zed), b"zed")
    with dp.Store(path) as store, StreamIngest(store, "visits") as stream:
        taken = stream.take([*others[:2], theirs, *others[2:]], now=noon(2))
        assert [one.new for one in taken if one.rows == 25] == [True] * 4
        stream.close_steps(noon(3))
        assert 100 <= store.true_data.inputs("visits", 2, 2)[0] <= 105


def test_people_of_a_batch_that_is_refused_late_are_not_used_up(path):  # noqa: F811
    """The last thing that can refuse a batch comes after its people were counted: rows too far ahead."""
    begun(path, user="who", max_contributions=1, max_users=9, horizon=3650)
    with dp.Store(path) as store, StreamIngest(store, "visits") as stream:
        far = Batch(pl.DataFrame({"when": ["2026-01-02", "2035-01-01"], "who": ["bob", "cid"]}), b"far")
        taken = stream.take([far, batch("a", "02", "02", who=["bob", "cid"])], now=noon(2))
        assert [type(one.error) for one in taken] == [RowsTooFarAhead, type(None)]
        stream.close_steps(noon(3))
        assert store.true_data.inputs("visits", 1, 2).tolist() == [1, 2]


def test_a_failed_commit_leaves_nothing(path, monkeypatch):  # noqa: F811
    begun(path, user="who", max_contributions=1, max_users=9)
    with dp.Store(path) as store, StreamIngest(store, "visits") as stream:
        group = [batch("a", "02", who=["bob"]), batch("b", "02", who=["cid"])]
        with monkeypatch.context() as patched:

            def full(*_):
                raise StoreFull(path=str(path))

            patched.setattr(durable_streams, "write_people", full)
            with pytest.raises(StoreFull):
                stream.take(group, now=noon(2))
        assert [one.new for one in stream.take(group, now=noon(2))] == [True, True]
        stream.close_steps(noon(3))
        assert store.true_data.inputs("visits", 1, 2).tolist() == [1, 2]


def test_what_a_sender_is_told_does_not_depend_on_what_others_sent(path):  # noqa: F811
    """Attack: fill a step up to its limit with invented rows, and read the sum of the others from the refusal."""
    most = 2**30
    begun_with = {"value": "n", "per_person": most, "horizon": 2**20, "mechanism": "BufferedToeplitz"}
    rows = pl.DataFrame({"when": ["2026-01-01"], "n": [0]})
    dates = {"time": "when", "start": "2026-01-01", "through": "2026-01-01"}
    dp.count(rows, **dates, **begun_with, budget=EXACT, store=path, name="visits")
    with dp.Store(path) as store, StreamIngest(store, "visits") as stream:
        limit = stream._counter.settings.input_range[1]
        half = pl.DataFrame({"when": ["2026-01-02"] * (limit // most // 2), "n": [most] * (limit // most // 2)})
        taken = stream.take([Batch(half, b"a"), Batch(half, b"b"), Batch(half, b"c")], now=noon(2))
        assert [(one.new, one.error) for one in taken] == [(True, None)] * 3
        assert stream.take([Batch(rows, b"d")], now=noon(2))[0].new
        stream.close_steps(noon(3))
        assert store.true_data.inputs("visits", 2, 2).tolist() == [limit]  # what a step cannot hold is cut off


def test_the_settings_are_those_of_the_stream(path):  # noqa: F811
    begun(path, by="ward", values=["north", "south"], undeclared="other", where=["who=ann"], late="drop")
    with dp.Store(path) as store, StreamIngest(store, "visits") as stream:
        assert stream.columns == ["when", "ward", "who"]
        who, wards = ["ann", "ann", "bob", "ann"], ["north", "south", "north", "x"]
        (taken,) = stream.take([batch("a", "01", "02", "02", "02", who=who, ward=wards)], now=noon(2))
        assert (taken.rows, taken.late, taken.left_out) == (4, 1, 1)
        assert stream.close_steps(noon(4)) == 2  # the second of them without rows
        np.testing.assert_array_equal(store.true_data.inputs("visits", 2, 2), [[0, 1, 1]])


def test_after_the_last_step_batches_are_refused(path):  # noqa: F811
    begun(path, horizon=2)
    with dp.Store(path) as store, StreamIngest(store, "visits") as stream:
        stream.close_steps(noon(9))
        (taken,) = stream.take([batch("a", "02")], now=noon(9))
        assert isinstance(taken.error, StreamEnded)


def test_what_cannot_be_ingested_is_refused(path):  # noqa: F811
    begun(path)
    with dp.Store(path) as store:
        store.counter("plain", 5, EXACT)
        with pytest.raises(InvalidArgument, match="a stream of dated rows"):
            StreamIngest(store, "plain")
        with pytest.raises(StreamUnknown):
            StreamIngest(store, "nothing")
        with StreamIngest(store, "visits"), pytest.raises((StoreBusy, StoreError)):
            StreamIngest(store, "visits")
        StreamIngest(store, "visits").close()  # which was given back


def test_the_file_does_not_show_whether_a_batch_had_rows(path):  # noqa: F811
    """One person more or less may be the difference between a file with rows and one without."""
    seen = []
    for rows in ([], ["02"]):
        folder = path.parent / str(len(rows))
        folder.mkdir()
        begun(folder / path.name)
        dp.count(frame(rows), through="2026-01-02", store=folder / path.name)
        with dp.Store(folder / path.name) as store:
            seen.append(store._files.database.rows("SELECT t, ingests, open_last FROM streams"))
    assert seen[0] == seen[1]


def test_a_name_with_other_content_is_refused(stream):
    def sent(name, content, day="02"):
        return Batch(frame([day]), name, content)

    taken = stream.take([sent(b"a", b"1"), sent(b"a", b"2"), sent(b"a", b"1")], now=noon(2))
    assert [(one.new, type(one.error)) for one in taken] == [
        (True, type(None)),
        (False, BatchConflict),
        (False, type(None)),
    ]
    assert isinstance(stream.take([sent(b"a", b"3")], now=noon(2))[0].error, BatchConflict)
    assert stream.waiting()[0] == 1
    with pytest.raises(InvalidArgument, match="at most 64 together"):
        stream.take([sent(b"%d" % i, b"") for i in range(65)], now=noon(2))


@pytest.mark.parametrize("people", [{}, {"user": "who", "max_contributions": 1, "max_users": 5}])
def test_there_is_a_commit_without_batches(path, people):  # noqa: F811
    begun(path, **people)
    with dp.Store(path) as store, StreamIngest(store, "visits") as stream:
        before = store._row("visits").ingests
        assert stream.take([], now=noon(3)) == []
        assert stream.take([Batch(frame(["0x"]), b"bad")], now=noon(3))[0].error
        assert store._row("visits").ingests == before + 2
        store.check_seals()


@pytest.mark.parametrize("people", [{}, {"user": "who", "max_contributions": 3, "max_users": 50}])
def test_batches_that_come_together_are_told_apart(path, people):  # noqa: F811
    """What is said of each, and what is counted, is what it would be if they came one by one."""
    chance = np.random.default_rng(3)
    batches = []
    for i in range(24):
        days = [f"{day:02}" for day in chance.integers(1, 9, chance.integers(0, 6))]
        if i % 9 == 4:
            days.append("0x")
        who = [f"p{n}" for n in chance.integers(0, 12, len(days))]
        batches.append(batch(f"{i}", *days, who=who, ward=list(chance.choice(["north", "south"], len(days))) or None))
    found = []
    for group in (24, 7, 1):
        at = path.with_name(f"{group}.db")
        begun(at, where=["ward=north"], **people)
        with dp.Store(at) as store, StreamIngest(store, "visits") as stream:
            stream.close_steps(noon(4))
            said = [
                (one.new, one.rows, one.late, one.before, one.left_out, str(one.error))
                for i in range(0, 24, group)
                for one in stream.take(batches[i : i + group], now=noon(4))
            ]
            stream.close_steps(noon(20))
            found.append((said, store.true_data.inputs("visits", 1, 19).tolist()))
            assert store._row("visits").ingests == 1 + -(-24 // group)
    assert found[0] == found[1] == found[2]
    assert sum(late for _, _, late, *_ in found[0][0]) > 5
    assert sum(left_out for *_, left_out, _ in found[0][0]) > 5
