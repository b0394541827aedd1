"""StreamSettings: one check, one spelling, and a distance that covers every pair of neighbours."""

import itertools
import json
import math

import numpy as np
import pytest

import dpstream as dp
from dpstream.errors import InvalidArgument, StateError
from dpstream.mechanisms import Binary, SmoothBinary, SquareRoot, Unbounded
from dpstream.release.secret_state import SecretState
from dpstream.release.settings import StreamSettings
from dpstream.testing import fixed_key

COUNTERS = [
    {},
    {"shape": (3,), "per_person": 5, "per_step": 9, "neighbours": "replace", "name": "a"},
    {"shape": 2, "neighbours": "replace-anywhere", "participation": dp.Participation(3, 2)},
    {"horizon": None},
    {"horizon": None, "budget": dp.pure_dp(0.1)},
    {"budget": dp.approx_dp(1, 1e-6), "mechanism": SmoothBinary(100)},
    {"horizon": None, "mechanism": Unbounded(SquareRoot)},
]
SUMS = [{}, {"shape": (3, 2), "dtype": "float64", "per_person": 0.1, "per_step": 7.5, "name": "b"}, {"horizon": None}]


def made(lane, given):
    build = StreamSettings.for_counter if lane == "exact" else StreamSettings.for_sum
    return build(**({"horizon": 40, "budget": dp.zcdp(0.3)} | given))


ALL = [("exact", given) for given in COUNTERS] + [("float", given) for given in SUMS]


@pytest.mark.parametrize(("lane", "given"), ALL)
def test_what_is_written_is_read_back(lane, given):
    settings = made(lane, given)
    read = StreamSettings.from_json(json.loads(json.dumps(settings.as_json())))
    assert read == settings
    assert (read.scale, read.last, read.step_limit, read.grid) == (
        settings.scale, settings.last, settings.step_limit, settings.grid,
    )  # fmt: skip
    key = fixed_key("settings")
    np.testing.assert_array_equal(read.noise_stream(key).block(3), settings.noise_stream(key).block(3))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"scale": 1.0}, "scale must be"),
        ({"identity": "SmoothBinary(horizon=40)"}, "identity must be"),
        ({"lane": "float"}, "settings must be|dtype must be"),
        ({"dtype": "float32"}, "dtype must be 'int64'"),
        ({"surprise": 1}, "settings must be what as_json"),
        ({"budget": {"kind": "mine"}}, "budget must be"),
        ({"mechanism": "Binary"}, "mechanism must be"),
        ({"participation": None}, "settings must be"),
        ({"per_step": 0}, "per_step must be"),
    ],
)
def test_other_settings_are_refused(change, match):
    written = made("exact", {}).as_json()
    with pytest.raises(InvalidArgument, match=match):
        StreamSettings.from_json(written | change)
    written.pop("horizon")
    with pytest.raises(InvalidArgument):
        StreamSettings.from_json(written)


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace", "replace-anywhere"])
def test_the_distance_covers_every_pair_of_neighbours(neighbours, width, times, noise):
    """By brute force: everything that a person may add or have added instead, at every choice of steps, through R."""
    horizon, size = 5, 2
    mechanism = (
        SmoothBinary(horizon, noise=noise, sensitivity_of="nodes") if noise == "laplace" else SquareRoot(horizon)
    )
    budget = dp.pure_dp(1.0) if noise == "laplace" else dp.zcdp(0.5)
    settings = StreamSettings.for_counter(
        horizon, budget, shape=(width,), per_person=size, mechanism=mechanism, neighbours=neighbours,
        participation=dp.Participation(times),
    )  # fmt: skip
    R = mechanism.factors(horizon)[1]
    norm = 1 if noise == "laplace" else 2
    amounts = [np.eye(width)[i] * size for i in range(width)] + [np.zeros(width)]
    if neighbours == "add-remove":
        amounts += [-a for a in amounts[:width]]

    def streams(steps):
        for values in itertools.product(amounts, repeat=len(steps)):
            x = np.zeros((horizon, width))
            x[list(steps)] = values
            yield x

    places = [p for n in range(1, times + 1) for p in itertools.combinations(range(horizon), n)]
    worst = 0.0
    for mine in places:
        others = {"add-remove": [()], "replace": [mine], "replace-anywhere": places}[neighbours]
        for theirs in others:
            for x in streams(mine):
                for y in streams(theirs) if theirs else [np.zeros((horizon, width))]:
                    worst = max(worst, float(np.linalg.norm((R @ (x - y)).ravel(), norm)))
    covered = settings.distance * mechanism.sensitivity(settings.participation)
    assert worst <= covered * (1 + 1e-9)
    if neighbours == "replace-anywhere":  # ... and the one that only replaces does not cover it
        fixed = made("exact", {"shape": (width,), "per_person": size, "neighbours": "replace", "budget": budget})
        if width == 1:
            assert worst > fixed.distance * mechanism.sensitivity(settings.participation) * 1.005


