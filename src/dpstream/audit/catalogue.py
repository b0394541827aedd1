"""The catalogue: every mechanism, in every lane, under every kind of budget, ready to be audited.

Horizons are as short as the full price allows: a promise for a stream without end is never spent to the full by a
finite one. Mechanisms without a horizon therefore appear with settings that spend most of it early, and `possible`
says how much of it their first `steps` releases can show at best.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpstream import mechanisms as m
from dpstream.audit.audit import Audit, audit
from dpstream.audit.promise import Promise
from dpstream.audit.trials import EveryCoordinate, MakeRelease, one_changed_step
from dpstream.budget import Budget, approx_dp, pure_dp, zcdp
from dpstream.mechanisms.base import Mechanism
from dpstream.release import Counter

__all__ = ["BUDGETS", "LANES", "SUBJECTS", "Row", "Subject", "rows"]

LaneName = Literal["exact", "float32", "float64"]
LANES: tuple[LaneName, ...] = ("exact", "float32", "float64")

#: One budget of each kind.
BUDGETS: dict[str, Budget] = {"zcdp": zcdp(0.5), "approx_dp": approx_dp(3.0, 1e-6), "pure_dp": pure_dp(1.0)}

#: The bound of the exact lane: rounding to whole numbers hides next to nothing of a change by 64.
BOUND = 64
#: Trials in one object.
COORDINATES = 10_000


@dataclass(frozen=True)
class Subject:
    """A mechanism, and how many of its releases an audit looks at."""

    title: str
    make: Callable[[int], Mechanism]
    steps: int

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism for this many steps."""
        return self.make(self.steps)


SUBJECTS: tuple[Subject, ...] = (
    Subject("Binary", m.Binary, 15),
    Subject("Honaker", m.Honaker, 15),
    Subject("SmoothBinary", m.SmoothBinary, 15),
    Subject("SmoothBinary, unpadded", lambda T: m.SmoothBinary(T, padded=False), 15),
    Subject("WeightedTree", m.WeightedTree, 15),
    Subject("SignedDigits", lambda T: m.SignedDigits(T, noise="gaussian"), 15),
    Subject("SquareRoot", m.SquareRoot, 15),
    Subject("SquareRoot, normalized", lambda T: m.SquareRoot(T, normalized=True), 15),
    Subject("BufferedToeplitz", m.BufferedToeplitz, 15),
    Subject("BalancedToeplitz", m.BalancedToeplitz, 15),
    Subject("Optimal", m.Optimal, 15),
    Subject("Unbounded", lambda _: m.Unbounded(), 7),
    Subject("Unbounded, BufferedToeplitz", lambda _: m.Unbounded(m.BufferedToeplitz), 7),
    Subject("GrowingSmooth, zeros=3", lambda _: m.GrowingSmooth(3), 30),
    Subject("AnytimeToeplitz, 2^20", lambda _: m.AnytimeToeplitz(2**20), 127),
    Subject("LogMatrix, -3, 3", lambda _: m.LogMatrix(-3.0, 3.0), 31),
    Subject("Binary", lambda T: m.Binary(T, noise="laplace"), 4),
    Subject("SmoothBinary", lambda T: m.SmoothBinary(T, noise="laplace"), 15),
    Subject("SmoothBinary, padded", lambda T: m.SmoothBinary(T, noise="laplace", padded=True), 2),
    Subject("SignedDigits", m.SignedDigits, 15),
    Subject("Unbounded", lambda _: m.Unbounded(noise="laplace"), 3),
    Subject("GrowingSmooth, zeros=2", lambda _: m.GrowingSmooth(2, noise="laplace"), 12),
)


@dataclass(frozen=True)
class Row:
    """One line of the table: a subject in a lane under a budget."""

    subject: Subject
    lane: LaneName
    kind: str
    budget: Budget

    def __str__(self) -> str:
        return " · ".join(filter(None, (self.subject.title, self.lane, self.kind)))

    @property
    def bound(self) -> float:
        """By how much one step is changed."""
        return BOUND if self.lane == "exact" else 1.0

    @property
    def possible(self) -> float:
        """The part of the promise that so many releases can show at best."""
        mechanism = self.subject.mechanism
        L, R = mechanism.factors(self.subject.steps)
        if mechanism.noise == "laplace":
            # R moves the draws; what can be hidden in directions that L does not see is small change.
            return float(np.abs(R).sum(axis=0).max()) / mechanism.sensitivity()
        columns = np.linalg.lstsq(L, np.tri(self.subject.steps), rcond=None)[0]
        return Promise(self.budget).part(float((columns**2).sum(axis=0).max()) / mechanism.sensitivity() ** 2)

    def make_release(self, keys: Iterator[bytes] | None = None) -> MakeRelease:
        """Build what is audited: `COORDINATES` trials an object, each under the next of `keys` or a fresh one."""
        mechanism, supply = self.subject.mechanism, itertools.repeat(None) if keys is None else keys

        def counter() -> Counter:
            return Counter(
                self.subject.steps,
                self.budget,
                shape=(COORDINATES,),
                per_person=BOUND,
                per_step=BOUND * COORDINATES,
                mechanism=mechanism,
                key=next(supply),
            )

        def running_sum() -> EveryCoordinate:
            return EveryCoordinate(
                self.subject.steps, self.budget, (COORDINATES,), dtype=self.lane, mechanism=mechanism, key=next(supply)
            )

        return counter if self.lane == "exact" else running_sum

    def audit(
        self,
        trials: int,
        confidence: float = 1 - 1e-6,
        *,
        keys: Iterator[bytes] | None = None,
        report: Callable[[float], None] | None = None,
    ) -> Audit:
        """Audit it, with the changed step searched over all steps."""
        pairs = one_changed_step(self.subject.steps, int(self.bound) if self.lane == "exact" else self.bound)
        return audit(self.make_release(keys), pairs, self.budget, trials, confidence, report=report)


def rows(budgets: dict[str, Budget] | None = None) -> list[Row]:
    """The whole table: every subject in every lane that has its noise law, under every budget of that law.

    >>> len(rows()), str(rows()[0])
    (102, 'Binary · exact · zcdp')
    """
    return [
        Row(subject, lane, kind, budget)
        for subject in SUBJECTS
        for lane in LANES
        for kind, budget in (BUDGETS if budgets is None else budgets).items()
        if subject.mechanism.noise == budget.noise and (lane == "exact" or budget.noise == "gaussian")
    ]
