"""How often one person may appear in the stream."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from dpstream.errors import InvalidArgument, ParticipationError

__all__ = ["Participation", "check_participation"]


@dataclass(frozen=True)
class Participation:
    """One person contributes to at most `times` steps, any two of them at least `separation` steps apart.

    The default, one step a person, is event-level privacy: neighbouring streams differ in one step. With `times=5`
    the guarantee covers everything that one person did in up to five steps.

    Parameters
    ----------
    times
        The largest number of steps that one person can influence (the field's *max participations*).
    separation
        The least distance between two such steps (the field's *min separation*); 1 means that they may be adjacent.

    Examples
    --------
    >>> Participation(times=3, separation=10).reach(horizon=15)
    2
    """

    times: int = 1
    separation: int = 1

    def __post_init__(self) -> None:
        for name in ("times", "separation"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not value >= 1:
                raise ParticipationError(name, value, "a whole number of at least 1")

    @classmethod
    def of(cls, batches: Iterable[Iterable[Hashable]]) -> Participation:
        """Return the tightest participation that an order of batches keeps: one batch a step, examples by their ids.

        An example that is twice in one batch is counted once: clip what a person adds to a step.

        Examples
        --------
        >>> Participation.of([["ann", "bob"], ["cem"], ["ann"], ["bob", "cem"]])
        Participation(times=2, separation=2)
        """
        times, separation = 1, 0
        count: dict[Hashable, int] = {}
        last: dict[Hashable, int] = {}
        for step, batch in enumerate(batches):
            for example in set(batch):
                if example in last:
                    distance = step - last[example]
                    separation = distance if separation == 0 else min(separation, distance)
                last[example] = step
                count[example] = count.get(example, 0) + 1
                times = max(times, count[example])
        return cls(times, max(separation, 1))

    def check(self, batches: Iterable[Iterable[Hashable]]) -> None:
        """Refuse an order of batches in which an example appears too often, or again too soon.

        Raises
        ------
        ParticipationError
            Naming the first step that breaks the promise, counted from 1.

        Examples
        --------
        >>> Participation(times=2, separation=3).check([["ann"], ["bob"], ["ann"]])
        Traceback (most recent call last):
        dpstream.errors.ParticipationError: batches must be an order in which no example comes back in less than 3 steps
        (not in steps 1 and 3), got 'ann'
        """
        count: dict[Hashable, int] = {}
        last: dict[Hashable, int] = {}
        for step, batch in enumerate(batches, start=1):
            for example in sorted(set(batch), key=repr):
                if example in last and step - last[example] < self.separation:
                    raise ParticipationError(
                        "batches",
                        example,
                        f"an order in which no example comes back in less than {self.separation} steps (not in steps"
                        f" {last[example]} and {step})",
                    )
                last[example] = step
                count[example] = count.get(example, 0) + 1
                if count[example] > self.times:
                    raise ParticipationError(
                        "batches",
                        example,
                        f"an order with every example in at most {self.times} steps (not again in step {step})",
                    )

    def reach(self, horizon: int | None) -> int:
        """How many of the `times` steps fit into `horizon` steps."""
        if horizon is None:
            return self.times
        return min(self.times, (horizon - 1) // self.separation + 1)


def check_participation(participation: object) -> Participation:
    """Return `participation`, one step a person for None; refuse anything else."""
    if participation is None:
        return Participation()
    if not isinstance(participation, Participation):
        raise InvalidArgument("participation", participation, "a Participation")
    return participation
