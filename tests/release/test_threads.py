"""Attacks by threads: several of them use one object at once.

Without turns, two calls that read the same noise before either has moved on publish it under two sums, whose difference
is the data. Each attack was seen to succeed on code without turns (4 threads: a third of the releases reused noise).
"""

import collections
import signal
import sys
import threading
import time

import numpy as np
import pytest

import dpstream as dp
from dpstream.errors import HorizonExceeded, StreamInUse
from dpstream.mechanisms import BalancedToeplitz, SmoothBinary
from dpstream.testing import fixed_key

THREADS = [2, 4, 8]
HORIZON = 4000
#: Inputs as far apart as this tell which of them are in a sum, whatever the noise.
FAR = 10**6


@pytest.fixture(autouse=True)
def threads_switch_all_the_time():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def at_once(work, count):
    """What `work(i)` returns for each of `count` threads that start together."""
    ready, results = threading.Barrier(count), [None] * count

    def run(i):
        ready.wait()
        try:
            results[i] = work(i)
        except BaseException as error:
            results[i] = error

    workers = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert not worker.is_alive()
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


@pytest.mark.parametrize("count", THREADS)
@pytest.mark.parametrize("mechanism", [SmoothBinary(HORIZON), BalancedToeplitz(HORIZON)], ids=["tree", "recurrence"])
def test_no_step_of_a_counter_is_released_twice(count, mechanism):
    """All inputs are equal, so a release tells its step: each is there once, with the noise of that step."""
    settings = {"mechanism": mechanism, "key": fixed_key("threads")}
    counter = dp.Counter(HORIZON, dp.zcdp(0.5), **settings)

    def work(i):
        mine = []
        while True:
            try:
                mine += [counter.add(FAR)] if len(mine) % 50 else counter.extend([FAR] * 3).tolist()
            except HorizonExceeded:
                if counter.t >= HORIZON - 3:
                    break
        return mine

    released = sorted(value for part in at_once(work, count) for value in part)
    while counter.t < HORIZON:
        released.append(counter.add(FAR))
    expected = dp.Counter(HORIZON, dp.zcdp(0.5), **settings).extend([FAR] * HORIZON)
    assert released == expected.tolist()


@pytest.mark.parametrize("count", THREADS)
def test_inputs_of_all_threads_are_in_the_sum_once(count):
    counter = dp.Counter(HORIZON, dp.zcdp(0.5), key=fixed_key("sums"))
    noise = dp.Counter(HORIZON, dp.zcdp(0.5), key=fixed_key("sums")).extend([0] * HORIZON).tolist()
    each = HORIZON // count

    def work(i):
        return [counter.add(FAR ** (i > 0) + i) for _ in range(each)]

    released = [value for part in at_once(work, count) for value in part]
    state = counter.reveal_secret_state()
    assert state.t == counter.t == each * count
    assert int(state.sums[0]) == each * (1 + sum(FAR + i for i in range(1, count)))
    assert int(state.last) - int(state.sums[0]) == noise[counter.t - 1]
    assert counter.estimate().value == int(state.last)
    assert len(released) == each * count


