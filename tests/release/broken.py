"""Broken on purpose: each of these must be caught by the shipped contract suite, for the reason given."""

import math

import numpy as np

from dpstream import Counter, NoiseStream, Participation, RunningSum
from dpstream.errors import DpstreamError, InputOutOfBound
from dpstream.mechanisms import Binary

# -- mechanisms -------------------------------------------------------------------------------------------------------


class TooLowASensitivity(Binary):
    def _sensitivity(self, participation):
        return 0.9 * super()._sensitivity(participation)[0], True


class OneStepOnly(Binary):
    def _sensitivity(self, participation):
        return super()._sensitivity(Participation())


class TwiceOnly(Binary):
    def _sensitivity(self, participation):
        return super()._sensitivity(Participation(min(participation.times, 2), participation.separation))


class ShortStreamsOnly(Binary):
    """Right for the steps that the other checks look at, and too small for those that come after."""

    def _sensitivity(self, participation):
        return Binary(64)._sensitivity(participation)


class NotExact(Binary):
    def _sensitivity(self, participation):
        stated, exact = super()._sensitivity(participation)
        return 1.2 * stated, exact


class OtherStream(Binary):
    """Streams a tree that forgets to pop: not the matrix its sensitivity is for."""

    def advance(self, state, draws):
        noise, following = super().advance(state, draws)
        return noise + 0.1 * draws[0], following


class ChangesItsDraws(Binary):
    def advance(self, state, draws):
        result = super().advance(state, draws)
        draws[0] *= 2
        return result


class RunsForEver(Binary):
    """As jax_privacy's BLT did: no end, and a sensitivity that was computed for one."""

    def _next_step(self, state):
        return state.t + 1


class WrongVariance(Binary):
    def squared_row_norm(self, t):
        return 1.0


class WrongFactors(Binary):
    def _factors(self, steps):
        L, R = super()._factors(steps)
        return L, R * 1.01


MECHANISMS = {
    TooLowASensitivity: "sensitivity",
    OneStepOnly: "2 steps is too low",
    TwiceOnly: "3 steps is too low",
    NotExact: "called exact",
    OtherStream: "covariance is not that of L",
    ChangesItsDraws: "two different noises|changed the draws",
    RunsForEver: "past the horizon",
    WrongVariance: "variance",
    WrongFactors: "prefix-sum",
}

# -- noise ------------------------------------------------------------------------------------------------------------


class VarianceAsScale(NoiseStream):
    """As in the paper's public code: the variance where the standard deviation belongs."""

    def step(self, out=None):
        return super().step(out) * 2.0

    def block(self, n):
        return super().block(n) * 2.0


class OneArray(NoiseStream):
    """Yields the same array object at every step, as the paper's public code does."""

    def step(self, out=None):
        if not hasattr(self, "kept"):
            self.kept = np.empty(self.shape, self.dtype)
        return super().step(self.kept)


class RepeatsPastTheEnd(NoiseStream):
    """As a peer's dense mechanism did: the last row's noise again and again."""

    def step(self, out=None):
        if self.t == self.mechanism.horizon:
            return np.zeros(self.shape)
        return super().step(out)


class ConstantKey(NoiseStream):
    """As a peer's fallback: one key for all."""

    def __init__(self, *args, key=None, **settings):
        super().__init__(*args, key=bytes(32), **settings)


class BlockOffByOne(NoiseStream):
    def block(self, n):
        out = super().block(n)
        if n > 2:
            out[1] = out[2]
        return out


class ForgetfulSave(NoiseStream):
    @classmethod
    def from_state(cls, state, *args, **settings):
        stream = super().from_state(state, *args, **settings)
        stream.seek(0)
        return stream


class Uncorrelated(NoiseStream):
    """The right variance at every step, but fresh noise each time: averages away."""

    def _mixed_up(self, t, values):
        return np.roll(values, 17 * t, axis=-1)

    def step(self, out=None):
        return self._mixed_up(self.t, super().step(out))

    def block(self, n):
        t = self.t
        rows = super().block(n)
        return np.array([self._mixed_up(t + 1 + i, row) for i, row in enumerate(rows)]).reshape(rows.shape)


NOISE = {
    VarianceAsScale: "variance is off",
    OneArray: "the same array",
    RepeatsPastTheEnd: "past the horizon",
    ConstantKey: "two keys gave the same noise",
    BlockOffByOne: r"block\(\) and step\(\) differ",
    ForgetfulSave: "restored stream differs",
    Uncorrelated: "differ|correlations over time",
}

