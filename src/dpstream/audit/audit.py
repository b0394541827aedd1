"""audit: a certified lower bound on what the releases give away, held against what was promised.

    search   which changed step tells most, and which statistic and threshold tell it best, on pilot trials
    certify  count the errors of that one test on fresh trials; Clopper and Pearson turn them into a bound

Only the second half decides the verdict, and the test was fixed before it: the bound holds whatever the search did.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpstream.audit.certificate import Certificate, check_confidence, error_rate_bound
from dpstream.audit.laplace_likelihood import laplace_likelihood
from dpstream.audit.promise import Promise, predicted_bounds
from dpstream.audit.statistic import LowBits, MatchedFilter, Statistic, learned_filter, pooled_covariance, solve
from dpstream.audit.trials import MakeRelease, Stream, run
from dpstream.budget import Budget
from dpstream.errors import InvalidArgument
from dpstream.mechanisms.base import check_whole
from dpstream.release.terms import Terms, check_budget

__all__ = ["WASTEFUL", "Audit", "Verdict", "audit"]

Verdict = Literal["kept", "violated", "wasteful", "unclear"]

#: Below this part of the promise the noise is called wasteful, if more trials could not change that.
WASTEFUL = 0.85
#: So many of the changed steps that tell most, by the covariance, are tried out.
SHORTLIST = 3
#: Thresholds that are tried.
THRESHOLDS = 400


@dataclass(frozen=True)
class Audit:
    """What an audit found.

    Attributes
    ----------
    budget
        What was promised.
    certificate
        The errors of the test, and every bound that follows from them.
    measured
        The certified lower bound, as ρ or ε: whichever the budget promises.
    at_most
        What this test could have shown with endless trials, at the same confidence: if it is below the promise, the
        noise is larger than needed, or this test is not the best one.
    pair
        The number of the pair of neighbouring streams that told most.
    statistic
        The statistic that told best.
    curve
        Its error rates (α, β) at many thresholds, for a picture.
    """

    budget: Budget
    certificate: Certificate
    measured: float
    at_most: float
    pair: int
    statistic: str
    curve: NDArray[np.float64] = field(repr=False, compare=False)

    @property
    def promised(self) -> float:
        """ρ or ε, as the budget has it."""
        return Promise(self.budget).value

    @property
    def ratio(self) -> float:
        """The certified part of the promise."""
        return self.measured / self.promised

    @property
    def verdict(self) -> Verdict:
        """Whether the promise was kept, violated or bought with too much noise; or whether it takes more trials."""
        if self.measured > self.promised:
            return "violated"
        if self.ratio >= WASTEFUL:
            return "kept"
        return "wasteful" if self.at_most < self.promised else "unclear"

    def __str__(self) -> str:
        name, risk = Promise(self.budget).name, 1 - self.certificate.confidence
        trials = self.certificate.first_trials + self.certificate.second_trials
        found = (
            f"{self.budget!r} promises {name} = {self.promised:.4g}. In {trials:,} trials the releases gave away"
            f" at least {name} = {self.measured:.4g}, {100 * self.ratio:.0f} % of it (by the {self.statistic}, change number"
            f" {self.pair + 1}; wrong with a chance of {risk:.2g} at most)."
        )
        return {
            "violated": f"VIOLATED. {found} More leaks than was promised: do not publish with this.",
            "wasteful": f"Wasteful. {found} Nothing contradicts the promise, but far less leaks than it allows: there"
            " is more noise than needed, or this audit did not find the way in.",
            "unclear": f"Unclear. {found} Nothing contradicts the promise; more trials would tell whether"
            " noise is wasted.",
            "kept": f"Kept. {found} Nothing contradicts the promise, and little noise is wasted.",
        }[self.verdict]


def audit(
    make_release: MakeRelease,
    neighbours: Sequence[tuple[Stream, Stream]],
    budget: Budget,
    trials: int = 20_000,
    confidence: float = 1 - 1e-6,
    *,
    report: Callable[[float], None] | None = None,
) -> Audit:
    """Try to tell neighbouring streams apart by their releases, and certify how well that goes.

    Parameters
    ----------
    make_release
        Builds a fresh release object with fresh noise: a `Counter`, a `RunningSum`, or anything with `extend`. If its
        shape is (k,), its coordinates count as k independent trials, which saves time; give such a Counter a `largest`
        that lets every coordinate change at once.
    neighbours
        Pairs of streams that the promise covers, one number a step: `one_changed_step` lists the usual ones. The pair
        that tells most is searched for.
    budget
        What is promised.
    trials
        How often each of the two streams is run to count errors; the search takes about as many again.
    confidence
        The chance, at least, that the bound holds.
    report
        Called now and then with the part that is done, from 0 to 1.

    Guarantee
    ---------
    If the releases keep the promise, the verdict is "violated" with a chance of at most 1 - confidence. Assumed:
    objects are independent of each other, and so are the coordinates of one. For Gaussian budgets the promise is that of a
    Gaussian mechanism (see `certificate`); `certificate.rho_of_any` is a bound without that assumption.

    Examples
    --------
    >>> import dpstream as dp
    >>> from dpstream.audit import one_changed_step
    >>> budget = dp.zcdp(0.5)
    >>> make = lambda: dp.Counter(4, budget, shape=(10_000,), largest=100)
    >>> found = audit(make, one_changed_step(4), budget)
    >>> found.verdict != "violated", found.certificate.rho <= 0.5
    (True, True)
    """
    promise, trials = Promise(check_budget(budget)), check_whole("trials", trials, least=100)
    pairs, confidence = _check_neighbours(neighbours), check_confidence(confidence)
    pilot = max(100, trials // 6)
    meter = _Meter(report, (2 * SHORTLIST + 1) * pilot + 2 * trials)

    def released(stream: Stream, count: int) -> NDArray[Any]:
        rows = run(make_release, stream, count)
        meter.add(count)
        return rows

    terms = getattr(make_release(), "_terms", None)
    test = _search(pairs, terms, promise, released, pilot, trials, (1 - confidence) / 2)
    first, second = (test.statistic(released(stream, trials)) for stream in pairs[test.pair])
    meter.finish()
    certificate = Certificate(
        int((first > test.threshold).sum()), trials, int((second <= test.threshold).sum()), trials, confidence
    )
    optimistic = [
        1 - error_rate_bound(n - wrong, n, (1 - confidence) / 2)
        for wrong, n in ((certificate.false_positives, trials), (certificate.false_negatives, trials))
    ]
    return Audit(
        budget,
        certificate,
        promise.measured(certificate),
        max(promise.at_rates(*optimistic), promise.measured(certificate)),
        test.pair,
        str(test.statistic),
        _curve(first, second),
    )


@dataclass(frozen=True)
class _Test:
    pair: int
    statistic: Statistic
    threshold: float
    expected: float


def _search(
    pairs: list[tuple[Stream, Stream]],
    terms: Terms | None,
    promise: Promise,
    released: Callable[[Stream, int], NDArray[Any]],
    pilot: int,
    trials: int,
    risk: float,
) -> _Test:
    """The pair, statistic and threshold that promise most, by pilot trials."""
    best: _Test | None = None
    for pair in _shortlist(pairs, released, pilot):
        rows = [released(stream, pilot) for stream in pairs[pair]]
        half = pilot // 2
        learn, choose = [r[:half] for r in rows], [r[half:] for r in rows]
        for statistic in _statistics(pairs[pair], terms, learn[0], learn[1]):
            threshold, expected = _threshold(statistic(choose[0]), statistic(choose[1]), promise, trials, risk)
            if best is None or expected > best.expected:
                best = _Test(pair, statistic, threshold, expected)
    assert best is not None  # noqa: S101
    return best


def _shortlist(
    pairs: list[tuple[Stream, Stream]], released: Callable[[Stream, int], NDArray[Any]], pilot: int
) -> list[int]:
    """The pairs whose sums differ most, measured against the covariance of the releases as they really are."""
    if len(pairs) <= SHORTLIST:
        return list(range(len(pairs)))
    rows = released(pairs[0][0], pilot).astype(np.float64)
    if rows.shape[1] != len(pairs[0][0]):
        raise InvalidArgument(
            "neighbours", f"{len(pairs)} pairs", f"at most {SHORTLIST} if there is not one release a step"
        )
    covariance = pooled_covariance(rows - rows.mean(axis=0))
    shifts = np.array([np.cumsum(np.subtract(second, first, dtype=np.float64)) for first, second in pairs])
    distances = np.einsum("ij,ij->i", shifts, solve(covariance, shifts.T).T)
    return [int(i) for i in np.argsort(-distances, kind="stable")[:SHORTLIST]]


def _statistics(
    pair: tuple[Stream, Stream], terms: Terms | None, first: NDArray[Any], second: NDArray[Any]
) -> list[Statistic]:
    """All that may tell the two streams apart: what the design says, what the pilot trials teach, and low bits."""
    shift = np.cumsum(np.subtract(pair[1], pair[0], dtype=np.float64))
    plain = first.shape[1] == len(shift)
    found: list[Statistic] = [learned_filter(first, second)]
    if plain:
        found.append(learned_filter(first, second, shift))
        found += _designed(terms, pair, shift)
    moved = np.flatnonzero(shift) if plain else np.arange(first.shape[1])
    for step in {int(moved[0]), int(moved[-1])} if moved.size else set():
        found += [LowBits(step, 1), LowBits(step, -1)]
    return found


def _designed(terms: Terms | None, pair: tuple[Stream, Stream], shift: NDArray[np.float64]) -> list[Statistic]:
    """The likelihood ratio that the terms of a Counter or RunningSum imply, if it can be computed."""
    if terms is None:
        return []
    if terms.mechanism.noise == "laplace":
        try:
            return [laplace_likelihood(terms.mechanism, terms.scale, *pair)]
        except InvalidArgument:
            return []
    L, _ = terms.mechanism.factors(len(shift))
    rounding = 1 / 12 if terms.lane == "exact" else 0.0
    weights = solve(terms.scale**2 * L @ L.T + rounding * np.eye(len(shift)), shift)
    return [MatchedFilter(weights, np.cumsum(pair[0], dtype=np.float64) + shift / 2)]


def _threshold(
    first: NDArray[np.float64], second: NDArray[np.float64], promise: Promise, trials: int, risk: float
) -> tuple[float, float]:
    """The threshold that is expected to prove most, and how much."""
    candidates = _between(first, second)
    alpha, beta = (
        predicted_bounds(wrong, len(scores), trials, risk)
        for wrong, scores in zip(_errors(first, second, candidates), (first, second), strict=True)
    )
    strength = promise.strength(alpha, beta)
    best = int(strength.argmax())
    return float(candidates[best]), float(strength[best])


def _between(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Thresholds halfway between neighbouring quantiles of all scores: where there is a gap, in the middle of it."""
    both = np.sort(np.concatenate([first, second]))
    some = both[np.linspace(0, len(both) - 1, THRESHOLDS).astype(int)]
    return np.unique((some[1:] + some[:-1]) / 2)