@pytest.mark.parametrize("count", THREADS)
def test_no_step_of_a_histogram_is_released_twice(count):
    settings = {"shape": (3,), "mechanism": SmoothBinary(600), "key": fixed_key("threads")}
    counter = dp.Counter(600, dp.zcdp(0.5), **settings)

    def work(i):
        return [row for _ in range(600 // count // 2) for row in (counter.add([FAR] * 3), *counter.extend([[FAR] * 3]))]

    released = sorted(tuple(row.tolist()) for part in at_once(work, count) for row in part)
    expected = dp.Counter(600, dp.zcdp(0.5), **settings).extend(np.full((counter.t, 3), FAR))
    assert released == [tuple(row) for row in expected.tolist()]
    assert counter.t == len(released)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", THREADS)
def test_no_step_of_a_running_sum_is_released_twice(count, dtype):
    settings = {"shape": (40,), "dtype": dtype, "mechanism": SmoothBinary(600), "key": fixed_key("threads")}
    total, x = dp.RunningSum(600, dp.zcdp(0.5), **settings), np.full(40, 1000, dtype=dtype)

    def work(i):
        return [row for _ in range(600 // count // 3) for row in (total.add(x), *total.extend([x, x]))]

    released = sorted(tuple(row.tolist()) for part in at_once(work, count) for row in part)
    expected = dp.RunningSum(600, dp.zcdp(0.5), **settings).extend(np.tile(x, (total.t, 1)))
    assert released == sorted(tuple(row) for row in expected.tolist())
    assert total.t == len(released)


@pytest.mark.parametrize("count", THREADS)
def test_nobody_is_kept_twice(count):
    """Threads ask for the same newcomers at the same time, while the table grows."""
    limit = dp.ContributionLimit(times=1)
    kept = at_once(lambda i: [p for p in range(5000) if limit.keep(p)], count)
    assert sorted(p for part in kept for p in part) == list(range(5000))
    assert limit.people == limit.people_over == 5000
    assert limit.dropped == (count - 1) * 5000


def test_looking_while_others_count():
    """What is read in the middle of it all was true at one time: t never goes back, an estimate belongs to its step."""
    counter = dp.Counter(HORIZON, dp.zcdp(0.5), key=fixed_key("looking"))
    expected = dp.Counter(HORIZON, dp.zcdp(0.5), key=fixed_key("looking")).extend([FAR] * HORIZON)
    counter.add(FAR)
    done = threading.Event()

    def look():
        seen, values = [], []
        while not done.is_set():
            seen.append(counter.t)
            values.append(counter.estimate().value)
            repr(counter)
        return seen, values

    def count_on():
        for _ in range(2000):
            counter.add(FAR)
        done.set()

    seen, values = next(r for r in at_once(lambda i: count_on() if i else look(), 2) if r is not None)
    assert seen == sorted(seen)
    assert set(values) <= set(expected.tolist())


class ComesBack:
    """A signal handler that uses the object in whose call it came."""

    def __init__(self, use):
        self.use, self.answers, self.busy = use, collections.Counter(), False

    def __call__(self, *_):
        if self.busy:  # on a busy machine the next signal comes before this one is dealt with
            return
        self.busy = True
        try:
            self.use()
            self.answers["taken"] += 1
        except StreamInUse:
            self.answers["refused"] += 1
        finally:
            self.busy = False


@pytest.mark.parametrize("kind", ["number", "histogram", "sum", "people"])
def test_a_signal_handler_does_not_wait_for_itself(kind):
    """It gets an answer or a named refusal, and what was going on goes on as if it had not come."""
    people, limit = iter(range(10**9)), dp.ContributionLimit(1)
    stream = {
        "number": dp.Counter(10**6, dp.zcdp(0.5), key=fixed_key("signals")),
        "histogram": dp.Counter(10**5, dp.zcdp(0.5), shape=(3,), mechanism=SmoothBinary(10**5), key=fixed_key("s")),
        "sum": dp.RunningSum(10**5, dp.zcdp(0.5), shape=(3,), mechanism=SmoothBinary(10**5), key=fixed_key("s")),
    }.get(kind)
    use = {
        "number": lambda: stream.add(FAR),
        "histogram": lambda: stream.add([FAR, 0, 0]),
        "sum": lambda: stream.add([1.0, 0.0, 0.0]),
        "people": lambda: limit.keep(next(people)),
    }[kind]
    handler = ComesBack(use)
    before = signal.signal(signal.SIGALRM, handler)
    used, until = 0, time.monotonic() + 30
    try:
        signal.setitimer(signal.ITIMER_REAL, 2e-4, 2e-4)
        while handler.answers["refused"] < 3 and time.monotonic() < until:
            use()
            used += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert handler.answers["refused"] >= 3
    steps = used + handler.answers["taken"]
    if stream is None:
        assert limit.people == steps
    else:
        assert stream.t == steps
        assert float(stream.reveal_secret_state().sums[0].ravel()[0]) == steps * (1 if kind == "sum" else FAR)
