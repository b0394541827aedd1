"""Splines of fixed operations against SciPy's."""

import numpy as np
import pytest
import scipy.interpolate

from dpstream.mechanisms.splines import clamped_spline, interpolated


def test_clamped_splines():
    rng = np.random.default_rng(1)
    knots, coefficients = np.arange(-5.0, 6.0) / 5.0, rng.normal(size=13)
    padded = np.concatenate((knots[[0, 0, 0]], knots, knots[[-1, -1, -1]]))
    x = np.append(rng.uniform(-1, 1, 200), knots)
    expected = scipy.interpolate.BSpline(padded, coefficients, 3)(x)
    np.testing.assert_allclose(clamped_spline(knots, coefficients, x), expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("count", [2, 3, 4, 5, 7])
def test_interpolation(count):
    rng = np.random.default_rng(count)
    x = np.cumsum(rng.uniform(0.5, 2, count)).tolist()
    y = rng.normal(size=(count, 2, 3))
    spline = scipy.interpolate.CubicSpline(x, y)
    for at in [*x, *rng.uniform(x[0], x[-1], 5).tolist()]:
        np.testing.assert_allclose(interpolated(x, y, at), spline(at), rtol=1e-12, atol=1e-12)
