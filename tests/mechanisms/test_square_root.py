"""The square-root mechanism: coefficients, normalisation, sensitivity against inverted coefficients, refusals."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.fft

from dpstream.errors import InvalidArgument, NoiseLawError
from dpstream.mechanisms.square_root import SquareRoot


def inverse_in_long_double(coefficients: np.ndarray) -> np.ndarray:
    """The exact R = L⁻¹A of these doubles, to the precision of long double."""

    def product(a: np.ndarray, b: np.ndarray, count: int) -> np.ndarray:
        length = scipy.fft.next_fast_len(a.size + b.size - 1, real=True)
        return scipy.fft.irfft(scipy.fft.rfft(a, length) * scipy.fft.rfft(b, length), length)[:count]

    a = coefficients.astype(np.longdouble)
    b = np.array([1 / a[0]])
    while b.size < a.size:
        count = min(2 * b.size, a.size)
        correction = -product(a[:count], b, count)
        correction[0] += 2
        b = product(b, correction, count)
    return np.cumsum(b)


def test_the_coefficients_are_central_binomials() -> None:
    from math import comb

    assert SquareRoot(30).coefficients(30) == pytest.approx([comb(2 * k, k) / 4**k for k in range(30)], rel=1e-15)


def test_a_longer_run_starts_with_the_same_doubles() -> None:
    m = SquareRoot(10)
    assert m.coefficients(3000)[:100].tobytes() == m.coefficients(100).tobytes()


@pytest.mark.parametrize("T", [1, 2, 3, 17, 400])
def test_normalised_columns_all_have_norm_one(T: int) -> None:
    _, R = SquareRoot(T, normalized=True).factors()
    assert (R**2).sum(axis=0) == pytest.approx(np.ones(T), abs=1e-13)


def test_scaling_by_the_column_norms_instead_would_understate_the_sensitivity() -> None:
    """F · diag(D), D the column norms of R, looks like column normalisation; its R = D⁻¹F⁻¹A is longer."""
    F, R = SquareRoot(250).factors()
    D = np.sqrt((R**2).sum(axis=0))
    assert (F * D) @ (R / D[:, None]) == pytest.approx(np.tri(250), abs=1e-12)
    assert ((R / D[:, None]) ** 2).sum(axis=0).max() == pytest.approx(1.0618, abs=1e-4)


@pytest.mark.parametrize("normalized", [False, pytest.param(True, marks=pytest.mark.heavy)])
def test_the_sensitivity_covers_the_inverse_of_the_stored_doubles_at_a_million_steps(normalized: bool) -> None:
    T = 2**20
    m = SquareRoot(T, normalized=normalized)
    r = inverse_in_long_double(m.coefficients(T))
    # The first column is the longest without normalisation; with it, all are the same up to rounding.
    w = 1.0 / m.input_scale(1, T).astype(np.longdouble) ** 2
    for first in (0, 1, T // 2, T - 100, T - 1):
        column = float((r[: T - first] ** 2 * w[first:]).sum()) ** 0.5
        assert column < m.sensitivity()
    assert float((r**2 * w).sum()) ** 0.5 > m.sensitivity() * (1 - 1e-8)


@pytest.mark.parametrize(("normalized", "V"), [(False, 30.0193), (True, 27.9186)])
def test_all_variances_of_a_million_steps(normalized: bool, V: float) -> None:
    m = SquareRoot(2**20, normalized=normalized)
    variances = m.variance()
    assert variances.max() == pytest.approx(V, abs=1e-3)
    assert variances[4999] == pytest.approx(m.variance(5000), rel=1e-11)


def test_repr_is_a_constructor_call() -> None:
    m = SquareRoot(10, normalized=True)
    assert repr(m) == "SquareRoot(horizon=10, normalized=True)"
    assert m == SquareRoot(np.int64(10), True)  # type: ignore[arg-type]
    assert m != SquareRoot(10)


def test_refusals() -> None:
    with pytest.raises(NoiseLawError, match="SquareRoot has real coefficients and takes Gaussian noise only"):
        SquareRoot(10, noise="laplace")
    with pytest.raises(InvalidArgument, match="noise must be 'gaussian' or 'laplace', got 'cauchy'"):
        SquareRoot(10, noise="cauchy")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="horizon must be at most 268435456"):
        SquareRoot(2**28 + 1)
    with pytest.raises(InvalidArgument, match="normalized must be True or False, got 1"):
        SquareRoot(10, normalized=1)  # type: ignore[arg-type]
    for horizon in (0, -1, 2.5, True, float("nan"), "10", None):
        with pytest.raises(InvalidArgument, match="horizon must be a whole number of at least 1"):
            SquareRoot(horizon)  # type: ignore[arg-type]
