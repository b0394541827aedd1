"""Sums of the last w steps, and changes since a release, have the error that is promised.

Each false-alarm rate is at most 1e-6, and each comparison is seen to fail with an error that is wrong. Keys are fixed:
what passes keeps passing.
"""

import itertools
import math
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import dpstream as dp
from dpstream.errors import HorizonExceeded, InvalidArgument, NoReleaseYet, ReleaseNotKept
from dpstream.release.change_law import (
    GaussianChange,
    LaplaceChange,
    _beyond,
    change_between,
    change_half_width,
    change_variance,
)
from dpstream.release.error_bars import change_error, rounded_stddev
from dpstream.release.past_releases import KEPT_NUMBERS, PastArrays, PastNumbers
from dpstream.testing import fixed_key
from tests.mechanism_subjects import BOUNDED, ENDLESS, FROM_NUMBERS
from tests.release.test_statistics import variance_rejects

SUBJECTS = BOUNDED | ENDLESS | FROM_NUMBERS
T = 13
#: (t, since): a day, a week, from the beginning of the stream, over a power of two.
PAIRS = ((13, 12), (13, 6), (12, 1), (9, 5))
STREAMS = 10**6 if os.environ.get("DPSTREAM_HEAVY") else 2 * 10**4
CONFIDENCE = 0.9
#: Of one comparison: four pairs a mechanism, two comparisons each, some 45 mechanisms: below 1e-6 for all of them.
ALARM = 2e-9


def tail_rejects(inside: int, chance: float) -> bool:
    return stats.binomtest(inside, STREAMS, chance).pvalue < ALARM


@pytest.mark.parametrize("name", SUBJECTS)
def test_variance_and_coverage(name):
    """Each coordinate of a wide counter is a stream of its own; all of them count something."""
    mechanism = SUBJECTS[name](T)
    budget = dp.pure_dp(0.2) if mechanism.noise == "laplace" else dp.zcdp(0.001)
    counter = dp.Counter(T, budget, mechanism=mechanism, shape=STREAMS, key=fixed_key("windows"))
    x = np.arange(T)[:, None] + np.arange(STREAMS) % 5
    errors = counter.extend(x) - x.cumsum(axis=0)
    for t, since in PAIRS:
        off = errors[t - 1] - errors[since - 1]
        stddev, h = change_error(counter.settings, t, since, CONFIDENCE)
        assert not variance_rejects(off, stddev**2)
        assert variance_rejects(off, (0.9 * stddev) ** 2), "an error 10 % too small is noticed"
        by_hand = 2 * counter.stddev(t) ** 2
        assert variance_rejects(off, by_hand) or abs(by_hand / stddev**2 - 1) < 0.15
        # Noise is wide here, so that the bound is the chance itself.
        chance = 1 - _beyond(counter.settings.change_between(t, since), h)
        assert chance >= CONFIDENCE
        assert not tail_rejects(int((np.abs(off) <= h).sum()), chance)
        assert tail_rejects(int((np.abs(off) <= round(0.9 * h)).sum()), chance)


def test_by_hand_is_wrong_by_up_to_two():
    """365 days, day 200 of the mechanism that is best for totals: √2 standard deviations of the total are no day's."""
    counter = dp.Counter(365, dp.zcdp(0.5), mechanism=dp.mechanisms.BalancedToeplitz(365))
    true, _ = change_error(counter.settings, 200, 199, 0.95)
    assert math.sqrt(2) * counter.stddev(200) / true > 1.9


@pytest.mark.parametrize("name", SUBJECTS)
def test_norms_and_weights_are_those_of_the_matrix(name):
    """‖L_t - L_s‖² against the dense rows, all pairs; and draws with their weights in both, up to order."""
    mechanism = SUBJECTS[name](T)
    L, _ = mechanism.factors(T)
    for s, t in itertools.combinations(range(1, T + 1), 2):
        difference = L[t - 1] - L[s - 1]
        assert mechanism.squared_window_norm(t, s) == pytest.approx(difference @ difference, rel=1e-9)
        rows = L[[t - 1, s - 1]].T
        expected = sorted(map(tuple, np.round(rows[(rows != 0).any(axis=1)], 9).tolist()))
        assert sorted(map(tuple, np.round(mechanism.window_weights(t, s), 9).tolist())) == expected


