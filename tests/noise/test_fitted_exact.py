"""Real interlacing families in the exact lane: streamed as recurrences, held against ball arithmetic."""

import numpy as np
import pytest

from dpstream import NoiseStream
from dpstream.mechanisms import FittedToeplitz
from dpstream.noise.exact import nearest_integer
from dpstream.noise.increment_engine import ExactFittedEngine
from dpstream.noise.pure_step_engine import PureStepEngine
from dpstream.testing import fixed_key

MADE = FittedToeplitz(300, (0.999, 0.95, 0.6), (0.99, 0.8, 0.25), normalized=False)


@pytest.mark.parametrize("shape", [(), (100,)])
@pytest.mark.parametrize("scale", [0.5, 1e6])
def test_every_integer_is_the_nearest(shape, scale):
    stream = NoiseStream(MADE, scale, shape, dtype="int64", key=fixed_key("fitted"))
    assert isinstance(stream._engine, ExactFittedEngine)
    found = stream.block(300).reshape(300, -1)[:, 0]
    for t in (1, 2, 3, 77, 299, 300):
        ideal = nearest_integer(
            lambda bits, t=t: (
                scale * MADE.noise_of_release(t, lambda step, slot: stream._draws.ideal(step, slot, 0, bits))
            )
        )
        assert found[t - 1] == ideal


def test_the_recurrence_is_the_matrix():
    L = MADE.factors()[0]
    units = np.eye(300)
    rows = [MADE.noise_of_release(t, lambda step, slot: units[step - 1]) for t in (1, 2, 150, 300)]
    np.testing.assert_allclose(rows, L[[0, 1, 149, 299]], atol=1e-13)


def test_what_cancels_is_streamed_by_its_pure_step():
    for made in (
        FittedToeplitz(50, (0.95, 0.6), (0.8, 0.25)),
        FittedToeplitz(50, (0.9, -0.7), (0.3, 0.6), normalized=False),
    ):
        assert made.as_recurrence is None
        assert isinstance(NoiseStream(made, 1.0, dtype="int64")._engine, PureStepEngine)
