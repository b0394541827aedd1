"""Exact rounding: the integers of infinite precision, all of them, by whatever path."""

import flint
import numpy as np
import pytest
from scipy import stats

from dpstream import NoiseStream
from dpstream.errors import InvalidArgument
from dpstream.mechanisms import Binary, BufferedToeplitz, SmoothBinary
from dpstream.noise import stream as stream_module
from dpstream.noise.draws import Draws
from dpstream.noise.exact_rounding import ExactRounding
from dpstream.noise.keystream import Keystream
from dpstream.testing import fixed_key

from .catalogue import ALL, variants_heavy

STEPS = 40


def ideal_integers(stream: NoiseStream, steps: int) -> np.ndarray:
    """The whole stream again, by nothing but balls of 200 bits."""
    values = np.empty((steps, stream._coordinates), dtype=np.int64)
    with flint.ctx.workprec(232):
        for t in range(1, steps + 1):
            for c in range(stream._coordinates):
                ball = stream.scale * stream.mechanism.noise_of_release(
                    t, lambda step, slot, c=c: stream._draws.ideal(step, slot, c, 200)
                )
                values[t - 1, c] = int((ball + 0.5).floor().unique_fmpz())
    return values.reshape((steps, *stream.shape))


@pytest.mark.parametrize("scale", [0.1, 1e5, *(pytest.param(scale, marks=pytest.mark.heavy) for scale in (3.0, 1e9))])
@pytest.mark.parametrize("name", variants_heavy(ALL))
def test_all_integers_agree_with_balls(name, scale):
    stream = NoiseStream(ALL[name](STEPS), scale, 2, dtype="int64", key=fixed_key(name))
    np.testing.assert_array_equal(stream.block(STEPS), ideal_integers(stream, STEPS))


@pytest.mark.parametrize("name", variants_heavy(ALL))
def test_wide_streams_agree_with_balls(name):
    stream = NoiseStream(ALL[name](7), 1e4, 70, dtype="int64", key=fixed_key(name))
    values = np.array([stream.step() for _ in range(7)])
    expected = ideal_integers(stream, 7)
    np.testing.assert_array_equal(values, expected)


@pytest.mark.parametrize("name", ALL)
def test_a_guard_band_a_million_times_wider_changes_no_integer(name, monkeypatch):
    """At a large scale every release then goes through refinement, and comes back the same."""

    def values(scale):
        return NoiseStream(ALL[name](STEPS), scale, dtype="int64", key=fixed_key(name)).block(STEPS)

    plain = {scale: values(scale) for scale in (1e5, 1e9)}
    asked = 0
    honest_guard, honest_refine = ExactRounding.guard, ExactRounding.integer

    def refine(self, t, coordinate):
        nonlocal asked
        asked += 1
        return honest_refine(self, t, coordinate)

    monkeypatch.setattr(ExactRounding, "guard", lambda self, t, largest: min(0.5, 1e6 * honest_guard(self, t, largest)))
    monkeypatch.setattr(ExactRounding, "integer", refine)
    np.testing.assert_array_equal(values(1e9), plain[1e9])
    assert asked == STEPS
    np.testing.assert_array_equal(values(1e5), plain[1e5])


class Extreme(Keystream):
    """A keystream whose leading words are as small, or as large, as they come."""

    pattern = 0

    def fill(self, out, *, slot, block, extension=0):
        super().fill(out, slot=slot, block=block, extension=extension)
        if extension == 0:
            words = out.view("<u8")
            chosen = (2 * block + np.arange(words.size)) % 3 == 0  # by position in the stream, however it is read
            small = words >> np.uint64(abs(self.pattern))
            words[chosen] = small[chosen] if self.pattern > 0 else ~small[chosen]

    def words(self, *, slot, block, extension=0):
        out = np.empty(16, dtype=np.uint8)
        self.fill(out, slot=slot, block=block, extension=extension)
        return tuple(out.view("<u8").tolist())


@pytest.mark.parametrize("pattern", [20, 40, 56, 63, -20, -34, -50, -63])
@pytest.mark.parametrize("coordinates", [1, 70])
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_small_and_large_fractions(pattern, coordinates, noise, monkeypatch):
    monkeypatch.setattr(Extreme, "pattern", pattern)
    monkeypatch.setattr(stream_module, "Keystream", Extreme)
    stream = NoiseStream(SmoothBinary(9, noise=noise), 1e8, coordinates, dtype="int64", key=fixed_key("extreme"))
    np.testing.assert_array_equal(np.array([stream.step() for _ in range(9)]), ideal_integers(stream, 9))


def test_the_proven_error_bound_holds_with_room_to_spare():
    """|computed - ideal| at unit scale, for every mechanism, against the engine's own bound."""
    for name, make in ALL.items():
        stream = NoiseStream(make(STEPS), 1.0, dtype="int64", key=fixed_key(name))
        computed = stream._engine.rows(STEPS)[:, 0]
        bound = stream._engine.error(STEPS)
        with flint.ctx.workprec(232):
            for t in {*range(1, STEPS + 1, 3), STEPS}:
                ideal = stream.mechanism.noise_of_release(
                    t, lambda step, slot, s=stream: s._draws.ideal(step, slot, 0, 200)
                )
                assert abs(float(ideal - computed[t - 1])) < bound, name
        assert bound < 1e-10, name


@pytest.mark.heavy
def test_long_recurrences_stay_exact():
    """Two thousand steps of a slow recurrence, some of them held against balls."""
    stream = NoiseStream(BufferedToeplitz(2000), 1e6, dtype="int64", key=fixed_key("long"))
    values = stream.block(2000)
    for t in (1, 1000, 2000):
        assert values[t - 1] == stream._rounding.integer(t, 0)


def test_rounding_adds_a_twelfth_to_the_variance():
    """Independent exactly rounded normals of scale 3: variance 9 + 1/12, false-alarm rate 1e-6."""
    draws = Draws(Keystream(fixed_key("twelfth")), "gaussian", 1, np.dtype(np.float64), exact=True)
    values = np.rint(draws.rows(1, 10**6, 0) * 3.0)
    error = np.sqrt(2 / values.size) * (9 + 1 / 12)
    assert abs(values.var() - (9 + 1 / 12)) < stats.norm.isf(5e-7) * error
    # The same test notices the missing twelfth: it is 6.5 standard errors.
    assert abs(values.var() - 9) > stats.norm.isf(5e-7) * error


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf"), "3", None, True, 1e13])
def test_bad_scales(scale):
    with pytest.raises(InvalidArgument, match="scale must be"):
        NoiseStream(Binary(3), scale, dtype="int64")
