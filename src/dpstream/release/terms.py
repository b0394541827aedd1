"""What a release promises, settled before the first element: the terms that Counter and RunningSum keep.

Everything that decides the noise is here, and nothing else is: horizon, budget, mechanism, per_person, neighbours and
participation give the scale of the draws; all of them together, and the name, give the stream its own key.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpstream.arguments import check_horizon, check_whole
from dpstream.budget import ApproxDP, Budget, PureDP, noise_scale
from dpstream.errors import HorizonExceeded, InvalidArgument, MechanismTooShort, NoiseLawError
from dpstream.mechanisms.base import Mechanism
from dpstream.noise.draws import STEPS_LIMIT
from dpstream.noise.keystream import check_key, derive_key, fresh_key
from dpstream.noise.stream import NoiseStream
from dpstream.participation import Participation
from dpstream.release.interval import RealNoise, noise_at

__all__ = [
    "Lane",
    "Neighbours",
    "Terms",
    "check_budget",
    "check_flag",
    "check_name",
    "check_neighbours",
    "check_participation",
    "check_release_horizon",
    "settle_mechanism",
]

Lane = Literal["exact", "float"]
Neighbours = Literal["add-remove", "replace"]


@dataclass(frozen=True)
class Terms:
    """The settings of one stream of releases, checked and complete.

    Attributes
    ----------
    lane
        "exact" (whole numbers) or "float".
    horizon
        The last release, or None.
    distance
        How far one person may move one step's input: in ℓ2, or in ℓ1 for a pure budget.
    dtype
        "int64" in the exact lane, "float32" or "float64" in the float lane.
    """

    lane: Lane
    horizon: int | None
    budget: Budget
    mechanism: Mechanism
    shape: tuple[int, ...]
    per_person: float
    distance: float
    participation: Participation
    neighbours: Neighbours
    dtype: str
    name: str
    per_step: float
    clip: bool = False

    @property
    def scale(self) -> float:
        """The scale of the draws that keeps the budget."""
        return noise_scale(self.mechanism, self.budget, per_person=self.distance, participation=self.participation)

    @property
    def last(self) -> int:
        """The last step that can ever be made."""
        ends = [n for n in (self.horizon, self.mechanism.horizon, STEPS_LIMIT) if n is not None]
        if self.horizon is None and self.lane == "exact":
            ends.append(max(1, 2**62 // int(self.per_step)))  # beyond, sums might not fit into 64 bits
        return min(ends)

    def stream(
        self, key: bytes | None, *, scale: float, threads: int | None = None, state: bytes | None = None
    ) -> NoiseStream:
        """The noise of these terms, under a key that no other terms and no other name have.

        From its first step, or from where `state` was saved.
        """
        master = fresh_key() if key is None else check_key(key)
        own = derive_key(master, purpose="release", configuration=self._configuration())
        if state is not None:
            return NoiseStream.from_state(
                state, self.mechanism, scale, self.shape, dtype=self.dtype, key=own, threads=threads
            )
        return NoiseStream(self.mechanism, scale, self.shape, dtype=self.dtype, key=own, threads=threads)

    def _configuration(self) -> dict[str, object]:
        return {
            "lane": self.lane,
            "horizon": self.horizon,
            "budget": repr(self.budget),
            "mechanism": self.mechanism.identity,
            "shape": list(self.shape),
            "per_person": repr(self.per_person),
            "neighbours": self.neighbours,
            "participation": [self.participation.times, self.participation.separation],
            "dtype": self.dtype,
            "name": self.name,
            "per_step": repr(self.per_step),
            "clip": self.clip,
        }

    def noise(self, t: int, scale: float) -> RealNoise:
        """The law of release t's noise, before it is rounded."""
        t = check_whole("t", t)
        if t > self.last:
            raise HorizonExceeded(horizon=self.last, step=t)
        return noise_at(self.mechanism, scale, t)

    def typical_noise(self, scale: float) -> tuple[float, float]:
        """The least and the largest standard deviation of the first, a middle and the last release.

        Long streams are looked at up to 2^20 steps, which costs a mechanism that keeps its history little: noise grows
        like a logarithm, and those who ask leave room for a factor of ten.
        """
        end = min(self.last, 2**20)
        found = [noise_at(self.mechanism, scale, t).variance ** 0.5 for t in {1, (end + 1) // 2, end}]
        return min(found), max(found)

    # -- in words ---------------------------------------------------------------------------------------------------

    def describe(self, stddev: float, t: int) -> str:
        """One paragraph: what is promised, to whom, against whom, and what is not."""
        law = "Gaussian" if self.budget.noise == "gaussian" else "Laplace"
        what, rounding = (
            ("counts", "rounded to whole numbers exactly as infinite precision would")
            if self.lane == "exact"
            else ("sums", "computed in floating point and rounded to a grid far below it")
        )
        length = "without a last one" if self.horizon is None else f"{self.horizon:,} at most"
        return (
            f"These are running {what} with {law} noise ({type(self.mechanism).__name__}), {rounding}: the standard"
            f" deviation of release {t:,} is {stddev:.4g}. Promised: {self._promise()} for all releases together"
            f" ({length}), also when later inputs depend on earlier releases. To whom: {self._protected()}."
            " Against whom: anyone who sees every release and knows this program, its settings and all other data, but"
            " not the key. Not promised: anything to a person who is in more steps or adds more to one; anything"
            " against those who see the inputs, the key, or this process at work; secrecy of what is true of a whole"
            " population; and other publications about the same people, which spend budgets of their own."
            + ("" if self.lane == "exact" else " The promise is that of real-valued noise; see docs/releases.md.")
        )

    def _promise(self) -> str:
        budget = self.budget
        if isinstance(budget, PureDP):
            return f"pure differential privacy with epsilon = {budget.epsilon:g}"
        if isinstance(budget, ApproxDP):
            return f"({budget.epsilon:g}, {budget.delta:g})-differential privacy"
        return f"zero-concentrated differential privacy, {budget!r}"

    def _protected(self) -> str:
        k, s = self.participation.times, self.participation.separation
        person = "everyone who is in one step only" if k == 1 else f"everyone who is in at most {k} steps"
        if k > 1 and s > 1:
            person += f", at least {s} steps apart"
        amount = f"{self.per_person:g}"
        if math.prod(self.shape) > 1 or self.lane == "float":
            amount += " in ℓ1 norm" if self.budget.noise == "laplace" else " in ℓ2 norm"
        if self.neighbours == "replace":
            hidden = "what they added cannot be told from anything else they might have"
        else:
            hidden = "whether they were there at all cannot be told"
        return f"{person} and adds at most {amount} there; {hidden}"


def settle_mechanism(mechanism: object, horizon: int | None, budget: Budget) -> Mechanism | None:
    """A mechanism given by hand, refused unless it reaches the horizon under this budget's law; None for "auto"."""
    if isinstance(mechanism, str) and mechanism == "auto":
        return None
    if not isinstance(mechanism, Mechanism):
        raise InvalidArgument("mechanism", mechanism, "'auto' or a mechanism from dpstream.mechanisms")
    holds = mechanism.horizon
    enough = mechanism.serves_without_horizon if horizon is None else holds is not None and holds >= horizon
    if holds is not None and not enough:
        raise MechanismTooShort(mechanism=repr(mechanism), holds=holds, horizon=horizon)
    if mechanism.noise != budget.noise:
        raise NoiseLawError(
            f"{budget!r} needs {budget.noise} noise, but {mechanism!r} is built and priced for {mechanism.noise} noise"
        )
    return mechanism


def check_release_horizon(horizon: object) -> int | None:
    """A horizon, or None for no last release."""
    return None if horizon is None else check_horizon(horizon)


def check_budget(budget: object) -> Budget:
    """A budget."""
    if not isinstance(budget, Budget):
        raise InvalidArgument("budget", budget, "a budget: zcdp(rho), approx_dp(epsilon, delta) or pure_dp(epsilon)")
    return budget


def check_participation(participation: object) -> Participation:
    """A participation; None is one step a person."""
    if participation is None:
        return Participation()
    if not isinstance(participation, Participation):
        raise InvalidArgument("participation", participation, "a Participation")
    return participation


def check_neighbours(neighbours: object) -> Neighbours:
    """Who counts as a neighbour."""
    if neighbours == "add-remove":
        return "add-remove"
    if neighbours == "replace":
        return "replace"
    raise InvalidArgument("neighbours", neighbours, "'add-remove' or 'replace'")


def check_flag(name: str, value: object) -> bool:
    """True or False, and nothing that merely looks like it."""
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidArgument(name, value, "True or False")
    return bool(value)


def check_name(name: object) -> str:
    """A name: any text."""
    if not isinstance(name, str):
        raise InvalidArgument("name", name, "text")
    return name
