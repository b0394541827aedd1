"""Streams under one key share no noise unless all their settings are the same.

Every setting of every stream is changed by itself. If it were missing where keys are derived, both streams would be
made of the same draws: the same noise, or the same up to its scale and the mechanism's weights. So every step of one is
correlated with every step of the other over 4,000 coordinates: independent noise stays below 8/√4,000 = 0.126 (it would
be above by chance in 1e-15 of all keys, for each of some 5,000 correlations), shared draws show correlations near 1.
"""

import inspect
import itertools

import numpy as np
import pytest

from dpstream import Counter, NoiseStream, Participation, RunningSum, approx_dp, pure_dp, zcdp
from dpstream.mechanisms import Binary, SmoothBinary, SquareRoot
from dpstream.noise.keystream import derive_key
from dpstream.testing import fixed_key

WIDTH, STEPS = 4_000, 3
LIMIT = 8 / np.sqrt(WIDTH)
KEY, OTHER_KEY = fixed_key("shared noise"), fixed_key("shared noise, another key")


def noise_of_release(kind, settings):
    release = kind(**settings)
    steps = min(STEPS, release.horizon)
    return np.asarray(
        release.extend(np.zeros((steps, *release.shape), dtype=getattr(release, "dtype", np.int64)))
    ).reshape(steps, -1)


def noise_of_stream(kind, settings):
    return np.asarray(kind(**settings).block(STEPS)).reshape(STEPS, -1)


def largest_correlation(first, second):
    width = min(first.shape[1], second.shape[1])
    both = np.corrcoef(np.concatenate([first[:, :width], second[:, :width]]).astype(np.float64))
    return np.abs(both[: len(first), len(first) :]).max()


#: One kind of stream: how its noise is read, its usual settings, and for every setting other values; some of them leave
#: the scale as it is, so that nothing but the setting itself can make the difference (Participation(2, 9) is one step).
COUNTER = (
    Counter,
    noise_of_release,
    {
        "horizon": 4,
        "budget": zcdp(0.5),
        "shape": (WIDTH,),
        "mechanism": Binary(4),
        "per_person": 10**6,
        "per_step": 10**12,
        "key": KEY,
    },
    {
        "horizon": [3],
        "budget": [zcdp(0.51), approx_dp(3.0, 1e-6)],
        "shape": [(WIDTH + 1,), (WIDTH - 1,), (WIDTH, 1)],
        "per_person": [10**6 + 1],
        "per_step": [10**9, None],
        "mechanism": [Binary(5), SmoothBinary(4), SquareRoot(4)],
        "participation": [Participation(2), Participation(2, 2), Participation(2, 9)],
        "neighbours": ["replace", "replace-anywhere"],
        "windows": [(1,), (1, 2)],
        "name": ["a", "b"],
        "key": [OTHER_KEY],
    },
)
PURE = (
    Counter,
    noise_of_release,
    COUNTER[2] | {"budget": pure_dp(1.0), "mechanism": Binary(4, noise="laplace")},
    COUNTER[3] | {"budget": [pure_dp(1.1)], "mechanism": [Binary(5, noise="laplace")]},
)
RUNNING_SUM = (
    RunningSum,
    noise_of_release,
    {"horizon": 4, "budget": zcdp(0.5), "shape": (WIDTH,), "mechanism": Binary(4), "key": KEY},
    {
        "horizon": [3],
        "budget": [zcdp(0.51), approx_dp(3.0, 1e-6)],
        "shape": [(WIDTH + 1,), (WIDTH, 1)],
        "per_person": [1.0000001],
        "per_step": [10.0],
        "dtype": ["float64"],
        "mechanism": [Binary(5), SmoothBinary(4), SquareRoot(4)],
        "participation": [Participation(2), Participation(2, 2), Participation(2, 9)],
        "neighbours": ["replace", "replace-anywhere"],
        "windows": [(1,), (1, 2)],
        "name": ["a"],
        "key": [OTHER_KEY],
    },
)
NOISE = (
    NoiseStream,
    noise_of_stream,
    {"mechanism": Binary(4), "scale": 1e6, "shape": (WIDTH,), "dtype": "float64", "key": KEY},
    {
        "mechanism": [Binary(5), SmoothBinary(4), SquareRoot(4)],
        "scale": [1e6 + 1],
        "shape": [(WIDTH + 1,), (WIDTH, 1)],
        "dtype": ["float32", "int64"],
        "key": [OTHER_KEY],
    },
)
KINDS = {"Counter": COUNTER, "Counter, pure": PURE, "RunningSum": RUNNING_SUM, "NoiseStream": NOISE}
#: What does not change the values, and must not change the noise: who computes it, and which coordinates of it.
NO_SETTING = {"threads", "part"}


@pytest.mark.parametrize("kind", KINDS)
def test_every_setting_changes_the_noise(kind):
    make, noise, usual, others = KINDS[kind]
    found = {"usual": noise(make, usual)}
    taken = set(inspect.signature(make).parameters)
    for setting, values in others.items():
        if setting in taken:
            for value in values:
                found[f"{setting}={value}"] = noise(make, usual | {setting: value})
    for (name, first), (other, second) in itertools.combinations(found.items(), 2):
        assert largest_correlation(first, second) < LIMIT, (name, other)
    assert np.array_equal(noise(make, usual), found["usual"])


@pytest.mark.parametrize("kind", KINDS)
def test_no_setting_is_forgotten(kind):
    """A new argument must be added above: with another value, or as no setting."""
    make, _, _, others = KINDS[kind]
    assert set(inspect.signature(make).parameters) <= set(others) | NO_SETTING


def test_streams_of_different_kinds_share_no_noise():
    found = {kind: noise(make, usual) for kind, (make, noise, usual, _) in KINDS.items()}
    for first, second in itertools.combinations(found, 2):
        assert largest_correlation(found[first], found[second]) < LIMIT, (first, second)


def test_shared_draws_would_be_seen():
    """The same draws under another scale, mechanism or type: what a forgotten setting would look like."""
    draws = np.random.default_rng(1).normal(size=(7, WIDTH))
    tree, other = (mechanism.factors(3)[0] for mechanism in (Binary(4), SquareRoot(4)))
    first = tree @ draws[: tree.shape[1]]
    assert largest_correlation(first, 1.02 * first) > 0.99
    assert largest_correlation(first, np.rint(1e3 * first)) > 0.99
    assert largest_correlation(first, other @ draws[: other.shape[1]]) > 0.3


@pytest.mark.parametrize("part", ["master", "purpose", "configuration", "name", "value", "nested"])
def test_every_part_of_the_derivation_changes_the_key(part):
    usual = {"master": KEY, "purpose": "draws", "configuration": {"horizon": 3, "shape": [2, 3], "name": "a"}}
    changed = {
        "master": {"master": OTHER_KEY},
        "purpose": {"purpose": "state"},
        "configuration": {"configuration": {"horizon": 3, "shape": [2, 3]}},
        "name": {"configuration": {"horizon": 3, "shape": [2, 3], "label": "a"}},
        "value": {"configuration": {"horizon": 4, "shape": [2, 3], "name": "a"}},
        "nested": {"configuration": {"horizon": 3, "shape": [3, 2], "name": "a"}},
    }[part]

    def key(*, master, **named):
        return derive_key(master, **named)

    assert key(**usual) == key(**usual)
    assert key(**usual) != key(**(usual | changed))
