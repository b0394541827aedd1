"""Fitted Toeplitz mechanism: poles and zeros chosen for the participation or the windows that are asked for.

Guarantee: rho-zCDP for streams that differ as the participation says, all releases together, adaptive inputs.
Error: training, 2048 steps, 8 epochs, separation 256, RMSE at 2ρ = 1: 11.1 with 2 buffers, 10.8 with 4, 10.7 with 6
(BandMF with 255 vectors: 10.5; noise drawn for each step alone: 90.5). Days, weeks, months and years from one stream of
365 days: at most 1.46 times the variance that the best mechanism of this kind for one of them has.
Cost: one draw and O(buffers) operations a step, `buffers` vectors of memory and one for the running total.
Real poles: buffered linear Toeplitz, Dvijotham et al. 2024, arXiv:2404.16706, and McMahan et al. 2024,
arXiv:2408.08868, for several participations. Complex pairs, column normalisation with an exact sensitivity, and
windows: ours. docs/mathematics.md has the proofs.

R(x) = Π (1 - ζ_i x) / Π (1 - π_i x) and L = A · diag(D) · R⁻¹, with D = 1 or the norms of R's columns. A complex pair
turns and shrinks two buffers at every step.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dpstream import portable
from dpstream.arguments import check_horizon
from dpstream.errors import FitNotConverged, InvalidArgument
from dpstream.mechanisms.base import NoiseLaw, Value, check_noise_law
from dpstream.mechanisms.best_fit import LARGEST_NORMALIZED, MOST_BUFFERS, best_fit
from dpstream.mechanisms.exponential_sums import ComplexArray, ExponentialSum, geometric, rational_series, triangular
from dpstream.mechanisms.fit_arguments import checked_roots, checked_scales
from dpstream.mechanisms.fitted_scales import scale_factors
from dpstream.mechanisms.increment_rows import IncrementRows
from dpstream.mechanisms.increments import IncrementMechanism
from dpstream.mechanisms.lag_envelope import lag_envelope_bound
from dpstream.mechanisms.matrix_participation import LARGEST_GRAM, walked_sensitivity
from dpstream.mechanisms.toeplitz import SENSITIVITY_MARGIN
from dpstream.participation import Participation

__all__ = ["FittedToeplitz"]

RealArray = NDArray[np.float64]

#: What rounding may move the stored matrix and the formulas of its sensitivity by: a tenth of SENSITIVITY_MARGIN.
TOLERANCE = 1e-10
#: Scales of increments are computed for so many steps at a time.
SCALE_BLOCK = 1024


@dataclass(frozen=True, repr=False)
class FittedToeplitz(IncrementMechanism):
    """L = A · diag(D) · R⁻¹ with R(x) = Π (1 - zeros_i x) / Π (1 - poles_i x).

    Parameters
    ----------
    horizon
        The number of releases.
    poles, zeros
        As many poles as zeros, inside the unit circle, none of them 0, all different, closed under conjugation. They
        are kept in order: real ones first, largest first, then pairs.
    normalized
        Multiply increment t by D_t, the norm of column t of R, so that every column of R D⁻¹ has norm 1. The largest
        variance falls by 6 to 10 %; needs at most 2^22 steps.
    scales
        Positive factors of D at equal distances from the first step to the last, linear between, for normalised columns
        only. Empty: 1. See `fitted_scales`.

    Notes
    -----
    Guarantee.

    * Notion: ρ-zCDP with Gaussian noise, for all releases together.
    * Neighbours: streams that differ in one step by at most `per_person` (ℓ2), or as `Participation` says.
    * Horizon: `horizon` releases; a further one is refused.
    * Adaptivity: inputs may depend on earlier releases.
    * Key: secret, uniform, and used for this stream only.

    The sensitivity under a participation is exact if poles and zeros are real, positive and interlace,
    π_1 > ζ_1 > π_2 > …, and there are no scales, or for two contributions up to 4,096 steps; otherwise it is an upper
    bound for contributions in any directions.

    Examples
    --------
    >>> m = FittedToeplitz(2048, poles=(0.99, 0.75), zeros=(0.93, 0.33), normalized=False)
    >>> m.memory, round(m.sensitivity(Participation(8, 256)), 3)
    (3, 5.095)
    """

    horizon: int
    poles: tuple[complex, ...]
    zeros: tuple[complex, ...]
    normalized: bool = True
    scales: tuple[float, ...] = ()
    noise: NoiseLaw = field(default="gaussian", kw_only=True, repr=False, compare=False)

    reference: ClassVar[str] = "dpstream, docs/mathematics.md; real poles: arXiv:2404.16706, arXiv:2408.08868"

    def __post_init__(self) -> None:
        horizon = check_horizon(self.horizon, most=2**40)
        if not isinstance(self.normalized, bool):
            raise InvalidArgument("normalized", self.normalized, "True or False")
        if self.normalized and horizon > LARGEST_NORMALIZED:
            raise InvalidArgument("horizon", horizon, f"at most {LARGEST_NORMALIZED}, or give normalized=False")
        check_noise_law("FittedToeplitz", self.noise, allowed=("gaussian",))
        object.__setattr__(self, "scales", checked_scales(self.scales))
        if self.scales and not self.normalized:
            raise InvalidArgument("scales", self.scales, "empty unless columns are normalised: give normalized=True")
        poles, zeros = checked_roots("poles", self.poles), checked_roots("zeros", self.zeros)
        if len(zeros) != len(poles) or not poles:
            raise InvalidArgument(
                "zeros", self.zeros, f"as many numbers as there are poles, {len(poles)}, and at least 1"
            )
        if len(poles) > MOST_BUFFERS:
            raise InvalidArgument("poles", self.poles, f"at most {MOST_BUFFERS} numbers")
        for name, value in (("horizon", horizon), ("poles", poles), ("zeros", zeros)):
            object.__setattr__(self, name, value)
        if not self._rounding <= TOLERANCE:
            raise InvalidArgument(
                "poles",
                self.poles,
                "farther apart from each other and from the unit circle: with these zeros they cannot be told apart in"
                " floating point; give fewer buffers",
            )

    # -- fitting --------------------------------------------------------------------------------------------------

    @classmethod
    def fit(
        cls,
        horizon: int,
        *,
        participation: Participation | None = None,
        windows: Sequence[int] | None = None,
        objective: Literal["max", "mean"] = "max",
        buffers: int | None = None,
        complex_pairs: bool | None = None,
        normalized: bool | None = None,
    ) -> FittedToeplitz:
        """Return the mechanism of this kind with the least error under `participation`.

        The result says everything: its poles and zeros are rounded to 12 digits, and a store keeps them. The same
        arguments give the same mechanism on the same machine; on another one the last digits may differ, and with them
        the stream: fit once and hand the result on.

        Parameters
        ----------
        participation
            How often one person may appear; None for one step.
        windows
            Lengths of the windows whose sums are wanted, in increasing order. What is least then is the largest ratio,
            over the windows, of the variance to what a mechanism for this window alone has. None for running totals.
        objective
            Whether the largest or the mean variance over time is meant.
        buffers
            How many vectors the noise of increments may remember. Left out: 4 (3 for windows; fewer at short horizons).
        complex_pairs
            Whether poles and zeros may be complex: lower errors under several participations, at a sensitivity that is
            an upper bound. They come with two real ones, so that the number of buffers is even and at least 4. Left
            out: both are tried, where the number of buffers and the participation allow, and the better one returned.
        normalized
            As for the constructor. Left out: for several participations, and for windows up to 16,384 steps.

        Warns
        -----
        FitNotConverged
            If the search stopped before it came to rest. The mechanism is private all the same.

        Examples
        --------
        >>> m = FittedToeplitz.fit(365, windows=(1, 7, 30, 365))
        >>> [round(m.max_variance(window=w), 1) for w in (1, 7, 30, 365)]
        [1.5, 5.1, 9.3, 12.6]
        """
        best, converged = best_fit(cls, horizon, participation, windows, objective, buffers, complex_pairs, normalized)
        if not converged:
            warnings.warn(
                FitNotConverged(f"the fit for {best.horizon} steps stopped before it came to rest"), stacklevel=2
            )
        return best

    # -- what it is -----------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        scales = f", scales={self.scales!r}" if self.scales else ""
        return (
            f"FittedToeplitz(horizon={self.horizon!r}, poles={self.poles!r}, zeros={self.zeros!r},"
            f" normalized={self.normalized!r}{scales})"
        )

    @property
    def interlacing(self) -> bool:
        """Whether poles and zeros are real and positive with π_1 > ζ_1 > π_2 > …: then the sensitivity is exact."""
        if any(isinstance(root, complex) for root in (*self.poles, *self.zeros)):
            return False
        chain = np.ravel(np.column_stack([self.poles, self.zeros])).real
        return bool((np.diff(chain) < 0).all() and chain[-1] > 0)

    @property
    def increment_memory(self) -> int:
        """One vector a buffer; a complex pair is two."""
        return len(self.poles)

    @cached_property
    def _strategy(self) -> ExponentialSum:
        """The coefficients of R."""
        return rational_series(_array(self.zeros), _array(self.poles))

    @cached_property
    def _increments(self) -> ExponentialSum:
        """The coefficients of R⁻¹."""
        return rational_series(_array(self.poles), _array(self.zeros))

    @cached_property
    def _left(self) -> ExponentialSum:
        """The coefficients of A R⁻¹; the pole at 1 comes last."""
        return rational_series(_array(self.poles), np.append(_array(self.zeros), 1.0))

    @cached_property
    def _rounding(self) -> float:
        """How far rounding can move the matrix that is streamed, and the formulas below, relative to what they are.

        docs/mathematics.md, "What is stored and what is proved", derives it.
        """
        unit, d = 2.0**-53, len(self.poles)
        if len({*self.poles, *self.zeros}) < 2 * d:
            return np.inf
        with np.errstate(all="ignore"):
            moved = 0.0
            for a, (zeta, weight) in enumerate(zip(_array(self.zeros), self._increments.weights, strict=True)):
                rest = rational_series(np.delete(_array(self.zeros), a), _array(self.poles))
                decays = geometric(rest.logs.real, np.asarray(float(self.horizon)))
                moved += float(abs(weight * zeta)) * (float((np.abs(rest.weights) * decays).sum()) + 1.0)
            # Sensitivities stand on the strategy's sums, variances (a hundredth as accurate) on the increments'.
            r, g = (
                series.cancellation * float((np.abs(series.logs) / -series.logs.real).max())
                for series in (self._strategy, self._increments)
            )
        return 16 * d * unit * (moved + r + g / 100)

    def strategy(self, count: int) -> RealArray:
        return self._strategy.at(np.arange(count, dtype=np.float64))

    def increments(self, count: int) -> RealArray:
        return self._increments.at(np.arange(count, dtype=np.float64))

    def increment_scale(self, first: int, count: int) -> RealArray:
        """Return D_t: 1, or the norm of column t of R, which has ``horizon - t + 1`` entries, times its factor."""
        if not self.normalized:
            return np.ones(count)
        blocks = range((first - 1) // SCALE_BLOCK, (first + count - 2) // SCALE_BLOCK + 1)
        scales = np.concatenate([self._scale_block(block) for block in blocks])
        start = first - 1 - blocks[0] * SCALE_BLOCK
        return scales[start : start + count]

    def _scale_block(self, block: int) -> RealArray:
        """D of a block of steps: always the same steps together, so that the last digit does not depend on who asks."""
        if block not in self._scale_blocks:
            last = min((block + 1) * SCALE_BLOCK, self.horizon)
            left_over = np.arange(self.horizon - block * SCALE_BLOCK, self.horizon - last, -1, dtype=np.float64)
            norms = np.sqrt(self._strategy.squares(left_over))
            if self.scales:
                norms = norms * scale_factors(self.scales, self.horizon, self.horizon - left_over + 1.0)
            self._scale_blocks[block] = norms
        return self._scale_blocks[block]

    @cached_property
    def _scale_blocks(self) -> dict[int, RealArray]:
        return {}

    # -- streaming ------------------------------------------------------------------------------------------------

    @cached_property
    def buffer_steps(self) -> tuple[tuple[float, float, float, float], ...]:
        """(gap, turn, weight, weight of the turned half) of each real buffer (turn 0) and each pair, in order."""
        steps = []
        for zeta, weight in zip(self.zeros, self._increments.weights.tolist(), strict=True):
            if isinstance(zeta, float):
                steps.append((1.0 - zeta, 0.0, weight.real, 0.0))
            elif zeta.imag > 0:  # a pair: 2 Re(w s) with s = u + i v
                steps.append((1.0 - zeta.real, zeta.imag, 2.0 * weight.real, -2.0 * weight.imag))
        return tuple(steps)

    def streamed_numbers(self) -> RealArray:
        recurrence = self.as_recurrence
        return np.append(np.ravel(self.buffer_steps), () if recurrence is None else np.ravel(recurrence))

    def advance_increment(self, buffers: tuple[Value, ...], draw: Value) -> tuple[Value, tuple[Value, ...]]:
        if not buffers:
            nothing = draw * 0.0
            first = [half for _, turn, _, _ in self.buffer_steps for half in ((draw, nothing) if turn else (draw,))]
            return draw, tuple(first)
        noise, kept, held = draw, [], iter(buffers)
        for gap, turn, weight, turned_weight in self.buffer_steps:
            u = next(held)
            if not turn:
                u = u * (1.0 - gap)  # one product: a bound on its error shrinks with it
                noise = noise + u * weight
                kept.append(u + draw)
                continue
            v = next(held)
            u, v = u - u * gap - v * turn, v - v * gap + u * turn
            noise = noise + u * weight + v * turned_weight
            kept += [u + draw, v]
        return noise, tuple(kept)

    @property
    def as_recurrence(self) -> tuple[RealArray, RealArray] | None:
        """Gaps and weights of L itself, the running total first: what the exact lane streams.

        None with normalised columns, and unless poles and zeros interlace: parts of a release would cancel.
        """
        if self.normalized or not self.interlacing:
            return None
        gaps = np.append(0.0, 1.0 - np.array(self.zeros, dtype=np.float64))
        weights = self._left.weights.real
        return gaps, np.append(weights[-1], weights[:-1])

    def noise_of_release(self, t: int, draw: Callable[[int, int], Value]) -> Value:
        """Return (L z)_t, by the recurrence of L where the exact lane streams that."""
        recurrence = self.as_recurrence
        if recurrence is None:
            return super().noise_of_release(t, draw)
        gaps, weights = (numbers.tolist() for numbers in recurrence)
        noise = draw(1, 0)
        buffers = [noise] * len(gaps)
        for step in range(2, t + 1):
            arriving = noise = draw(step, 0)
            buffers = [buffer - buffer * gap for buffer, gap in zip(buffers, gaps, strict=True)]
            for buffer, weight in zip(buffers, weights, strict=True):
                noise = noise + buffer * weight
            buffers = [buffer + arriving for buffer in buffers]
        return noise

    # -- sensitivity ----------------------------------------------------------------------------------------------

    def _sensitivity(self, participation: Participation) -> tuple[float, bool]:
        k, b, T = participation.times, participation.separation, self.horizon
        single = 1.0 if self.normalized else math.sqrt(self._strategy.squares(np.array([float(T)]))[0])
        if self.scales:
            single = 1.0 / float(scale_factors(self.scales, T, np.arange(1.0, T + 1.0)).min())
        if k == 1:
            return SENSITIVITY_MARGIN * single, True
        if self.interlacing and not self.scales:
            return SENSITIVITY_MARGIN * math.sqrt(self._first_columns(k, b)), True
        bound = math.sqrt(lag_envelope_bound(self._strategy, T, k, b, normalized=self.normalized))
        bound = min(bound * single if self.scales else bound, k * single)
        scale = self.increment_scale(1, T) if self.normalized and T <= LARGEST_GRAM else None
        walked = walked_sensitivity(self.strategy(min(T, LARGEST_GRAM + 1)), scale, participation)
        if walked is None:
            return SENSITIVITY_MARGIN * bound, False
        return SENSITIVITY_MARGIN * min(walked[0], bound), walked[1]

    def _first_columns(self, times: int, separation: int) -> float:
        """‖Σ_{q<k} R D⁻¹ e_{qb}‖²: column q has the product v(M_q) · Σ_{p<q} π^((q-p)b)/D_p with those before it."""
        r, total = self._strategy, 0.0  # poles are real here
        decay = portable.exp(r.logs.real * separation)
        before = np.zeros(r.logs.size)
        for low in range(0, times, 4096):
            q = np.arange(low, min(low + 4096, times), dtype=np.float64)
            left_over = self.horizon - q * separation
            squares = r.squares(left_over)
            scale = np.sqrt(squares) if self.normalized else np.ones_like(squares)
            shared = r.partial_weights(left_over).real
            for i in range(q.size):
                total += float(squares[i] / (scale[i] * scale[i]) + 2.0 * portable.dot(shared[i], before) / scale[i])
                before = decay * (before + 1.0 / scale[i])
        return total

    # -- variances ------------------------------------------------------------------------------------------------

    @property
    def even_steps(self) -> int:
        """All steps, or none."""
        return 0 if self.normalized else self.horizon

    @cached_property
    def _rows(self) -> IncrementRows:
        return IncrementRows(self._increments, self.increment_scale(1, self.horizon))

    def plain_row_norm(self, t: int) -> float:
        return math.sqrt(self._left.squares(np.array([float(t)]))[0])

    def squared_row_norm(self, t: int) -> float:
        if self.normalized:
            return float(self._rows.norms[t - 1])
        return float(self._left.squares(np.array([float(t)]))[0])

    def squared_row_norms(self, steps: int) -> RealArray:
        if self.normalized:
            return self._rows.norms[:steps]
        return self._left.squares(np.arange(1.0, steps + 1.0))

    def max_squared_row_norm(self, steps: int) -> float:
        # Without normalisation each release has one more coefficient than the one before.
        return float(self._rows.norms[:steps].max()) if self.normalized else self.squared_row_norm(steps)

    def mean_squared_row_norm(self, steps: int) -> float:
        if self.normalized:
            return float(self._rows.norms[:steps].mean())
        left = self._left
        return float((left.pair_weights * triangular(left.pair_logs, steps)).sum().real) / steps

    def squared_window_norm(self, t: int, s: int) -> float:
        if self.normalized:
            return self._rows.window(t, s)
        return float(self._window_squares(t - s, np.array([float(t)]))[0])

    def squared_window_norms(self, window: int, steps: int) -> RealArray:
        if self.normalized:
            return self._rows.windows(window)[:steps]
        return self._window_squares(window, np.arange(1.0, steps + 1.0))

    def _window_squares(self, window: int, t: RealArray) -> RealArray:
        """Σ_{j<w} l_j² + Σ_{w≤j<t} (l_j - l_{j-w})²: the accumulator drops out of the second sum."""
        left = self._left
        start = left.squares(np.minimum(t, float(window)))
        late = left.weights * np.expm1(left.logs * window)
        rest = np.zeros_like(t)
        for i, a in enumerate(left.logs[:-1].tolist()):
            for j, b in enumerate(left.logs[:-1].tolist()):
                count = np.maximum(t - window, 0.0)
                rest += (late[i] * late[j] * geometric(np.asarray(a + b), count)).real
        return start + rest


def _array(roots: tuple[complex, ...]) -> ComplexArray:
    return np.array(roots, dtype=np.complex128)
