"""Doubling reduction: any mechanism with a horizon, without one.

Guarantee: that of the inner mechanism, for a stream without end: rho-zCDP (or pure ε-DP with Laplace noise)
for streams that differ in one element by at most `per_person`, all releases together, adaptive inputs.
Error: at step t of epoch j, with share f of the budget: j/(1-f) + V_inner/f (Gaussian), j/(1-f)² + V_inner/f²
(Laplace).
Cost: that of the inner mechanism, one vector more, and one draw more whenever the step is a power of two.
Chan, Shi, Song 2011, "Private and continual release of statistics" (the hybrid mechanism).

Epoch j holds the steps 2^j .. 2^(j+1) - 1 and runs an inner mechanism of its own. When it is over, its total
is released once more with one fresh draw, the inner noise is forgotten, and later releases build on the
total.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpstream.errors import InvalidArgument
from dpstream.mechanisms.base import DrawsPerStep, Mechanism, NoiseLaw, State, Value, check_noise_law
from dpstream.mechanisms.smooth import SmoothBinary
from dpstream.participation import Participation

__all__ = ["TOTALS_SLOT", "Unbounded", "UnboundedState", "epoch_of"]

#: The slot of the totals' draws, out of the way of any inner mechanism's.
TOTALS_SLOT = 2**20

#: What the inner mechanism gets of the budget (of ρ, or of ε), the rest going to the totals. With
#: `SmoothBinary` inside, V at 2^10 .. 2^30 steps is within 2 % (Gaussian) or 6 % (Laplace) of that of the
#: best share for each length.
INNER_SHARE: dict[NoiseLaw, float] = {"gaussian": 2.0 / 3.0, "laplace": 0.77}

#: How many epochs `Unbounded.identity` looks at: 255 steps.
SAMPLED_EPOCHS = 8


@dataclass(frozen=True)
class UnboundedState(State):
    """`finished` is the noise of the finished epochs' totals, None in the first; `inner` the inner state."""

    t: int
    finished: Value
    inner: Any


