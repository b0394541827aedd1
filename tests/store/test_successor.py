"""Successors: a series goes on under a new budget, once, from the last released total."""

import numpy as np
import pytest

import dpstream as dp
from dpstream.errors import (
    BudgetLimitExceeded,
    InvalidArgument,
    StepsNotReleased,
    StoreBusy,
    StoreNotWritten,
    StreamContinued,
    StreamRetired,
    StreamUnknown,
)
from dpstream.mechanisms import SmoothBinary
from dpstream.store import PublishedStore

from .conftest import everything

BUDGET = dp.zcdp(0.5)


def wards(store, name="wards", horizon=10, **more):
    settings = {"horizon": horizon, "budget": BUDGET, "shape": 2, "mechanism": SmoothBinary(horizon), "source": "doors"}
    return store.counter(name, **settings | more)


def test_a_series_goes_on(path):
    with dp.Store(path) as store:
        with wards(store) as counter:
            first = counter.extend([[1, 2]] * 10)
        made = store.start_successor("wards", 20, dp.zcdp(0.25), mechanism=SmoothBinary(20))
        assert (made.name, made.horizon, made.budget, made.t, made.source) == ("wards-2", 20, dp.zcdp(0.25), 0, "doors")
        assert (made.continues, made.steps_before, made.carried) == ("wards", 10, first[-1].tolist())
        assert store.spent().rho == 0.75
        with pytest.raises(StreamContinued, match="'wards' is continued by 'wards-2': go on with that one"):
            wards(store)
        with wards(store, "wards-2", 20, budget=dp.zcdp(0.25)) as counter:
            second = counter.extend([[3, 4]] * 5)
        endless = dp.mechanisms.GrowingSmooth()
        third = store.start_successor("wards-2", None, mechanism=endless)
        assert (third.name, third.horizon, third.budget) == ("wards-3", None, dp.zcdp(0.25))
        assert third.carried == (first[-1] + second[-1]).tolist()
        assert third.steps_before == 15
        with store.counter("wards-3", None, dp.zcdp(0.25), shape=2, source="doors", mechanism=endless) as counter:
            last = counter.extend([[5, 6]] * 3)
        expected = np.concatenate([first, first[-1] + second, first[-1] + second[-1] + last])
        for name in ("wards", "wards-2", "wards-3"):
            assert [info.name for info in store.series(name)] == ["wards", "wards-2", "wards-3"]
            np.testing.assert_array_equal(store.series_values(name), expected)
            assert PublishedStore(path).series(name) == store.series(name)
            np.testing.assert_array_equal(PublishedStore(path).series_values(name), expected)
        assert [info.continued_by for info in store.streams()] == ["wards-2", "wards-3", None]
        for info in store.streams():
            assert store.verify(info.name).ok
        store.check_seals()
    with dp.Store(path) as store:
        np.testing.assert_array_equal(store.series_values("wards"), expected)


def test_numbers_and_streams_without_steps(path):
    with dp.Store(path) as store:
        store.counter("visits", 10, BUDGET, windows=(1, 7)).close()  # fitted, here and in the successor
        made = store.start_successor("visits", 5, new_name="later")
        assert (made.name, made.carried, made.steps_before) == ("later", 0, 0)
        assert store.settings("later").windows == (1, 5)
        assert store.series_values("visits").tolist() == []
        with store.counter("later", 5, BUDGET, windows=(1, 5)) as counter:
            value = counter.add(7)
        again = store.start_successor("later", 5)
        assert (again.name, again.carried, again.steps_before) == ("later-2", value, 1)
        assert store.start_successor("later-2", 5).name == "later-3"


def test_what_a_successor_takes_over(path):
    with dp.Store(path) as store:
        with wards(store, per_person=3, rows_per_person=3, people=50, open_steps=7) as counter:
            limit = counter.contribution_limit()
            counter.extend([[1, 0]], contributions={limit.fingerprint("ann"): 3})
        made = store.start_successor("wards", 10, source="other doors")
        assert (made.rows_per_person, made.people, made.per_person, made.source) == (3, 50, 3, "other doors")
        with store.counter(
            "wards-2", 10, BUDGET, shape=2, per_person=3, rows_per_person=3, people=50, source="other doors"
        ) as counter:
            assert counter.open_steps == 7
            assert counter.contribution_limit().take("ann", 5) == 3  # counted anew, for the new budget
        store.check_seals()


def test_refused(path):
    with dp.Store(path) as store, dp.Store(path) as other:
        counter = wards(store, open_steps=5)
        counter.ingest(1, [[1, 1], [1, 1], [0, 1]], through=2)
        store.running_sum("sum", 10, BUDGET, shape=2).close()
        store.counter("taken", 10, BUDGET).close()

        def refused(error, *arguments, match=None, **more):
            before = everything(path)
            with pytest.raises(error, match=match):
                other.start_successor(*arguments, **more)
            assert everything(path) == before

        refused(StoreBusy, "wards", 10)
        with pytest.raises(StoreBusy):
            store.start_successor("wards", 10)
        counter.release_through(1)
        counter.close()
        refused(StepsNotReleased, "wards", 10, match="from step 2 to step 3.*Release them first")
        with wards(store) as counter:
            counter.release_through(3)
        refused(StreamUnknown, "nobody", 10)
        refused(InvalidArgument, "sum", 10, match="running sum")
        refused(InvalidArgument, "wards", 0)
        refused(InvalidArgument, "wards", 10, new_name="taken", match="no stream of this store has")
        refused(InvalidArgument, "wards", 10, new_name="wards")
        refused(InvalidArgument, "wards", 10, new_name="a\nb")
        refused(InvalidArgument, "wards", 10, source=5)
        store.set_limit(dp.zcdp(2))
        refused(BudgetLimitExceeded, "wards", 10, dp.zcdp(1), match="would promise rho = 2.5")
        assert other.start_successor("wards", 10).name == "wards-2"
        refused(StreamContinued, "wards", 10, match="continued by 'wards-2'")


def test_a_retired_stream_can_be_carried_on(path):
    with dp.Store(path) as store:
        with wards(store) as counter:
            last = counter.add([3, 4])
        store.retire("wards")
        with pytest.raises(StreamRetired):
            wards(store)
        assert store.start_successor("wards", 10).carried == last.tolist()


def test_a_kill_before_the_witness_is_written(path, monkeypatch):
    def fails(*_):
        raise StoreNotWritten(path="x", reason="killed")

    with dp.Store(path) as store:
        with wards(store) as counter:
            counter.add([3, 4])
        with monkeypatch.context() as patched:
            patched.setattr(store._files.witness, "write", fails)
            with pytest.raises(StoreNotWritten):
                store.start_successor("wards", 10)
    with dp.Store(path) as store:
        with pytest.raises(StreamContinued):
            wards(store)
        store.counter("wards-2", 10, BUDGET, shape=2, source="doors").add([1, 1])
        assert len(store.series_values("wards")) == 2


def test_a_changed_total_is_found(path):
    """The total that is carried over is among the settings, which are sealed."""
    with dp.Store(path) as store:
        with wards(store) as counter:
            counter.add([3, 4])
        store.start_successor("wards", 10)
        store._files.database.connection.execute(
            "UPDATE streams SET configuration = replace(configuration, '\"steps\": 1', '\"steps\": 2')"
        )
        with pytest.raises(dp.errors.StoreDamaged):
            store.streams()
