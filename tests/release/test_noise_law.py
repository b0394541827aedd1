"""The exact law of rounded noise, against integrals and convolutions that share none of its formulas."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from dpstream.arguments import check_probability
from dpstream.errors import InvalidArgument
from dpstream.mechanisms import GrowingSmooth, SignedDigits, SmoothBinary, Unbounded
from dpstream.release.error_bars import half_width
from dpstream.release.noise_law import GaussianNoise, LaplaceNoise, noise_at, rounded_variance
from tests.noise.catalogue import LAPLACE


def tail_by_inversion(noise: LaplaceNoise, x: float) -> float:
    """P(|noise| > x) by Gil-Pelaez: 1 - (2/π) ∫ sin(sx)/s · φ(s) ds."""

    def integrand(s: float) -> float:
        value = x if s == 0 else math.sin(s * x) / s
        return value * math.prod(
            (1 + (scale * s) ** 2) ** -count for scale, count in zip(noise.scales, noise.counts, strict=True)
        )

    # The characteristic function falls at least like (s·scale)^-2 for each draw.
    total = sum(integrate.quad(integrand, low, low + 1, limit=400)[0] for low in range(60))
    return 1 - 2 / math.pi * total


@pytest.mark.parametrize(
    ("scales", "counts"),
    [((1.0,), (3,)), ((2.0,), (7,)), ((3.0,), (17,)), ((1.0, 2.5), (4, 3)), ((1.5, 2.0, 4.0), (2, 5, 1))],
)
@pytest.mark.parametrize("x", [0.5, 3.5, 10.5, 25.5])
def test_tail_of_a_sum_of_laplace_draws(scales, counts, x):
    noise = LaplaceNoise(scales, counts)
    assert noise.beyond(x) == pytest.approx(tail_by_inversion(noise, x), abs=2e-6)


def test_one_laplace_draw():
    x = np.array([0.0, 0.5, 7.0, 100.0, 700.0])
    np.testing.assert_allclose(LaplaceNoise((2.0,), (1,)).beyond(x), np.exp(-x / 2), rtol=1e-12)


def test_a_sum_is_not_gaussian():
    """The normal approximation is too narrow in the tail: 0.2 % of two draws are beyond 3.7 deviations, not 0.02."""
    noise = LaplaceNoise((1.0,), (2,))
    assert noise.beyond(3.7 * math.sqrt(noise.variance)) > 5 * 2 * stats.norm.sf(3.7)


def by_cells(noise, size: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    """The integers and their chances, from differences of the tail."""
    k = np.arange(size)
    upper = noise.beyond(np.maximum(k - 0.5, 0.0)) / 2
    mass = upper - noise.beyond(k + 0.5) / 2
    mass[0] = 1 - noise.beyond(0.5)
    return k, mass


@pytest.mark.parametrize(
    "noise",
    [GaussianNoise(s) for s in (0.05, 0.3, 0.9, 1.99, 2.01, 5.0, 40.0)]
    + [LaplaceNoise((b,), (n,)) for b in (0.1, 0.7, 1.5, 6.0) for n in (1, 2, 9)]
    + [LaplaceNoise((0.5, 3.0), (2, 2))],
    ids=repr,
)
def test_variance_of_the_rounded_noise(noise):
    k, mass = by_cells(noise)
    assert rounded_variance(noise) == pytest.approx(2 * (k**2 * mass).sum(), rel=1e-9, abs=1e-15)


@settings(max_examples=200, deadline=None)
@given(
    st.one_of(
        st.floats(0.01, 1e6).map(GaussianNoise),
        st.tuples(st.floats(0.01, 1e4), st.integers(1, 60)).map(lambda a: LaplaceNoise((a[0],), (a[1],))),
    ),
    st.floats(1e-6, 1 - 1e-12),
)
def test_half_width_is_the_least_that_covers(noise, confidence):
    h = half_width(noise, confidence)
    assert isinstance(h, int)
    assert 1 - noise.beyond(h + 0.5) >= confidence - 1e-15
    assert h == 0 or noise.beyond(h - 0.5) > 1 - confidence


@pytest.mark.parametrize("name", LAPLACE)
def test_the_weights_are_those_of_the_row(name):
    mechanism = LAPLACE[name](40)
    L, _ = mechanism.factors(40)
    for t in range(1, 41):
        noise = noise_at(mechanism, 2.0, t)
        row = np.sort(np.abs(L[t - 1][L[t - 1] != 0])) * 2.0
        held = np.repeat(noise.scales, noise.counts)
        np.testing.assert_allclose(np.sort(held), row, rtol=1e-12)
        assert noise.variance == pytest.approx(2 * 4.0 * mechanism.squared_row_norm(t))


@pytest.mark.parametrize(
    "mechanism",
    [
        SmoothBinary(10**9, noise="laplace"),
        SignedDigits(10**9),
        GrowingSmooth(noise="laplace"),
        Unbounded(noise="laplace"),
    ],
    ids=repr,
)
def test_far_steps_are_fast(mechanism):
    noise = noise_at(mechanism, 3.0, 10**9 - 7)
    assert noise.variance == pytest.approx(18 * mechanism.squared_row_norm(10**9 - 7))
    assert half_width(noise, 0.999) > half_width(noise, 0.9) > 0


@pytest.mark.parametrize("confidence", [0, 1, -0.1, 1.1, math.nan, "0.9", None, True])
def test_bad_confidence(confidence):
    with pytest.raises(InvalidArgument, match="confidence must be a number strictly between 0 and 1"):
        check_probability("confidence", confidence)
