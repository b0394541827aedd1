"""Fits the coefficients of banded Toeplitz strategies and of their inverses.

Both minimise log Δ² + log error by L-BFGS with exact gradients; each loss takes a few products of power series. With
B = A C⁻¹ and weights ω_j (1 for the largest, (T - j)/T for the mean variance) the error is Σ_j ω_j B_j², and
∂B/∂c_m = -x^m B C⁻¹, so that its gradient is -2 Σ_j u_{j+m} B_j with u = C⁻ᵀ(ω B).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import scipy  # its parts are loaded when they are first used
from numpy.typing import NDArray

from dpstream.mechanisms.fit_arguments import Objective
from dpstream.mechanisms.toeplitz import reciprocal_series, series_product

__all__ = ["falling_envelope", "fit_banded", "fit_banded_inverse"]

RealArray = NDArray[np.float64]
Slope = Callable[[RealArray], tuple[float, RealArray]]

#: Filters of this many products are run directly; above, power series are inverted by FFT.
DIRECT = 2**23


@lru_cache(maxsize=64)
def fit_banded(horizon: int, bands: int, objective: Objective) -> tuple[float, ...]:
    """Return the bands c with the least ‖c‖² · error: what is least for any number of contributions `bands` apart."""
    weights = _weights(horizon, objective)

    def slope(c: RealArray) -> tuple[float, RealArray]:
        with np.errstate(all="ignore"):
            inverse = _inverse(c, horizon)
            B = inverse(np.ones(horizon))
            error, size = float(np.sum(weights * B * B)), float(c @ c)
            u = inverse((weights * B)[::-1])
            # Σ_j u_{j+m} B_j, with u still reversed
            overlap = series_product(u, B, horizon)[::-1][:bands]
            value = np.log(size) + np.log(error)
            gradient = 2 * c / size - 2 * overlap / error
        return (
            (float(value), gradient) if np.isfinite(value) and np.isfinite(gradient).all() else (1e3, np.zeros(bands))
        )

    return _rounded(_minimised(slope, [_fractional(-0.5, bands)]))


@lru_cache(maxsize=64)
def fit_banded_inverse(
    horizon: int, times: int, separation: int, bands: int, objective: Objective
) -> tuple[float, ...]:
    """Return the bands g of G = R⁻¹ with the least Δ² · error."""
    weights = _weights(horizon, objective)
    if bands == 1:
        return (1.0,)

    def slope(z: RealArray) -> tuple[float, RealArray]:
        g = np.append(1.0, z)
        with np.errstate(all="ignore"):
            inverse = _inverse(g, horizon)
            unit = np.zeros(horizon)
            unit[0] = 1.0
            r = inverse(unit)
            B = np.cumsum(np.append(g, np.zeros(horizon - bands)))
            error = float(np.sum(weights * B * B))
            squared, by_r = _envelope_slope(r, times, separation)
            # ∂r/∂g_m = -x^m r², and ∂B_j/∂g_m = 1 for j ≥ m
            spread = series_product(r, r, horizon)
            by_g = -series_product(by_r[::-1], spread, horizon)[::-1][:bands] / squared
            by_g += 2 * np.cumsum((weights * B)[::-1])[::-1][:bands] / error
            value = np.log(squared) + np.log(error)
        good = np.isfinite(value) and np.isfinite(by_g).all()
        return (float(value), by_g[1:]) if good else (1e3, np.zeros(bands - 1))

    starts = [_fractional(gamma, bands)[1:] for gamma in (0.5, 0.7, 0.85, 0.95)]
    return _rounded(np.append(1.0, _minimised(slope, starts)))


def falling_envelope(r: RealArray) -> RealArray:
    """Return the least falling sequence above |r|."""
    return np.maximum.accumulate(np.abs(r)[::-1])[::-1]


def _weights(horizon: int, objective: Objective) -> RealArray:
    if objective == "max":
        return np.ones(horizon)
    return (horizon - np.arange(horizon)) / horizon


def _inverse(c: RealArray, horizon: int) -> Callable[[RealArray], RealArray]:
    """Return the function x ↦ C⁻¹x."""
    if c.size * horizon <= DIRECT:
        return lambda x: np.asarray(scipy.signal.lfilter([1.0], c, x), dtype=np.float64)
    series = reciprocal_series(np.append(c, np.zeros(max(0, horizon - c.size)))[:horizon])
    return lambda x: series_product(series, x, horizon)


def _envelope_slope(r: RealArray, times: int, separation: int) -> tuple[float, RealArray]:
    """‖Σ_{i<k} envelope shifted by i·b‖² and its gradient by r."""
    T = r.size
    size = np.abs(r)
    # The place of the largest |r| from here on, the last one of equals.
    place = (
        T - 1 - np.maximum.accumulate(np.where(size[::-1] >= np.maximum.accumulate(size[::-1]), np.arange(T), 0))[::-1]
    )
    envelope = size[place]
    shifts = [i * separation for i in range(times) if i * separation < T]
    column = np.zeros(T)
    for shift in shifts:
        column[shift:] += envelope[: T - shift]
    by_envelope = np.zeros(T)
    for shift in shifts:
        by_envelope[: T - shift] += 2 * column[shift:]
    by_r = np.zeros(T)
    np.add.at(by_r, place, by_envelope)
    return float(column @ column), by_r * np.sign(r)


def _fractional(power: float, count: int) -> RealArray:
    """Coefficients of (1 - x)^power."""
    k = np.arange(1.0, count)
    return np.append(1.0, np.cumprod((k - 1 - power) / k))


def _minimised(slope: Slope, starts: list[RealArray]) -> RealArray:
    found = [
        scipy.optimize.minimize(slope, start, jac=True, method="L-BFGS-B", options={"maxiter": 400, "maxfun": 800})
        for start in starts
    ]
    best: RealArray = min(found, key=lambda result: float(result.fun)).x
    return best


def _rounded(c: RealArray) -> tuple[float, ...]:
    """Return coefficients divided by the first and rounded to 12 digits."""
    return tuple(round(float(x), 12) for x in c / c[0])
