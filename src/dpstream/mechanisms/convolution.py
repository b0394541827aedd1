"""Streaming a Toeplitz factor of any coefficients: online convolution by blockwise FFT.

Release t needs all draws so far, but not one by one. Whenever 2^k is the largest power of two that divides t, the draws
of the last 2^k steps are convolved, by FFT, with the coefficients 1 .. 2^(k+1) - 1 and added to the 2^k releases that
come next; every pair (draw, later release) is met exactly once. Amortised O(log² T) a step.
Fischer and Stockmeyer 1974; used for private streams by Choquette-Choo et al. 2023.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstream import portable
from dpstream.mechanisms.base import DrawsPerStep, Mechanism, State, Value, check_window_steps, sampled_steps
from dpstream.mechanisms.toeplitz import series_product

__all__ = ["ConvolutionMechanism", "ConvolutionState", "carry_forward", "carry_size"]


#: How many coefficients a mechanism's identity looks at.
SAMPLED_COEFFICIENTS = 1024


def carry_size(t: int) -> int:
    """How many of the last draws are carried to as many coming releases, once release t is made."""
    return t & -t


def carry_forward(coefficients: NDArray[np.float64], block: NDArray[np.floating]) -> NDArray[np.float64]:
    """What `block`, the last n scaled draws (axis 0), adds to the next n releases.

    ``out[i] = Σ_j coefficients[n + i - j] · block[j]``, with coefficients beyond the last taken as 0. The same bits on
    every machine.
    """
    n = block.shape[0]
    padded = np.zeros(2 * n)
    padded[: min(2 * n, coefficients.size)] = coefficients[: 2 * n]
    if n > 32:
        return portable.tail_of_product(padded, block)
    # Term by term, which is faster here and has the smaller rounding error.
    columns = block.reshape(n, -1)
    out = np.zeros(columns.shape)
    for j in range(n):
        out += padded[n - j : 2 * n - j, None] * columns[j]
    return out.reshape(block.shape)


@dataclass(frozen=True)
class ConvolutionState(State):
    """`draws` are the scaled draws so far; `pending` is their part of coming releases, next one first."""

    t: int
    draws: tuple[Value, ...]
    pending: tuple[Value, ...]


class ConvolutionMechanism(Mechanism):
    """A mechanism whose L is F · diag(q) with F a Toeplitz matrix given by its coefficients."""

    @abstractmethod
    def coefficients(self, count: int) -> NDArray[np.float64]:
        """The first `count` coefficients of F."""

    def input_scale(self, first: int, count: int) -> NDArray[np.float64]:
        """q_t of steps ``first .. first + count - 1``: what draw t is multiplied by."""
        return np.ones(count)

    @property
    def draws_per_step(self) -> DrawsPerStep:
        return DrawsPerStep(1, 1.0)

    @property
    def memory(self) -> int:
        return 2 * (self.horizon or 10**6)

    @property
    def table_bytes(self) -> int:
        """Coefficients and scalings: two doubles a step."""
        return 16 * (self.horizon or 0)

    def computed_numbers(self) -> Iterator[NDArray[np.float64]]:
        """Return the first coefficients, and the scalings of sampled steps."""
        yield self.coefficients(min(self.horizon or SAMPLED_COEFFICIENTS, SAMPLED_COEFFICIENTS))
        for first, count in sampled_steps(self.horizon):
            yield self.input_scale(first, count)

    def noise_of_release(self, t: int, draw: Callable[[int, int], Value]) -> Value:
        """Return (L z)_t term by term: linear in t, where replaying the pure step without FFT would be quadratic."""
        scale = self.input_scale(1, t).tolist()
        coefficients = self.coefficients(t).tolist()
        noise = (draw(1, 0) * scale[0]) * coefficients[t - 1]
        for j in range(2, t + 1):
            noise = noise + (draw(j, 0) * scale[j - 1]) * coefficients[t - j]
        return noise

    def squared_window_norm(self, t: int, s: int) -> float:
        check_window_steps(t)
        f = self.coefficients(t)[::-1]
        row = f * self.input_scale(1, t)
        if s:
            row[:s] -= f[t - s :] * self.input_scale(1, s)
        return float(row @ row)

    def squared_window_norms(self, window: int, steps: int) -> NDArray[np.float64]:
        """Return ‖L_t‖² + ‖L_s‖² - 2 L_t·L_s, s = t - window, where L_t·L_s = Σ_j q_j² f_{s-j} f_{s-j+window}."""
        check_window_steps(steps)
        norms = self.squared_row_norms(steps).copy()
        earlier = steps - window
        if earlier <= 0:
            return norms
        f = self.coefficients(steps)
        shared = series_product(f[:earlier] * f[window:], self.input_scale(1, earlier) ** 2, earlier)
        return np.append(norms[:window], norms[window:] + norms[:earlier] - 2.0 * shared)

    def start(self) -> ConvolutionState:
        return ConvolutionState(0, (), ())

    def draws_at(self, t: int) -> int:
        return 1

    def advance(self, state: ConvolutionState, draws: Sequence[Value]) -> tuple[Value, ConvolutionState]:
        t = self._next_step(state)
        (draw,) = draws
        scaled = draw * float(self.input_scale(t, 1)[0])
        history = (*state.draws, scaled)
        if not isinstance(scaled, (float, np.ndarray, np.floating)):
            # Numbers that no FFT takes (balls, fractions): the definition, term by term.
            noise = scaled * float(self.coefficients(1)[0])
            for lag, coefficient in enumerate(self.coefficients(t).tolist()[1:], start=1):
                noise = noise + history[t - 1 - lag] * coefficient
            return noise, ConvolutionState(t, history, ())
        noise = scaled * float(self.coefficients(1)[0])
        pending = state.pending
        if pending:
            noise, pending = noise + pending[0], pending[1:]
        n = carry_size(t)
        coming = n if self.horizon is None else min(n, self.horizon - t)
        if coming == 0:
            return noise, ConvolutionState(t, history, ())
        carried = carry_forward(self.coefficients(2 * n), np.stack(history[-n:]))
        kept = len(pending)
        pending = tuple(carried[i] + pending[i] if i < kept else carried[i] for i in range(coming)) + pending[n:]
        return noise, ConvolutionState(t, history, pending)
