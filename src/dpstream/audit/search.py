"""The search for the best test: which changed step tells most, by which statistic, above which threshold.

All of it on pilot trials that are not used again. The covariance is that of the releases as they really are, so a flaw
that the design knows nothing of is found as well: shared noise is a direction without noise, and a step without noise
of its own is the step that tells most.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstream.audit.laplace_likelihood import laplace_likelihood
from dpstream.audit.promise import Promise, predicted_bounds
from dpstream.audit.statistic import LowBits, MatchedFilter, Statistic, learned_filter, pooled_covariance, solve
from dpstream.audit.trials import Stream
from dpstream.errors import InvalidArgument
from dpstream.mechanisms.base import Mechanism

__all__ = ["SHORTLIST", "Design", "ThresholdTest", "errors_at", "search", "thresholds_between"]

#: So many of the changed steps that tell most, by the covariance, are tried out.
SHORTLIST = 3
#: Thresholds that are tried.
THRESHOLDS = 400


@dataclass(frozen=True)
class Design:
    """How the noise is meant to be: scale · L z, rounded to whole numbers or not. It may suggest a statistic."""

    mechanism: Mechanism
    scale: float
    rounded: bool


@dataclass(frozen=True)
class ThresholdTest:
    """Says "second" of releases whose statistic is above the threshold."""

    pair: int
    statistic: Statistic
    threshold: float
    expected: float


def search(
    pairs: list[tuple[Stream, Stream]],
    design: Design | None,
    promise: Promise,
    released: Callable[[Stream, int], NDArray[Any]],
    pilot: int,
    trials: int,
    risk: float,
) -> ThresholdTest:
    """The pair, statistic and threshold that promise most, by pilot trials."""
    best: ThresholdTest | None = None
    for pair in _shortlist(pairs, released, pilot):
        rows = [released(stream, pilot) for stream in pairs[pair]]
        half = pilot // 2
        learn, choose = [r[:half] for r in rows], [r[half:] for r in rows]
        for statistic in _statistics(pairs[pair], design, learn[0], learn[1]):
            threshold, expected = _threshold(statistic(choose[0]), statistic(choose[1]), promise, trials, risk)
            if best is None or expected > best.expected:
                best = ThresholdTest(pair, statistic, threshold, expected)
    assert best is not None  # noqa: S101
    return best


def _shortlist(
    pairs: list[tuple[Stream, Stream]], released: Callable[[Stream, int], NDArray[Any]], pilot: int
) -> list[int]:
    """The pairs whose sums differ most, measured against the covariance of the releases as they really are."""
    if len(pairs) <= SHORTLIST:
        return list(range(len(pairs)))
    rows = released(pairs[0][0], pilot).astype(np.float64)
    if pairs[0][0].ndim != 1 or rows.shape[1] != len(pairs[0][0]):
        raise InvalidArgument(
            "neighbours", f"{len(pairs)} pairs", f"at most {SHORTLIST} if there is not one release a step"
        )
    covariance = pooled_covariance(rows - rows.mean(axis=0))
    shifts = np.array([np.cumsum(np.subtract(second, first, dtype=np.float64)) for first, second in pairs])
    distances = np.einsum("ij,ij->i", shifts, solve(covariance, shifts.T).T)
    return [int(i) for i in np.argsort(-distances, kind="stable")[:SHORTLIST]]


def _statistics(
    pair: tuple[Stream, Stream], design: Design | None, first: NDArray[Any], second: NDArray[Any]
) -> list[Statistic]:
    """All that may tell the two streams apart: what the design says, what the pilot trials teach, and low bits."""
    plain = pair[0].shape == (first.shape[1],)
    shift = np.cumsum(np.subtract(pair[1], pair[0], dtype=np.float64))
    found: list[Statistic] = [learned_filter(first, second)]
    if plain:
        found.append(learned_filter(first, second, shift))
        found += _designed(design, pair, shift)
    moved = np.flatnonzero(shift) if plain else np.arange(first.shape[1])
    for step in {int(moved[0]), int(moved[-1])} if moved.size else set():
        found += [LowBits(step, 1), LowBits(step, -1)]
    return found


def _designed(design: Design | None, pair: tuple[Stream, Stream], shift: NDArray[np.float64]) -> list[Statistic]:
    """The likelihood ratio that the design implies, if it can be computed."""
    if design is None:
        return []
    if design.mechanism.noise == "laplace":
        try:
            return [laplace_likelihood(design.mechanism, design.scale, *pair)]
        except InvalidArgument:
            return []
    L, _ = design.mechanism.factors(len(shift))
    rounding = 1 / 12 if design.rounded else 0.0
    weights = solve(design.scale**2 * L @ L.T + rounding * np.eye(len(shift)), shift)
    return [MatchedFilter(weights, np.cumsum(pair[0], dtype=np.float64) + shift / 2)]


def _threshold(
    first: NDArray[np.float64], second: NDArray[np.float64], promise: Promise, trials: int, risk: float
) -> tuple[float, float]:
    """The threshold that is expected to prove most, and how much."""
    candidates = thresholds_between(first, second)
    alpha, beta = (
        predicted_bounds(wrong, len(scores), trials, risk)
        for wrong, scores in zip(errors_at(first, second, candidates), (first, second), strict=True)
    )
    strength = promise.strength(alpha, beta)
    best = int(strength.argmax())
    return float(candidates[best]), float(strength[best])


def thresholds_between(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Thresholds halfway between neighbouring quantiles of all scores: where there is a gap, in the middle of it."""
    both = np.sort(np.concatenate([first, second]))
    some = both[np.linspace(0, len(both) - 1, THRESHOLDS).astype(int)]
    return np.unique((some[1:] + some[:-1]) / 2)


def errors_at(
    first: NDArray[np.float64], second: NDArray[np.float64], thresholds: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """False positives and false negatives at each threshold."""
    positives = len(first) - np.searchsorted(np.sort(first), thresholds, side="right")
    negatives = np.searchsorted(np.sort(second), thresholds, side="right")
    return positives.astype(np.int64), negatives.astype(np.int64)
