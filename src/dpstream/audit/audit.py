"""audit: a certified lower bound on what the releases give away, held against what was promised.

    search   which changed step tells most, and which statistic and threshold tell it best, on pilot trials
    certify  count the errors of that one test on fresh trials; Clopper and Pearson turn them into a bound

Only the second half decides the verdict, and the test was fixed before it: the bound holds whatever the search did.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpstream.arguments import check_whole
from dpstream.audit.certificate import LossCertificate, check_confidence, error_rate_bound
from dpstream.audit.promise import Promise
from dpstream.audit.search import SHORTLIST, Design, errors_at, search, thresholds_between
from dpstream.audit.trials import MakeRelease, Stream, blocks, run
from dpstream.budget import Budget, check_budget
from dpstream.errors import InvalidArgument

__all__ = ["WASTEFUL", "Audit", "Verdict", "audit"]

Verdict = Literal["kept", "violated", "wasteful", "unclear"]

#: Noise is called wasteful if it is certain that this part of the promised μ (or pure ε) is not spent.
WASTEFUL = 0.96
#: The promise is called kept if it is certain that this part of it is spent.
KEPT = 0.85
#: A certified bound may be this many standard deviations of the measurement off: 999 times of 1000.
USUAL_LUCK = 3.1


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
    possible
        The part of the promise that these streams can show at best: less than 1 where a promise covers more than is
        looked at.
    """

    budget: Budget
    certificate: LossCertificate
    measured: float
    at_most: float
    pair: int
    statistic: str
    curve: NDArray[np.float64] = field(repr=False, compare=False)
    possible: float = 1.0

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
        least, most, possible = self._losses
        if most < WASTEFUL * possible:
            return "wasteful"
        return "kept" if least >= KEPT * possible else "unclear"

    @property
    def notices(self) -> tuple[float, float]:
        """How far off the noise must be for this audit to say so, 999 times of 1000: (part too small, part too large).

        (0.06, 0.1): noise 6 % too small is called violated, noise 10 % too large wasteful; what is less far off may
        pass. Worked out from the width of the interval that was measured. Infinite if nothing would be noticed.
        """
        least, most, possible = self._losses
        promised = Promise(self.budget).strength_promised
        # Both error rates are bounded at `quantile` standard deviations, added up; their luck adds in squares.
        quantile = float(-ndtri((1 - self.certificate.confidence) / 2))
        width = (most - least) / 2 * (1 + USUAL_LUCK / (math.sqrt(2) * quantile))
        room = WASTEFUL * possible - width
        return 1 - possible / (promised + width), possible / room - 1 if room > 0 else math.inf

    @property
    def _losses(self) -> tuple[float, float, float]:
        """What is certainly shown, what this test could show at most, and what should be: as μ, or as a pure ε."""
        promise = Promise(self.budget)
        return (
            promise.strength_of(self.measured),
            promise.strength_of(self.at_most),
            promise.strength_of(self.promised * self.possible),
        )

    def __str__(self) -> str:
        promise, risk = Promise(self.budget), 1 - self.certificate.confidence
        name = promise.name
        trials = self.certificate.first_trials + self.certificate.second_trials
        found = (
            f"The budget promises {name} = {self.promised:.4g}{promise.proviso}. In {trials:,} trials the releases"
            f" gave away at least {name} = {self.measured:.4g}, {100 * self.ratio:.0f} % of it (by the"
            f" {self.statistic}, change number {self.pair + 1}; wrong with a chance of {risk:.2g} at most)."
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
    possible: float = 1.0,
    report: Callable[[float], None] | None = None,
) -> Audit:
    """Try to tell neighbouring streams apart by their releases, and certify how well that goes.

    Parameters
    ----------
    make_release
        Builds a fresh release object with fresh noise: a `Counter`, a `RunningSum`, or anything with `extend`. If its
        shape is (k,), its coordinates count as k independent trials, which saves time. Or
        anything with `publish`, which takes a stream and returns what is published about it, one row a trial.
    neighbours
        Pairs of streams that the promise covers, one row a step: `one_changed_step` lists the usual ones. The pair
        that tells most is searched for.
    budget
        What is promised.
    trials
        How often each of the two streams is run to count errors; the search takes about as many again.
    confidence
        The chance, at least, that the bound holds.
    possible
        The part of the promise that these streams can show at best, if not all of it.
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

    test = search(pairs, _design_of(make_release()), promise, released, pilot, trials, (1 - confidence) / 2)

    def scores(stream: Stream) -> NDArray[np.float64]:
        # Block by block: long streams of many trials do not fit into memory.
        found = []
        for rows in blocks(make_release, stream, trials):
            found.append(test.statistic(rows))
            meter.add(len(rows))
        return np.concatenate(found)

    first, second = (scores(stream) for stream in pairs[test.pair])
    meter.finish()
    certificate = LossCertificate(
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
        possible,
    )


def _design_of(release: object) -> Design | None:
    """How the noise of a Counter, a RunningSum or whatever has a `design` is meant to be."""
    settings = getattr(release, "settings", None)
    if settings is None:
        return getattr(release, "design", None)
    return Design(settings.mechanism, settings.scale, rounded=settings.lane == "exact")


def _curve(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    thresholds = thresholds_between(first, second)
    positives, negatives = errors_at(first, second, thresholds)
    return np.array([positives / len(first), negatives / len(second)])


def _check_neighbours(neighbours: object) -> list[tuple[Stream, Stream]]:
    try:
        pairs = [(np.asarray(first), np.asarray(second)) for first, second in neighbours]  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        pairs = []
    if not pairs or any(a.ndim == 0 or a.shape != b.shape or a.shape != pairs[0][0].shape for a, b in pairs):
        raise InvalidArgument("neighbours", neighbours, "pairs of streams of one shape, one row a step")
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
