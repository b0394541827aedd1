"""Mechanisms that belong to no streaming kind: only their pure step and their algebra are known."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpstream.mechanisms import BalancedToeplitz, Binary, Honaker, SmoothBinary, SquareRoot
from dpstream.mechanisms.base import DrawsPerStep, Mechanism, NoiseLaw, State
from dpstream.participation import Participation


@dataclass(frozen=True)
class OfNoKind(Mechanism):
    """Another mechanism, seen through the contract alone."""

    horizon: int
    noise: NoiseLaw = "gaussian"

    reference: ClassVar[str] = "tests"
    seen: ClassVar[Any] = BalancedToeplitz

    def __post_init__(self) -> None:
        object.__setattr__(self, "sensitivity_of", self._inside.sensitivity_of)

    @property
    def _inside(self) -> Mechanism:
        seen = type(self).seen
        return seen(self.horizon) if self.noise == "gaussian" else seen(self.horizon, noise=self.noise)

    @property
    def draws_per_step(self) -> DrawsPerStep:
        return self._inside.draws_per_step

    @property
    def memory(self) -> int:
        return self._inside.memory

    def start(self) -> State:
        return self._inside.start()

    def draws_at(self, t: int) -> int:
        return self._inside.draws_at(t)

    def advance(self, state: Any, draws: Sequence[Any]) -> tuple[Any, Any]:
        return self._inside.advance(state, draws)

    def _factors(self, steps: int) -> tuple[np.ndarray, np.ndarray]:
        return self._inside._factors(steps)

    def _sensitivity(self, participation: Participation) -> tuple[float, bool]:
        return self._inside._sensitivity(participation)

    def squared_row_norm(self, t: int) -> float:
        return self._inside.squared_row_norm(t)

    def squared_row_norms(self, steps: int) -> np.ndarray:
        return self._inside.squared_row_norms(steps)


class LikeHonaker(OfNoKind):
    """Mixes what it pops."""

    seen = Honaker


class LikeSmooth(OfNoKind):
    """Two draws in some steps, and a sensitivity of its releases."""

    seen = SmoothBinary


class LikeBinary(OfNoKind):
    """For Laplace noise."""

    seen = Binary


class LikeSquareRoot(OfNoKind):
    """Uses the FFT on arrays, and sums term by term otherwise."""

    seen = SquareRoot
