"""The table of `dpstream audit --all`: every mechanism in every lane under every kind of budget, and every door.

Horizons are as short as the full sensitivity allows: a promise for a stream without end is never spent to the full by
a finite one. Mechanisms without a horizon therefore appear with settings that spend most of it early, and `possible`
says how much of it their first `steps` releases can show at best.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Literal

from dpstream import mechanisms as m
from dpstream.audit.audit import Audit
from dpstream.audit.counting_doors import counting_doors
from dpstream.audit.doors import doors
from dpstream.audit.row import Row, spent_by
from dpstream.audit.trials import Release, one_changed_step
from dpstream.budget import Budget, approx_dp, pure_dp, zcdp
from dpstream.mechanisms.base import Mechanism, NoiseLaw
from dpstream.mechanisms.catalogue import BOTH, ENTRIES, Entry
from dpstream.release import Counter, RunningSum

__all__ = ["BUDGETS", "LANES", "SUBJECTS", "LaneName", "Subject", "all_doors", "audit_row", "mechanism_row", "rows"]

LaneName = Literal["exact", "float32", "float64"]
LANES: tuple[LaneName, ...] = ("exact", "float32", "float64")

#: One budget of each kind.
BUDGETS: dict[str, Budget] = {"zcdp": zcdp(0.5), "approx_dp": approx_dp(6.0, 1e-6), "pure_dp": pure_dp(1.0)}

#: By how much one person changes a step in the exact lane: rounding to whole numbers hides next to nothing of 64.
PER_PERSON = 64
#: Trials in one object.
COORDINATES = 10_000
#: Releases of a mechanism, unless `OTHERWISE` says so.
STEPS = 15
#: The part of the trials asked for that a mechanism of many steps is given.
LONG = 0.4


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


#: Mechanisms of the catalogue that are audited otherwise than with their usual settings over `STEPS` steps: those
#: without a last step spend most of their promise later than that, and Laplace noise tells least where there are many
#: nodes.
OTHERWISE: dict[tuple[str, NoiseLaw], Subject] = {
    ("Unbounded", "gaussian"): Subject("Unbounded", lambda _: m.Unbounded(), 7),
    ("GrowingSmooth", "gaussian"): Subject("GrowingSmooth, zeros=3", lambda _: m.GrowingSmooth(3), 30),
    ("AnytimeToeplitz", "gaussian"): Subject("AnytimeToeplitz, 2^20", lambda _: m.AnytimeToeplitz(2**20), 127),
    ("LogMatrix", "gaussian"): Subject("LogMatrix, -3, 3", lambda _: m.LogMatrix(-3.0, 3.0), 31),
    ("Binary", "laplace"): Subject("Binary", lambda T: m.Binary(T, noise="laplace"), 4),
    ("Unbounded", "laplace"): Subject("Unbounded", lambda _: m.Unbounded(noise="laplace"), 3),
    ("GrowingSmooth", "laplace"): Subject("GrowingSmooth, zeros=2", lambda _: m.GrowingSmooth(2, noise="laplace"), 12),
}
#: Further settings of mechanisms of the catalogue.
VARIANTS: tuple[Subject, ...] = (
    Subject("SmoothBinary, unpadded", lambda T: m.SmoothBinary(T, padded=False), 15),
    Subject("Unbounded, BufferedToeplitz", lambda _: m.Unbounded(m.BufferedToeplitz), 7),
    Subject("SmoothBinary, padded", lambda T: m.SmoothBinary(T, noise="laplace", padded=True), 2),
    # Parts of its releases cancel, and its columns are normalised.
    Subject(
        "FittedToeplitz, pairs",
        lambda T: m.FittedToeplitz(
            T, poles=(0.85 + 0.3j, 0.85 - 0.3j, 0.7, 0.4), zeros=(0.9 + 0.35j, 0.9 - 0.35j, 0.55, 0.2)
        ),
        15,
    ),
)


def subject_of(entry: Entry, noise: NoiseLaw) -> Subject:
    """Return how a mechanism of the catalogue is audited."""
    return OTHERWISE.get((entry.name, noise)) or Subject(entry.name, lambda T: entry.make(T, noise), STEPS)


SUBJECTS: tuple[Subject, ...] = (
    *(subject_of(entry, noise) for noise in BOTH for entry in ENTRIES if noise in entry.laws),
    *VARIANTS,
)


def mechanism_row(subject: Subject, lane: LaneName, kind: str, budget: Budget) -> Row:
    """A mechanism in a lane under a budget, `COORDINATES` trials an object, the changed step searched for."""
    mechanism = subject.mechanism

    def make(key: bytes | None) -> Release:
        if lane == "exact":
            return Counter(
                subject.steps,
                budget,
                shape=(COORDINATES,),
                per_person=PER_PERSON,
                mechanism=mechanism,
                key=key,
            )
        return RunningSum(subject.steps, budget, shape=(COORDINATES,), dtype=lane, mechanism=mechanism, key=key)

    pairs = one_changed_step(subject.steps, PER_PERSON if lane == "exact" else 1.0)
    return Row(
        subject.title,
        lane,
        kind,
        subject.steps,
        budget,
        make,
        pairs,
        partial(spent_by, mechanism, budget, pairs),
        LONG if subject.steps > 100 else 1.0,
    )


def all_doors() -> list[Row]:
    """Every door, one row each."""
    return doors() + counting_doors()


@lru_cache(maxsize=1)
def _whole_table() -> list[Row]:
    return rows()


def audit_row(number: int, trials: int, confidence: float) -> Audit:
    """Audit one row of the whole table: for a pool of processes, to which rows themselves cannot be sent."""
    return _whole_table()[number].audit(trials, confidence)


def rows(budgets: dict[str, Budget] | None = None) -> list[Row]:
    """The whole table: every mechanism in every lane that has its noise law, under every budget of that law; all doors.

    >>> len(rows()) > 100, str(rows()[0])
    (True, 'Binary · exact · zcdp')
    """
    chosen = BUDGETS if budgets is None else budgets
    return [
        mechanism_row(subject, lane, kind, budget)
        for subject in SUBJECTS
        for lane in LANES
        for kind, budget in chosen.items()
        if subject.mechanism.noise == budget.noise and (lane == "exact" or budget.noise == "gaussian")
    ] + all_doors()
