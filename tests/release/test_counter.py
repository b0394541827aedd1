"""Counter: exact sums, one noise a step, bad input refused by name with nothing changed."""

import copy
import math
import os
import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpstream as dp
from dpstream.budget import noise_scale
from dpstream.errors import (
    DpstreamError,
    ForkedStream,
    HorizonExceeded,
    InputOutOfBound,
    InputShapeError,
    InputTypeError,
    InvalidArgument,
    KeyLengthError,
    MechanismTooShort,
    NoiseLawError,
    NoReleaseYet,
    SumsTooLarge,
)
from dpstream.mechanisms import (
    AnytimeToeplitz,
    Binary,
    BufferedToeplitz,
    GrowingSmooth,
    SmoothBinary,
    SquareRoot,
)
from dpstream.release import counter as counter_module
from dpstream.testing import fixed_key

BUDGETS = {"zcdp": dp.zcdp(0.5), "approx": dp.approx_dp(1.0, 1e-6), "pure": dp.pure_dp(1.0)}
SILENT = dp.zcdp(1e30)


def make(horizon=100, budget=BUDGETS["zcdp"], label="counter", **settings) -> dp.Counter:
    settings.setdefault("mechanism", SmoothBinary(horizon or 1, noise=budget.noise) if horizon else "auto")
    settings.setdefault("per_step", settings.get("per_person", 1))  # a step is one person's, so that it is checked
    return dp.Counter(horizon, budget, key=fixed_key(label), **settings)


# -- the release is the sum plus the stream's noise -------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (4,), (70,), (3, 2)])
@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_releases_are_sums_plus_the_noise_of_the_stream(budget, shape):
    """The noise does not depend on the data: the same counter over other data differs by exactly the sums."""
    rng = np.random.default_rng(3)
    data = rng.integers(-1, 2, (100, *shape))
    if shape:
        data *= rng.random((100, *shape)) < 0.5 / math.prod(shape) ** 0.5
    fits = 70 * 70
    one, other = make(budget=budget, shape=shape, per_person=fits), make(budget=budget, shape=shape, per_person=fits)
    difference = one.extend(data) - other.extend(np.zeros_like(data))
    np.testing.assert_array_equal(difference, np.cumsum(data, axis=0))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 40), max_size=12), st.integers(0, 2**32))
def test_any_mixture_of_add_and_extend(cuts, seed):
    data = np.random.default_rng(seed).integers(-2, 3, 300)
    whole = make(300, per_person=2).extend(data)
    counter, at = make(300, per_person=2), 0
    for cut in cuts:
        part = data[at : at + cut]
        released = counter.extend(part) if cut % 3 else [counter.add(int(x)) for x in part]
        np.testing.assert_array_equal(released, whole[at : at + len(part)])
        at += len(part)
        assert counter.t == at
    np.testing.assert_array_equal(counter.extend(data[at:]), whole[at:])


def test_long_extend_crosses_its_chunks(monkeypatch):
    data = np.random.default_rng(1).integers(0, 2, 3000)
    whole = make(3000).extend(data)
    monkeypatch.setattr(counter_module, "CACHE_VALUES", 64)
    counter = make(3000)
    head = [counter.add(int(x)) for x in data[:5]]
    np.testing.assert_array_equal(np.concatenate([head, counter.extend(data[5:])]), whole)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "uint64", "int64"])
def test_whole_numbers_of_any_dtype(dtype):
    data = np.array([0, 1, 1, 0, 1])
    np.testing.assert_array_equal(make().extend(data.astype(dtype)), make().extend(data.tolist()))
    counter = make()
    np.testing.assert_array_equal([counter.add(x) for x in data.astype(dtype)], make().extend(data))


def test_extend_by_nothing():
    counter = make()
    assert counter.extend([]).shape == (0,)
    assert make(shape=(3,)).extend(np.empty((0, 3), dtype=int)).shape == (0, 3)
    assert counter.t == 0


# -- what the noise rests on ------------------------------------------------------------------------------------------