# -- releases ---------------------------------------------------------------------------------------------------------


class CountsBeforeItChecks(Counter):
    """The input is in the sum by the time it is refused."""

    def add(self, x):
        try:
            return super().add(x)
        except DpstreamError:
            if isinstance(x, int) and abs(x) < 100 and not self.shape:
                self._shifted += x
            raise


class SpendsNoiseOnRefusal(Counter):
    def add(self, x):
        try:
            return super().add(x)
        except DpstreamError:
            if self.remaining and not self.shape and self._next < self._ready:
                self._next += 1
            raise


class RoundsSilently(Counter):
    def add(self, x):
        if isinstance(x, float) and math.isfinite(x):
            x = int(x)
        return super().add(x)


class ClipsUnasked(Counter):
    """What was asked for once by name: a step's total made to fit, which is not private."""

    def add(self, x):
        return super().add(max(min(x, 3), -3) if isinstance(x, int) else x)


class TooLittleNoise(Counter):
    """Half the noise that the budget asks for, and says otherwise."""

    def __init__(self, *args, budget, **settings):
        super().__init__(*args, budget=budget, **settings)
        if hasattr(budget, "rho"):
            self._stream = Counter(*args, budget=type(budget)(4 * budget.rho), **settings)._stream


class ExtendStartsAgain(Counter):
    def extend(self, xs):
        if self._cells is None:
            self._shifted = -(2**40)
        return super().extend(xs)


class LetsTheInputOut(Counter):
    """Returns sums without noise every so often."""

    def _add_row(self, row):
        return super()._add_row(row) * 0 + self._cells.sums


class IgnoresItsName(Counter):
    def __init__(self, *args, name="", **settings):
        super().__init__(*args, **settings)


class NarrowIntervals(Counter):
    def estimate(self, confidence=0.95):
        return super().estimate(confidence / 2)


COUNTERS = {
    CountsBeforeItChecks: "changed what came after",
    SpendsNoiseOnRefusal: "moved t|changed what came after",
    RoundsSilently: "1.5 was not refused",
    ClipsUnasked: "was not refused",
    TooLittleNoise: "law of its mechanism",
    ExtendStartsAgain: r"extend\(\)",
    LetsTheInputOut: "law of its mechanism|variance",
    IgnoresItsName: "name does not change the noise",
    NarrowIntervals: r"estimate\(0.9\)",
}


class NoGrid(RunningSum):
    def _add_in_float64(self, x, release, low, high):
        self._sum[low:high] += x
        release += self._sum[low:high]

    def _round(self, release):
        pass


class SumsInFloat16(RunningSum):
    def _add_in_float64(self, x, release, low, high):
        self._sum[low:high] = self._sum[low:high].astype(np.float16)
        super()._add_in_float64(x, release, low, high)


class LooksAtInputsItsOwnWay(RunningSum):
    """Lets a check of its own stand where that of the settings does."""

    def checked(self, x):
        raise NotImplementedError

    def add(self, x):
        return self.extend_checked(self.checked(x).reshape(1, *self.shape))[0]

    def extend(self, xs):
        rows = [self.checked(x) for x in xs]
        return self.extend_checked(np.array(rows, dtype=self.dtype).reshape(len(rows), *self.shape))


class TakesNaN(LooksAtInputsItsOwnWay):
    """`norm > per_step` is False for NaN: what it lets through stays in the sum for ever."""

    def checked(self, x):
        if isinstance(x, np.ndarray) and np.isnan(x).any():
            return x
        return self.settings.check_row(x)[0]


class WritesIntoItsInput(LooksAtInputsItsOwnWay):
    def checked(self, x):
        row = self.settings.check_row(x)[0]
        row *= np.float32(0.5)
        return row


class AcceptsAnyLength(LooksAtInputsItsOwnWay):
    def checked(self, x):
        try:
            return self.settings.check_row(x)[0]
        except InputOutOfBound:
            return np.asarray(x)


class AddsBeforeItLooks(RunningSum):
    """Past the horizon it adds first and refuses then."""

    def _check_room(self, n):
        try:
            super()._check_room(n)
        except DpstreamError:
            self._t += 1
            raise


RUNNING_SUMS = {
    NoGrid: "grid",
    SumsInFloat16: "sums are wrong",
    TakesNaN: "not refused",
    WritesIntoItsInput: "sums are wrong|changed the array",
    AcceptsAnyLength: "not refused",
    AddsBeforeItLooks: "moved t",
}