# -- little noise: the roundings matter -------------------------------------------------------------------------------


def law_by_cells(noise: GaussianChange, reach: int = 14) -> np.ndarray:
    """P(round(G_t) - round(G_s) = k) for k = -reach..reach: cells of G_s in fine slices, cells of G_t given them."""
    t, s, w = noise.later_variance, noise.earlier_variance, noise.difference_variance
    shared = (t + s - w) / 2
    given_s = math.sqrt(t - shared**2 / s)
    chances = np.zeros(2 * reach + 1)
    edges = np.linspace(-0.5, 0.5, 401)
    middles, k = (edges[1:] + edges[:-1]) / 2, np.arange(-reach, reach + 1)
    for cell in range(-math.ceil(8 * math.sqrt(s)) - 1, math.ceil(8 * math.sqrt(s)) + 2):
        weight = np.diff(stats.norm.cdf((cell + edges) / math.sqrt(s)))
        mean = shared / s * (cell + middles)
        lower = stats.norm.cdf((cell + k[:, None] - 0.5 - mean) / given_s)
        upper = stats.norm.cdf((cell + k[:, None] + 0.5 - mean) / given_s)
        chances += (upper - lower) @ weight
    return chances


NARROW = [
    GaussianChange(*variances)
    for variances in ((0.01, 0.01, 0.012), (0.2, 0.1, 0.15), (1.0, 0.7, 0.3), (1.5, 1.5, 2.9), (3.0, 3.0, 0.5))
]


@pytest.mark.parametrize("noise", NARROW, ids=repr)
def test_narrow_gaussian_noise(noise):
    chances = law_by_cells(noise)
    k = np.arange(-14, 15)
    assert change_variance(noise) == pytest.approx(float((k**2 * chances).sum()), rel=1e-4, abs=1e-7)
    for confidence in (0.5, 0.9, 0.95, 0.999):
        h = change_half_width(noise, confidence)
        assert chances[np.abs(k) <= h].sum() >= confidence - 1e-6
        # Never wider by more than one than the narrowest that would do.
        assert h <= 1 or chances[np.abs(k) <= h - 2].sum() < confidence
    for h in range(4):
        assert _beyond(noise, h) >= chances[np.abs(k) > h].sum() - 1e-6


@pytest.mark.parametrize("epsilon", [2.0, 8.0])
def test_narrow_laplace_noise(epsilon):
    """20,000 streams of little noise: the variance that is stated, and no interval that covers less than it says.

    Three pairs, four comparisons each, two budgets: the alarms together are below 1e-6.
    """
    mechanism = dp.mechanisms.SmoothBinary(T, noise="laplace")
    counter = dp.Counter(T, dp.pure_dp(epsilon), mechanism=mechanism, shape=STREAMS, key=fixed_key("narrow"))
    errors = counter.extend(np.zeros((T, STREAMS), dtype=np.int64))
    for t, since in PAIRS[:3]:
        off = errors[t - 1] - errors[since - 1]
        stddev, _ = change_error(counter.settings, t, since, CONFIDENCE)
        assert not variance_rejects(off, stddev**2)
        assert variance_rejects(off, 0.8 * stddev**2)
        for confidence in (0.5, 0.9, 0.99):
            _, h = change_error(counter.settings, t, since, confidence)
            inside = int((np.abs(off) <= h).sum())
            assert stats.binomtest(inside, STREAMS, confidence, alternative="less").pvalue > ALARM
            assert h == 0 or np.mean(np.abs(off) <= h - 2) < confidence


def test_one_rounding_too_few_would_be_noticed():
    """The half width of a single rounded noise of the same variance covers too little at some confidence."""
    noise = GaussianChange(9.0, 9.0, 0.25)
    chances, k = law_by_cells(noise), np.arange(-14, 15)
    from dpstream.release.error_bars import half_width

    covered = [
        (confidence, chances[np.abs(k) <= half_width(noise.difference, confidence)].sum())
        for confidence in np.linspace(0.5, 0.99, 50)
    ]
    assert any(chance < confidence - 0.05 for confidence, chance in covered)