SETTINGS = [
    {"name": "b"},
    {"label": "another"},
    {"budget": dp.zcdp(0.6)},
    {"budget": dp.approx_dp(1.0, 1e-6)},
    {"shape": (1,)},
    {"per_person": 2},
    {"neighbours": "replace"},
    {"participation": dp.Participation(2)},
    {"mechanism": Binary(100)},
    {"horizon": 99},
]


@pytest.mark.parametrize("changed", SETTINGS, ids=str)
def test_any_setting_changes_the_stream_key(changed):
    def key_of(**settings):
        counter = make(**settings)
        return counter._stream._state_key

    assert key_of(**changed) != key_of()
    assert key_of() == key_of()


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("shape", [(), (1,), (5,)])
@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
def test_sensitivity_follows_from_the_neighbours(budget, shape, neighbours):
    """Brute force over all pairs of allowed inputs of one step, for a bound of 2."""
    counter = make(20, budget=budget, shape=shape, per_person=2, neighbours=neighbours)
    size = 2 if shape == (5,) else 1  # two coordinates show everything: a difference lives in the span of two inputs
    order = 1 if budget.noise == "laplace" else 2
    grid = [np.array(x) for x in np.ndindex(*(5,) * size)]
    inputs = [x - 2 for x in grid if np.linalg.norm(x - 2, order) <= 2]
    if neighbours == "replace":
        inputs = [x for x in inputs if (x >= 0).all()]
        distance = max(np.linalg.norm(x - y, order) for x in inputs for y in inputs)
    else:
        distance = max(np.linalg.norm(x, order) for x in inputs)
    owed = noise_scale(counter.mechanism, budget, per_person=distance)
    assert counter.settings.scale == pytest.approx(owed, rel=1e-12)
    assert counter.settings.scale >= owed * (1 - 1e-14)


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize(
    "make_mechanism", [Binary, SmoothBinary, BufferedToeplitz, SquareRoot], ids=lambda m: m.__name__
)
def test_a_person_in_several_steps_stays_within_the_budget(make_mechanism, times):
    """All patterns of up to `times` steps and all signs: ρ is ‖shift of the releases‖² in the noise's own metric."""
    horizon, rho = 7, 0.5
    participation = dp.Participation(times)
    counter = dp.Counter(horizon, dp.zcdp(rho), mechanism=make_mechanism(horizon), participation=participation)
    L, _ = counter.mechanism.factors()
    precision = np.linalg.inv(counter.settings.scale**2 * L @ L.T)
    worst = 0.0
    for pattern in np.ndindex(*(3,) * horizon):
        x = np.array(pattern) - 1
        if 0 < np.count_nonzero(x) <= times:
            shift = np.cumsum(x)
            worst = max(worst, shift @ precision @ shift / 2)
    assert worst <= rho * (1 + 1e-9)
    if times == 1:
        assert worst >= rho * (1 - 1e-6)


def test_the_plan_chooses_and_any_mechanism_can_be_given():
    assert type(dp.Counter(50, dp.zcdp(0.5)).mechanism).__name__ == "BalancedToeplitz"
    assert type(dp.Counter(50, dp.pure_dp(0.5)).mechanism) is SmoothBinary
    assert type(dp.Counter(None, dp.zcdp(0.5)).mechanism) is AnytimeToeplitz
    assert type(dp.Counter(None, dp.pure_dp(0.5)).mechanism) is GrowingSmooth
    longer = SmoothBinary(1000)
    counter = dp.Counter(10, dp.zcdp(0.5), mechanism=longer)
    assert counter.mechanism is longer
    counter.extend([1] * 10)
    with pytest.raises(HorizonExceeded, match=r"step 11 is past the horizon: .* 10 steps"):
        counter.add(1)


@pytest.mark.parametrize("budget", [dp.zcdp(0.5), dp.pure_dp(1.0)], ids=repr)
def test_without_a_horizon(budget):
    counter = dp.Counter(None, budget, key=fixed_key("endless"))
    assert counter.remaining is None
    assert counter.horizon is None
    values = counter.extend(np.ones(5000, dtype=int))
    assert abs(int(values[-1]) - 5000) < 12 * counter.stddev()
    assert counter.t == 5000
    assert "without a last one" in counter.describe()


