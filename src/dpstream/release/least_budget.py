"""The largest error of a stream's releases under a budget, and the least budget that keeps it below a target."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dpstream.arguments import check_probability, check_whole
from dpstream.budget import Budget, approx_dp, noise_scale, pure_dp, zcdp
from dpstream.errors import InvalidArgument
from dpstream.mechanisms.base import Mechanism
from dpstream.release.error_bars import half_width
from dpstream.release.noise_law import GaussianNoise, RealNoise, laplace_noise, noise_at, rounded_variance

__all__ = ["BudgetKind", "budget_kind", "largest_error", "least_budget", "mean_rounded_variance", "widest_noise"]

#: Budgets are stated with so many digits, rounded up.
DIGITS = 5
#: Above this standard deviation rounding adds 1/12 to the variance, to all digits that are shown.
WIDE = 4.0
#: So many different laws of noise are worked out one by one; for more, those between are interpolated.
MOST_LAWS = 2000
#: Nobody means a budget outside of these.
LEAST, MOST = 2.0**-60, 2.0**60

#: From ρ or ε to a budget.
BudgetKind = Callable[[float], Budget]


def budget_kind(delta: float | None, *, pure: bool) -> BudgetKind:
    """Return the function that makes a budget of one kind from a number: pure ε, ε with this δ, or ρ."""
    if pure:
        if delta is not None:
            raise InvalidArgument("delta", delta, "left out with pure=True")
        return pure_dp
    if delta is None:
        return zcdp
    fixed = delta
    return lambda epsilon: approx_dp(epsilon, fixed)


def widest_noise(mechanism: Mechanism, scale: float, steps: int) -> RealNoise:
    """The law of the noise of that release, among the first `steps`, which is the furthest from the truth."""
    if mechanism.noise == "gaussian":
        return GaussianNoise(scale * math.sqrt(mechanism.max_squared_row_norm(steps)))
    return laplace_noise(mechanism.widest_row_weights(steps), scale)


def mean_rounded_variance(mechanism: Mechanism, scale: float, steps: int) -> float:
    """Return the mean, over the first `steps` releases, of the variance of the noise as it is released, rounded.

    Rounding adds 1/12 to wide noise, and less to noise that is mostly rounded to 0.
    """
    norms = mechanism.squared_row_norms(steps)
    unit = scale**2 * (2.0 if mechanism.noise == "laplace" else 1.0)
    if unit * float(norms.min()) > WIDE**2:
        return unit * float(norms.mean()) + 1 / 12
    several, first, counts = np.unique(norms, return_index=True, return_counts=True)
    if several.size <= MOST_LAWS or mechanism.noise == "laplace":
        found = [rounded_variance(noise_at(mechanism, scale, int(t) + 1)) for t in first]
        return float(np.dot(found, counts) / steps)
    sigmas = scale * np.sqrt(several)
    grid = np.geomspace(sigmas[0], sigmas[-1], MOST_LAWS)
    between = np.interp(sigmas, grid, [rounded_variance(GaussianNoise(float(sigma))) for sigma in grid])
    return float(np.dot(between, counts) / steps)


def largest_error(mechanism: Mechanism, budget: Budget, per_person: float, steps: int, confidence: float) -> int:
    """By how much any one of the first `steps` releases is off at most, with this confidence."""
    scale = noise_scale(mechanism, budget, per_person=per_person)
    return half_width(widest_noise(mechanism, scale, steps), confidence)


def least_budget(
    mechanism: Mechanism, kind: BudgetKind, target: int, *, per_person: float, steps: int, confidence: float
) -> Budget:
    """Return the least budget of a kind with which every release is off by at most `target`, with this confidence.

    Rounded up to five digits; 0.1 % less is not enough.

    Raises
    ------
    InvalidArgument
        If no sensible budget does it.
    """
    target, confidence = check_whole("target_error", target, least=0), check_probability("confidence", confidence)

    def enough(amount: float) -> bool:
        return largest_error(mechanism, kind(amount), per_person, steps, confidence) <= target

    # A larger budget means less noise, so that what is enough begins somewhere.
    low, high = 1.0, 1.0
    while not enough(high) and high < MOST:
        low, high = high, 2 * high
    while enough(low) and low > LEAST:
        low, high = low / 2, low
    if enough(low) or not enough(high):
        raise InvalidArgument("target_error", target, "an error that a sensible budget allows")
    while high > low * (1 + 1e-9):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    amount = _rounded_up(high)
    # Check the result: a wrong budget would break the promise or waste noise.
    assert enough(amount)  # noqa: S101
    assert not enough(0.999 * amount)  # noqa: S101
    return kind(amount)


def _rounded_up(amount: float) -> float:
    unit = 10.0 ** (math.floor(math.log10(amount)) + 1 - DIGITS)
    # By way of text, so that what is printed is what is meant.
    return float(f"{math.ceil(amount / unit) * unit:.{DIGITS}g}")