@dataclass(frozen=True, repr=False)
class Unbounded(Mechanism):
    """A new inner mechanism for each epoch of 2^j steps, and one noisy total for each finished epoch.

    Parameters
    ----------
    inner
        The class of the mechanism inside an epoch, called as ``inner(horizon)``; `SmoothBinary` if left out.
    noise
        "gaussian" or "laplace"; the inner mechanism must have it.

    Examples
    --------
    >>> from dpstream.mechanisms.square_root import SquareRoot
    >>> m = Unbounded(SquareRoot)
    >>> m, m.draws_at(7), m.draws_at(8)
    (Unbounded(inner=SquareRoot, noise='gaussian'), 1, 2)
    >>> round(m.sensitivity(), 6), round(m.variance(1000), 2)
    (1.0, 40.9)
    """

    inner: type[Mechanism] | None = None
    noise: NoiseLaw = field(default="gaussian", kw_only=True)
    horizon: None = field(default=None, init=False, compare=False)

    reference: ClassVar[str] = "Chan, Shi, Song 2011, ACM TISSEC 14(3)"

    def __post_init__(self) -> None:
        if self.inner is None:
            object.__setattr__(self, "inner", SmoothBinary)
        inner = self.inner
        if not (isinstance(inner, type) and issubclass(inner, Mechanism)):
            raise InvalidArgument("inner", inner, "a class of mechanisms, such as SmoothBinary")
        check_noise_law("Unbounded", self.noise)
        try:
            first = self.epoch(0)
        except TypeError as error:
            raise InvalidArgument("inner", inner, "a class that is called as inner(horizon)") from error
        if first.horizon != 1:
            raise InvalidArgument("inner", inner, "a class of mechanisms that have a horizon")
        object.__setattr__(self, "sensitivity_of", first.sensitivity_of)

    def __repr__(self) -> str:
        return f"Unbounded(inner={cast('type[Mechanism]', self.inner).__name__}, noise={self.noise!r})"

    def epoch(self, j: int) -> Mechanism:
        """Return the inner mechanism of epoch j."""
        return _inner_mechanism(cast("type[Mechanism]", self.inner), self.noise, 2**j)

    def scales(self, j: int) -> tuple[float, float]:
        """Return what the draws of epoch j are multiplied by: its total's, its inner mechanism's."""
        f = INNER_SHARE[self.noise]
        sensitivity = _inner_sensitivity(cast("type[Mechanism]", self.inner), self.noise, 2**j)
        if self.noise == "laplace":
            return 1.0 / (1.0 - f), sensitivity / f
        return 1.0 / (1.0 - f) ** 0.5, sensitivity / f**0.5

    @property
    def draws_per_step(self) -> DrawsPerStep:
        """Those of the inner mechanism, and one more at the powers of two; averaged over a million steps."""
        inner = self.epoch(19).draws_per_step
        return DrawsPerStep(inner.worst + 1, inner.average + 20 / 2**20)

    @property
    def memory(self) -> int:
        """That of the inner mechanism, and the noise of the totals."""
        return 1 + self.epoch(19).memory

    def start(self) -> UnboundedState:
        """No finished epoch."""
        return UnboundedState(0, None, self.epoch(0).start())

    def draws_at(self, t: int) -> int:
        """Count the inner mechanism's draws, and one for the total before it if t opens a new epoch."""
        j, within = epoch_of(t)
        return self.epoch(j).draws_at(within) + (within == 1 and j > 0)

    def advance(self, state: UnboundedState, draws: Sequence[Value]) -> tuple[Value, UnboundedState]:
        """Add the totals' noise to the inner mechanism's; an epoch's first draw is for the total before."""
        t = self._next_step(state)
        j, within = epoch_of(t)
        finished, inner_state = state.finished, state.inner
        if within == 1 and j > 0:
            total = draws[0] * self.scales(j - 1)[0]
            finished = total if finished is None else finished + total
            draws, inner_state = draws[1:], self.epoch(j).start()
        noise, inner_state = self.epoch(j).advance(inner_state, draws)
        noise = noise * self.scales(j)[1]
        return (noise if finished is None else noise + finished), UnboundedState(t, finished, inner_state)

    def computed_numbers(self) -> Iterator[ArrayLike]:
        """Return the scales of the first epochs, and what their inner mechanisms are made of."""
        for j in range(SAMPLED_EPOCHS):
            yield self.scales(j)
            yield np.frombuffer(self.epoch(j).identity.encode(), dtype=np.uint8)

    def noise_of_release(self, t: int, draw: Callable[[int, int], Value]) -> Value:
        """Return the inner noise plus the totals; that of epoch j - 1 is draw `TOTALS_SLOT` of step 2^j."""
        j, within = epoch_of(t)
        inner = self.epoch(j).noise_of_release(within, lambda step, slot: draw(2**j - 1 + step, slot))
        noise = inner * self.scales(j)[1]
        for i in range(1, j + 1):
            noise = noise + draw(2**i, TOTALS_SLOT) * self.scales(i - 1)[0]
        return noise

    def row_weights(self, t: int) -> list[float]:
        """Return one weight for each finished epoch's total, and the inner mechanism's."""
        j, within = epoch_of(t)
        total, inner = self.scales(0)[0], self.scales(j)[1]
        return [total] * j + [inner * weight for weight in self.epoch(j).row_weights(within)]

    def window_weights(self, t: int, s: int) -> list[tuple[float, float]]:
        """Return those of the finished epochs' totals and of the inner mechanisms, which epochs do not share."""
        (j, within), (i, earlier) = epoch_of(t), epoch_of(s)
        total, inner = self.scales(0)[0], self.scales(j)[1]
        shared = [(total, total)] * i
        if i == j:
            return shared + [(inner * a, inner * b) for a, b in self.epoch(j).window_weights(within, earlier)]
        new = [(total, 0.0)] * (j - i) + [(inner * a, 0.0) for a in self.epoch(j).row_weights(within)]
        return shared + new + [(0.0, self.scales(i)[1] * b) for b in self.epoch(i).row_weights(earlier)]

    def squared_window_norm(self, t: int, s: int) -> float:
        if s == 0:
            return self.squared_row_norm(t)
        (j, within), (i, earlier) = epoch_of(t), epoch_of(s)
        if i == j:
            return self.scales(j)[1] ** 2 * self.epoch(j).squared_window_norm(within, earlier)
        later = self.squared_row_norm(t) - self._finished_norm(i)
        return later + self.scales(i)[1] ** 2 * self.epoch(i).squared_row_norm(earlier)

    def _factors(self, steps: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        last, _ = epoch_of(steps)
        lefts, rights = [], []
        for j in range(last + 1):
            first, count = 2**j - 1, min(2**j, steps - 2**j + 1)
            _, inner_scale = self.scales(j)
            inner_left, inner_right = self.epoch(j).factors(count)
            if j > 0:
                total_scale, _ = self.scales(j - 1)
                left, right = np.zeros((steps, 1)), np.zeros((1, steps))
                left[first:] = total_scale
                right[:, 2 ** (j - 1) - 1 : first] = 1.0 / total_scale
                lefts.append(left)
                rights.append(right)
            left, right = np.zeros((steps, inner_left.shape[1])), np.zeros((inner_right.shape[0], steps))
            left[first : first + count] = inner_left * inner_scale
            right[:, first : first + count] = inner_right / inner_scale
            lefts.append(left)
            rights.append(right)
        return np.hstack(lefts), np.vstack(rights)

    def _sensitivity(self, participation: Participation) -> tuple[float, bool]:
        # One step moves one total, by (1 - f) of the squared (for Laplace: of the plain) sensitivity, and one
        # epoch's inner mechanism, by f of it. Several steps: the triangle inequality. If the inner mechanism
        # states the sensitivity of its releases, the totals, never released without inner noise, still count as
        # if they were: an upper bound.
        exact = participation.times == 1 and self.sensitivity_of == "nodes" and self.epoch(0).sensitivity_is_exact()
        return float(participation.times), exact

    def squared_row_norm(self, t: int) -> float:
        j, within = epoch_of(t)
        return self._finished_norm(j) + self.scales(j)[1] ** 2 * self.epoch(j).squared_row_norm(within)

    def squared_row_norms(self, steps: int) -> NDArray[np.float64]:
        parts = []
        for j in range(epoch_of(steps)[0] + 1):
            count = min(2**j, steps - 2**j + 1)
            parts.append(self._finished_norm(j) + self.scales(j)[1] ** 2 * self.epoch(j).squared_row_norms(count))
        return np.concatenate(parts)

    def max_squared_row_norm(self, steps: int) -> float:
        return max(
            self._finished_norm(j)
            + self.scales(j)[1] ** 2 * self.epoch(j).max_squared_row_norm(min(2**j, steps - 2**j + 1))
            for j in range(epoch_of(steps)[0] + 1)
        )

    def mean_squared_row_norm(self, steps: int) -> float:
        total = 0.0
        for j in range(epoch_of(steps)[0] + 1):
            count = min(2**j, steps - 2**j + 1)
            inner = self.scales(j)[1] ** 2 * self.epoch(j).mean_squared_row_norm(count)
            total += count * (self._finished_norm(j) + inner)
        return total / steps

    def _finished_norm(self, j: int) -> float:
        """Return what the totals of the epochs before j add to a row's squared norm."""
        return j * self.scales(0)[0] ** 2


def epoch_of(t: int) -> tuple[int, int]:
    """Return the epoch of step t, and the step's number within it."""
    j = t.bit_length() - 1
    return j, t - 2**j + 1


@lru_cache(maxsize=256)
def _inner_mechanism(inner: type[Mechanism], noise: NoiseLaw, horizon: int) -> Mechanism:
    build = cast("Any", inner)
    mechanism = build(horizon) if noise == "gaussian" else build(horizon, noise=noise)
    return cast("Mechanism", mechanism)


@lru_cache(maxsize=256)
def _inner_sensitivity(inner: type[Mechanism], noise: NoiseLaw, horizon: int) -> float:
    return _inner_mechanism(inner, noise, horizon).sensitivity()