@settings(max_examples=200, deadline=None)
@given(st.floats(0.01, 1e6), st.floats(0.01, 1e6), st.floats(-0.999, 0.999), st.floats(0.01, 0.9999))
def test_half_widths_are_consistent(t, s, correlation, confidence):
    """Between the narrowest of the ideal difference and one more; never less than its bound asks for."""
    noise = GaussianChange(t, s, t + s - 2 * correlation * math.sqrt(t * s))
    h = change_half_width(noise, confidence)
    assert _beyond(noise, h) <= 1 - confidence
    assert h == 0 or _beyond(noise, h - 1) > 1 - confidence
    assert h <= math.ceil(stats.norm.isf((1 - confidence) / 2) * math.sqrt(noise.difference_variance) + 1e-9)


def test_what_shares_nothing_is_treated_with_care():
    """No common draw: nothing is known of the fractional part, and the safe bound is taken."""
    noise = LaplaceChange(((0.0, 3.0), (3.0, 0.0)), (1, 1))
    assert noise.unevenness == math.inf
    assert _beyond(noise, 5) == pytest.approx(float(noise.difference.beyond(5.0)))
    same = GaussianChange(4e12, 1e12, 1e12)  # G_t = 2 G_s: the difference says all of G_s
    assert same.unevenness == math.inf


# -- counters ---------------------------------------------------------------------------------------------------------


def history(counter, xs, cuts):
    """Releases, some by add and some by extend."""
    made, at, sizes = [], 0, itertools.cycle(cuts)
    while at < len(xs):
        size = next(sizes)
        if size == 1:
            made.append(counter.add(xs[at]))
        else:
            made.extend(counter.extend(xs[at : at + size]))
        at += size
    return np.array(made)


@pytest.mark.parametrize("cuts", [(1,), (3000,), (1, 1, 5, 30), (40, 1), (7,), (1, 2000)])
def test_values_are_differences_of_releases(cuts):
    counter = dp.Counter(3000, dp.zcdp(0.5), mechanism=dp.mechanisms.SmoothBinary(3000), key=fixed_key("history"))
    xs = (np.arange(3000) % 11).tolist()
    made = history(counter, xs, cuts)
    for since in (1, 2, 8, 9, 1000, 1024, 1500, 2900, 2998, 2999):
        change = counter.estimate(since=since)
        assert change.value == made[-1] - made[since - 1]
        _, h = change_error(counter.settings, 3000, since, 0.95)
        assert (change.value - change.low, change.high - change.value) == (h, h)
        assert counter.window(3000 - since) == change
    assert counter.window(3000) == counter.window(10**9) == counter.estimate() == counter.estimate(since=0)
    assert counter.estimate().value == made[-1]


