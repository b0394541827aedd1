"""Anytime Toeplitz mechanism: a stream without a known end, in constant memory.

Guarantee: rho-zCDP for streams that differ in one element by at most `bound`, all releases together, adaptive
inputs, up to `limit` releases; the default limit of 2^40 is a release every millisecond for 34 years.
Error: V_t is at most 1.26 (limit 2^20) to 1.31 (2^40) times what `SquareRoot(t)` has, which knows when to stop, at
every t from 8 to the limit; 1.51 for 2^50.
Cost: one draw and O(buffers) operations a step, `buffers` vectors of memory, 6 (limit 2^20) to 14 (2^50).
Ours. L = diag(p) · F · diag(q) as in `balanced_toeplitz`, with p growing about like √t and q falling as fast, so
that late draws cost early elements little. docs/balanced.md derives it; research/fit_anytime.py fitted p and q.

p and q are constant while the eleven leading bits of t stay the same. Within such a *level* every sum over steps is
geometric, so norms of rows and columns have closed forms, level by level, whatever the limit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, ClassVar, cast

import numpy as np
import scipy  # its parts are loaded when they are first used
from numpy.typing import NDArray

from dpstream.arguments import check_whole
from dpstream.errors import InvalidArgument
from dpstream.mechanisms.base import NoiseLaw, check_noise_law
from dpstream.mechanisms.buffered_toeplitz import Exponentials, zolotarev
from dpstream.mechanisms.fitted_table import read_table
from dpstream.mechanisms.recurrence import RecurrenceMechanism
from dpstream.mechanisms.scaled_toeplitz import to_float32_precision
from dpstream.mechanisms.toeplitz import SENSITIVITY_MARGIN, lower_toeplitz
from dpstream.participation import Participation

__all__ = ["AnytimeToeplitz"]

#: Levels to an octave; steps below twice as many have a level each.
LEVELS = 1024

#: Where, in a level, columns are looked at; between two such places they are bounded.
PARTS = 2

TABLE = "anytime_table.json"

#: Up to here means are taken over every step.
STEP_BY_STEP = 2**20


@dataclass(frozen=True)
class AnytimeToeplitz(RecurrenceMechanism):
    """L = diag(p) · F · diag(q), F Toeplitz with l_0 = 1, l_j = Σ_i weights_i (1 - gaps_i)^j; R = L⁻¹A.

    Parameters
    ----------
    limit
        The number of releases that the guarantee covers, rounded up to 2^20, 2^24, 2^30, 2^40 or 2^50. A higher limit
        costs memory and, up to 2^40, hardly any error. Computing the norms takes a second or two, once.

    Notes
    -----
    Guarantee.

    * Notion: ρ-zCDP with Gaussian noise, for all releases together.
    * Neighbours: streams that differ in one step by at most `bound` (ℓ2), or as `Participation` says.
    * Horizon: `limit` releases; a further one is refused. Stopping earlier needs no plan.
    * Adaptivity: inputs may depend on earlier releases.
    * Key: secret, uniform, and used for this stream only.

    The sensitivity is an upper bound, at most 0.1 % above the exact one; for one person in several steps it is
    `times` as much.

    Examples
    --------
    >>> m = AnytimeToeplitz()
    >>> m == AnytimeToeplitz(limit=10**12), m.horizon == 2**40, m.memory
    (True, True, 12)
    >>> round(m.variance(2**20), 1)  # SquareRoot(2**20) has 30.0
    38.5
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
        return self._levels.q[_level(np.arange(first, first + count))]

    def output_scale(self, first: int, count: int) -> NDArray[np.float64]:
        """Return p_t."""
        return self._levels.p[_level(np.arange(first, first + count))]

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
        return SENSITIVITY_MARGIN * participation.times * self._levels.column_bound**0.5, False

    def squared_row_norm(self, t: int) -> float:
        return float(self._levels.row_norms(np.array([t]))[0])

    def squared_row_norms(self, steps: int) -> NDArray[np.float64]:
        return self._levels.row_norms(np.arange(1, steps + 1))

    def max_squared_row_norm(self, steps: int) -> float:
        # p jumps from level to level; in between, row norms drift one way, and a level's ends tell.
        starts, widths = _levels_to(steps)
        return float(self._levels.row_norms(np.concatenate((starts, starts + widths - 1))).max())

    def mean_squared_row_norm(self, steps: int) -> float:
        if steps <= STEP_BY_STEP:
            return super().mean_squared_row_norm(steps)
        # Good to about 2e-4: the drift within a level is taken as linear.
        starts, widths = _levels_to(steps)
        ends = self._levels.row_norms(starts) + self._levels.row_norms(starts + widths - 1)
        return float(0.5 * (ends @ widths) / steps)


