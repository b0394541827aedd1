"""Balanced Toeplitz mechanism: within 1 % of the least possible error, with a handful of vectors of memory.

Guarantee: rho-zCDP for streams that differ in one element by at most `per_person`,
all releases together, adaptive inputs.
Error: max V is 8.81 at T = 1023 (optimum 8.77), 14.7 at 2^14 and 26.6 at 2^20; all releases but the first few
have nearly the same variance.
Cost: that of `BufferedToeplitz`: one draw and O(buffers) operations a step, `buffers` vectors of memory.
Ours. L = diag(p) · F · diag(q) with F from Zolotarev's rational approximation (see `buffered_toeplitz`) and p, q
smooth: splines in logit time whose coefficients, fitted once by research/fit_balanced.py, are read from a table
and interpolated in log T. The fit decides how good the mechanism is, never whether it is private: p and q are
taken into the sensitivity as they are. docs/balanced.md derives it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from dpstream import portable
from dpstream.arguments import check_horizon, check_whole
from dpstream.errors import InvalidArgument
from dpstream.mechanisms.base import NoiseLaw, check_noise_law
from dpstream.mechanisms.exponentials import MOST_BUFFERS, Exponentials, zolotarev
from dpstream.mechanisms.fitted_table import read_table
from dpstream.mechanisms.recurrence import RecurrenceMechanism
from dpstream.mechanisms.scaled_toeplitz import (
    ColumnProducts,
    column_norms,
    row_norms,
    scaled_factors,
    to_float32_precision,
)
from dpstream.mechanisms.splines import clamped_spline, interpolated
from dpstream.mechanisms.toeplitz import SENSITIVITY_MARGIN
from dpstream.mechanisms.toeplitz_participation import lag_bound
from dpstream.participation import Participation

__all__ = ["BalancedToeplitz", "buffers_for", "epsilon_for", "normal_time"]

TABLE = "balanced_table.json"

#: Longest horizon. Norms are computed step by step; longer streams have mechanisms with closed forms.
LARGEST_HORIZON = 2**24

#: Longest horizon for which products of columns are held in memory to bound several participations.
LARGEST_PRODUCTS = 2**20

#: No release has less variance than this share of the largest: "within 10 %", with room for rounding.
LEAST_ROW = 0.905

#: Where the cubic pieces of log p and log q meet, in normal time.
KNOTS: NDArray[np.float64] = np.arange(-5.0, 6.0) / 5.0

#: Scales are computed for so many steps at a time.
AT_ONCE = 2**13


@dataclass(frozen=True)
class BalancedToeplitz(RecurrenceMechanism):
    """L = diag(p) · F · diag(q), F Toeplitz with l_0 = 1, l_j = Σ_i weights_i (1 - gaps_i)^j; R = L⁻¹A.

    Parameters
    ----------
    horizon
        The number of releases, at most 2^24. Computing the sensitivity takes about two seconds at 2^20, and
        longer in proportion beyond.
    buffers
        How many vectors a stream remembers. Left out: 4 up to 2^10 steps, 5 to 2^14, 6 to 2^18, 7 to 2^22, 8
        beyond, fewer below 16. The scales are fitted for that number; more buffers cost a few percent of error, fewer
        a lot.

    Notes
    -----
    The sensitivity to one person in several steps is an upper bound: scalar products of columns of R,
    bounded by distance.

    Examples
    --------
    >>> m = BalancedToeplitz(1023)
    >>> m
    BalancedToeplitz(horizon=1023, buffers=4)
    >>> m.memory, round(m.max_variance(), 2), round(m.mean_variance(), 2)
    (4, 8.81, 8.8)
    """

    horizon: int
    buffers: int | None = None
    noise: NoiseLaw = field(default="gaussian", kw_only=True, repr=False, compare=False)

    reference: ClassVar[str] = "dpstream, docs/balanced.md"

    def __post_init__(self) -> None:
        horizon = check_horizon(self.horizon)
        if horizon > LARGEST_HORIZON:
            raise InvalidArgument(
                "horizon",
                self.horizon,
                f"at most {LARGEST_HORIZON} (for longer streams use BufferedToeplitz or AnytimeToeplitz)",
            )
        buffers = buffers_for(horizon) if self.buffers is None else check_whole("buffers", self.buffers)
        if buffers > MOST_BUFFERS:
            raise InvalidArgument("buffers", self.buffers, f"at most {MOST_BUFFERS}")
        object.__setattr__(self, "horizon", horizon)
        object.__setattr__(self, "buffers", buffers)
        check_noise_law("BalancedToeplitz", self.noise, allowed=("gaussian",))

    @property
    def gaps(self) -> NDArray[np.float64]:
        """1 - θ_i, slowest first."""
        return self._sides[0].gaps

    @property
    def weights(self) -> NDArray[np.float64]:
        """ω_i, in the order of `gaps`."""
        return self._sides[0].weights

    @property
    def table_bytes(self) -> int:
        """P and q: two doubles a step."""
        return 16 * self.horizon

    def input_scale(self, first: int, count: int) -> NDArray[np.float64]:
        """Return q_t."""
        return self._scales[1][first - 1 : first - 1 + count]

    def output_scale(self, first: int, count: int) -> NDArray[np.float64]:
        """Return p_t."""
        return self._scales[0][first - 1 : first - 1 + count]

    @cached_property
    def _sides(self) -> tuple[Exponentials, Exponentials]:
        """The coefficients of F and of F⁻¹A."""
        return zolotarev(epsilon_for(self.horizon), cast("int", self.buffers))

    @property
    def _scales(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return self._evened[:2]

    @property
    def _rows(self) -> NDArray[np.float64]:
        return self._evened[2]

    @cached_property
    def _evened(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """p, q and ‖L_t‖² at every step: the table's splines, with p raised where a release has too little noise.

        The splines leave a few releases at the two ends with up to a fifth less variance than the others. Raising their
        p raises the sensitivity by less than 0.1 % and makes all releases alike to 10 %.
        """
        p, q = self._from_table()
        q = to_float32_precision(q)
        unscaled = row_norms(self._sides[0], np.ones(self.horizon), q)
        rows = p**2 * unscaled
        p = to_float32_precision(p * np.sqrt(np.maximum(1.0, LEAST_ROW * rows.max() / rows)))
        rows = p**2 * unscaled
        for array in (p, q, rows):
            array.flags.writeable = False
        return p, q, rows

    def _from_table(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The splines of log p and log q, at every step."""
        scales = np.empty((2, self.horizon))
        for start in range(0, self.horizon, AT_ONCE):
            steps = np.arange(start + 1, min(start + AT_ONCE, self.horizon) + 1, dtype=np.float64)
            time = normal_time(steps, self.horizon)
            for scale, coefficients in zip(scales, _coefficients(self.horizon), strict=True):
                scale[start : start + AT_ONCE] = portable.exp(clamped_spline(KNOTS, coefficients, time))
        return scales[0], scales[1]

    @cached_property
    def _largest_column(self) -> float:
        return float(column_norms(self._sides[1], *self._scales).max())

    @cached_property
    def _products(self) -> ColumnProducts:
        return ColumnProducts(self._sides[1], *self._scales)

    def _factors(self, steps: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        left, right = self._sides
        p, q = (scale[:steps] for scale in self._scales)
        return scaled_factors(left, right, p, q)

    def _sensitivity(self, participation: Participation) -> tuple[float, bool]:
        single = SENSITIVITY_MARGIN * math.sqrt(self._largest_column)
        k = participation.times
        if k == 1:
            return single, True
        if self.horizon > LARGEST_PRODUCTS:
            return k * single, False
        bound = SENSITIVITY_MARGIN * math.sqrt(lag_bound(self._products.at, k, participation.separation))
        return min(bound, k * single), False

    def squared_row_norm(self, t: int) -> float:
        return float(self._rows[t - 1])

    def squared_row_norms(self, steps: int) -> NDArray[np.float64]:
        return self._rows[:steps]


def buffers_for(horizon: int) -> int:
    """The fewest buffers whose V, with scales fitted for them, is within half a percent of what more would give."""
    for most, buffers in ((1, 1), (4, 2), (15, 3), (2**10, 4), (2**14, 5), (2**18, 6), (2**22, 7)):
        if horizon <= most:
            return buffers
    return 8


def epsilon_for(horizon: int) -> float:
    """Where Zolotarev's approximation begins; coarser than for F alone, since p and q mend the slow end."""
    return min(8.0 / horizon, 1.0)


def normal_time(steps: NDArray[np.float64], horizon: int) -> NDArray[np.float64]:
    """Logit time, stretched to [-1, 1]: ln((t - ½)/(T - t + ½)) / ln(2T - 1)."""
    if horizon == 1:
        return np.zeros_like(steps)
    return portable.log((steps - 0.5) / (horizon - steps + 0.5)) / portable.log(2.0 * horizon - 1.0)


@lru_cache(maxsize=256)
def _coefficients(horizon: int) -> NDArray[np.float64]:
    """Spline coefficients at this horizon, an array (2, coefficients); outside the table, those at its end."""
    buffers = max(buffers_for(horizon), 2)
    band = next(band for band in read_table(TABLE).content["bands"] if band["buffers"] == buffers)
    places = band["log2_horizon"]
    place = min(max(float(portable.log(horizon) / portable.log(2.0)), float(places[0])), float(places[-1]))
    return interpolated(places, np.stack([band["log_p"], band["log_q"]], axis=1), place)
