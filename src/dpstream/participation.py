"""How often one person may appear in the stream."""

from __future__ import annotations

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
