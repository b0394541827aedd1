"""Release objects for audits: sound ones under fixed keys, and one broken variant for every negative control."""

import itertools

import numpy as np

from dpstream import Counter, NoiseStream, RunningSum
from dpstream.mechanisms import Binary, SquareRoot
from dpstream.mechanisms.toeplitz_participation import squared_norm_of_first_columns
from dpstream.testing import fixed_key
from tests.release import broken

TRIALS = 10_000  # coordinates of one object


def keys(label):
    """Fixed keys, one after the other: what passes once passes always."""
    return (fixed_key(f"audit, {label}, {i}") for i in itertools.count())


def counters(label, make=Counter, width=TRIALS, **settings):
    """Builds counters of many trials each, all coordinates of which may change at once."""
    supply, bound = keys(label), settings.pop("bound", 1)

    def build():
        return make(shape=(width,), per_person=bound, per_step=bound * width, key=next(supply), **settings)

    return build


def sums(label, make=RunningSum, width=TRIALS, **settings):
    supply = keys(label)
    return lambda: make(shape=(width,), key=next(supply), **settings)


# -- noise of the wrong size ------------------------------------------------------------------------------------------


def scaled(base, change):
    """The release class `base` with noise of scale change(right scale)."""

    class Scaled(base):
        def __init__(self, *args, key=None, **settings):
            super().__init__(*args, key=key, **settings)
            stream = self._stream
            self._stream = NoiseStream(
                stream.mechanism, change(stream.scale), stream.shape, dtype=stream.dtype, key=key
            )

    return Scaled


class OneNodeShort(Binary):
    """Forgets the root, or the leaf: h - 1 nodes instead of h."""

    def _sensitivity(self, participation):
        exact, is_exact = super()._sensitivity(participation)
        return (exact**2 - 1) ** 0.5, is_exact


class PricedAsToeplitz(SquareRoot):
    """Column-normalised, but several steps of one person are priced by the formula for plain Toeplitz matrices."""

    def _sensitivity(self, participation):
        if participation.times == 1:
            return super()._sensitivity(participation)
        r = SquareRoot(self.horizon).factors()[1][:, 0]
        price = squared_norm_of_first_columns(r, None, participation.times, participation.separation) / float(r @ r)
        return price**0.5, True


# -- noise at the wrong time ------------------------------------------------------------------------------------------


class Publisher:
    """What it publishes is up to `publish(inputs, key)`; inputs and releases have one column a trial."""

    settings = None

    def __init__(self, publish, key, width=TRIALS):
        self.shape, self._publish, self._key = (width,), publish, key

    def extend(self, xs):
        return self._publish(np.asarray(xs), self._key)


def publishers(label, publish):
    supply = keys(label)
    return lambda: Publisher(publish, next(supply))


def count(xs, key, budget, horizon=None, mechanism=Binary, **settings):
    horizon = len(xs) if horizon is None else horizon
    counter = Counter(
        horizon, budget, shape=(TRIALS,), per_step=TRIALS, mechanism=mechanism(horizon), key=key, **settings
    )
    return counter.extend(xs)


def fresh_noise_on_a_replay(budget):
    """A restart that lost its key publishes every step a second time."""
    return lambda xs, key: np.concatenate([count(xs, key, budget), count(xs, fixed_key(key.hex()), budget)])


def same_noise_under_changed_data(budget):
    """An event comes late: its step is published without it, and once more with it, under the same noise."""
    return lambda xs, key: np.concatenate([count(0 * xs, key, budget), count(xs, key, budget)])


def noise_repeated_past_the_horizon(budget, horizon):
    """As a peer's dense mechanism did: the last row again and again."""

    def publish(xs, key):
        inside = count(xs[:horizon], key, budget, horizon)
        later = inside[-1] + np.cumsum(xs[horizon:], axis=0)
        return np.concatenate([inside, later])

    return publish


def one_key_for_two_streams(budget, name):
    """A person's visits (the input) and purchases (none), each for half the budget, under one key and `name(i)`."""
    half = type(budget)(budget.rho / 2)

    def publish(xs, key):
        return np.concatenate([count(x, key, half, name=name(i)) for i, x in enumerate((xs, 0 * xs))])

    return publish


def last_step_skipped(budget):
    """The tree's last node is never drawn: the last release has the noise of the one before."""

    def publish(xs, key):
        released = count(xs, key, budget)
        released[-1] = released[-2] + xs[-1]
        return released

    return publish


def answering_inputs(budget, mechanism):
    """Somebody else's input is 1 whenever the last release was odd, which everybody can see and take off again."""

    def publish(xs, key):
        counter = Counter(len(xs), budget, shape=(TRIALS,), per_step=TRIALS, mechanism=mechanism(len(xs)), key=key)
        published, answers, last = [], np.zeros(TRIALS, dtype=np.int64), np.zeros(TRIALS, dtype=np.int64)
        for x in xs:
            answer = last % 2
            answers += answer
            last = counter.add(x + answer)
            published.append(last - answers)
        return np.array(published)

    return publish


# -- noise with holes in it -------------------------------------------------------------------------------------------


class NoGrid(broken.NoGrid):
    """Publishes sum plus noise to the last bit."""


def rounded_float32_noise(budget, bound):
    """A Counter of large values whose noise is float32, rounded: above 2^24 float32 has gaps."""

    def publish(xs, key):
        scale = Counter(len(xs), budget, per_person=bound, mechanism=Binary(len(xs))).settings.scale
        noise = NoiseStream(Binary(len(xs)), scale, (xs.shape[1],), dtype="float32", key=key).block(len(xs))
        return np.cumsum(xs, axis=0) + np.rint(noise.astype(np.float64)).astype(np.int64)

    return publish