# -- looking ----------------------------------------------------------------------------------------------------------


def test_looking():
    counter = make(50)
    assert (counter.t, counter.remaining, counter.horizon, counter.shape) == (0, 50, 50, ())
    with pytest.raises(NoReleaseYet, match="add something first"):
        counter.estimate()
    first = counter.stddev()
    assert first == counter.stddev(1)
    release = counter.add(1)
    assert (counter.t, counter.remaining) == (1, 49)
    assert counter.budget == dp.zcdp(0.5)
    assert counter.mechanism == SmoothBinary(50)
    _, _, low, high = counter.estimate(0.9)
    assert low + high == 2 * release
    assert type(low) is type(high) is int
    assert counter.estimate(0.5).high < high < counter.estimate(0.999).high
    with pytest.raises(HorizonExceeded):
        counter.stddev(51)
    with pytest.raises(InvalidArgument, match="t must be a whole number"):
        counter.stddev(0)


def test_the_interval_is_around_the_last_release_whatever_way_it_was_made():
    counter = make(200)
    for release in (counter.add(1), *[counter.add(0) for _ in range(9)]):
        last = release
    assert sum(counter.estimate()[2:]) == 2 * last
    for steps in (3, 100):
        last = int(counter.extend([1] * steps)[-1])
        assert sum(counter.estimate()[2:]) == 2 * last
    counter.extend([])
    last = counter.add(1)
    assert sum(counter.estimate()[2:]) == 2 * last
    histogram = make(200, shape=(3,))
    rows = histogram.extend(np.eye(3, dtype=int))
    np.testing.assert_array_equal(sum(histogram.estimate()[2:]), 2 * rows[-1])
    release = histogram.add([0, 1, 0])
    kept = release.copy()
    release[...] = 0
    np.testing.assert_array_equal(sum(histogram.estimate()[2:]), 2 * kept)


def test_describe_says_what_to_whom_against_whom_and_what_not():
    text = make(50, name="visits", participation=dp.Participation(5, 7)).describe()
    for words in (
        "rho = 0.5",
        "50 at most",
        "at most 5 steps",
        "7 steps apart",
        "Against whom",
        "Not promised",
        "Gaussian",
    ):
        assert words in text
    assert "\n" not in text
    assert "(1, 1e-06)-differential privacy" in make(budget=BUDGETS["approx"]).describe()
    pure = make(budget=BUDGETS["pure"], shape=(3,), neighbours="replace").describe()
    for words in ("epsilon = 1", "Laplace", "ℓ1 norm", "anything else they might have"):
        assert words in pure


def test_nothing_shows_the_key_or_the_count():
    key = os.urandom(32)
    counter = dp.Counter(100, dp.zcdp(0.5), key=key, per_step=10**9, mechanism=Binary(100))
    counter.add(123_456_789)
    shown = repr(counter) + str(counter) + counter.describe()
    for secret in (key.hex(), repr(key)[2:-1], "123456789", "123_456_789", "123,456,789"):
        assert secret not in shown
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            leak(counter)
    assert not hasattr(counter, "__dict__")


# -- bad input --------------------------------------------------------------------------------------------------------

BAD_NUMBERS = [
    (1.5, InputTypeError, "must be a whole number, got 1.5"),
    (1.0, InputTypeError, "whole number"),
    (math.nan, InputTypeError, "got nan"),
    ("1", InputTypeError, "got '1'"),
    (None, InputTypeError, "got None"),
    (np.float64(1), InputTypeError, "whole number"),
    (2, InputOutOfBound, "the value of a step's input must be from -1 to 1, got 2; nothing was added"),
    (-2, InputOutOfBound, "got -2"),
    (10**30, InputOutOfBound, "got 1000000000000000000000000000000"),
    (np.int64(2), InputOutOfBound, "from -1 to 1"),
    ([1], InputShapeError, r"shape \(\), got \(1,\)"),
    (np.array([1, 1]), InputShapeError, r"got \(2,\)"),
]


