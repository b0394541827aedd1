"""Exact recurrences: their error bounds hold over long streams, stay small, and cost no more memory than they must."""

import math
from dataclasses import dataclass

import flint
import numpy as np
import pytest
import scipy.signal

from dpstream import NoiseStream
from dpstream.mechanisms import AnytimeToeplitz, BalancedToeplitz, BufferedToeplitz
from dpstream.noise import recurrence_engine
from dpstream.noise.engine import UNIT
from dpstream.noise.pure_step_engine import PureStepEngine
from dpstream.noise.recurrence_engine import RecurrenceEngine
from dpstream.noise.recurrence_tables import TOLERANCE, leap_tables, repeated_rounding, slow_buffers
from dpstream.testing import fixed_key

LARGEST = 9.5
LONG = {
    "BalancedToeplitz": lambda: BalancedToeplitz(10**6),
    "BufferedToeplitz": lambda: BufferedToeplitz(10**6),
    "BufferedToeplitz-1": lambda: BufferedToeplitz(10**6, buffers=1),
    "AnytimeToeplitz": AnytimeToeplitz,
}
SHORT = {
    "BalancedToeplitz": lambda: BalancedToeplitz(1000),
    "BufferedToeplitz": lambda: BufferedToeplitz(1000),
    "BufferedToeplitz-plain": lambda: BufferedToeplitz(1000, normalized=False),
}


def ideal(stream: NoiseStream, steps: int, coordinate: int) -> list:
    """The ideal noise of the first steps at unit scale: the pure step on balls of 200 bits."""
    state, noise = stream.mechanism.start(), []
    for t in range(1, steps + 1):
        release, state = stream.mechanism.advance(state, [stream._draws.ideal(t, 0, coordinate, 200)])
        noise.append(release)
    return noise


def furthest(computed: np.ndarray, exact: list) -> float:
    return max(abs(float(ball - value)) for ball, value in zip(exact, computed.tolist(), strict=True))


@pytest.mark.parametrize("name", LONG)
def test_narrow_streams_keep_to_their_bound(name):
    """Two thousand steps by leaps, whole and in pieces. The bound leaves little to chance and little unused."""
    steps = 2000
    stream = NoiseStream(LONG[name](), 1.0, 2, dtype="int64", key=fixed_key(name))
    engine = stream._engine
    computed = np.concatenate([engine.rows(n).copy() for n in (1, 7, 16, 40, 1000, steps - 1064)])
    with flint.ctx.workprec(232):
        for c in range(2):
            error = furthest(computed[:, c], ideal(stream, steps, c))
            assert error < engine.error(steps)
            assert error > engine.error(steps) / 1e4


@pytest.mark.parametrize("slow", [None, 0])
@pytest.mark.parametrize("name", LONG | SHORT)
def test_wide_streams_keep_to_their_bound(name, slow, monkeypatch):
    """With as many precise buffers as are chosen, and with none, where the bound is larger."""
    steps = 600
    if slow is not None:
        monkeypatch.setattr(recurrence_engine, "slow_buffers", lambda *_: slow)
    stream = NoiseStream((LONG | SHORT)[name](), 1.0, 64, dtype="int64", key=fixed_key(name))
    computed = np.empty((steps, 64))
    for row in computed:
        stream._engine.step(row)
    with flint.ctx.workprec(232):
        for c in (0, 63):
            assert furthest(computed[:, c], ideal(stream, steps, c)) < stream._engine.error(steps)


@pytest.mark.parametrize("name", SHORT)
@pytest.mark.parametrize("slow", [0, 1, 2, 4])
def test_repeated_rounding_is_bounded_from_above(name, slow):
    """Against the sum over all lags, release by release: never below it, and within a factor of four."""
    mechanism = SHORT[name]()
    T = mechanism.horizon
    q, p = mechanism.input_scale(1, T), mechanism.output_scale(1, T)
    total = np.zeros(T)
    for gap, weight in list(zip(mechanism.gaps.tolist(), mechanism.weights.tolist(), strict=True))[slow:]:
        pole = 1 - gap
        once = scipy.signal.lfilter([0, pole], [1, -pole], q)
        total += weight * (1 + 2 * gap / pole) * scipy.signal.lfilter([1], [1, -pole], once)
    worst = float((p * total).max())
    bound = math.sqrt(mechanism.squared_row_norm_bound(T)) * repeated_rounding(
        mechanism.gaps, mechanism.weights, slow, T
    )
    assert worst <= bound <= 4 * worst