class Levels:
    """Rows and columns of L = diag(p) · F · diag(q) and R = L⁻¹A, for p and q constant on levels.

    Notation as in `scaled_toeplitz`: F⁻¹A has the coefficients 1, v_0 + Σ_a v_a η_a^m, x = 1/p,
    R_ij = (Y_i + Σ_a u_a(j) η_a^(i-j)) / q_i. With k steps from the start of a level,
    u_a = scale_a (η_a^k M_a + x Σ_{1≤i≤k} η_a^i) and, but for k = 0, Y = v_0 x + Σ_a A_a η_a^k.
    """

    def __init__(
        self, limit: int, left: Exponentials, right: Exponentials, p: NDArray[np.float64], q: NDArray[np.float64]
    ) -> None:
        self.left, self.right, self.p, self.q = left, right, p, q
        self.starts, widths = _levels_to(limit)
        self.widths = widths.astype(np.float64)

    def factors(self, steps: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Dense L and R of the first `steps` releases."""
        level = _level(np.arange(1, steps + 1))
        p, q = self.p[level], self.q[level]
        lags = np.arange(steps, dtype=np.float64)
        inverse = lower_toeplitz(np.append(1.0, np.diff(self.right.at(lags)))) / p
        # Column j of R adds up the columns k ≥ j of L⁻¹.
        R = np.cumsum(inverse[:, ::-1], axis=1)[:, ::-1] / q[:, None]
        return p[:, None] * lower_toeplitz(self.left.at(lags)) * q, np.tril(R)

    def row_norms(self, steps: NDArray[np.int64]) -> NDArray[np.float64]:
        """‖L_t‖² at these steps."""
        level = _level(steps)
        inside = (steps - self.starts[level]).astype(np.float64)
        p2, q2 = self.p[level] ** 2, self.q[level] ** 2
        total = q2.copy()
        for pair, rate in enumerate(self._row_rates.tolist()):
            past = np.exp(-rate * inside) * self._heard[level, pair] + q2 * _sum_from_one(np.array(rate), inside)
            total += self._row_weights[pair] * past
        return p2 * total

    @cached_property
    def _row_rates(self) -> NDArray[np.float64]:
        a, b = np.triu_indices(self.left.rates.size)
        return self.left.rates[a] + self.left.rates[b]

    @cached_property
    def _row_weights(self) -> NDArray[np.float64]:
        a, b = np.triu_indices(self.left.rates.size)
        return np.where(a == b, 1.0, 2.0) * self.left.weights[a] * self.left.weights[b]

    @cached_property
    def _heard(self) -> NDArray[np.float64]:
        """Σ_{j<b} exp(-rate (b-j)) q_j² at each level's start b, for each pair of buffers."""
        rates, widths = self._row_rates[None, :], self.widths[:, None]
        arriving = self.q[:, None] ** 2 * _sum_from_one(rates, widths)
        return _accumulate(np.exp(-rates * widths), arriving)[:-1]

    @cached_property
    def column_bound(self) -> float:
        """No ‖R e_j‖² exceeds this. Exact where levels are single steps, else at most 0.1 % above.

        From place k to a later place in the same level every part of a column's norm moves one way or is bounded
        by what it takes in: the sum over later rows of Y² falls; u_a and the filtered 1/q² go straight to their
        limits; the filtered Y/q² is at most what it would be with the largest Y of the stretch throughout.
        """
        eta, v, v0 = self.right.rates[1:], self.right.weights[1:], float(self.right.weights[0])
        scale = v * self.right.gaps[1:] / (1.0 - self.right.gaps[1:])
        x, inverse, B = 1.0 / self.p, self.q**-2.0, self.widths
        a, b = np.triu_indices(eta.size)
        pair, twice = eta[a] + eta[b], np.where(a == b, 1.0, 2.0)

        memory = _accumulate(np.exp(-eta * B[:, None]), x[:, None] * _sum_from_one(eta[None, :], B[:, None]))[:-1]
        before = np.append(0.0, x[:-1])
        rise = x - before
        decay = np.exp(-eta * B[:, None])
        E = _accumulate(decay, decay * rise[:, None])[:-1]
        A, flat = v * (E + rise[:, None]), v0 * x
        first = rise + E @ v + v0 * before  # Y at the level's first step

        def own(k: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
            """Sums over the rest of the level, from place k on: Y²/q², filtered Y/q², filtered 1/q²."""
            rest = B - k
            now = A * np.exp(-eta * k[:, None])
            G1, G2 = _sum_from_zero(eta, rest), _sum_from_zero(pair, rest)
            squares = ((now[:, a] * now[:, b] * G2) @ twice + 2.0 * flat * (now * G1).sum(1) + flat**2 * rest) * inverse
            full = np.empty((B.size, eta.size, eta.size), dtype=G2.dtype)
            full[:, a, b] = full[:, b, a] = G2
            crossed = (np.einsum("mab,mb->ma", full, now) + flat[:, None] * G1) * inverse[:, None]
            at_start = k == 0.0
            formula = flat + A.sum(1)
            squares += np.where(at_start, (first**2 - formula**2) * inverse, 0.0)
            crossed += np.where(at_start, (first - formula) * inverse, 0.0)[:, None]
            return squares, crossed, G2 * inverse[:, None]

        whole, crossed, square = own(np.zeros(B.size))
        later_whole = np.append(np.cumsum(whole[::-1])[::-1][1:], 0.0)
        later_crossed = _accumulate(decay[::-1], crossed[::-1])[:-1][::-1]
        later_square = _accumulate(np.exp(-pair * B[:, None])[::-1], square[::-1])[:-1][::-1]

        def parts(k: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
            whole, crossed, square = own(k)
            rest = (B - k)[:, None]
            u = scale * (np.exp(-eta * k[:, None]) * memory + x[:, None] * _sum_from_one(eta[None, :], k[:, None]))
            return (
                u,
                whole + later_whole,
                crossed + np.exp(-eta * rest) * later_crossed,
                square + np.exp(-pair * rest) * later_square,
            )

        largest = 0.0
        k = np.zeros(B.size)
        u, whole, crossed, square = parts(k)
        for part in range(1, PARTS + 1):
            end = np.floor((B - 1.0) * (part / PARTS))
            u_end, whole_end, crossed_end, square_end = parts(end)
            stretch = (end - k)[:, None]
            Y = flat + np.maximum(A * np.exp(-eta * k[:, None]), A * np.exp(-eta * end[:, None])).sum(1)
            Y = np.where(k == 0.0, np.maximum(Y, first), Y)
            taken = (Y * inverse)[:, None] * _sum_from_zero(eta, end - k) + np.exp(-eta * stretch) * crossed_end
            most_u = np.maximum(u, u_end)
            most_crossed = np.maximum(np.maximum(taken, crossed_end), 0.0)
            most_square = np.maximum(square, square_end)
            bound = whole + 2.0 * (most_u * most_crossed).sum(1) + (most_u[:, a] * most_u[:, b] * most_square) @ twice
            largest = max(largest, float(bound.max()))
            k, u, whole, crossed, square = end, u_end, whole_end, crossed_end, square_end
        return largest


def _sum_from_one(rates: NDArray[np.float64], counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Σ_{1 ≤ i ≤ count} exp(-rate · i), rates and counts broadcast."""
    sums: NDArray[np.float64] = np.expm1(-rates * counts) / -np.expm1(rates)
    return sums


def _sum_from_zero(rates: NDArray[np.float64], counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Σ_{0 ≤ i < count} exp(-rate · i), an array (counts, rates)."""
    sums: NDArray[np.float64] = np.expm1(-rates[None, :] * counts[:, None]) / np.expm1(-rates)
    return sums


def _accumulate(decay: NDArray[np.float64], arriving: NDArray[np.float64]) -> NDArray[np.float64]:
    """s_0 = 0, s_{m+1} = decay_m s_m + arriving_m, all of them."""
    states = np.zeros((decay.shape[0] + 1, decay.shape[1]), dtype=decay.dtype)
    for m in range(decay.shape[0]):
        np.multiply(decay[m], states[m], out=states[m + 1])
        states[m + 1] += arriving[m]
    return states


def _level(steps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number the levels from 0: a step's level follows from its eleven leading bits."""
    octave = np.frexp(steps.astype(np.float64))[1].astype(np.int64) - 1  # exact: steps stay below 2^53
    shift = np.maximum(octave - (LEVELS.bit_length() - 1), 0)
    level: NDArray[np.int64] = LEVELS * shift + (steps >> shift) - 1
    return level


def _levels_to(steps: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First step and width of each level up to `steps`, the last one cut there."""
    count = int(_level(np.array([steps]))[0]) + 1
    index = np.arange(1, count + 1)
    shift = np.maximum((index - LEVELS) // LEVELS, 0)
    starts = (index - LEVELS * shift) << shift
    return starts, np.diff(np.append(starts, steps + 1))


@cache
def _table() -> dict[int, dict[str, Any]]:
    return {2 ** cast("int", row["log2_limit"]): row for row in read_table(TABLE).content["limits"]}


@cache
def _levels(limit: int) -> Levels:
    """The mechanism of this limit: log p and log q are cubic splines in ln t, taken in the middle of each level."""
    row = _table()[limit]
    coefficients = np.array([row["log_p"], row["log_q"]]).T
    knots = np.linspace(0.0, np.log(limit), coefficients.shape[0] - 2)
    padded = np.concatenate((knots[[0, 0, 0]], knots, knots[[-1, -1, -1]]))
    starts, widths = _levels_to(limit)
    p, q = np.exp(scipy.interpolate.BSpline(padded, coefficients, 3)(np.log(starts + 0.5 * (widths - 1)))).T.copy()
    p, q = to_float32_precision(p), to_float32_precision(q)
    return Levels(limit, *zolotarev(8.0 / limit, row["buffers"]), p, q)
