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

from dpstream.arguments import check_whole
from dpstream.audit.certificate import Certificate, check_confidence, error_rate_bound
from dpstream.audit.promise import Promise
from dpstream.audit.search import SHORTLIST, errors_at, search, thresholds_between
from dpstream.audit.trials import MakeRelease, Stream, blocks, run
from dpstream.budget import Budget
from dpstream.errors import InvalidArgument
from dpstream.release.terms import check_budget

__all__ = ["WASTEFUL", "Audit", "Verdict", "audit"]

Verdict = Literal["kept", "violated", "wasteful", "unclear"]

#: Below this part of the promise the noise is called wasteful, if more trials could not change that.
WASTEFUL = 0.85


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
            f" at least {name} = {self.measured:.4g}, {100 * self.ratio:.0f} % of it (by the {self.statistic},"
            f" change number {self.pair + 1}; wrong with a chance of {risk:.2g} at most)."
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
        shape is (k,), its coordinates count as k independent trials, which saves time; give such a Counter a `per_step`
        that lets every coordinate change at once, and use `EveryCoordinate` in place of RunningSum.
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
    objects are independent of each other, and so are the coordinates of one. For Gaussian budgets the promise is that
    of a Gaussian mechanism (see `certificate`); `certificate.rho_of_any` is a bound without that assumption.

    Examples
    --------
    >>> import dpstream as dp
    >>> from dpstream.audit import one_changed_step
    >>> budget = dp.zcdp(0.5)
    >>> make = lambda: dp.Counter(4, budget, shape=(10_000,))
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
    test = search(pairs, terms, promise, released, pilot, trials, (1 - confidence) / 2)

    def scores(stream: Stream) -> NDArray[np.float64]:
        # Block by block: long streams of many trials do not fit into memory.
        found = []
        for rows in blocks(make_release, stream, trials):
            found.append(test.statistic(rows))
            meter.add(len(rows))
        return np.concatenate(found)

    first, second = (scores(stream) for stream in pairs[test.pair])
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


def _curve(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    thresholds = thresholds_between(first, second)
    positives, negatives = errors_at(first, second, thresholds)
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