@pytest.mark.parametrize("name", LONG | SHORT)
def test_precise_buffers_are_as_few_as_the_tolerance_allows(name):
    mechanism = (LONG | SHORT)[name]()
    slow = slow_buffers(mechanism, LARGEST, UNIT)
    T = mechanism.horizon or 2**50
    row = math.sqrt(1.1 * mechanism.squared_row_norm_bound(T))

    def moved(precise: int) -> float:
        return UNIT * LARGEST * row * repeated_rounding(mechanism.gaps, mechanism.weights, precise, T)

    assert moved(slow) <= TOLERANCE
    assert slow == 0 or moved(slow - 1) > TOLERANCE
    assert RecurrenceEngine.vectors(mechanism, exact=True, narrow=False) == mechanism.memory + slow
    assert RecurrenceEngine.vectors(mechanism, exact=True, narrow=True) == 2 * mechanism.memory
    stream = NoiseStream(mechanism, 1.0, 100, dtype="int64")
    assert sum(a.nbytes for a in stream._engine.arrays()) == 8 * 100 * (mechanism.memory + slow)


def test_a_thousand_steps_need_no_precise_buffer():
    assert [slow_buffers(SHORT[name](), LARGEST, UNIT) for name in SHORT] == [0, 0, 0]


@pytest.mark.parametrize("coordinates", [1, 64])
@pytest.mark.parametrize("name", ["BalancedToeplitz", "BufferedToeplitz"])
def test_few_releases_need_balls(name, coordinates):
    """The chance of a refinement, 2 · guard, at scales of 30 and 10^4."""
    for mechanism in (LONG[name](), SHORT[name]()):
        for scale in (30.0, 1e4):
            stream = NoiseStream(mechanism, scale, coordinates, dtype="int64")
            assert 2 * stream._rounding.guard(mechanism.horizon, 5 * scale) < 5e-10 * scale


def test_tables_are_the_powers_of_the_poles():
    """Against balls: each entry is right to half a unit, the powers of the poles to 2^-106."""
    mechanism = BalancedToeplitz(10**6)
    tables = leap_tables(tuple(mechanism.gaps.tolist()), tuple(mechanism.weights.tolist()))
    with flint.ctx.workprec(300):
        for i, (gap, weight) in enumerate(zip(mechanism.gaps.tolist(), mechanism.weights.tolist(), strict=True)):
            for m in range(17):
                power = (1 - flint.arb(gap)) ** m
                assert abs(float((power - tables.decay[m, i] - flint.arb(tables.decay_low[m, i])) / power)) <= 2.0**-106
                if m > 0:
                    assert abs(float(weight * power / tables.carried[i, m - 1] - 1)) <= 2.0**-53
        for m in range(1, 16):
            whole = sum(
                w * (1 - flint.arb(g)) ** m
                for g, w in zip(mechanism.gaps.tolist(), mechanism.weights.tolist(), strict=True)
            )
            assert abs(float(whole / tables.response[m] - 1)) <= 2.0**-53
    assert tables.response[0] == 1


def test_a_state_with_more_precise_buffers_goes_on():
    """The low halves that a state brings are used, however many: the integers are the same."""
    mechanism, key = BalancedToeplitz(1000), fixed_key("precise")
    honest = NoiseStream(mechanism, 100.0, 70, dtype="int64", key=key)
    other = NoiseStream(mechanism, 100.0, 70, dtype="int64", key=key)
    engine = other._engine
    engine.restore(0, [half for high, _ in engine._state for half in (high, np.zeros_like(high))])
    np.testing.assert_array_equal([other.step() for _ in range(40)], [honest.step() for _ in range(40)])


@dataclass(frozen=True)
class Alternating(BalancedToeplitz):
    """A recurrence with a negative weight, which the recurrence engine's bound does not speak of."""

    @property
    def weights(self):
        return -super().weights


def test_weights_of_any_sign_are_streamed_by_the_pure_step_in_the_exact_lane():
    stream = NoiseStream(Alternating(300), 1e6, 2, dtype="int64", key=fixed_key("negative"))
    assert isinstance(stream._engine, PureStepEngine)
    values = stream.block(300)
    assert stream._engine.error(300) < 1e-10
    for t in (1, 2, 150, 300):
        assert values[t - 1].tolist() == [stream._rounding.integer(t, 0), stream._rounding.integer(t, 1)]
