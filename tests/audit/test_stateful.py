"""Random walks through Counter, RunningSum and NoiseStream, step by step beside a model of a few lines.

The model has all noise in a table, made once by a stream of its own: whatever the order of calls, refusals included,
the objects must give the same numbers.
"""

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from dpstream import Counter, NoiseStream, RunningSum, pure_dp, zcdp
from dpstream.errors import DpstreamError, HorizonExceeded
from dpstream.mechanisms import BufferedToeplitz, GrowingSmooth, SmoothBinary, SquareRoot, Unbounded
from dpstream.testing import fixed_key
from tests.release.broken import SpendsNoiseOnRefusal

HORIZON = 60
KEY = fixed_key("stateful")
MECHANISMS = [
    SmoothBinary(HORIZON),
    BufferedToeplitz(HORIZON),
    SquareRoot(HORIZON),
    Unbounded(),
    SmoothBinary(HORIZON, noise="laplace"),
    GrowingSmooth(noise="laplace"),
]
WALK = settings(
    max_examples=100,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
)


class CounterWalk(RuleBasedStateMachine):
    kind = Counter

    @initialize(mechanism=st.sampled_from(MECHANISMS), width=st.sampled_from([None, None, 3, 70]))
    def build(self, mechanism, width):
        budget = pure_dp(1.0) if mechanism.noise == "laplace" else zcdp(0.5)
        shape = () if width is None else (width,)
        given = {"shape": shape, "per_person": 3, "per_step": 3, "mechanism": mechanism, "key": KEY}
        self.real, self.shape = self.kind(HORIZON, budget, **given), shape
        self.noise = Counter(HORIZON, budget, **given).extend(np.zeros((HORIZON, *shape), dtype=np.int64))
        self.sum, self.t = np.zeros(shape, dtype=np.int64), 0

    def one_hot(self, x, where):
        row = np.zeros(self.shape, dtype=np.int64)
        row[(where % self.shape[0],) if self.shape else ()] = x
        return row

    def expect(self, rows):
        rows = np.reshape(rows, (-1, *self.shape))
        released = self.sum + np.cumsum(rows, axis=0) + self.noise[self.t : self.t + len(rows)]
        self.sum, self.t = self.sum + rows.sum(axis=0), self.t + len(rows)
        return released

    @rule(x=st.integers(-3, 3), where=st.integers(0, 69))
    def add(self, x, where):
        row = self.one_hot(x, where)
        if self.t == HORIZON:
            with pytest.raises(HorizonExceeded):
                self.real.add(row if self.shape else x)
        else:
            assert np.array_equal(self.real.add(row if self.shape else x), self.expect(row)[0])

    @rule(xs=st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 69)), max_size=4))
    def extend(self, xs):
        rows = np.array([self.one_hot(*x) for x in xs], dtype=np.int64).reshape(-1, *self.shape)
        if self.t + len(xs) > HORIZON:
            with pytest.raises(HorizonExceeded):
                self.real.extend(rows)
        else:
            assert np.array_equal(self.real.extend(rows), self.expect(rows))

    @rule(wrong=st.sampled_from([1.5, float("nan"), "1", None, [[1]], b"1", 1j]))
    def nonsense(self, wrong):
        for attempt in (self.real.add, lambda w: self.real.extend([w])):
            with pytest.raises(DpstreamError):
                attempt(wrong)

    @rule(wrong=st.sampled_from([4, -4, 10**30, 2**63]))
    def too_large(self, wrong):
        with pytest.raises(DpstreamError):
            self.real.add(np.full(self.shape, wrong, dtype=object) if self.shape else wrong)

    @invariant()
    def says_where_it_is(self):
        assert (self.real.t, self.real.remaining) == (self.t, HORIZON - self.t)


