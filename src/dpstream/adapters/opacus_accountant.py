"""Opacus' accountant for correlated noise: ``PrivacyEngine(accountant="dpstream").get_epsilon(delta)``."""

from __future__ import annotations

import math

from opacus.accountants import IAccountant, register_accountant

from dpstream.adapters.torch import PrivateGradients
from dpstream.errors import InvalidArgument
from dpstream.gaussian_curve import gaussian_epsilon

__all__ = ["Accountant"]


class Accountant(IAccountant):
    """Answers with the budgets of the trainings that were made private with this engine.

    Several trainings on the same data add up exactly: Gaussian mechanisms of μ₁, μ₂, … together are one of √(Σ μ²).
    """

    def __init__(self) -> None:
        super().__init__()
        self._watched: list[PrivateGradients] = []

    def watch(self, private: PrivateGradients) -> None:
        """Count the steps of this training."""
        self._watched.append(private)

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Note a step; what it costs follows from the mechanism, not from the rate."""
        if not self._watched:
            raise InvalidArgument(
                "accountant", "dpstream", "used with dpstream.adapters.torch.make_private, whose noise it accounts for"
            )
        del noise_multiplier, sample_rate

    def get_epsilon(self, delta: float) -> float:
        """The least ε for this δ that everything released so far keeps."""
        mu = math.hypot(*(private.settings.mu_after(private.t) for private in self._watched))
        return gaussian_epsilon(mu, delta) if mu else 0.0

    def __len__(self) -> int:
        return sum(private.t for private in self._watched)

    @classmethod
    def mechanism(cls) -> str:
        """The name under which Opacus finds this accountant."""
        return "dpstream"


register_accountant(Accountant.mechanism(), Accountant, force=True)
