"""One-run audit: many canaries in one stream, for those who cannot run their pipeline again.

Each of m canaries is an input that is added or not by a coin of its own. From the releases of the one run an attacker
guesses r of the m coins; more right guesses than the promise allows prove a larger loss.

* ε (any noise): right guesses are at most Binomial(r, e^ε/(1 + e^ε)), plus a little for δ (Steinke, Nasr, Jagielski
  2023, arXiv:2305.08846, Theorem 5.2).
* μ (Gaussian noise): let p_i be the chance of exactly i right guesses. Flip the coin of one canary at random: where it
  was guessed right among i right ones, it is now guessed wrong among i - 1. The releases of the two streams are those
  of a Gaussian mechanism, whose best test turns a chance x into at most F(x) = Φ(Φ⁻¹(x) + μ), which is concave; so
      Σ_{i ≥ k} i p_i / m ≤ F(Σ_{i ≥ k} (r - i + 1) p_{i-1} / m)   for every k
  (Mahloujifar, Melis, Chaudhuri 2024, arXiv:2410.22235). If v or more are right with chance τ, then going down from v
  each line asks for a least p_{i-1}; if they add up to more than 1, the chance is below τ.

The bound is weaker than that of `audit`: canaries hide each other, a few thousand guesses prove little at high
confidence, and every guess must be about as sure as the best.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from dpstream.arguments import check_whole
from dpstream.audit.certificate import check_confidence
from dpstream.audit.gaussian_curve import epsilon_of
from dpstream.audit.promise import Promise
from dpstream.audit.statistic import solve
from dpstream.budget import ApproxDP, Budget, PureDP
from dpstream.errors import InvalidArgument
from dpstream.mechanisms.base import Mechanism

__all__ = ["Canaries", "OneRun", "canary_scores", "one_run_audit", "plant"]


@dataclass(frozen=True)
class Canaries:
    """Inputs to add to a stream, and the coins that decided them; keep the coins secret until the guesses are made.

    Attributes
    ----------
    inputs
        What to add to the stream's own inputs, one row a step.
    places
        Where each canary is: indices into `inputs`.
    included
        Whether it was added.
    bound
        The size of a canary.
    """

    inputs: NDArray[Any]
    places: NDArray[np.int64]
    included: NDArray[np.bool_]
    bound: float


@dataclass(frozen=True)
class OneRun:
    """What a one-run audit found.

    Attributes
    ----------
    canaries, guesses, right
        How many there were, how many coins were guessed, and how many of the guesses were right.
    epsilon
        No mechanism that is pure (or, for an (ε, δ) budget, (ε, δ)-) private with a smaller ε would have shown so much.
    mu
        No Gaussian mechanism with a smaller μ would have.
    needed
        How many right guesses, of as many, it would take to call the promise violated; None if not even all of them.
    """

    budget: Budget
    canaries: int
    guesses: int
    right: int
    epsilon: float
    mu: float
    confidence: float
    needed: int | None

    @property
    def measured(self) -> float:
        """The certified lower bound in the unit of the budget."""
        if isinstance(self.budget, PureDP):
            return self.epsilon
        if isinstance(self.budget, ApproxDP):
            return max(self.epsilon, epsilon_of(self.mu, self.budget.delta))
        return self.mu**2 / 2

    @property
    def violated(self) -> bool:
        """Whether more leaked than was promised."""
        return self.measured > Promise(self.budget).value

    def __str__(self) -> str:
        promise = Promise(self.budget)
        return (
            f"{'VIOLATED' if self.violated else 'Not violated'}. {self.right} of {self.guesses} guesses about"
            f" {self.canaries} canaries were right, which takes {promise.name} of at least {self.measured:.4g};"
            f" {promise.name} = {promise.value:.4g} was promised (wrong with a chance of"
            f" {1 - self.confidence:.2g} at most). {self._power()}"
        )

    def _power(self) -> str:
        """How weak this is, in the unit of what was done."""
        if self.needed is None:
            return f"This says little: even {self.guesses} right guesses of {self.guesses} would have passed."
        return (
            f"This sees gross mistakes only: up to {self.needed - 1} right guesses of {self.guesses} pass. Where the"
            " pipeline can be run again, `dpstream audit` sees noise that is a tenth too small."
        )


def plant(
    steps: int, *, width: int = 0, every: int = 1, bound: float = 1, rng: np.random.Generator | None = None
) -> Canaries:
    """Toss a coin for a canary in every `every`-th step (of every one of `width` categories).

    >>> canaries = plant(6, every=2, rng=np.random.default_rng(1))
    >>> canaries.places.ravel().tolist(), int(canaries.inputs.sum()) == int(canaries.included.sum())
    ([0, 2, 4], True)
    """
    steps, every = check_whole("steps", steps), check_whole("every", every)
    rng = np.random.default_rng() if rng is None else rng
    shape = (steps, width) if width else (steps,)
    inputs = np.zeros(shape, dtype=type(bound))
    possible = np.zeros(shape, dtype=bool)
    possible[::every] = True
    places = np.argwhere(possible)
    included = rng.random(len(places)) < 0.5
    inputs[tuple(places[included].T)] = bound
    return Canaries(inputs, places, included, float(bound))


def canary_scores(
    releases: NDArray[Any], canaries: Canaries, mechanism: Mechanism, scale: float, known: NDArray[Any] | None = None
) -> NDArray[np.float64]:
    """How likely each canary is in the stream: the best linear estimate, other canaries counting as noise.

    `known` are the stream's own inputs, which the attacker of differential privacy knows.
    """
    noise = np.asarray(releases, dtype=np.float64)
    steps = len(noise)
    if known is not None:
        noise = noise - np.cumsum(known, axis=0, dtype=np.float64)
    wide = noise.reshape(steps, -1)
    when = canaries.places[:, 0]
    where = canaries.places[:, 1] if canaries.places.shape[1] > 1 else np.zeros_like(when)
    unit = 2 * scale**2 if mechanism.noise == "laplace" else scale**2
    L, _ = mechanism.factors(steps)
    planted = np.zeros(steps)
    planted[np.unique(when)] = canaries.bound**2 / 4
    A = np.tri(steps)
    covariance = unit * L @ L.T + (A * planted) @ A.T
    expected = A @ np.where(planted > 0, canaries.bound / 2, 0.0)
    weights = solve(covariance, A)
    estimates: NDArray[np.float64] = weights.T @ (wide - expected[:, None])
    return estimates[when, where]


def one_run_audit(
    scores: NDArray[np.float64],
    canaries: Canaries,
    budget: Budget,
    guesses: int | None = None,
    confidence: float = 1 - 1e-6,
) -> OneRun:
    """Guess the coins of the canaries with the highest and the lowest scores, and certify what that takes.

    Parameters
    ----------
    scores
        One a canary, higher where it is more likely in the stream; `canary_scores`, or your own.
    guesses
        How many to guess, half of them "in", half "out"; fixed before looking. A tenth of the canaries if left out;
        more if much should leak.

    Examples
    --------
    >>> from dpstream import pure_dp
    >>> canaries = plant(2000, rng=np.random.default_rng(1))
    >>> print(one_run_audit(canaries.included * 1.0, canaries, pure_dp(1.0)))  # nothing was hidden at all
    VIOLATED. 200 of 200 guesses about 2000 canaries were right, which takes ε of at least 2.638; ε = 1 was promised ...
    """
    m = len(canaries.included)
    guesses = max(2, m // 10) if guesses is None else check_whole("guesses", guesses, least=2)
    if guesses > m or len(scores) != m:
        raise InvalidArgument("guesses", guesses, f"at most one a canary, of which there are {m}")
    order = np.argsort(scores, kind="stable")
    low, high = order[: guesses // 2], order[m - (guesses - guesses // 2) :]
    right = int((~canaries.included[low]).sum() + canaries.included[high].sum())
    risk = 1 - check_confidence(confidence)
    found = _certified(budget, m, guesses, right, risk)
    return replace(found, needed=_least_violating(lambda n: _certified(budget, m, guesses, n, risk).violated, guesses))


def _certified(budget: Budget, m: int, guesses: int, right: int, risk: float) -> OneRun:
    """Return what so many right guesses prove."""
    delta = budget.delta if isinstance(budget, ApproxDP) else 0.0
    epsilon = _largest_refuted(lambda e: _chance(m, guesses, right, e, delta) < risk)
    mu = _largest_refuted(lambda mu: _gaussian_refuted(mu, m, guesses, right, risk))
    return OneRun(budget, m, guesses, right, epsilon, mu, 1 - risk, None)


def _least_violating(violated: Callable[[int], bool], guesses: int) -> int | None:
    """Return the least number of right guesses that is violated, None if not even `guesses` is."""
    if not violated(guesses):
        return None
    low, high = 0, guesses
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if violated(middle) else (middle, high)
    return high


def _largest_refuted(refuted: Callable[[float], bool]) -> float:
    """The end of the refuted values, which are all those below it; from the refuted side."""
    low, high = 0.0, 0.05
    while refuted(high):
        low, high = high, 2 * high
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def _chance(m: int, r: int, right: int, epsilon: float, delta: float) -> float:
    """Steinke, Nasr, Jagielski, Theorem 5.2 and Appendix D: how likely `right` or more right guesses are at most."""
    q = 1 / (1 + math.exp(-epsilon))
    beyond = float(scipy.stats.binom.sf(right - 1, r, q))
    if delta == 0.0:
        return beyond
    i = np.arange(1, right + 1)
    steepest = float((np.cumsum(scipy.stats.binom.pmf(right - i, r, q)) / i).max()) if right else 0.0
    return min(1.0, beyond + 2 * m * delta * steepest)


def _gaussian_refuted(mu: float, m: int, r: int, right: int, risk: float) -> bool:
    """Whether a Gaussian mechanism with this μ gives `right` or more right guesses with a chance below `risk`."""
    # All of the chance sits at `right` exactly: more right guesses would ask for more below them.
    hit, missed, mass = right / m * risk, (r - right) / m * risk, risk
    for i in range(right, 0, -1):
        needed = float(ndtr(ndtri(hit) - mu))
        if needed > missed:
            p = (needed - missed) * m / (r - i + 1)
            mass, missed, hit = mass + p, needed, hit + (i - 1) / m * p
            if mass > 1:
                return True
    return False
