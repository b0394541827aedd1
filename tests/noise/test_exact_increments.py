"""Increments in the exact lane: doubles with a proven bound, held against ball arithmetic over long streams."""

import flint
import numpy as np
import pytest

from dpstream import NoiseStream
from dpstream.mechanisms import Banded, BandedInverse, FittedToeplitz, Independent
from dpstream.noise.exact import nearest_integer
from dpstream.noise.exact_increment_engine import ExactFittedEngine, ExactIncrementEngine
from dpstream.noise.exact_rounding import ExactRounding
from dpstream.noise.pure_step_engine import PureStepEngine
from dpstream.testing import fixed_key
from tests.mechanism_subjects import PAIR_POLES, PAIR_ZEROS

MADE = FittedToeplitz(300, (0.999, 0.95, 0.6), (0.99, 0.8, 0.25), normalized=False)

T = 1200
#: What a fit for 8 epochs of 256 steps looks like.
SLOW_POLES = (0.992 + 0.0206j, 0.992 - 0.0206j, 0.9876, 0.643)
SLOW_ZEROS = (0.9957 + 0.0231j, 0.9957 - 0.0231j, 0.8772, 0.25)
CANCELLING = {
    "pairs": FittedToeplitz(T, SLOW_POLES, SLOW_ZEROS),
    "pairs, not normalised": FittedToeplitz(T, SLOW_POLES, SLOW_ZEROS, normalized=False),
    "real, normalised": FittedToeplitz(T, (0.999, 0.95, 0.6), (0.99, 0.8, 0.25)),
    "signs": FittedToeplitz(T, (0.9, -0.7), (0.3, 0.6)),
    "turning back": FittedToeplitz(T, (0.2 + 0.9j, 0.2 - 0.9j, -0.9), (-0.5 + 0.8j, -0.5 - 0.8j, 0.1)),
    "banded": Banded(T, (1.0, *(0.5 / np.sqrt(np.arange(1.0, 24.0))))),
    "banded, signs": Banded(T, (1.0, 0.4, 0.3, -0.2), normalized=False),
    "inverse": BandedInverse(T, (1.0, -0.5, -0.125, -0.06, -0.04)),
    "independent": Independent(T),
}


def ideal_path(stream: NoiseStream, steps: int) -> list[flint.arb]:
    """All releases of the ideal noise at unit scale, by the pure step on balls of 2,000 bits."""
    state, path = stream.mechanism.start(), []
    for t in range(1, steps + 1):
        noise, state = stream.mechanism.advance(state, [stream._draws.ideal(t, 0, 0, 2000)])
        path.append(noise)
    return path


@pytest.mark.parametrize("name", CANCELLING)
def test_the_error_bound_holds_over_a_long_stream(name):
    stream = NoiseStream(CANCELLING[name], 1.0, dtype="int64", key=fixed_key(name))
    assert isinstance(stream._engine, ExactIncrementEngine)
    computed = stream._engine.rows(T)[:, 0]
    with flint.ctx.workprec(2032):
        errors = [
            abs(float(ball - value)) for ball, value in zip(ideal_path(stream, T), computed.tolist(), strict=True)
        ]
    for t in (1, 2, 30, 400, T):
        bound = stream._engine.error(t)
        assert max(errors[:t]) < bound
        assert bound < 1e-8
    assert max(errors) > 1e-7 * stream._engine.error(T)  # a bound that says something


@pytest.mark.parametrize("name", CANCELLING)
def test_ball_arithmetic_is_hardly_ever_asked(name, monkeypatch):
    """At scale 30 a release in 10^6 at most is too close to call: 1 or more of 1,200 has a chance of 1e-3 at most.

    (The key is fixed, so that a test that passes once passes always.)
    """
    asked = []
    monkeypatch.setattr(ExactRounding, "integer", lambda self, t, coordinate: asked.append(t) or 0)
    stream = NoiseStream(CANCELLING[name], 30.0, dtype="int64", key=fixed_key(name))
    stream.block(T)
    assert asked == []
    assert 2 * stream._rounding.guard(T, 1000.0) < 1e-6


@pytest.mark.parametrize("name", CANCELLING)
def test_narrow_and_wide_and_saved_streams_are_the_same(name):
    """Steps one by one, in blocks, of a part and after a pause: integers do not depend on the way."""
    made, key = CANCELLING[name], fixed_key(name)
    wide = NoiseStream(made, 1e6, 200, dtype="int64", key=key)
    expected = wide.block(30)
    again = NoiseStream(made, 1e6, 200, dtype="int64", key=key)
    again.block(11)
    resumed = NoiseStream.from_state(again.state(), made, 1e6, 200, dtype="int64", key=key)
    np.testing.assert_array_equal(resumed.block(19), expected[11:])
    part = NoiseStream(made, 1e6, 200, dtype="int64", key=key, part=(64, 200))
    part.seek(20)
    np.testing.assert_array_equal(part.block(10), expected[20:, 64:])
    narrow = NoiseStream(made, 1e6, 3, dtype="int64", key=key)
    ahead = NoiseStream(made, 1e6, 3, dtype="int64", key=key)
    np.testing.assert_array_equal(np.array([narrow.step() for _ in range(40)]), ahead.block(40))


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


def test_plain_rows_are_those_of_the_matrix_without_scales():
    for made in (
        FittedToeplitz(50, PAIR_POLES, PAIR_ZEROS),
        Banded(50, (1.0, 0.4, 0.3, -0.2)),
        BandedInverse(50, (1.0, 0.6, -0.2)),
        Independent(50),
    ):
        rows = made.factors()[0] if made.even_steps == 50 else type(made)(*_fields(made), normalized=False).factors()[0]
        assert made.plain_row_norm(37) == pytest.approx(np.linalg.norm(rows[36]), rel=1e-12)


def _fields(made):
    return (50, made.poles, made.zeros) if isinstance(made, FittedToeplitz) else (50, made.coefficients)


def test_an_inverse_that_grows_is_streamed_by_its_pure_step():
    made = Banded(200, (1.0, -1.5))
    stream = NoiseStream(made, 1.0, dtype="int64", key=fixed_key("growing"))
    assert isinstance(stream._engine, PureStepEngine)
    assert isinstance(NoiseStream(Banded(20, (1.0, -1.5)), 1.0, dtype="int64")._engine, ExactIncrementEngine)