class RunningSumWalk(RuleBasedStateMachine):
    @initialize(
        mechanism=st.sampled_from(MECHANISMS[:4]),
        width=st.sampled_from([1, 3, 70]),
        dtype=st.sampled_from(["float32", "float64"]),
    )
    def build(self, mechanism, width, dtype):
        self.real = RunningSum(
            HORIZON, zcdp(0.5), shape=(width,), per_step=1.0, dtype=dtype, mechanism=mechanism, key=KEY
        )
        stream = self.real.settings.noise_stream(KEY)
        self.noise, self.grid = stream.block(HORIZON), self.real.grid
        self.sum, self.t, self.width, self.dtype = np.zeros(width), 0, width, np.dtype(dtype)

    def expect(self, row):
        self.sum = self.sum + row  # eighths: float64 holds every sum exactly
        noisy = (self.sum + self.noise[self.t]).astype(self.dtype)
        self.t += 1
        return np.rint(noisy / self.dtype.type(self.grid)) * self.dtype.type(self.grid)

    def row(self, x, where):
        row = np.zeros(self.width, dtype=self.dtype)
        row[where % self.width] = x / 8
        return row

    @rule(x=st.integers(-8, 8), where=st.integers(0, 69))
    def add(self, x, where):
        if self.t == HORIZON:
            with pytest.raises(HorizonExceeded):
                self.real.add(self.row(x, where))
        else:
            assert np.array_equal(self.real.add(self.row(x, where)), self.expect(self.row(x, where)))

    @rule(xs=st.lists(st.tuples(st.integers(-8, 8), st.integers(0, 69)), min_size=1, max_size=4))
    def extend(self, xs):
        rows = np.array([self.row(*x) for x in xs])
        if self.t + len(xs) > HORIZON:
            with pytest.raises(HorizonExceeded):
                self.real.extend(rows)
        else:
            assert np.array_equal(self.real.extend(rows), [self.expect(row) for row in rows])

    @rule(wrong=st.sampled_from([float("nan"), float("inf"), 1.01, -9.0]))
    def refused(self, wrong):
        row = self.row(1, 0)
        row[-1] = wrong
        for attempt in (lambda: self.real.add(row), lambda: self.real.extend([self.row(1, 0), row])):
            with pytest.raises(DpstreamError):
                attempt()

    @invariant()
    def says_where_it_is(self):
        assert (self.real.t, self.real.remaining) == (self.t, HORIZON - self.t)


class NoiseWalk(RuleBasedStateMachine):
    @initialize(
        mechanism=st.sampled_from(MECHANISMS),
        width=st.sampled_from([None, 1, 3, 70]),
        dtype=st.sampled_from(["float32", "float64", "int64"]),
    )
    def build(self, mechanism, width, dtype):
        dtype = "int64" if mechanism.noise == "laplace" else dtype
        self.settings = (mechanism, 2.5, () if width is None else (width,))
        self.options = {"dtype": dtype, "key": KEY}
        self.real = NoiseStream(*self.settings, **self.options)
        self.noise = NoiseStream(*self.settings, **self.options).block(HORIZON)
        self.t, self.end = 0, mechanism.horizon

    @rule()
    def step(self):
        if self.t == HORIZON:
            if self.end is not None:
                with pytest.raises(HorizonExceeded):
                    self.real.step()
        else:
            assert np.array_equal(self.real.step(), self.noise[self.t])
            self.t += 1

    @rule()
    def increment(self):
        if self.t < HORIZON:
            before = self.noise[self.t - 1] if self.t else np.zeros_like(self.noise[0])
            assert np.array_equal(self.real.increment(), self.noise[self.t] - before)
            self.t += 1

    @rule(n=st.integers(0, 12))
    def block(self, n):
        if self.t + n <= HORIZON:
            assert np.array_equal(self.real.block(n), self.noise[self.t : self.t + n])
            self.t += n
        elif self.end is not None:
            with pytest.raises(HorizonExceeded):
                self.real.block(n)

    @rule(t=st.integers(0, HORIZON))
    def seek(self, t):
        self.real.seek(t)
        self.t = t

    @rule()
    def save_and_restore(self):
        self.real = NoiseStream.from_state(self.real.state(), *self.settings, **self.options)

    @invariant()
    def says_where_it_is(self):
        assert self.real.t == self.t


class BrokenCounterWalk(CounterWalk):
    """Beside a counter that moves on when it refuses, the same walk must stumble."""

    kind = SpendsNoiseOnRefusal


def test_a_broken_counter_is_noticed():
    with pytest.raises(AssertionError):
        run_state_machine_as_test(BrokenCounterWalk, settings=settings(WALK, phases=[Phase.generate]))


TestCounter = CounterWalk.TestCase
TestCounter.settings = WALK
TestRunningSum = RunningSumWalk.TestCase
TestRunningSum.settings = WALK
TestNoiseStream = NoiseWalk.TestCase
TestNoiseStream.settings = WALK