@pytest.mark.parametrize(("x", "error", "message"), BAD_NUMBERS, ids=lambda v: repr(v)[:20])
@pytest.mark.parametrize("before", [0, 1, 9, 30])
def test_bad_numbers_change_nothing(x, error, message, before):
    honest, tried = make(), make()
    np.testing.assert_array_equal(honest.extend([1] * before), [tried.add(1) for _ in range(before)])
    with pytest.raises(error, match=message):
        tried.add(x)
    assert tried.t == before
    assert [tried.add(1) for _ in range(40)] == [honest.add(1) for _ in range(40)]


@pytest.mark.parametrize(
    ("xs", "error"),
    [
        ([1, 0, 2], InputOutOfBound),
        ([1, 0, -2], InputOutOfBound),
        ([1, 0.5], InputTypeError),
        ([1.0, 0.0], InputTypeError),
        ([math.nan], InputTypeError),
        (["a"], InputTypeError),
        ([1, 10**30], InputTypeError),
        (np.array([1, 2**63], dtype=np.uint64), InputOutOfBound),
        ([[1, 0]], InputShapeError),
        (1, InputShapeError),
        (np.zeros(101, dtype=int), HorizonExceeded),
    ],
    ids=repr,
)
def test_bad_extend_changes_nothing(xs, error):
    honest, tried = make(), make()
    for start in (0, 12):
        np.testing.assert_array_equal(honest.extend([1] * start), tried.extend([1] * start))
        with pytest.raises(error):
            tried.extend(xs)
        assert tried.t == honest.t
        assert tried.add(1) == honest.add(1)


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (1, InputShapeError, r"shape \(3,\), got \(\)"),
        ([1, 0], InputShapeError, r"got \(2,\)"),
        ([[1, 0, 0]], InputShapeError, r"got \(1, 3\)"),
        ([1.0, 0.0, 0.0], InputTypeError, "float64"),
        ([math.nan, 0, 0], InputTypeError, "float64"),
        ([1, 1, 0], InputOutOfBound, "ℓ2 norm of a step's input must be from 0 to 1, got 1.41"),
        ([0, 0, -2], InputOutOfBound, "got 2.0"),
        ([2**62, 2**62, 0], InputOutOfBound, "ℓ2 norm"),
        ([2**62] * 3, InputOutOfBound, "ℓ2 norm"),
        ([-(2**63), 0, 0], InputOutOfBound, "ℓ2 norm"),
    ],
)
def test_bad_histograms_change_nothing(x, error, message):
    honest, tried = make(shape=(3,)), make(shape=(3,))
    np.testing.assert_array_equal(honest.add([0, 1, 0]), tried.add([0, 1, 0]))
    with pytest.raises(error, match=message):
        tried.add(x)
    with pytest.raises(error):
        tried.extend([x])
    assert tried.t == 1
    np.testing.assert_array_equal(honest.add([0, 0, -1]), tried.add([0, 0, -1]))


def test_pure_histograms_are_bounded_in_l1():
    counter = make(shape=(3,), budget=BUDGETS["pure"], per_person=3)
    counter.add([1, -1, 1])
    with pytest.raises(InputOutOfBound, match=r"ℓ1 norm of a step's input must be from 0 to 3, got 4\.0"):
        counter.add([2, -1, 1])
    with pytest.raises(InputOutOfBound, match="ℓ1 norm"):
        counter.add([2**62, 2**62, 2**62])


def test_replaced_events_are_counts():
    number, histogram = make(neighbours="replace"), make(neighbours="replace", shape=(2,))
    number.add(1)
    with pytest.raises(InputOutOfBound, match="from 0 to 1, got -1"):
        number.add(-1)
    with pytest.raises(InputOutOfBound, match="from 0 to 1, got -1"):
        number.extend([0, -1])
    with pytest.raises(InputOutOfBound, match="every entry of a step's input must be from 0 to 1, got -1"):
        histogram.add([0, -1])


