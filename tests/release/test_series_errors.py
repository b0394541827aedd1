"""Error bars of a series of streams: they hold what they promise, and not much more."""

import numpy as np
import pytest

import dpstream as dp
from dpstream.errors import InvalidArgument
from dpstream.release.change_errors import change_errors
from dpstream.release.error_bars import release_stddev
from dpstream.release.series_errors import SeriesErrors

M = dp.mechanisms


def gaussian(horizon, rho, kind=M.SmoothBinary):
    return dp.Counter(horizon, dp.zcdp(rho), mechanism=kind(horizon)).settings


def laplace(horizon, epsilon):
    return dp.Counter(horizon, dp.pure_dp(epsilon), mechanism=M.Binary(horizon, noise="laplace")).settings


def whole_law(noise, reach=4000):
    """The chances of -reach … reach for the whole number nearest to a noise, from its tails."""
    beyond = noise.beyond(np.arange(reach + 1) + 0.5)
    upper = -np.diff(beyond) / 2  # 1 … reach
    return np.concatenate([upper[::-1], [1 - beyond[0]], upper])


def chance_within(laws, h):
    """The chance that a sum of independent whole numbers is at most h away from 0; sharp, by convolution."""
    total = laws[0]
    for law in laws[1:]:
        total = np.convolve(total, law)
    middle = len(total) // 2
    return total[middle - h : middle + h + 1].sum()


SERIES = [
    pytest.param([gaussian(30, 0.01), gaussian(50, 0.02)], id="gaussian"),
    pytest.param(
        [gaussian(30, 0.5), gaussian(50, 5.0), gaussian(9, 0.3, M.BalancedToeplitz)], id="three, little noise"
    ),
    pytest.param([gaussian(30, 20.0), gaussian(50, 20.0)], id="rounded away"),
    pytest.param([laplace(30, 0.3), laplace(50, 0.5)], id="laplace"),
    pytest.param([laplace(30, 0.3), gaussian(50, 0.01)], id="both laws"),
]


@pytest.mark.parametrize("settings", SERIES)
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_totals_are_covered(settings, confidence):
    """The coverage follows from convolutions of the exact laws; no sampling is involved."""
    steps = [30, 17, 0][: len(settings)]
    series = SeriesErrors(tuple(settings), tuple(steps))
    start = sum(steps[:-1])
    one_law = len({one.budget.noise for one in settings}) == 1
    for t in (1, 2, 5, 9):
        stddev, off = series([start + t], [0], confidence)
        laws = [whole_law(one.noise_at(n)) for one, n in zip(settings, [*steps[:-1], t], strict=True)]
        assert chance_within(laws, int(off[0])) >= confidence - 1e-9
        if one_law and off[0] >= len(settings):
            assert chance_within(laws, int(off[0]) - len(settings)) < confidence  # not much too wide
        whole = [release_stddev(one, n) for one, n in zip(settings, [*steps[:-1], t], strict=True)]
        assert stddev[0] == pytest.approx(np.sqrt(np.square(whole).sum()))


@pytest.mark.parametrize("rho", [0.3, 1.0, 3.0])
def test_roundings_add_up(rho):
    """With little noise each rounding counts: at every confidence there is."""
    settings = (gaussian(30, rho),) * 3
    laws = [whole_law(settings[0].noise_at(30), 60)] * 2 + [whole_law(settings[0].noise_at(1), 60)]
    series = SeriesErrors(settings, (30, 30, 0))
    for confidence in np.linspace(0.01, 0.999, 150):
        assert chance_within(laws, int(series([61], [0], float(confidence))[1][0])) >= confidence - 1e-9


@pytest.mark.parametrize("settings", SERIES)
def test_changes_over_an_end(settings):
    """What reaches back into the first stream: its change and the later totals, taken together."""
    steps = [30, 17, 0][: len(settings)]
    series = SeriesErrors(tuple(settings), tuple(steps))
    t = sum(steps[:-1]) + 4
    for since in (1, 25, 29):
        stddev, off = series([t], [since], 0.95)
        parts = [change_errors(settings[0], [30], [since])[0][0]]
        parts += [release_stddev(one, n) for one, n in zip(settings[1:], [*steps[1:-1], 4], strict=True)]
        assert stddev[0] == pytest.approx(np.sqrt(np.square(parts).sum()))
        # The difference is rounded at both ends: a bound on the sum of the real noises, and a half for each release.
        laws = [settings[0].change_between(30, since).difference]
        laws += [one.noise_at(n) for one, n in zip(settings[1:], [*steps[1:-1], 4], strict=True)]
        room = (len(laws) + 1) // 2
        if off[0] >= room:
            assert chance_within([whole_law(law) for law in laws], int(off[0])) >= 0.95 - 1e-9


def test_inside_one_stream_nothing_changes():
    first, second = gaussian(30, 0.01), gaussian(50, 0.02)
    series = SeriesErrors((first, second), (30, 0))
    for settings, start in ((first, 0), (second, 30)):
        t, since = np.arange(1, 21), np.maximum(np.arange(1, 21) - 7, 0)
        expected = change_errors(settings, t, since)
        inside = since > 0 if start else np.ones(20, dtype=bool)
        found = series(t + start, since + start)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one[inside], other[inside])
    # A window that begins exactly where the second stream does has none of the first one's noise.
    np.testing.assert_array_equal(series([37], [30])[1], change_errors(second, [7], [0])[1])


def test_streams_without_steps_add_nothing():
    first, second = gaussian(30, 0.01), gaussian(50, 0.02)
    with_it = SeriesErrors((first, first, second), (30, 0, 0))
    without = SeriesErrors((first, second), (30, 0))
    t, since = np.arange(25, 45), np.maximum(np.arange(25, 45) - 12, 0)
    for one, other in zip(with_it(t, since), without(t, since), strict=True):
        np.testing.assert_array_equal(one, other)
    assert SeriesErrors((first, second), (0, 0))([5], [0])[1] == change_errors(second, [5], [0])[1]


def test_bad_input():
    with pytest.raises(InvalidArgument):
        SeriesErrors((), ())
    with pytest.raises(InvalidArgument):
        SeriesErrors((gaussian(30, 0.01),), (1, 2))
    with pytest.raises(InvalidArgument, match="an earlier release"):
        SeriesErrors((gaussian(30, 0.01),), (10,))([5], [5])
