"""What a private training promises: horizon, budget, participation, mechanism, and the noise scale that follows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from typing import Literal

from dpstream.arguments import check_horizon
from dpstream.budget import ZCDP, ApproxDP, Budget, noise_scale
from dpstream.errors import InvalidArgument, MechanismTooShort, NoiseLawError
from dpstream.gaussian_curve import gaussian_epsilon
from dpstream.mechanisms.base import Mechanism
from dpstream.participation import Participation
from dpstream.release.plan import plan

__all__ = ["TrainingSettings"]

GaussianBudget = ZCDP | ApproxDP


@dataclass(frozen=True)
class TrainingSettings:
    """The settings of one private training; use `for_training`, which checks them.

    Guarantee
    ---------
    All noisy gradient sums together, up to `horizon` steps, keep `budget` for training sets that differ in one example,
    all other examples staying in their batches: the example adds a gradient of ℓ2 norm at most `max_grad_norm` to at
    most ``participation.times`` steps, any two at least ``participation.separation`` steps apart. Adaptive: gradients
    may depend on all earlier noisy sums. Everything computed from the noisy sums (the model, its checkpoints) keeps it.
    Not covered: figures computed from the data without noise, such as the training loss.
    """

    horizon: int
    budget: GaussianBudget
    max_grad_norm: float
    participation: Participation
    mechanism: Mechanism

    @classmethod
    def for_training(
        cls,
        *,
        horizon: int,
        budget: Budget,
        max_grad_norm: float,
        participation: Participation | None = None,
        mechanism: Mechanism | Literal["auto"] = "auto",
        coordinates: int = 1,
    ) -> TrainingSettings:
        """Check all settings, and choose the mechanism of least error if it is "auto"."""
        horizon = check_horizon(horizon)
        if not isinstance(budget, GaussianBudget):
            raise NoiseLawError(
                f"training adds Gaussian noise: budget must be approx_dp(...) or zcdp(...), got {budget!r}"
            )
        participation = Participation() if participation is None else participation
        if not isinstance(participation, Participation):
            raise InvalidArgument("participation", participation, "a Participation")
        if isinstance(mechanism, str):
            if mechanism != "auto":
                raise InvalidArgument("mechanism", mechanism, "'auto' or a mechanism from dpstream.mechanisms")
            planned = plan(
                horizon, budget, shape=(coordinates,), lane="float", objective="mean", participation=participation
            )
            mechanism = planned.mechanism
        if not isinstance(mechanism, Mechanism):
            raise InvalidArgument("mechanism", mechanism, "'auto' or a mechanism from dpstream.mechanisms")
        if mechanism.horizon is not None and mechanism.horizon < horizon:
            raise MechanismTooShort(mechanism=repr(mechanism), holds=mechanism.horizon, horizon=horizon)
        settings = cls(horizon, budget, max_grad_norm, participation, mechanism)
        settings.scale  # noqa: B018  refuses a max_grad_norm that is not a positive number
        return settings

    @property
    def identity(self) -> str:
        """What shapes the sums and their promise: another norm or budget may lead to the same scale."""
        return f"{self.horizon}; {self.budget!r}; {self.max_grad_norm!r}; {self.participation!r}"

    @cached_property
    def scale(self) -> float:
        """The scale of the draws: noise_scale(mechanism, budget, per_person=max_grad_norm, participation=…)."""
        if isinstance(self.max_grad_norm, bool) or not isinstance(self.max_grad_norm, (int, float)):
            raise InvalidArgument("max_grad_norm", self.max_grad_norm, "a positive, finite number")
        return noise_scale(self.mechanism, self.budget, per_person=self.max_grad_norm, participation=self.participation)

    def describe(self) -> str:
        """Return the promise in words, for a model card: what, to whom, against whom, and what is not promised.

        Examples
        --------
        >>> settings = TrainingSettings.for_training(horizon=40, budget=ApproxDP(8.0, 1e-5), max_grad_norm=1.0)
        >>> print(settings.describe()[:83])
        Trained with differential privacy, epsilon = 8 and delta = 1e-05, for one training
        """
        budget, k, s = self.budget, self.participation.times, self.participation.separation
        if isinstance(budget, ApproxDP):
            promise = f"epsilon = {budget.epsilon:g} and delta = {budget.delta:g}"
        else:
            promise = f"rho = {budget.rho:g} (zCDP)"
        often = "in one step" if k == 1 else f"in at most {k} steps, any two of them at least {s} steps apart"
        return (
            f"Trained with differential privacy, {promise}, for one training example,"
            f" over all {self.horizon:,} noisy steps together, however later steps depend on earlier ones. Compared are"
            " training sets that differ in one example, all others staying in their batches; whoever has several"
            f" examples is protected less. Each example's gradient is clipped to norm {self.max_grad_norm:g} and is"
            f" {often}. Gaussian noise of scale {self.scale:.4g} is shared between steps"
            f" ({type(self.mechanism).__name__}); no amplification by sampling is claimed. Against whom: anyone who"
            " sees all steps, all checkpoints and all other examples, but not the key. Not covered: figures that are"
            " computed without noise, such as the training loss; and other trainings on the same examples, also those"
            " that only chose a learning rate, which spend budgets of their own. The promise is that of real-valued"
            f" noise, not proven for floating point. Made with dpstream {version('dpstream')}."
        )

    def mu_after(self, steps: int) -> float:
        """The μ of the Gaussian mechanism that the first `steps` releases are at most; 0 before the first."""
        if steps == 0:
            return 0.0
        fitting = Participation(self.participation.reach(steps), self.participation.separation)
        return self.mechanism.sensitivity(fitting) * self.max_grad_norm / self.scale

    def spent_after(self, steps: int) -> GaussianBudget | None:
        """What is spent if the training stops after `steps`: a budget of the same kind; None before the first step."""
        if steps == 0:
            return None
        spent = ZCDP(self.mu_after(steps) ** 2 / 2)
        return spent.to_approx_dp(delta=self.budget.delta) if isinstance(self.budget, ApproxDP) else spent

    def epsilon_after(self, steps: int, delta: float) -> float:
        """The least ε for this δ that the first `steps` releases keep."""
        return gaussian_epsilon(self.mu_after(steps), delta) if steps else 0.0