def test_the_first_call_anybody_makes():
    """A day's visits: one person adds 1, and the day is as large as it is."""
    assert isinstance(dp.Counter(365, BUDGETS["zcdp"]).add(132), int)
    assert isinstance(dp.Counter(None, BUDGETS["zcdp"]).add(2**32), int)
    assert dp.Counter(24, BUDGETS["zcdp"], shape=(2,)).add([10**6, 10**15]).shape == (2,)


@pytest.mark.parametrize("horizon", [1, 365, 2**40, None])
def test_steps_without_a_limit_of_their_own_fit_into_64_bits(horizon):
    counter = dp.Counter(horizon, dp.zcdp(0.5))
    least, most = counter.settings.input_range
    assert least == -most
    assert counter.settings.last * most < 2**63
    with pytest.raises(InputOutOfBound):
        counter.add(most + 1)
    counter.extend([most, least, most] if horizon != 1 else [most])


def test_a_step_may_add_up_many_people():
    counter = make(per_step=1000, budget=dp.zcdp(0.5))
    assert counter.settings.scale == make().settings.scale
    counter.add(1000)
    with pytest.raises(InputOutOfBound, match="from -1000 to 1000, got 1001"):
        counter.add(1001)
    with pytest.raises(InvalidArgument, match="per_step must be at least per_person=5"):
        make(per_person=5, per_step=4)


def test_past_the_horizon_nothing_changes():
    counter = make(10)
    last = counter.extend([1] * 10)[-1]
    for attempt in (
        lambda: counter.add(1),
        lambda: counter.add(0),
        lambda: counter.extend([0]),
        lambda: counter.extend([0] * 5),
    ):
        with pytest.raises(HorizonExceeded, match="is past the horizon"):
            attempt()
        assert (counter.t, counter.remaining) == (10, 0)
        assert sum(counter.estimate()[2:]) == 2 * last


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"mechanism": BufferedToeplitz(100), "budget": dp.pure_dp(1.0)}, NoiseLawError, "needs laplace noise"),
        ({"mechanism": Binary(100, noise="laplace")}, NoiseLawError, "needs gaussian noise"),
        ({"mechanism": SmoothBinary(99)}, MechanismTooShort, "built for 99 steps, but horizon=100 was asked for"),
        ({"mechanism": SmoothBinary(99), "horizon": None}, MechanismTooShort, "no last step"),
        ({"mechanism": "SmoothBinary"}, InvalidArgument, "mechanism must be 'auto' or a mechanism"),
        ({"mechanism": SmoothBinary}, InvalidArgument, "mechanism must be 'auto' or a mechanism"),
        ({"mechanism": ["auto"]}, InvalidArgument, "mechanism must be 'auto' or a mechanism"),
        (
            {"horizon": 2**40, "per_person": 2**24, "mechanism": "auto"},
            SumsTooLarge,
            "1099511627776 steps of up to 16777216 each",
        ),
        ({"horizon": 1, "per_person": 2**63, "mechanism": "auto"}, SumsTooLarge, "may pass 9223372036854775807"),
        ({"budget": 0.5}, InvalidArgument, "budget must be a budget"),
        ({"per_person": 0}, InvalidArgument, "per_person must be a whole number of at least 1"),
        ({"per_person": 1.5}, InvalidArgument, "per_person must be a whole number"),
        ({"per_person": math.nan}, InvalidArgument, "per_person must be a whole number"),
        ({"horizon": 0}, InvalidArgument, "horizon must be a whole number of at least 1"),
        ({"horizon": 10.5}, InvalidArgument, "horizon must be a whole number"),
        ({"shape": (0,)}, InvalidArgument, "shape must be"),
        ({"neighbours": "both"}, InvalidArgument, "neighbours must be 'add-remove', 'replace' or 'replace-anywhere'"),
        ({"participation": 3}, InvalidArgument, "participation must be a Participation"),
        ({"name": 7}, InvalidArgument, "name must be text"),
        ({"key": bytes(31)}, KeyLengthError, "key must be 32 bytes"),
    ],
    ids=str,
)
def test_bad_settings(settings, error, message):
    given_settings = {"horizon": 100, "budget": dp.zcdp(0.5), "mechanism": Binary(100)} | settings
    if settings.get("budget") == dp.pure_dp(1.0) and "mechanism" not in settings:
        del given_settings["mechanism"]
    with pytest.raises(error, match=message) as caught:
        dp.Counter(**given_settings)
    assert isinstance(caught.value, DpstreamError)


