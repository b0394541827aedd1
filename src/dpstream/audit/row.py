"""Row: one line of the audit's table, which is something that publishes, and what it promises."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from dpstream.audit.audit import Audit, audit
from dpstream.audit.promise import Promise
from dpstream.audit.trials import Publisher, Release, Stream
from dpstream.budget import Budget
from dpstream.mechanisms.base import Mechanism
from dpstream.participation import Participation

__all__ = ["Row", "spent_by"]


@dataclass(frozen=True)
class Row:
    """One line of the table: something that publishes, and what it promises.

    Attributes
    ----------
    title, lane, kind
        What is audited, in which lane, under which kind of budget.
    steps
        How many steps it is given.
    make
        Builds it, under a given key or a fresh one.
    pairs
        Neighbouring streams.
    possible
        Computes the part of the promise that these streams can show at best.
    part
        The part of the trials asked for that it is given: what is slow has a budget that takes fewer.
    """

    title: str
    lane: str
    kind: str
    steps: int
    budget: Budget
    make: Callable[[bytes | None], Release | Publisher]
    pairs: list[tuple[Stream, Stream]]
    possible: Callable[[], float]
    part: float = 1.0

    def __str__(self) -> str:
        return " · ".join(filter(None, (self.title, self.lane, self.kind)))

    def audit(
        self,
        trials: int,
        confidence: float = 1 - 1e-6,
        *,
        keys: Iterator[bytes] | None = None,
        report: Callable[[float], None] | None = None,
    ) -> Audit:
        """Audit it, each object under the next of `keys`, or a fresh one."""
        supply: Iterator[bytes | None] = itertools.repeat(None) if keys is None else keys
        return audit(
            lambda: self.make(next(supply)),
            self.pairs,
            self.budget,
            max(100, round(self.part * trials)),
            confidence,
            possible=self.possible(),
            report=report,
        )


def spent_by(
    mechanism: Mechanism,
    budget: Budget,
    pairs: list[tuple[Stream, Stream]],
    *,
    participation: Participation | None = None,
    distance: float | None = None,
) -> float:
    """Return the part of the promise that the releases of these streams (one number a step) can show at best.

    `distance` is how far one person may move one step, the largest difference of the streams if left out. Only for
    the columns `possible` and `verdict` (kept or wasteful): what is violated is decided without it.
    """
    changes = np.array([np.subtract(second, first, dtype=np.float64) for first, second in pairs]).T
    steps = len(changes)
    reach = mechanism.sensitivity(participation) * (np.abs(changes).max() if distance is None else distance)
    L, R = mechanism.factors(steps)
    if mechanism.noise == "laplace":
        # R moves the draws; what can be hidden in directions that L does not see is little.
        return min(1.0, float(np.abs(R @ changes).sum(axis=0).max() / reach))
    moved = np.linalg.lstsq(L, np.cumsum(changes, axis=0), rcond=None)[0]
    return Promise(budget).part(min(1.0, float((moved**2).sum(axis=0).max() / reach**2)))
