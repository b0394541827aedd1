"""`add_increment`: the values of `increment`, added in place, for every way in which a mechanism is streamed."""

import os

import numpy as np
import pytest

from dpstream import NoiseStream
from dpstream.errors import HorizonExceeded, OutputMismatch
from dpstream.mechanisms import (
    Banded,
    BandedInverse,
    Binary,
    BufferedToeplitz,
    FittedToeplitz,
    FromMatrix,
    GrowingSmooth,
    Honaker,
    Independent,
    SmoothBinary,
    SquareRoot,
    Unbounded,
)
from dpstream.noise.engine import CHUNK_COORDINATES
from dpstream.testing import fixed_key
from tests.mechanism_subjects import PAIR_POLES, PAIR_ZEROS

T = 12
MECHANISMS = {
    "smooth": SmoothBinary(T),
    "unpadded": SmoothBinary(T, padded=False),
    "binary": Binary(T),
    "honaker": Honaker(T),
    "growing": GrowingSmooth(),
    "buffered": BufferedToeplitz(T),
    "fitted": FittedToeplitz(T, PAIR_POLES, PAIR_ZEROS),
    "banded": Banded(T, (1.0, 0.5, 0.375, -0.2)),
    "inverse": BandedInverse(T, (1.0, -0.5, -0.125)),
    "independent": Independent(T),
    "root": SquareRoot(T),
    "matrix": FromMatrix(np.tril(np.ones((T, T)))),
    "unbounded": Unbounded(),
}
WIDE = CHUNK_COORDINATES + 100  # two chunks, the second ends inside a tile


def stream(name, dtype="float32", shape=WIDE, **more):
    return NoiseStream(MECHANISMS[name], 2.0, shape, dtype=dtype, key=fixed_key(name), **more)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", MECHANISMS)
def test_it_adds_the_increments(name, dtype):
    released, added, threaded = stream(name, dtype), stream(name, dtype), stream(name, dtype, threads=2)
    before = np.zeros(WIDE, dtype)
    for t in range(1, T + 1):
        noise = released.step()
        given = np.full(WIDE, 0.25, dtype)
        assert added.add_increment(given) is given
        np.testing.assert_allclose(given - 0.25, noise - before, atol=2e-4 if dtype == "float32" else 1e-11)
        assert np.array_equal(threaded.add_increment(np.full(WIDE, 0.25, dtype)), given)
        assert added.t == t
        before = noise


@pytest.mark.parametrize("name", MECHANISMS)
def test_it_mixes_with_everything_else(name):
    """The same values as `increment`, to the last bit, after steps, seeks and saved states."""
    reference = stream(name)
    expected = [reference.increment() for _ in range(T)]
    mixed = stream(name)
    for t in range(4):
        assert np.array_equal(mixed.add_increment(np.zeros(WIDE, np.float32)), expected[t])
    again = NoiseStream.from_state(mixed.state(), MECHANISMS[name], 2.0, WIDE, key=fixed_key(name))
    assert np.array_equal(again.add_increment(np.zeros(WIDE, np.float32)), expected[4])
    assert np.array_equal(mixed.increment(), expected[4])
    assert np.array_equal(mixed.add_increment(np.zeros(WIDE, np.float32)), expected[5])
    mixed.step()
    np.testing.assert_allclose(mixed.add_increment(np.zeros(WIDE, np.float32)), expected[7], atol=2e-4)
    mixed.seek(2)
    np.testing.assert_allclose(mixed.add_increment(np.zeros(WIDE, np.float32)), expected[2], atol=2e-4)


@pytest.mark.parametrize(("dtype", "shape"), [("float32", (3, 5)), ("float64", ()), ("int64", (4,)), ("int64", 100)])
def test_narrow_and_exact_streams(dtype, shape):
    one, two = stream("smooth", dtype, shape), stream("smooth", dtype, shape)
    for _ in range(T):
        assert np.array_equal(
            one.add_increment(np.full(one.shape, 3, dtype)), two.increment() + np.dtype(dtype).type(3)
        )


def test_a_tree_keeps_one_vector_more_than_its_stack():
    made = stream("smooth")
    for _ in range(T):
        made.add_increment(np.zeros(WIDE, np.float32))
    held = [*made._engine._stack, *made._engine._spare, made._last]
    assert len(held) <= MECHANISMS["smooth"].memory + 1


def test_what_cannot_be_added_to_is_refused():
    made = stream("smooth")
    for wrong in (np.zeros(WIDE), np.zeros(WIDE + 1, np.float32), np.zeros((WIDE, 2), np.float32)[:, 0], [0.0]):
        with pytest.raises(OutputMismatch):
            made.add_increment(wrong)
    assert made.t == 0
    made.seek(T)
    kept = np.ones(WIDE, np.float32)
    with pytest.raises(HorizonExceeded):
        made.add_increment(kept)
    assert (kept == 1).all()


@pytest.mark.parametrize("name", ["smooth", "fitted", "buffered"])
def test_an_interrupted_call_leaves_nothing_to_use(name, monkeypatch):
    reference, made = stream(name), stream(name)
    expected = [reference.increment() for _ in range(3)]
    made.add_increment(np.zeros(WIDE, np.float32))
    calls = []
    real = made._engine.chunks.run

    def interrupted(work):
        def some(low, high):
            work(low, high)
            calls.append(low)
            if len(calls) == 1:
                raise KeyboardInterrupt

        real(some)

    monkeypatch.setattr(made._engine.chunks, "run", interrupted)
    given = np.zeros(WIDE, np.float32)
    with pytest.raises(KeyboardInterrupt):
        made.add_increment(given)
    assert np.isnan(given).all()
    assert made.t == 1
    monkeypatch.setattr(made._engine.chunks, "run", real)
    np.testing.assert_allclose(made.add_increment(np.zeros(WIDE, np.float32)), expected[1], atol=2e-4)
    np.testing.assert_allclose(made.add_increment(np.zeros(WIDE, np.float32)), expected[2], atol=2e-4)


def test_a_fork_in_the_middle(monkeypatch):
    """A handler that forks in the middle of a call: the step is the parent's, the child has nothing to use."""
    made = stream("smooth")
    real = made._engine.chunks.run
    children = []

    def forking(work):
        if not children:
            children.append(os.fork())
        real(work)

    monkeypatch.setattr(made._engine.chunks, "run", forking)
    given = np.zeros(WIDE, np.float32)
    try:
        made.add_increment(given)
    except BaseException as error:  # the child
        os._exit(0 if type(error).__name__ == "ForkedStream" and np.isnan(given).all() else 1)
    if children[0] == 0:
        os._exit(2)
    assert os.waitpid(children[0], 0)[1] == 0
    assert np.isfinite(given).all()