def test_the_largest_sums_fit():
    """At the edge of what is allowed, int64 arithmetic is still exact."""
    largest = (2**63 - 10**8) // 4
    counter = dp.Counter(4, SILENT, per_person=largest, mechanism=Binary(4), key=fixed_key("edge"))
    noise = dp.Counter(4, SILENT, per_person=largest, mechanism=Binary(4), key=fixed_key("edge")).extend([0] * 4)
    released = counter.extend(np.full(4, largest))
    assert [int(a) - int(b) for a, b in zip(released, noise, strict=True)] == [largest * t for t in (1, 2, 3, 4)]


# -- processes and interruptions --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (2,)])
def test_a_forked_child_is_refused(shape):
    counter = make(shape=shape)
    x = np.array([0, 1]) if shape else 1
    counter.add(x)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - runs in the child, which reports through the pipe
        told = []
        for attempt in (lambda: counter.add(x), lambda: counter.extend([x])):
            try:
                attempt()
                told.append("went through")
            except ForkedStream:
                told.append("refused")
        own = counter.fresh()
        own.add(x)
        told.append(str(own.t))
        os.write(write, "|".join(told).encode())
        os._exit(0)
    os.waitpid(child, 0)
    told = os.read(read, 1000).decode()
    os.close(read)
    os.close(write)
    assert told == "refused|refused|1"
    counter.add(x)
    assert counter.t == 2


@pytest.mark.parametrize("shape", [(), (3,), (70,)])
def test_an_interrupt_in_the_noise_changes_nothing(shape, monkeypatch):
    x = np.eye(1, math.prod(shape), dtype=int).reshape(shape) if shape else 1
    whole = make(60, shape=shape).extend([x] * 60)
    counter = make(60, shape=shape)
    np.testing.assert_array_equal(counter.extend([x] * 7), whole[:7])
    honest = counter._stream.block

    def interrupted(n):
        honest(n)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(counter._stream), "block", lambda self, n: interrupted(n))
        for attempt in (
            lambda: counter.extend([x] * 30),
            lambda: [counter.add(x) for _ in range(30)] if not shape else counter.extend([x]),
        ):
            with pytest.raises(KeyboardInterrupt):
                attempt()
    t = counter.t
    assert t >= 7
    np.testing.assert_array_equal(counter.extend([x] * (60 - t)), whole[t:])


def test_the_interval_survives_an_interrupt(monkeypatch):
    counter, honest = make(shape=(70,)), make(shape=(70,))
    x = np.eye(1, 70, dtype=int)[0]
    expected = honest.add(x)
    counter.add(x)
    with monkeypatch.context() as patch:
        patch.setattr(type(counter._stream), "step", lambda self, out: out.fill(7) or [][0])
        with pytest.raises(IndexError):
            counter.add(x)
    assert counter.t == 1
    np.testing.assert_array_equal(sum(counter.estimate()[2:]), 2 * expected)
    np.testing.assert_array_equal(counter.add(x), honest.add(x))


def test_memory_stays_small():
    counter = dp.Counter(10**9, dp.zcdp(0.5), mechanism=SmoothBinary(10**9), key=fixed_key("memory"))
    for _ in range(5000):
        counter.add(1)
    tracemalloc.start()
    for _ in range(5000):
        counter.add(1)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # 2,048 steps ahead as Python numbers, and 8 bytes for each release that is kept (at most 131,072 of them, see
    # test_windows.py: test_memory_is_bounded).
    assert held < 2048 * 48 + 2 * 8 * 10_000


def test_many_counters_are_small():
    make()
    tracemalloc.start()
    counters = [make(name=str(i)) for i in range(200)]
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held / len(counters) < 6_000
