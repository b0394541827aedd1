"""`change_errors` says for many windows at once what `change_error` says for one."""

import numpy as np
import pytest

import dpstream as dp
from dpstream.errors import HorizonExceeded, InvalidArgument
from dpstream.mechanisms.base import Mechanism
from dpstream.release.change_errors import change_errors
from dpstream.release.error_bars import change_error, error_bars
from tests.mechanism_subjects import BOUNDED, ENDLESS, FROM_NUMBERS

SUBJECTS = BOUNDED | ENDLESS | FROM_NUMBERS
T = 16


def one_by_one(settings, later, earlier, confidence):
    found = []
    for t, s in zip(later.tolist(), earlier.tolist(), strict=True):
        if s:
            found.append(change_error(settings, t, s, confidence))
        else:
            stddev, off = error_bars(settings, t, 1, confidence)
            found.append((stddev[0], off[0]))
    return np.array(found).T


def check(settings, later, earlier, confidence=0.95):
    stddev, off = change_errors(settings, later, earlier, confidence)
    expected = one_by_one(settings, later, earlier, confidence)
    np.testing.assert_allclose(stddev, expected[0], rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(off, expected[1])


@pytest.mark.parametrize(
    ("name", "amount"), [*((name, 0.05) for name in SUBJECTS), *((name, 8.0) for name in list(SUBJECTS)[::6])]
)
def test_as_one_by_one(name, amount):
    """All lengths of windows at random, and one length; wide noise and noise so narrow that the roundings matter."""
    mechanism = SUBJECTS[name](T)
    budget = dp.pure_dp(amount) if mechanism.noise == "laplace" else dp.zcdp(amount)
    settings = dp.Counter(T, budget, mechanism=mechanism).settings
    later = np.arange(1, T + 1)
    check(settings, later, np.random.default_rng(7).integers(0, later))
    check(settings, later, np.maximum(later - 7, 0), 0.8)
    check(settings, later[-3:], later[-3:] - 1)


@pytest.mark.parametrize("seed", range(3))
def test_any_three_variances(seed):
    """Made-up variances from 10^-4 to 10^8 and all correlations, against `change_law` itself."""
    from dpstream.release.change_errors import _half_widths, _variances
    from dpstream.release.change_law import GaussianChange, change_half_width, change_variance

    generator = np.random.default_rng(seed)
    later, earlier = 10 ** generator.uniform(-4, 8, (2, 150))
    near = generator.random(150) < 0.5
    earlier[near] = later[near] * generator.uniform(0.9, 1.1, near.sum())
    difference = later + earlier - 2 * generator.uniform(-0.999, 0.999, 150) * np.sqrt(later * earlier)
    laws = [GaussianChange(*each) for each in np.stack([later, earlier, difference], axis=1).tolist()]
    np.testing.assert_allclose(
        _variances(later, earlier, difference), list(map(change_variance, laws)), rtol=1e-7, atol=1e-9
    )
    for confidence in (0.5, 0.9, 0.95, 0.999):
        off = _half_widths(later, earlier, difference, confidence)
        assert off.tolist() == [change_half_width(law, confidence) for law in laws]


def test_long_streams_of_mechanisms_that_know_short_windows_only(monkeypatch):
    """Where all windows of a length at once are too many, they are looked at one by one."""
    settings = dp.Counter(T, dp.zcdp(0.5), mechanism=dp.mechanisms.SquareRoot(T)).settings
    later = np.arange(1, T + 1)
    expected = change_errors(settings, later, np.maximum(later - 5, 0))
    asked = []

    def refused(self, window, steps):
        asked.append(window)
        raise InvalidArgument("t", steps, "less")

    monkeypatch.setattr(type(settings.mechanism), "squared_window_norms", refused)
    found = change_errors(settings, later, np.maximum(later - 5, 0))
    assert asked == [5]
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-9)
    np.testing.assert_array_equal(found[1], expected[1])


def test_no_step_is_looked_at_alone(monkeypatch):
    """A piece is computed as arrays: no norm of a single pair is asked for."""
    monkeypatch.setattr(Mechanism, "squared_window_norm", lambda *_: pytest.fail("one by one"))
    for counter in (
        dp.Counter(60, dp.zcdp(0.05), windows=(1, 7, 30)),
        dp.Counter(None, dp.zcdp(0.05)),
        dp.Counter(60, dp.pure_dp(0.5), mechanism=dp.mechanisms.SmoothBinary(60, noise="laplace")),
        dp.Counter(None, dp.pure_dp(0.5)),
    ):
        kind = type(counter.mechanism)
        monkeypatch.setattr(kind, "squared_window_norm", lambda *_: pytest.fail("one by one"))
        later = np.arange(1, 61)
        for length in (1, 7, 30):
            stddev, off = change_errors(counter.settings, later, np.maximum(later - length, 0))
            assert (stddev > 0).all()
            assert (off > 0).all()


def test_refusals():
    settings = dp.Counter(10, dp.zcdp(0.5)).settings
    for later, earlier in (([3], [3]), ([3, 4], [0, -1]), ([5, 5], [4, 9])):
        with pytest.raises(InvalidArgument, match="since must be an earlier release"):
            change_errors(settings, later, earlier)
    with pytest.raises(HorizonExceeded):
        change_errors(settings, [10, 11], [1, 1])
    with pytest.raises(InvalidArgument, match="confidence"):
        change_errors(settings, [3], [1], 1.0)
    with pytest.raises(InvalidArgument, match="whole numbers"):
        change_errors(dp.RunningSum(10, dp.zcdp(0.5)).settings, [3], [1])
    assert change_errors(settings, [], [])[1].tolist() == []
