"""Several threads, signal handlers and interrupts on one NoiseStream: no noise is handed out twice."""

from __future__ import annotations

import os
import signal
import sys
import threading

import numpy as np
import pytest

from dpstream import NoiseStream
from dpstream.errors import StreamInUse
from dpstream.mechanisms import BufferedToeplitz, SmoothBinary
from dpstream.noise import draws as draws_module
from dpstream.testing import fixed_key

KINDS = {
    "narrow, exact": lambda: NoiseStream(SmoothBinary(10**5), 1e9, 2, dtype="int64", key=fixed_key("threads")),
    "narrow, float": lambda: NoiseStream(BufferedToeplitz(10**5), 1.0, dtype="float64", key=fixed_key("threads")),
    "wide": lambda: NoiseStream(SmoothBinary(10**5), 1.0, 64, dtype="float32", key=fixed_key("threads"), threads=1),
}


@pytest.fixture(autouse=True)
def _eager_switching():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def run_together(works):
    """Run all functions at the same time, each in a thread; return what they return."""
    start, results = threading.Barrier(len(works)), [None] * len(works)

    def run(i):
        start.wait()
        results[i] = works[i]()

    workers = [threading.Thread(target=run, args=(i,)) for i in range(len(works))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return results


def as_rows(values):
    """Releases as bytes, sorted: what was handed out, in any order."""
    return sorted(np.ascontiguousarray(row).tobytes() for row in values)


@pytest.mark.parametrize("threads", [2, 4, 8])
@pytest.mark.parametrize("kind", KINDS)
def test_each_step_is_handed_out_once(kind, threads):
    """`step` and `block`, mixed. At 10^9 times the grid, or as floats, no two releases are equal by chance."""
    stream, each = KINDS[kind](), 300

    def steps():
        return [stream.step() for _ in range(each)]

    def blocks():
        return [row for n in (1, 7, 92, 200) for row in stream.block(n)]

    taken = run_together([blocks if i % 3 == 2 else steps for i in range(threads)])
    assert stream.t == each * threads
    assert as_rows(row for rows in taken for row in rows) == as_rows(KINDS[kind]().block(each * threads))


@pytest.mark.parametrize("threads", [2, 4, 8])
@pytest.mark.parametrize("kind", ["narrow, float", "wide"])
def test_increments_are_handed_out_once(kind, threads):
    stream, other, each = KINDS[kind](), KINDS[kind](), 100
    taken = run_together([lambda: [stream.increment() for _ in range(each)]] * threads)
    expected = [other.increment() for _ in range(each * threads)]
    assert as_rows(row for rows in taken for row in rows) == as_rows(expected)


@pytest.mark.parametrize("kind", KINDS)
def test_states_saved_between_steps_are_whole(kind):
    stream = KINDS[kind]()
    settings = (stream.mechanism, stream.scale, stream.shape)

    def saved():
        return [stream.state() for _ in range(40)]

    _, states = run_together([lambda: [stream.step() for _ in range(400)], saved])
    values = KINDS[kind]().block(401)
    for state in states[::5]:
        again = NoiseStream.from_state(state, *settings, dtype=stream.dtype, key=fixed_key("threads"))
        np.testing.assert_array_equal(again.step(), values[again.t - 1])


@pytest.mark.parametrize("method", ["step", "increment", "block", "seek", "state"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_signal_handler_in_the_middle_of_a_step_is_refused(kind, method, monkeypatch):
    stream, outcome = KINDS[kind](), []
    arguments = {"block": (3,), "seek": (0,)}.get(method, ())

    def handler(*_):
        try:
            outcome.append(getattr(stream, method)(*arguments))
        except StreamInUse as error:
            outcome.append(type(error))

    honest = draws_module.Keystream.fill

    def fill(self, *args, **kwargs):
        os.kill(os.getpid(), signal.SIGUSR1)
        return honest(self, *args, **kwargs)

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(draws_module.Keystream, "fill", fill)
            first = stream.step()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert set(outcome) == {StreamInUse}
    np.testing.assert_array_equal([first, stream.step()], KINDS[kind]().block(2))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("no_collection")
def test_interrupts_repeat_no_noise(kind):
    """1,000 timer signals that raise KeyboardInterrupt, at all places of steps, increments and blocks."""
    stream, taken, interrupts = KINDS[kind](), [], 0
    calls = [stream.step, lambda: stream.block(2), stream.increment]

    def handler(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, handler)
    try:
        while interrupts < 1000:
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-5 + interrupts % 89 * 3e-6)
                while True:
                    call = calls[len(taken) % 3]
                    values = call()
                    taken.append((stream.t, values))
            except KeyboardInterrupt:
                interrupts += 1
                assert stream._turn == [None]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    steps = [t for t, _ in taken]
    assert steps == sorted(set(steps))
    expected = KINDS[kind]().block(stream.t)
    for i, (t, values) in enumerate(taken):
        if i % 3 == 0:
            np.testing.assert_array_equal(values, expected[t - 1])
        elif i % 3 == 1:
            np.testing.assert_array_equal(values, expected[t - 2 : t])
        elif t > 1:
            np.testing.assert_allclose(values, expected[t - 1] - expected[t - 2], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("at", range(12))
def test_an_interrupted_increment_does_not_go_back(at, monkeypatch):
    """The first increment makes the noise of the last step again; an interrupt must not leave the stream there."""
    stream = KINDS["wide"]()
    stream.block(10)
    calls = 0
    honest = draws_module.Keystream.fill

    def fill(self, *args, **kwargs):
        nonlocal calls
        calls += 1
        if calls == at:
            raise KeyboardInterrupt
        return honest(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(draws_module.Keystream, "fill", fill)
        try:
            stream.increment()
        except KeyboardInterrupt:
            assert stream.t == 10
        else:
            assert stream.t == 11
    values = KINDS["wide"]().block(12)
    np.testing.assert_array_equal(stream.step(), values[stream.t - 1])
    assert stream.t in (11, 12)
