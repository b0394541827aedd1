"""Windows of a stored stream: over any past releases, the same as of a stream in memory; fitted once."""

import numpy as np
import pytest

import dpstream as dp
from dpstream.errors import InvalidArgument, NoReleaseYet, StoreMismatch, StreamUnknown
from dpstream.mechanisms import Binary, FittedToeplitz
from dpstream.release.error_bars import change_error
from dpstream.release.plan import choose
from dpstream.release.settings import _complete

BUDGET = dp.zcdp(0.5)


@pytest.mark.parametrize("shape", [(), (3,)])
def test_any_two_past_releases(tmp_path, shape):
    x = np.ones((30, *shape), dtype=np.int64)
    with dp.Store(tmp_path / "s.db") as store:
        visits = store.counter("visits", 40, BUDGET, shape=shape, mechanism=Binary(40))
        with pytest.raises(NoReleaseYet):
            visits.window(7)
        made = np.concatenate([visits.extend(x[:13]), visits.extend(x[13:])])
    with dp.Store(tmp_path / "s.db") as store:
        visits = store.counter("visits", 40, BUDGET, shape=shape, mechanism=Binary(40))
        for t, since in ((30, 29), (30, 1), (20, 12), (2, 1), (30, 13)):
            stddev, h = change_error(visits.settings, t, since, 0.9)
            for change in (
                visits.estimate(0.9, since=since, through=t),
                visits.window(t - since, 0.9, through=t),
                store.estimate("visits", 0.9, since=since, through=t),
                store.window("visits", t - since, 0.9, through=t),
            ):
                np.testing.assert_array_equal(change.value, made[t - 1] - made[since - 1])
                np.testing.assert_array_equal(change.value - change.low, np.full(shape, h))
                np.testing.assert_array_equal(change.high - change.value, np.full(shape, h))
                assert change.stddev == stddev
        total = visits.estimate()
        np.testing.assert_array_equal(total.value, made[-1])
        for same in (visits.window(30), visits.window(99), store.window("visits", over=30), store.estimate("visits")):
            np.testing.assert_array_equal(same.low, total.low)
        assert shape or type(total.value) is int
        assert visits.estimate(through=7).stddev == visits.stddev(7)


def test_running_sums(tmp_path):
    with dp.Store(tmp_path / "s.db") as store:
        total = store.running_sum("sums", 40, BUDGET, shape=2, mechanism=Binary(40), windows=(1, 4))
        made = total.extend(np.full((9, 2), 0.25, dtype=np.float32))
        live = dp.RunningSum(40, BUDGET, shape=2, mechanism=Binary(40), windows=(1, 4))
        live.extend(np.zeros((9, 2), dtype=np.float32))
        found = store.window("sums", over=4)
        np.testing.assert_array_equal(found.value, made[-1] - made[-5])
        assert found.stddev == live.window(4).stddev
        np.testing.assert_array_equal(total.estimate().value, made[-1])
        assert total.estimate().stddev == total.stddev()


def test_refusals(tmp_path):
    with dp.Store(tmp_path / "s.db") as store:
        visits = store.counter("visits", 40, BUDGET)
        visits.extend([1] * 9)
        with pytest.raises(StreamUnknown):
            store.window("visit", over=7)
        for arguments, problem in (
            ({"since": 9}, "since must be an earlier release than 9"),
            ({"since": -1}, "since must be a whole number"),
            ({"through": 10}, "through must be at most 9, the last release"),
            ({"through": 0}, "through must be a whole number"),
            ({"through": 4, "since": 4}, "since must be an earlier release than 4"),
        ):
            with pytest.raises(InvalidArgument, match=problem):
                visits.estimate(**arguments)
            with pytest.raises(InvalidArgument, match=problem):
                store.estimate("visits", **arguments)
        with pytest.raises(InvalidArgument, match="steps must be"):
            store.window("visits", over=0)


def test_a_fit_is_kept(tmp_path, monkeypatch):
    """A stream that was fitted goes on without another fit; other windows are another stream."""
    asked = {"horizon": 60, "budget": BUDGET, "windows": (1, 7)}
    with dp.Store(tmp_path / "s.db") as store:
        visits = store.counter("visits", **asked)
        fitted = visits.mechanism
        visits.add(5)
    assert isinstance(fitted, FittedToeplitz)
    for cache in (choose, _complete):
        cache.cache_clear()
    monkeypatch.setattr(FittedToeplitz, "fit", lambda *_, **__: pytest.fail("fitted once more"))
    with dp.Store(tmp_path / "s.db") as store:
        visits = store.counter("visits", **asked)
        assert visits.mechanism == fitted
        assert visits.settings.windows == (1, 7)
        visits.close()
        with pytest.raises(StoreMismatch, match="windows"):
            store.counter("visits", 60, BUDGET, mechanism=fitted, windows=(1, 8))
        assert store.settings("visits").windows == (1, 7)