def test_what_replace_means_is_said():
    assert "in which steps they were can be told" in dp.Counter(9, dp.zcdp(1), neighbours="replace").describe()
    assert "nor in which steps" in dp.Counter(9, dp.zcdp(1), neighbours="replace-anywhere").describe()
    assert "You must ensure that nobody adds more than 1" in dp.Counter(9, dp.zcdp(1)).describe()
    assert "each step must be one person's" in dp.Counter(9, dp.zcdp(1), per_step=1).describe()


@pytest.mark.parametrize(("lane", "given"), ALL)
def test_a_stream_goes_on_from_its_secret_state(lane, given):
    settings, key = made(lane, given), fixed_key("resume")
    kind = dp.Counter if lane == "exact" else dp.RunningSum
    rows = np.zeros((9, *settings.shape), dtype=settings.dtype)
    rows[:, ...] = 1 if lane == "exact" else 0.01
    whole = kind.resume(settings, settings.noise_stream(key), SecretState.start(settings))
    expected = whole.extend(rows)
    half = kind.resume(settings, settings.noise_stream(key), SecretState.start(settings))
    half.extend(rows[:4])
    state = half.reveal_secret_state()
    assert (state.t, "hidden" in repr(state)) == (4, True)
    read = SecretState.from_bytes(settings, 4, state.sums_as_bytes(), state.last)
    gone_on = kind.resume(settings, settings.noise_stream(key), read)
    if lane == "exact":
        assert np.array_equal(gone_on.estimate().value, expected[3])
    np.testing.assert_array_equal(gone_on.extend(rows[4:]), expected[4:])
    assert gone_on.t == 9
    np.testing.assert_array_equal(half.extend(rows[4:]), expected[4:])
    with pytest.raises(StateError, match="bytes"):
        SecretState.from_bytes(settings, 4, state.sums_as_bytes() + b"\0", state.last)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_estimate_of_a_running_sum_is_its_last_release(dtype):
    total = dp.RunningSum(50, dp.zcdp(0.5), shape=(4,), dtype=dtype, mechanism=Binary(50), key=fixed_key("estimate"))
    for _ in range(3):
        released = total.add(np.full(4, 0.25, dtype=dtype))
        found = total.estimate(0.5)
        np.testing.assert_array_equal(found.value, released)
        assert found.value.dtype == dtype
        assert found.stddev == total.stddev()
        np.testing.assert_allclose(found.high - found.low, 2 * 0.6744898 * found.stddev, rtol=1e-3)
    again = total.fresh(fixed_key("estimate"))
    assert (again.t, total.t) == (0, 3)
    assert math.isclose(again.stddev(1), total.stddev(1))


def test_noise_that_cannot_be_rounded_is_refused_before_a_store_is_made(tmp_path):
    wide = {"horizon": 10, "budget": dp.zcdp(1e-10), "per_person": 10**8}
    with pytest.raises(InvalidArgument, match="scale must be at most"):
        StreamSettings.for_counter(**wide)
    with dp.Store(tmp_path / "counts.db") as store:
        with pytest.raises(InvalidArgument, match="scale must be at most"):
            store.counter("visits", **wide)
        assert store.streams() == []
