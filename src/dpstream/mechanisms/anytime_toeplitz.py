"""Anytime Toeplitz mechanism: a stream without a known end, in constant memory.

Guarantee: rho-zCDP for streams that differ in one element by at most `per_person`, all releases together, adaptive
inputs, up to `limit` releases; the default limit of 2^40 is a release every millisecond for 34 years.
Error: V_t is at most 1.26 (limit 2^20) to 1.30 (2^50) times what `SquareRoot(t)` has, which knows when to stop, at
every t from 8 to the limit.
Cost: one draw and O(buffers) operations a step, `buffers` vectors of memory, 6 (limit 2^20) to 14 (2^50).
Ours. L = diag(p) · F · diag(q) as in `balanced_toeplitz`, with p growing about like √t and q falling as fast, so
that late draws cost early elements little. docs/balanced.md derives it; research/fit_anytime.py fitted p and q.

p and q are constant while the eleven leading bits of t stay the same. Within such a *level* every sum over steps is
geometric, so norms of rows and columns have closed forms, level by level, whatever the limit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from dpstream import portable
from dpstream.arguments import check_whole
from dpstream.errors import InvalidArgument
from dpstream.mechanisms.base import NoiseLaw, check_noise_law
from dpstream.mechanisms.exponentials import zolotarev
from dpstream.mechanisms.fitted_table import read_table
from dpstream.mechanisms.recurrence import RecurrenceMechanism
from dpstream.mechanisms.scaled_by_levels import Levels, level_of, levels_to
from dpstream.mechanisms.scaled_toeplitz import to_float32_precision
from dpstream.mechanisms.splines import clamped_spline
from dpstream.mechanisms.toeplitz import SENSITIVITY_MARGIN
from dpstream.participation import Participation

__all__ = ["AnytimeToeplitz"]

TABLE = "anytime_table.json"

#: Horizon up to which means are taken over every step.
STEP_BY_STEP = 2**20


@dataclass(frozen=True)
class AnytimeToeplitz(RecurrenceMechanism):
    """L = diag(p) · F · diag(q), F Toeplitz with l_0 = 1, l_j = Σ_i weights_i (1 - gaps_i)^j; R = L⁻¹A.

    Parameters
    ----------
    limit
        The number of releases that the guarantee covers, rounded up to 2^20, 2^24, 2^30, 2^40 or 2^50. A higher limit
        costs memory and hardly any error. Computing the norms takes a second or two, once.

    Notes
    -----
    The sensitivity is an upper bound, at most 0.1 % above the exact one; for one person in several steps it is
    `times` as much.

    Examples
    --------
    >>> m = AnytimeToeplitz()
    >>> m == AnytimeToeplitz(limit=10**12), m.horizon == 2**40, m.memory
    (True, True, 12)
    >>> round(m.variance(2**20), 1)  # SquareRoot(2**20) has 30.0
    37.7
    """

    limit: int = 2**40
    noise: NoiseLaw = field(default="gaussian", kw_only=True, repr=False, compare=False)

    reference: ClassVar[str] = "dpstream, docs/balanced.md"

    def __post_init__(self) -> None:
        limit = check_whole("limit", self.limit)
        limits = sorted(_table())
        if limit > limits[-1]:
            raise InvalidArgument("limit", self.limit, f"at most 2**{limits[-1].bit_length() - 1}")
        object.__setattr__(self, "limit", next(most for most in limits if most >= limit))
        check_noise_law("AnytimeToeplitz", self.noise, allowed=("gaussian",))

    @property
    def horizon(self) -> int:  # type: ignore[override]
        """The limit: a step past it is refused."""
        return self.limit

    @property
    def gaps(self) -> NDArray[np.float64]:
        """1 - θ_i, slowest first."""
        return self._levels.left.gaps

    @property
    def weights(self) -> NDArray[np.float64]:
        """ω_i, in the order of `gaps`."""
        return self._levels.left.weights

    def input_scale(self, first: int, count: int) -> NDArray[np.float64]:
        """Return q_t."""
        return self._levels.q[level_of(np.arange(first, first + count))]

    def output_scale(self, first: int, count: int) -> NDArray[np.float64]:
        """Return p_t."""
        return self._levels.p[level_of(np.arange(first, first + count))]

    @cached_property
    def _levels(self) -> Levels:
        return _levels(self.limit)

    @property
    def serves_without_horizon(self) -> bool:
        """True: the limit is far beyond any stream's reach."""
        return True

    def _factors(self, steps: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return self._levels.factors(steps)

    def _sensitivity(self, participation: Participation) -> tuple[float, bool]:
        return SENSITIVITY_MARGIN * participation.times * math.sqrt(self._levels.column_bound), False

    def squared_row_norm(self, t: int) -> float:
        return float(self._levels.row_norms(np.array([t]))[0])

    def squared_row_norms(self, steps: int) -> NDArray[np.float64]:
        return self._levels.row_norms(np.arange(1, steps + 1))

    def max_squared_row_norm(self, steps: int) -> float:
        return self._levels.max_row_norm(steps)

    def mean_squared_row_norm(self, steps: int) -> float:
        if steps <= STEP_BY_STEP:
            return super().mean_squared_row_norm(steps)
        # Good to about 2e-4: the drift within a level is taken as linear.
        starts, widths = levels_to(steps)
        ends = self._levels.row_norms(starts) + self._levels.row_norms(starts + widths - 1)
        return float(0.5 * (ends @ widths) / steps)


@cache
def _table() -> dict[int, dict[str, Any]]:
    return {2 ** cast("int", row["log2_limit"]): row for row in read_table(TABLE).content["limits"]}


@cache
def _levels(limit: int) -> Levels:
    """The mechanism of this limit: log p and log q are cubic splines in ln t, taken in the middle of each level."""
    row = _table()[limit]
    pieces = len(row["log_p"]) - 3
    knots = np.arange(pieces + 1.0) * (portable.log(limit) / pieces)
    starts, widths = levels_to(limit)
    time = portable.log(starts + 0.5 * (widths - 1))
    p, q = (
        to_float32_precision(portable.exp(clamped_spline(knots, np.array(row[name], dtype=np.float64), time)))
        for name in ("log_p", "log_q")
    )
    return Levels(limit, *zolotarev(8.0 / limit, row["buffers"]), p, q)
