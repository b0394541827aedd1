"""Streams of increments: fused engines against the mechanism's matrices, with and without a running total."""

import numpy as np
import pytest

from dpstream import NoiseStream
from dpstream.mechanisms import Banded, BandedInverse, FittedToeplitz, Independent
from dpstream.noise.increment_engine import IncrementEngine
from dpstream.testing import fixed_key
from tests.mechanism_subjects import PAIR_POLES, PAIR_ZEROS

T = 40
MECHANISMS = {
    "pair": FittedToeplitz(T, PAIR_POLES, PAIR_ZEROS),
    "slow": FittedToeplitz(T, (1 - 2.0**-15, 0.6), (1 - 2.0**-13, 0.25), normalized=False),
    "slow-pair": FittedToeplitz(
        T, (0.9999 + 1e-3j, 0.9999 - 1e-3j, 0.7), (0.99995 + 2e-3j, 0.99995 - 2e-3j, 0.3), normalized=False
    ),
    "banded": Banded(T, (1.0, 0.5, 0.375, -0.2)),
    "one band": Banded(T, (1.0,)),
    "inverse": BandedInverse(T, (1.0, -0.5, -0.125)),
    "independent": Independent(T),
}


def stream(name: str, dtype: str, **settings: object) -> NoiseStream:
    return NoiseStream(MECHANISMS[name], 2.0, 200, dtype=dtype, key=fixed_key(name), **settings)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", MECHANISMS)
def test_increments_add_up_to_the_releases(name, dtype):
    totals, increments = stream(name, dtype), stream(name, dtype)
    assert isinstance(totals._engine, IncrementEngine)
    tolerance = {"rtol": 0, "atol": 2e-4 if dtype == "float32" else 1e-11}
    added = np.cumsum([increments.increment().astype(np.float64) for _ in range(T)], axis=0)
    released = [totals.step() for _ in range(T)]
    np.testing.assert_allclose(added, released, **tolerance)


@pytest.mark.parametrize("name", MECHANISMS)
def test_increments_are_rows_of_the_matrix_times_the_draws(name):
    increments = stream(name, "float64")
    z = increments._draws.rows(1, T, 0)
    L = MECHANISMS[name].factors()[0]
    expected = 2.0 * np.diff(L @ z, axis=0, prepend=0.0)
    np.testing.assert_allclose([increments.increment() for _ in range(T)], expected, atol=1e-10)


@pytest.mark.parametrize("name", MECHANISMS)
def test_totals_after_increments_and_back(name):
    whole = stream(name, "float64")
    expected = np.array([whole.step() for _ in range(T)])
    mixed = stream(name, "float64")
    for _ in range(10):
        mixed.increment()
    np.testing.assert_allclose(mixed.step(), expected[10], atol=1e-11)
    np.testing.assert_allclose(mixed.increment(), expected[11] - expected[10], atol=1e-11)
    np.testing.assert_allclose(mixed.block(3), expected[12:15], atol=1e-11)
    mixed.seek(20)
    np.testing.assert_allclose(mixed.increment(), expected[20] - expected[19], atol=1e-11)


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_saved_stream_of_increments_goes_on(name):
    whole = stream(name, "float32")
    expected = [whole.increment() for _ in range(T)]
    first = stream(name, "float32")
    for _ in range(15):
        first.increment()
    again = NoiseStream.from_state(first.state(), MECHANISMS[name], 2.0, 200, dtype="float32", key=fixed_key(name))
    for t in range(15, T):
        np.testing.assert_array_equal(again.increment(), expected[t])


def test_an_inverse_keeps_nothing():
    kept = stream("inverse", "float32")
    kept.increment()
    assert sum(array.nbytes for array in kept._engine.arrays()) == 0
    pair = stream("pair", "float32")
    pair.increment()
    assert sum(array.nbytes for array in pair._engine.arrays()) == 4 * 4 * 200


@pytest.mark.parametrize("name", MECHANISMS)
def test_threads_change_nothing(name):
    one = NoiseStream(MECHANISMS[name], 1.0, 40_000, dtype="float32", key=fixed_key(name), threads=1)
    two = NoiseStream(MECHANISMS[name], 1.0, 40_000, dtype="float32", key=fixed_key(name), threads=2)
    for _ in range(3):
        np.testing.assert_array_equal(one.increment(), two.increment())
        np.testing.assert_array_equal(one.step(), two.step())
