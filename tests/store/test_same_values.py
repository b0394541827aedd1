"""A stream in a store releases what a plain counter with its key releases, however often it is reopened."""

import numpy as np
import pytest

import dpstream as dp
from dpstream.mechanisms import BufferedToeplitz, GrowingSmooth, SmoothBinary, SquareRoot, Unbounded
from dpstream.store import durable_stream

STEPS = 60
DATA = np.random.default_rng(3).integers(-3, 4, STEPS)
MECHANISMS = {
    "tree": lambda: SmoothBinary(STEPS),
    "recurrence": lambda: BufferedToeplitz(STEPS, buffers=3),
    "convolution": lambda: SquareRoot(STEPS),
    "epochs": lambda: Unbounded(),
}


@pytest.fixture(autouse=True)
def _save_often(monkeypatch):
    monkeypatch.setattr(durable_stream, "REPLAYED_VALUES", 10)
    monkeypatch.setattr(durable_stream, "REPLAYED_STEPS", 4)


def plain(stream, kind, **settings):
    return kind(**settings, key=stream._key)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("shape", [(), (3,)])
def test_counter(path, mechanism, shape):
    made = MECHANISMS[mechanism]()
    settings = {"horizon": made.horizon, "budget": dp.zcdp(0.5), "mechanism": made, "per_person": 6, "shape": shape}
    data = np.stack([DATA, -DATA, DATA * 0], axis=1) if shape else DATA
    released, t, sizes = [], 0, iter([1, 1, 13, 1, 2, 20, 1, 21])
    while t < STEPS:
        with dp.Store(path) as store:
            counter = store.counter("c", **settings)
            assert counter.t == t
            n = next(sizes)
            released += (
                [counter.add(data[t] if shape else int(data[t]))] if n == 1 else list(counter.extend(data[t : t + n]))
            )
            t += n
            expected = plain(counter, dp.Counter, **settings).extend(data)
            assert counter.stddev() == plain(counter, dp.Counter, **settings).stddev(t)
    assert np.array_equal(np.array(released), expected)


def test_pure_and_unbounded(path):
    settings = {"horizon": None, "budget": dp.pure_dp(1.0), "mechanism": GrowingSmooth(noise="laplace")}
    released = []
    for x in (1, 0, 1, 1, 1):
        with dp.Store(path) as store:
            counter = store.counter("c", **settings)
            released.append(counter.add(x))
            expected = plain(counter, dp.Counter, **settings).extend([1, 0, 1, 1, 1])
            assert counter.remaining is None
    assert released == expected.tolist()


@pytest.mark.parametrize("mechanism", ["tree", "recurrence"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_running_sum(path, mechanism, dtype):
    made = MECHANISMS[mechanism]()
    settings = {"horizon": STEPS, "budget": dp.zcdp(0.5), "mechanism": made, "shape": (5,), "dtype": dtype}
    data = np.random.default_rng(4).uniform(-0.4, 0.4, (STEPS, 5)).astype(dtype)
    released, t = [], 0
    for n in (1, 4, 15, 1, 39):
        with dp.Store(path) as store:
            total = store.running_sum("s", **settings)
            released += [total.add(data[t])] if n == 1 else list(total.extend(data[t : t + n]))
            t += n
            expected = plain(total, dp.RunningSum, **settings).extend(data)
            assert total.dtype == dtype
    assert np.array(released).tobytes() == expected.tobytes()


def test_a_damaged_noise_state_is_made_again(path):
    made = BufferedToeplitz(STEPS, buffers=3)
    settings = {"horizon": STEPS, "budget": dp.zcdp(0.5), "mechanism": made, "per_person": 3}
    with dp.Store(path) as store:
        counter = store.counter("c", **settings)
        for x in DATA[:50]:
            counter.add(int(x))
        with store._files.database.atomic() as connection:
            states = connection.execute("SELECT count(*) FROM noise_states").fetchone()[0]
            connection.execute("UPDATE noise_states SET state = zeroblob(100)")
        assert 1 <= states <= 2
    with dp.Store(path) as store:
        counter = store.counter("c", **settings)
        released = counter.extend(DATA[50:])
        assert released.tolist() == plain(counter, dp.Counter, **settings).extend(DATA)[50:].tolist()
