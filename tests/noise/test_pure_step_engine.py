"""Any mechanism streams by its pure step: bounds that hold, and steps that cannot be followed are named."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpstream import NoiseStream
from dpstream.mechanisms import BalancedToeplitz
from dpstream.mechanisms.base import DrawsPerStep, Mechanism, State
from dpstream.noise.pure_step_engine import PureStepEngine, TrackedError
from dpstream.noise.recurrence_engine import RecurrenceEngine
from dpstream.testing import check_mechanism, fixed_key
from tests.noise.of_no_kind import OfNoKind

OPERATIONS = st.lists(
    st.tuples(st.sampled_from("+-*/s"), st.integers(0, 9), st.floats(-2, 2).filter(lambda x: abs(x) > 1e-3)),
    min_size=1,
    max_size=40,
)


@given(st.lists(st.floats(-10, 10), min_size=2, max_size=4), OPERATIONS)
@settings(max_examples=300, deadline=None)
def test_the_bound_holds_whatever_is_computed(starts, operations):
    """Random programs of sums, differences and products, against fractions."""
    error = 2.0**-50
    numbers = [TrackedError(np.array([x * (1 + 2.0**-51)]), error * max(1, abs(x))) for x in starts]
    ideal = [Fraction(x) for x in starts]
    for kind, which, factor in operations:
        i, j = which % len(numbers), (which // 2) % len(numbers)
        if kind == "+":
            numbers.append(numbers[i] + numbers[j])
            ideal.append(ideal[i] + ideal[j])
        elif kind == "-":
            numbers.append(numbers[i] - numbers[j])
            ideal.append(ideal[i] - ideal[j])
        elif kind == "*":
            numbers.append(factor * numbers[i])
            ideal.append(Fraction(factor) * ideal[i])
        elif kind == "/":
            numbers.append(numbers[i] / factor)
            ideal.append(ideal[i] / Fraction(factor))
        else:  # a decay, as buffers do it
            numbers.append(numbers[i] - numbers[i] * factor)
            ideal.append(ideal[i] - ideal[i] * Fraction(factor))
    for number, exact in zip(numbers, ideal, strict=True):
        assert abs(Fraction(float(number.value[0])) - exact) <= Fraction(number.error)


def test_a_decaying_buffer_keeps_a_small_bound():
    """Without knowing that s - s·gap is a multiple of s the bound would grow by 1.9 a step."""
    buffer, draw = TrackedError(np.ones(1), 1e-16), TrackedError(np.ones(1), 1e-16)
    for _ in range(10_000):
        buffer = buffer - buffer * 0.9
        buffer = buffer + draw
    assert buffer.error < 1e-14


def test_the_same_noise_as_the_engine_of_the_kind():
    for coordinates, dtype in ((3, "int64"), (70, "int64"), (3, "float64"), (70, "float64")):
        streams = [
            NoiseStream(mechanism, 1e3, coordinates, dtype=dtype, key=fixed_key("same"))
            for mechanism in (BalancedToeplitz(60), OfNoKind(60))
        ]
        streams[1]._engine.draws.keystream = streams[0]._engine.draws.keystream
        assert isinstance(streams[0]._engine, RecurrenceEngine)
        assert isinstance(streams[1]._engine, PureStepEngine)
        one, other = (stream.block(60) for stream in streams)
        if dtype == "int64":
            np.testing.assert_array_equal(one, other)
        else:
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


@dataclass(frozen=True)
class Counted(State):
    """How many."""

    t: int


@dataclass(frozen=True)
class Clipping(Mechanism):
    """L = I, but for a function of the draws that is not linear."""

    horizon: int
    reference = "tests"
    draws_per_step = DrawsPerStep(1, 1.0)
    memory = 1

    def start(self):
        return Counted(0)

    def draws_at(self, t):
        return 1

    def advance(self, state, draws):
        return np.clip(draws[0], -40, 40), Counted(self._next_step(state))

    def _factors(self, steps):
        return np.eye(steps), np.tri(steps)

    def _sensitivity(self, participation):
        return participation.times * self.horizon**0.5, False

    def squared_row_norm(self, t):
        return 1.0

    def squared_row_norms(self, steps):
        return np.ones(steps)


def test_a_step_that_is_not_linear_is_found_by_the_contract_and_refused_by_the_exact_lane():
    with pytest.raises(AssertionError, match=r"advance must use only \+ and - between values and \* with floats"):
        check_mechanism(Clipping(10))
    with pytest.raises((TypeError, AttributeError)):
        NoiseStream(Clipping(10), 1.0, dtype="int64").step()
