"""Streaming a buffered Toeplitz factor: a few one-pole buffers.

With coefficients l_0 = 1, l_j = Σ_i ω_i θ_i^j, the noise ``(L z)_t`` needs no history: each buffer decays and takes the
draw in. The decay is stored as the gap 1 - θ, which for slow buffers is far below the spacing of floats near 1.

    u = q_t z,   s_i ← s_i - gap_i s_i,   noise_t = p_t (u + Σ ω_i s_i),   s_i ← s_i + u
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # its parts are loaded when they are first used
from numpy.typing import NDArray

from dpstream.mechanisms.base import DrawsPerStep, Mechanism, State, Value, check_window_steps, sampled_steps

__all__ = ["RecurrenceMechanism", "RecurrenceState"]


@dataclass(frozen=True)
class RecurrenceState(State):
    """The buffers s_i after t releases; empty before the first."""

    t: int
    buffers: tuple[Value, ...]


class RecurrenceMechanism(Mechanism):
    """A mechanism whose L is diag(p) · F · diag(q) with F a buffered Toeplitz matrix of unit diagonal."""

    @property
    @abstractmethod
    def gaps(self) -> NDArray[np.float64]:
        """1 - θ_i for each buffer, slowest first."""

    @property
    @abstractmethod
    def weights(self) -> NDArray[np.float64]:
        """ω_i for each buffer."""

    def input_scale(self, first: int, count: int) -> NDArray[np.float64]:
        """q_t of steps ``first .. first + count - 1``: what draw t is multiplied by."""
        return np.ones(count)

    def output_scale(self, first: int, count: int) -> NDArray[np.float64]:
        """p_t of the same steps: what release t's noise is multiplied by."""
        return np.ones(count)

    def squared_row_norm_bound(self, steps: int) -> float:
        """At least the largest ‖L_t‖² over t = 1..steps, cheaply: what a proof needs, not what a variance is."""
        return self.max_squared_row_norm(steps)

    def squared_window_norm(self, t: int, s: int) -> float:
        check_window_steps(t)
        entering, leaving = self.input_scale(1, t), self.output_scale(1, t)
        f = self._coefficients(t)[::-1]
        row = leaving[t - 1] * f
        if s:
            row[:s] -= leaving[s - 1] * f[t - s :]
        row *= entering
        return float(row @ row)

    def squared_window_norms(self, window: int, steps: int) -> NDArray[np.float64]:
        """Return ‖L_t‖² + ‖L_s‖² - 2 L_t·L_s with s = t - window: the last term is one filter for each pair of buffers.

        L_t·L_s = p_t p_s (q_s² f_w + Σ_ab ω_a θ_a^w ω_b Σ_{j<s} q_j² (θ_a θ_b)^(s-j)), with f the coefficients of F.
        """
        check_window_steps(steps)
        norms = self.squared_row_norms(steps).copy()
        w, earlier = window, steps - window
        if earlier <= 0:
            return norms
        entering, leaving = self.input_scale(1, earlier) ** 2, self.output_scale(1, steps)
        rates = -np.log1p(-self.gaps)
        shared = entering * self._coefficients(w + 1)[w]
        for rate, weight in zip(rates.tolist(), (self.weights * np.exp(-rates * w)).tolist(), strict=True):
            for other, other_weight in zip(rates.tolist(), self.weights.tolist(), strict=True):
                pole = np.exp(-(rate + other))
                shared += weight * other_weight * scipy.signal.lfilter([0.0, pole], [1.0, -pole], entering)
        late = norms[w:] + norms[:earlier] - 2.0 * leaving[w:] * leaving[:earlier] * shared
        return np.append(norms[:w], late)

    def _coefficients(self, count: int) -> NDArray[np.float64]:
        """Return the first `count` coefficients of F."""
        lags = np.arange(count, dtype=np.float64)
        f = np.zeros(count)
        for rate, weight in zip((-np.log1p(-self.gaps)).tolist(), self.weights.tolist(), strict=True):
            f += weight * np.exp(-np.minimum(rate * lags, 740.0))
        f[0] = 1.0
        return f

    @property
    def draws_per_step(self) -> DrawsPerStep:
        return DrawsPerStep(1, 1.0)

    @property
    def memory(self) -> int:
        return len(self.gaps)

    def computed_numbers(self) -> Iterator[NDArray[np.float64]]:
        """Return gaps and weights, and the scalings of sampled steps."""
        yield self.gaps
        yield self.weights
        for first, count in sampled_steps(self.horizon):
            yield self.input_scale(first, count)
            yield self.output_scale(first, count)

    def start(self) -> RecurrenceState:
        return RecurrenceState(0, ())

    def draws_at(self, t: int) -> int:
        return 1

    def advance(self, state: RecurrenceState, draws: Sequence[Value]) -> tuple[Value, RecurrenceState]:
        t = self._next_step(state)
        (draw,) = draws
        arriving = draw * float(self.input_scale(t, 1)[0])
        noise = arriving
        buffers = []
        for i, weight in enumerate(self.weights.tolist()):
            if not state.buffers:
                buffers.append(arriving)
                continue
            decayed = state.buffers[i] - state.buffers[i] * float(self.gaps[i])
            noise = noise + decayed * weight
            buffers.append(decayed + arriving)
        return noise * float(self.output_scale(t, 1)[0]), RecurrenceState(t, tuple(buffers))
