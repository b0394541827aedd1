"""Banded Toeplitz mechanism, BandMF: the least error of a Toeplitz strategy for epochs, with many vectors of memory.

Guarantee: rho-zCDP for streams that differ as the participation says, all releases together, adaptive inputs.
Error: training, 2048 steps, 8 epochs, separation 256, RMSE at 2ρ = 1: 10.53 with 256 bands.
Cost: one draw and `bands` operations a step, bands - 1 vectors of memory and one for the running total.
Choquette-Choo et al. 2023, arXiv:2306.08153; Toeplitz form McKenna 2024, arXiv:2405.15913; column normalisation as in
both papers' code.

R is Toeplitz with the coefficients c_0 = 1, c_1, …, c_{p-1}, its columns divided by their norms D. If contributions are
at least p steps apart, their columns share no row, so that Δ² is the sum of their squared norms: k, if normalised.
An increment is D_t y_t with y_t = z_t - Σ_{0<j<p} c_j y_{t-j}.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
import scipy  # its parts are loaded when they are first used
from numpy.typing import NDArray

from dpstream import portable
from dpstream.arguments import check_horizon, check_whole
from dpstream.errors import InvalidArgument
from dpstream.mechanisms.banded_fitting import fit_banded
from dpstream.mechanisms.base import NoiseLaw, Value, check_noise_law
from dpstream.mechanisms.fit_arguments import checked_coefficients, checked_epochs, checked_objective
from dpstream.mechanisms.increments import IncrementMechanism
from dpstream.mechanisms.lag_envelope import pattern_bound
from dpstream.mechanisms.matrix_participation import walked_sensitivity
from dpstream.mechanisms.toeplitz import SENSITIVITY_MARGIN
from dpstream.participation import Participation

__all__ = ["Banded"]

#: Coefficients and variances are arrays of one number a step.
LARGEST_HORIZON = 2**22


@dataclass(frozen=True)
class Banded(IncrementMechanism):
    """L = A · diag(D) · C⁻¹ with C banded Toeplitz, R = C · diag(1/D).

    Parameters
    ----------
    horizon
        The number of releases, at most 2^22.
    coefficients
        The bands of C, the first of them 1.
    normalized
        Divide the columns of C by their norms, D; costs nothing and lowers the largest variance by up to a tenth.

    Notes
    -----
    Guarantee.

    * Notion: ρ-zCDP with Gaussian noise, for all releases together.
    * Neighbours: streams that differ in one step by at most `per_person` (ℓ2), or as `Participation` says.
    * Horizon: `horizon` releases; a further one is refused.
    * Adaptivity: inputs may depend on earlier releases.
    * Key: secret, uniform, and used for this stream only.

    The sensitivity is exact where contributions are at least as far apart as there are bands; otherwise it is an upper
    bound for contributions in any directions.

    Examples
    --------
    >>> m = Banded(6, (1.0, 0.5, 0.375))
    >>> m.memory, round(m.sensitivity(Participation(times=2, separation=3)) ** 2, 6)
    (3, 2.0)
    """

    horizon: int
    coefficients: tuple[float, ...]
    normalized: bool = True
    noise: NoiseLaw = field(default="gaussian", kw_only=True, repr=False, compare=False)

    reference: ClassVar[str] = "Choquette-Choo et al. 2023, arXiv:2306.08153; McKenna 2024, arXiv:2405.15913"

    def __post_init__(self) -> None:
        object.__setattr__(self, "horizon", check_horizon(self.horizon, most=LARGEST_HORIZON))
        object.__setattr__(self, "coefficients", checked_coefficients(self.coefficients))
        if not isinstance(self.normalized, bool):
            raise InvalidArgument("normalized", self.normalized, "True or False")
        check_noise_law("Banded", self.noise, allowed=("gaussian",))
        with np.errstate(all="ignore"):
            finite = np.isfinite(np.square(np.cumsum(self.increments(self.horizon))).sum())
        if not finite:
            raise InvalidArgument(
                "coefficients", self.coefficients, "those of a matrix whose inverse does not overflow"
            )

    @classmethod
    def fit(
        cls,
        horizon: int,
        *,
        participation: Participation | None = None,
        bands: int | None = None,
        objective: Literal["max", "mean"] = "max",
        normalized: bool = True,
    ) -> Banded:
        """Return the banded Toeplitz mechanism with the least error (before normalisation), rounded to 12 digits.

        Parameters
        ----------
        participation
            How often one person may appear; None for one step.
        bands
            How many bands C has, at most the separation. Left out: as many as that and at most 4,096, or 64 for one
            step a person.
        objective
            Whether the largest or the mean variance over time is least.
        normalized
            As for the constructor.
        """
        horizon = check_horizon(horizon, most=LARGEST_HORIZON)
        k, b = checked_epochs(participation, horizon)
        most = min(horizon, b if k > 1 else horizon)
        bands = min(most, 4096 if k > 1 else 64) if bands is None else check_whole("bands", bands)
        if bands > most:
            raise InvalidArgument(
                "bands", bands, f"at most {most}: with more, columns of contributions would overlap in the strategy"
            )
        return cls(horizon, fit_banded(horizon, bands, checked_objective(objective)), normalized)

    @property
    def increment_memory(self) -> int:
        """The last bands - 1 increments."""
        return len(self.coefficients) - 1

    def strategy(self, count: int) -> NDArray[np.float64]:
        c = np.zeros(count)
        c[: len(self.coefficients)] = self.coefficients[:count]
        return c

    def increments(self, count: int) -> NDArray[np.float64]:
        unit = np.zeros(count)
        unit[0] = 1.0
        found: NDArray[np.float64] = scipy.signal.lfilter([1.0], self.coefficients, unit)
        return found

    @cached_property
    def _squares(self) -> NDArray[np.float64]:
        """Σ_{j<M} c_j² for M = 0 .. bands."""
        return np.append(0.0, np.cumsum(np.square(self.coefficients)))

    def increment_scale(self, first: int, count: int) -> NDArray[np.float64]:
        """Return D_t: 1, or the norm of what the horizon leaves of column t."""
        if not self.normalized:
            return np.ones(count)
        left_over = np.arange(self.horizon - first + 1, self.horizon - first + 1 - count, -1)
        return np.sqrt(self._squares[np.minimum(left_over, len(self.coefficients))])

    @property
    def even_steps(self) -> int:
        """All, or those whose columns are not cut."""
        return max(self.horizon - len(self.coefficients) + 1, 1) if self.normalized else self.horizon

    def advance_increment(self, buffers: tuple[Value, ...], draw: Value) -> tuple[Value, tuple[Value, ...]]:
        noise = draw
        for before, coefficient in zip(buffers, self.coefficients[1:], strict=False):
            noise = noise - before * coefficient
        return noise, (noise, *buffers)[: len(self.coefficients) - 1]

    def _sensitivity(self, participation: Participation) -> tuple[float, bool]:
        k, b = participation.times, participation.separation
        p = len(self.coefficients)
        if k == 1 or b >= min(p, self.horizon):
            # No two columns share a row, and none has a smaller norm than a later one.
            left_over = self.horizon - b * np.arange(k)
            squares = self._squares[np.minimum(left_over, p)]
            return SENSITIVITY_MARGIN * math.sqrt(float(k) if self.normalized else portable.total(squares)), True
        lags = np.arange(b, min(p, self.horizon))
        suprema = np.array([self._largest_product(lag) for lag in lags.tolist()])
        single = 1.0 if self.normalized else float(self._squares[min(p, self.horizon)])
        bound = pattern_bound(k, b, single, np.append(lags, lags[-1] + 1).astype(np.float64), suprema)
        bound = math.sqrt(min(bound, k * k * single))
        T = self.horizon
        walked = walked_sensitivity(self.strategy(T), self.increment_scale(1, T), participation)
        if walked is None:
            return SENSITIVITY_MARGIN * bound, False
        return SENSITIVITY_MARGIN * min(walked[0], bound), walked[1]

    def _largest_product(self, lag: int) -> float:
        """The largest absolute product of two columns of R this far apart, wherever the horizon cuts them."""
        c = np.array(self.coefficients)
        M = np.arange(1, min(c.size, self.horizon) - lag + 1)
        products = np.abs(np.cumsum(c[:-lag] * c[lag:])[M - 1])
        if self.normalized:
            products /= np.sqrt(self._squares[M] * self._squares[np.minimum(M + lag, c.size)])
            # Further columns have the last product and norms that still grow.
        return float(products.max())