def _errors(
    first: NDArray[np.float64], second: NDArray[np.float64], thresholds: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """False positives and false negatives at each threshold."""
    positives = len(first) - np.searchsorted(np.sort(first), thresholds, side="right")
    negatives = np.searchsorted(np.sort(second), thresholds, side="right")
    return positives.astype(np.int64), negatives.astype(np.int64)


def _curve(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    thresholds = _between(first, second)
    positives, negatives = _errors(first, second, thresholds)
    return np.array([positives / len(first), negatives / len(second)])


def _check_neighbours(neighbours: object) -> list[tuple[Stream, Stream]]:
    try:
        pairs = [(np.asarray(first), np.asarray(second)) for first, second in neighbours]  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        pairs = []
    if not pairs or any(a.ndim != 1 or a.shape != b.shape or a.shape != pairs[0][0].shape for a, b in pairs):
        raise InvalidArgument("neighbours", neighbours, "pairs of streams of one length, one number a step")
    return pairs


class _Meter:
    """Tells how much of the planned trials is done."""

    def __init__(self, report: Callable[[float], None] | None, planned: int) -> None:
        self._report, self._planned, self._done = report, planned, 0

    def add(self, trials: int) -> None:
        self._done += trials
        if self._report is not None:
            self._report(min(1.0, self._done / self._planned))

    def finish(self) -> None:
        self.add(max(0, self._planned - self._done))
