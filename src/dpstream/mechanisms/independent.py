"""Independent noise for every step: the baseline, and plain DP-SGD when its increments are used.

Guarantee: rho-zCDP (Gaussian) or pure epsilon-DP (Laplace) for streams that differ as the participation says, all
releases together, adaptive inputs.
Error: a step alone has V = 1, the least there is; a running total has V_t = t.
Cost: one draw a step; the running total is the only vector kept.
L = A, R = I.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpstream.arguments import check_horizon
from dpstream.mechanisms.base import NoiseLaw, Value, check_noise_law
from dpstream.mechanisms.increments import IncrementMechanism
from dpstream.participation import Participation

__all__ = ["Independent"]


@dataclass(frozen=True)
class Independent(IncrementMechanism):
    """Fresh noise at every step, added up: L = A, R = I.

    Parameters
    ----------
    horizon
        The number of releases.
    noise
        "gaussian" or "laplace".

    Notes
    -----
    Guarantee.

    * Notion: ρ-zCDP with Gaussian, ε-DP with Laplace noise, for all releases together.
    * Neighbours: streams that differ in one step by at most `per_person` (ℓ2; ℓ1 for Laplace), or as `Participation`
      says.
    * Horizon: `horizon` releases; a further one is refused.
    * Adaptivity: inputs may depend on earlier releases.
    * Key: secret, uniform, and used for this stream only.

    Examples
    --------
    >>> m = Independent(2048)
    >>> epochs = Participation(times=8, separation=256)
    >>> round(m.max_variance(window=1), 9), round(m.mean_variance(participation=epochs) ** 0.5, 2)
    (1.0, 90.53)
    """

    horizon: int
    noise: NoiseLaw = field(default="gaussian", kw_only=True)

    reference: ClassVar[str] = "Abadi et al. 2016, arXiv:1607.00133 (as DP-SGD)"

    def __post_init__(self) -> None:
        object.__setattr__(self, "horizon", check_horizon(self.horizon))
        check_noise_law("Independent", self.noise)

    @property
    def increment_memory(self) -> int:
        """Nothing is remembered."""
        return 0

    def strategy(self, count: int) -> NDArray[np.float64]:
        return np.append(1.0, np.zeros(count - 1))

    def increments(self, count: int) -> NDArray[np.float64]:
        return self.strategy(count)

    def increment_scale(self, first: int, count: int) -> NDArray[np.float64]:
        return np.ones(count)

    @property
    def even_steps(self) -> int:
        """All."""
        return self.horizon

    def advance_increment(self, buffers: tuple[Value, ...], draw: Value) -> tuple[Value, tuple[Value, ...]]:
        return draw, ()

    def _sensitivity(self, participation: Participation) -> tuple[float, bool]:
        k = participation.times
        return (float(k) if self.noise == "laplace" else k**0.5), True

    def plain_row_norm(self, t: int) -> float:
        return math.sqrt(t)

    def squared_row_norm(self, t: int) -> float:
        return float(t)

    def squared_row_norms(self, steps: int) -> NDArray[np.float64]:
        return np.arange(1.0, steps + 1.0)

    def max_squared_row_norm(self, steps: int) -> float:
        return float(steps)

    def mean_squared_row_norm(self, steps: int) -> float:
        return (steps + 1) / 2

    def row_weights(self, t: int) -> list[float]:
        return [1.0] * t

    def window_weights(self, t: int, s: int) -> list[tuple[float, float]]:
        return [(1.0, 1.0)] * s + [(1.0, 0.0)] * (t - s)

    def squared_window_norm(self, t: int, s: int) -> float:
        return float(t - s)

    def squared_window_norms(self, window: int, steps: int) -> NDArray[np.float64]:
        norms: NDArray[np.float64] = np.minimum(np.arange(1.0, steps + 1.0), float(window))
        return norms

    def max_squared_window_norm(self, window: int, steps: int) -> float:
        return float(min(window, steps))
