"""Banded inverse mechanism: training noise without any state.

Guarantee: rho-zCDP for streams that differ as the participation says, all releases together, adaptive inputs.
Error: training, 2048 steps, 8 epochs, separation 256, RMSE at 2ρ = 1: 12.2 with 8 bands, 11.5 with 16.
Cost: an increment is a weighted sum of the last `bands` draws. Draws are a pure function of (key, step), so that they
are made again instead of kept: increments need no memory, a running total one vector.
Kalinin et al. 2025 (BISR, BandInvMF), arXiv:2505.12128; two bands are λ-CGD, arXiv:2601.22334.

L = A G with G banded Toeplitz, g_0 = 1, and R = G⁻¹.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dpstream import portable
from dpstream.arguments import check_horizon, check_whole
from dpstream.errors import InvalidArgument
from dpstream.mechanisms.banded_fitting import falling_envelope, fit_banded_inverse
from dpstream.mechanisms.base import NoiseLaw, Value, check_noise_law
from dpstream.mechanisms.fit_arguments import checked_coefficients, checked_epochs, checked_objective
from dpstream.mechanisms.increments import IncrementMechanism
from dpstream.mechanisms.lag_envelope import pattern_bound
from dpstream.mechanisms.matrix_participation import walked_sensitivity
from dpstream.mechanisms.toeplitz import SENSITIVITY_MARGIN
from dpstream.mechanisms.toeplitz_participation import squared_norm_of_first_columns
from dpstream.participation import Participation

__all__ = ["BandedInverse"]

#: Coefficients of R are an array of one number a step.
LARGEST_HORIZON = 2**22


@dataclass(frozen=True)
class BandedInverse(IncrementMechanism):
    """L = A · G with G banded Toeplitz, R = G⁻¹.

    Parameters
    ----------
    horizon
        The number of releases, at most 2^22.
    coefficients
        The bands of G, the first of them 1.

    Notes
    -----
    Guarantee.

    * Notion: ρ-zCDP with Gaussian noise, for all releases together.
    * Neighbours: streams that differ in one step by at most `per_person` (ℓ2), or as `Participation` says.
    * Horizon: `horizon` releases; a further one is refused.
    * Adaptivity: inputs may depend on earlier releases.
    * Key: secret, uniform, and used for this stream only.

    The sensitivity is exact if the coefficients of R are positive and fall (those of fitted mechanisms do, or nearly);
    otherwise it is an upper bound for contributions in any directions: that of a walk over the patterns (exact for two
    contributions), at long horizons that of the least falling sequence above their absolute values or, if none is
    negative, that of the products of columns by distance.

    Examples
    --------
    >>> m = BandedInverse(4, (1.0, -0.5))
    >>> m.increment_memory, m.factors()[1][:, 0].tolist()
    (0, [1.0, 0.5, 0.25, 0.125])
    """

    horizon: int
    coefficients: tuple[float, ...]
    noise: NoiseLaw = field(default="gaussian", kw_only=True, repr=False, compare=False)

    reference: ClassVar[str] = "Kalinin et al. 2025, arXiv:2505.12128"

    def __post_init__(self) -> None:
        object.__setattr__(self, "horizon", check_horizon(self.horizon, most=LARGEST_HORIZON))
        object.__setattr__(self, "coefficients", checked_coefficients(self.coefficients))
        check_noise_law("BandedInverse", self.noise, allowed=("gaussian",))
        if not self._rounding < 1e-6:
            raise InvalidArgument(
                "coefficients", self.coefficients, "those of a matrix with a well-conditioned inverse"
            )

    @classmethod
    def fit(
        cls,
        horizon: int,
        *,
        participation: Participation | None = None,
        bands: int = 8,
        objective: Literal["max", "mean"] = "max",
    ) -> BandedInverse:
        """Return the mechanism of this kind with the least error, rounded to 12 digits.

        Parameters
        ----------
        participation
            How often one person may appear; None for one step.
        bands
            How many draws an increment adds up, at most 64.
        objective
            Whether the largest or the mean variance over time is least.
        """
        horizon = check_horizon(horizon, most=LARGEST_HORIZON)
        k, b = checked_epochs(participation, horizon)
        bands = check_whole("bands", bands)
        if bands > 64:
            raise InvalidArgument("bands", bands, "at most 64")
        return cls(horizon, fit_banded_inverse(horizon, k, b, min(bands, horizon), checked_objective(objective)))

    @property
    def increment_memory(self) -> int:
        """Nothing: the draws are made again."""
        return 0

    @property
    def even_steps(self) -> int:
        """All."""
        return self.horizon

    @cached_property
    def _strategy(self) -> NDArray[np.float64]:
        p, T = len(self.coefficients), self.horizon
        later = -np.array(self.coefficients[1:], dtype=np.float64)
        r = np.zeros(T + p)
        r[0] = 1.0
        with np.errstate(all="ignore"):
            for t in range(T - 1 if p > 1 else 0):  # what r_t adds to the next ones
                r[t + 1 : t + p] += later * r[t]
        return r[:T]

    @cached_property
    def _rounding(self) -> float:
        """How far the computed coefficients of R can be from the true ones, relative to their norm.

        Each rounds at most p + 1 times, by units of Σ |d_j| |r_{t-j}|, and R carries each rounding on: the whole error
        is R times the roundings, so that its norm is at most ‖r‖₁ (p + 1) u Σ |d_j| ‖r‖.
        """
        with np.errstate(all="ignore"):
            p = len(self.coefficients)
            size = np.abs(self._strategy).sum() * np.abs(self.coefficients).sum()
        return float(2 * (p + 1) * 2.0**-53 * size)

    def strategy(self, count: int) -> NDArray[np.float64]:
        return self._strategy[:count].copy()

    def increments(self, count: int) -> NDArray[np.float64]:
        g = np.zeros(count)
        g[: len(self.coefficients)] = self.coefficients[:count]
        return g

    def increment_scale(self, first: int, count: int) -> NDArray[np.float64]:
        return np.ones(count)

    def advance_increment(self, buffers: tuple[Value, ...], draw: Value) -> tuple[Value, tuple[Value, ...]]:
        noise = draw
        for before, coefficient in zip(buffers, self.coefficients[1:], strict=False):
            noise = noise + before * coefficient
        return noise, (draw, *buffers)[: len(self.coefficients) - 1]

    def _sensitivity(self, participation: Participation) -> tuple[float, bool]:
        k, b = participation.times, participation.separation
        r = self._strategy
        margin = SENSITIVITY_MARGIN * (1.0 + self._rounding)
        single = math.sqrt(portable.dot(r, r))
        if k == 1:
            return margin * single, True
        envelope = falling_envelope(r)
        exact = bool((envelope - r <= 1e-12).all())
        squared = squared_norm_of_first_columns(envelope, None, k, b)
        if not exact and (r >= 0.0).all():
            # Products of columns at one distance are largest for the first column: no term is negative.
            lags = np.arange(b, r.size + 1, dtype=np.float64)
            products = portable.series_product(r[::-1], r, r.size)[::-1][b:]
            squared = min(squared, pattern_bound(k, b, single**2, lags, products + portable.series_product_error(r, r)))
        bound = min(math.sqrt(squared), k * single)
        walked = None if exact else walked_sensitivity(r, None, participation)
        return (margin * bound, exact) if walked is None else (margin * min(walked[0], bound), walked[1])
