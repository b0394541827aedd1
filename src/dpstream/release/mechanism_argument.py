"""Checks the mechanism that a caller gives against the horizon and the budget."""

from __future__ import annotations

from dpstream.budget import Budget
from dpstream.errors import InvalidArgument, MechanismTooShort, NoiseLawError
from dpstream.mechanisms.base import Mechanism

__all__ = ["check_mechanism"]


def check_mechanism(mechanism: object, horizon: int | None, budget: Budget) -> Mechanism | None:
    """Return a mechanism that reaches the horizon under this budget's law; None for "auto"."""
    if isinstance(mechanism, str) and mechanism == "auto":
        return None
    if not isinstance(mechanism, Mechanism):
        raise InvalidArgument("mechanism", mechanism, "'auto' or a mechanism from dpstream.mechanisms")
    holds = mechanism.horizon
    # An anytime mechanism has a limit, far beyond reach, instead of a horizon.
    enough = mechanism.serves_without_horizon if horizon is None else holds is not None and holds >= horizon
    if holds is not None and not enough:
        raise MechanismTooShort(mechanism=repr(mechanism), holds=holds, horizon=horizon)
    if mechanism.noise != budget.noise:
        raise NoiseLawError(
            f"{budget!r} needs {budget.noise} noise, but {mechanism!r} is built for {mechanism.noise} noise"
        )
    return mechanism
