"""Threads take turns: each step is made once, nothing is lost, and what comes out is what is in the file."""

import os
import signal
import sys
import threading

import numpy as np
import pytest

import dpstream as dp
from dpstream.errors import ForkedStore, StreamInUse
from dpstream.store.lease import Lease

from .conftest import visits

STEPS = 240


@pytest.fixture(autouse=True)
def eager_threads():
    """Let threads interrupt each other as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def at_once(*works):
    """Run all of these at once; raise what any of them raises."""
    failed = []
    barrier = threading.Barrier(len(works))

    def run(work):
        try:
            barrier.wait()
            work()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


@pytest.mark.parametrize("count", [2, 4, 8])
def test_one_counter(path, count):
    """The attack: if two threads made one step, the same noise would come out under two sums."""
    given, out = list(range(STEPS)), {}
    values = {x: 1 + x % 3 for x in given}

    with dp.Store(path) as store:
        counter = visits(store)

        def work(mine):
            for x in mine:
                out[x] = counter.add(values[x])

        at_once(*(lambda mine=given[i::count]: work(mine) for i in range(count)))
        assert counter.t == STEPS
        inputs = store.true_data.inputs("visits", 1, STEPS)
        assert sorted(inputs.tolist()) == sorted(values.values())
        released = [release.value for release in store.releases("visits")]
        assert sorted(out.values()) == sorted(released)
        assert store.verify("visits").ok


@pytest.mark.parametrize("count", [2, 4, 8])
def test_one_counter_with_positions(path, count):
    """Every thread offers every position: each is taken once, and all threads are given the same release."""
    out = [[] for _ in range(count)]
    with dp.Store(path) as store:
        counter = visits(store)

        def work(mine):
            for position in range(STEPS // 4):
                while counter.t < position:
                    pass
                mine.append(counter.add(position % 3, position=position))

        at_once(*(lambda mine=mine: work(mine) for mine in out))
        assert counter.t == STEPS // 4
        assert all(mine == out[0] for mine in out)
        assert store.verify("visits").ok


@pytest.mark.parametrize("count", [2, 4, 8])
def test_one_sum(path, count):
    with dp.Store(path) as store:
        total = store.running_sum("sum", 1000, dp.zcdp(0.5), shape=3, dtype="float64")
        out = []

        def work():
            out.extend(total.add(np.array([1.0, 0.0, 0.0])) for _ in range(40))

        at_once(*[work] * count)
        assert total.t == 40 * count
        released = np.array([release.value for release in store.releases("sum")])
        np.testing.assert_array_equal(np.sort(np.array(out), axis=0), np.sort(released, axis=0))
        assert store.verify("sum").ok


def test_one_store_with_several_streams_and_readers(path):
    with dp.Store(path) as store:
        counters = [visits(store, f"stream {i}") for i in range(4)]
        done = threading.Event()

        def work(counter):
            for i in range(60):
                counter.extend([i % 3, 1])

        def read():
            while not done.is_set():
                for info in store.streams():
                    assert len(store.releases(info.name)) >= info.t
                assert store.spent().streams == 4
                store.check_seals()

        def write():
            try:
                at_once(*(lambda one=one: work(one) for one in counters))
            finally:
                done.set()

        at_once(write, read, read)
        for i in range(4):
            assert counters[i].t == 120
            assert store.true_data.inputs(f"stream {i}", 1, 120).sum() == 120
            assert store.verify(f"stream {i}").ok


@pytest.mark.parametrize("count", [2, 4, 8])
def test_counted_people(path, count):
    """Who was counted is in step with what was counted."""
    with dp.Store(path) as store:
        counter = visits(store, rows_per_person=3, people=1000)

        def work(first):
            for i in range(20):
                counter.extend([1], contributions={1 + (first + i) % 40: 1} if count < 8 else {first * 20 + i + 1: 1})

        firsts = [0, 20, 0, 20][:count] if count < 8 else range(8)
        at_once(*(lambda first=first: work(first) for first in firsts))
        limit = counter.contribution_limit()
        assert limit.people == (160 if count == 8 else 40)
        assert counter.t == 20 * count
        assert store.verify("visits").ok


def test_one_thread_closes_while_others_add(path):
    with dp.Store(path) as store:
        counter = visits(store)
        out = []

        def work():
            with pytest.raises(dp.errors.StoreClosed):
                while True:
                    out.append(counter.add(1))

        def close():
            while counter.t < 50:
                pass
            counter.close()

        at_once(work, work, work, close)
        assert sorted(out) == sorted(release.value for release in store.releases("visits"))


# -- the same thread, and forks ---------------------------------------------------------------------------------------


def test_a_signal_handler_in_the_middle_of_a_call_is_refused(path, monkeypatch):
    """It would find the stream between two steps; the step in the middle of which it came is made all the same."""
    found = []
    with dp.Store(path) as store:
        counter = visits(store)

        def handler(*_):
            for use in (lambda: counter.add(1), lambda: store.releases("visits"), lambda: visits(store, "other")):
                with pytest.raises(StreamInUse):
                    use()
            found.append(counter.t)

        really = Lease.move

        def move(*given):
            signal.raise_signal(signal.SIGUSR1)
            return really(*given)

        monkeypatch.setattr(Lease, "move", move)
        before = signal.signal(signal.SIGUSR1, handler)
        try:
            values = [counter.add(1), counter.add(2)]
        finally:
            signal.signal(signal.SIGUSR1, before)
        assert found == [0, 1]
        assert [release.value for release in store.releases("visits")] == values
        assert store.verify("visits").ok


def test_a_fork_while_another_thread_has_the_turn(path):
    """The child is refused at once; it does not wait for a thread that it does not have."""
    with dp.Store(path) as store:
        counter = visits(store)
        holds, over = threading.Event(), threading.Event()

        def hold():
            with store._files.turn():
                holds.set()
                over.wait()

        holder = threading.Thread(target=hold)
        holder.start()
        holds.wait()
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            refused = 0
            for use in (lambda: counter.add(1), store.streams, lambda: store.true_data.inputs("visits", 1, 0)):
                try:
                    use()
                except ForkedStore:
                    refused += 1
            counter.close()
            store.close()
            os._exit(refused)
        over.set()
        holder.join()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        counter.add(1)