def test_the_same_releases_as_before_whatever_is_asked():
    asked, other = (
        dp.Counter(100, dp.zcdp(0.5), mechanism=dp.mechanisms.Binary(100), key=fixed_key("a")) for _ in range(2)
    )
    for _ in range(40):
        assert asked.add(3) == other.add(3)
        asked.window(3), asked.estimate(since=asked.t // 2)


def test_histograms_keep_what_windows_need():
    counter = dp.Counter(50, dp.zcdp(0.5), shape=3, windows=(1, 4), mechanism=dp.mechanisms.Binary(50))
    made = [counter.add([1, 2, 3]) for _ in range(6)]
    made += list(counter.extend([[1, 0, 2]] * 9))
    made[-5][:] = 99  # what is returned is the caller's own
    change = counter.window(4)
    np.testing.assert_array_equal(change.low + change_error(counter.settings, 15, 11, 0.95)[1], change.value)
    np.testing.assert_array_equal(counter.window(2).value, made[-1] - made[-3])
    with pytest.raises(ReleaseNotKept, match=r"release 10 is not kept .* windows=\(1, 4, 5\)"):
        counter.window(5)
    plain = dp.Counter(50, dp.zcdp(0.5), shape=3)
    plain.extend([[1, 2, 3]] * 5)
    with pytest.raises(ReleaseNotKept, match=r"windows=\(2,\)"):
        plain.window(2)
    assert plain.window(5).value.shape == (3,)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_running_sums(dtype):
    """Variance and coverage of windows of vectors; three windows, two comparisons each: alarms below 1e-6."""
    total = dp.RunningSum(
        T, dp.zcdp(0.05), shape=STREAMS, dtype=dtype, windows=(1, 4), mechanism=dp.mechanisms.BalancedToeplitz(T)
    )
    x = np.zeros(STREAMS, dtype=dtype)
    x[5] = 1
    made = [total.add(x) for _ in range(T)]
    for window in (1, 2, 4):
        value, stddev, low, high = total.window(window, CONFIDENCE)
        np.testing.assert_array_equal(value, made[-1] - made[-1 - window])
        assert not variance_rejects(value - window * x, stddev**2)
        assert variance_rejects(value - window * x, 0.8 * stddev**2)
        inside = int(((low <= window * x) & (window * x <= high)).sum())
        assert not tail_rejects(inside, CONFIDENCE)
    with pytest.raises(ReleaseNotKept, match=r"windows=\(1, 4, 6\)"):
        total.window(6)
    with pytest.raises(ReleaseNotKept):
        total.estimate(since=2)


def test_after_a_resume_nothing_is_invented():
    """What was released before is not known to the new object; the last release is, also if it was not handed over."""
    counter = dp.Counter(50, dp.zcdp(0.5), key=fixed_key("r"))
    settings = counter.settings
    made = counter.extend([5] * 10)
    state = counter.reveal_secret_state()
    for last in (state.last, None):
        again = dp.Counter.resume(settings, settings.noise_stream(fixed_key("r")), type(state)(10, state.sums, last))
        assert again.estimate().value == made[-1]
        assert again.add(7) == counter.fresh(fixed_key("r")).extend([5] * 10 + [7])[-1]
        assert again.window(1).value == again.estimate().value - made[-1]
        with pytest.raises(ReleaseNotKept):
            again.window(2)


def test_refusals():
    counter = dp.Counter(50, dp.zcdp(0.5))
    with pytest.raises(NoReleaseYet):
        counter.window(7)
    counter.extend([1] * 9)
    for bad in (0, -1, 1.5, "7", True, None):
        with pytest.raises(InvalidArgument, match="steps must be a whole number of at least 1"):
            counter.window(bad)
    for bad in (-1, 1.5, "7", True):
        with pytest.raises(InvalidArgument, match="since must be a whole number"):
            counter.estimate(since=bad)
    for late in (9, 10):
        with pytest.raises(InvalidArgument, match="since must be an earlier release than 9"):
            counter.estimate(since=late)
    with pytest.raises(InvalidArgument, match="confidence"):
        counter.window(3, 1.0)
    with pytest.raises(HorizonExceeded):
        counter.settings.change_between(51, 3)


@pytest.mark.parametrize(
    ("windows", "problem"),
    [
        (7, "whole numbers of steps in rising order"),
        ("1,7", "whole numbers of steps"),
        ((1, 7.0), "whole numbers of steps"),
        ((0, 7), "whole numbers of steps"),
        ((True, 7), "whole numbers of steps"),
        ((7, 1), r"give windows=\(1, 7\)"),
        ((1, 7, 7), r"give windows=\(1, 7\)"),
        ((1, 51), "no longer than the horizon, 50 steps"),
    ],
)
def test_bad_windows(windows, problem):
    with pytest.raises(InvalidArgument, match=f"windows must be .*{problem}"):
        dp.Counter(50, dp.zcdp(0.5), windows=windows)
    with pytest.raises(InvalidArgument, match="windows must be"):
        dp.RunningSum(50, dp.zcdp(0.5), windows=windows)


def test_windows_are_settings():
    binary = dp.mechanisms.Binary(50)
    one = dp.Counter(50, dp.zcdp(0.5), mechanism=binary, windows=[1, 7], key=fixed_key("s"))
    other = dp.Counter(50, dp.zcdp(0.5), mechanism=binary, key=fixed_key("s"))
    assert one.settings.windows == (1, 7)
    assert one.settings.as_json()["windows"] == [1, 7]
    assert type(one.settings).from_json(one.settings.as_json()) == one.settings
    assert one.extend([0] * 20).tolist() != other.extend([0] * 20).tolist(), "other settings, other noise"


def test_auto_is_fitted_to_the_windows():
    counter = dp.Counter(100, dp.zcdp(0.5), windows=(1, 7))
    ranked = dp.plan(100, dp.zcdp(0.5), windows=(1, 7))
    assert counter.mechanism == ranked.mechanism
    assert isinstance(counter.mechanism, dp.mechanisms.FittedToeplitz)
    totals = dp.Counter(100, dp.zcdp(0.5)).mechanism
    assert counter.mechanism.max_variance(window=1) < 0.4 * totals.max_variance(window=1)
    # The total is a figure, too: nothing is gained at its expense.
    assert counter.mechanism.max_variance() < 2 * totals.max_variance()
    pure = dp.Counter(100, dp.pure_dp(1.0), windows=(1, 7))
    assert pure.mechanism == dp.plan(100, dp.pure_dp(1.0), windows=(1, 7)).mechanism
    assert dp.Counter(None, dp.zcdp(0.5), windows=(1, 7)).mechanism == dp.Counter(None, dp.zcdp(0.5)).mechanism
    long = dp.Counter(10**5, dp.pure_dp(1.0), windows=(1, 7))
    assert long.mechanism == dp.Counter(10**5, dp.pure_dp(1.0)).mechanism


def test_the_plan_says_within_what():
    ranked = dp.plan(60, dp.zcdp(0.05), windows=(1, 7))
    counter = dp.Counter(60, dp.zcdp(0.05), mechanism=ranked.mechanism)
    for window, off in ranked.within().items():
        widest = max(change_error(counter.settings, t, t - window, 0.95)[1] for t in range(window + 1, 61))
        first = max(math.ceil(1.96 * rounded_stddev(counter.settings.noise_at(t))) for t in range(1, window + 1))
        assert widest <= off <= max(widest, first)
        assert f"±{off:,.4g} of the sum without noise" in str(ranked)
    assert set(ranked.within()) == {1, 7}
    real = dp.plan(60, dp.zcdp(0.05), windows=(1, 7), lane="float")
    assert real.within()[7] == pytest.approx(stats.norm.isf(0.025) * real.rows[0].window_stddev[1])


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_far_steps_are_fast(noise):
    mechanism = dp.mechanisms.SmoothBinary(10**9, noise=noise)
    law = change_between(mechanism, 3.0, 10**9 - 7, 10**9 - 37)
    assert law.difference.variance == pytest.approx(
        (9 if noise == "gaussian" else 18) * mechanism.squared_window_norm(10**9 - 7, 10**9 - 37)
    )
    assert change_half_width(law, 0.99) > change_half_width(law, 0.5) > 0


# -- what is kept -----------------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 9), st.lists(st.tuples(st.integers(0, 25), st.booleans()), max_size=12))
def test_past_numbers(room, puts):
    past, end = PastNumbers(room), 0
    for count, as_array in puts:
        values = [1000 + t for t in range(end + 1, end + count + 1)]
        past.put(end + 1, np.array(values, dtype=np.int64) if as_array else values)
        end += count
        past.put(max(end - 1, 1), [1000 + t for t in range(max(end - 1, 1), end + 1)])  # once more changes nothing
    for t in range(1, end + 3):
        if max(end - room, 0) < t <= end:
            assert past.get(t) == 1000 + t
        else:
            assert past.get(t) in (None, 1000 + t)
            assert t <= end or past.get(t) is None
    assert len(past._values) <= 2 * room
    past.put(end + 5, [7])
    assert (past.get(end + 5), past.get(end)) == (7, None)


def test_past_arrays():
    past = PastArrays(3)
    past.put(1, np.arange(10).reshape(5, 2))
    assert past.get(2) is None
    assert [past.get(t).tolist() for t in (3, 4, 5)] == [[4, 5], [6, 7], [8, 9]]


def test_memory_is_bounded():
    counter = dp.Counter(10**6, dp.zcdp(0.5), mechanism=dp.mechanisms.Binary(10**6))
    counter.extend([1] * (3 * KEPT_NUMBERS))
    assert len(counter._past._values) <= 2 * KEPT_NUMBERS
    assert counter.window(KEPT_NUMBERS - 1).value > 0
    with pytest.raises(ReleaseNotKept):
        counter.estimate(since=1)
    declared = dp.Counter(10**6, dp.zcdp(0.5), mechanism=dp.mechanisms.Binary(10**6), windows=(150_000,))
    declared.extend([1] * 200_000)
    assert declared.window(150_000).value > 0
