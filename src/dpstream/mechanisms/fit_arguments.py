"""Checks of what mechanisms are fitted to, and of the numbers that a fit makes: poles, zeros and bands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from dpstream.arguments import check_windows
from dpstream.errors import InvalidArgument, ParticipationError
from dpstream.participation import Participation

__all__ = [
    "Objective",
    "checked_coefficients",
    "checked_epochs",
    "checked_objective",
    "checked_roots",
    "checked_scales",
    "fitted_windows",
]

Objective = Literal["max", "mean"]


def checked_epochs(participation: object, horizon: int) -> tuple[int, int]:
    """Return times and separation; refuse what does not fit into the horizon."""
    if participation is None:
        return 1, 1
    if not isinstance(participation, Participation):
        raise InvalidArgument("participation", participation, "a Participation or None")
    k = participation.reach(horizon)
    if k < participation.times:
        raise ParticipationError(
            "participation",
            participation,
            f"possible within {horizon} steps: {participation.separation} steps apart only {k} of"
            f" {participation.times} contributions fit",
        )
    return k, participation.separation


def checked_objective(objective: object) -> Objective:
    """Return the objective; refuse anything but "max" and "mean"."""
    if objective == "max":
        return "max"
    if objective == "mean":
        return "mean"
    raise InvalidArgument("objective", objective, "'max' or 'mean'")


def fitted_windows(windows: Sequence[int] | None, horizon: int) -> tuple[int, ...]:
    """Return lengths of windows, the horizon if there are none; refuse an empty sequence."""
    lengths = (horizon,) if windows is None else check_windows(windows, horizon)
    if not lengths:
        raise InvalidArgument("windows", windows, "at least one length, or left out for running totals")
    return lengths


def checked_roots(name: str, given: object) -> tuple[complex, ...]:
    """Return roots in canonical order: real ones as floats, largest first, then pairs, slowest first."""
    try:
        roots = [complex(root) for root in given]  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise InvalidArgument(name, given, "a sequence of numbers") from None
    if not all(0.0 < abs(root) < 1.0 for root in roots):  # also refuses NaN
        raise InvalidArgument(name, given, "inside the unit circle and not 0")
    real = sorted((root.real for root in roots if root.imag == 0.0), reverse=True)
    upper = sorted((r for r in roots if r.imag > 0.0), key=lambda r: (-abs(r), r.imag))
    lower = sorted((r.conjugate() for r in roots if r.imag < 0.0), key=lambda r: (-abs(r), r.imag))
    if upper != lower:
        raise InvalidArgument(name, given, "closed under conjugation: with a + bj also a - bj, exactly")
    pairs: list[complex] = [half for root in upper for half in (root, root.conjugate())]
    return (*real, *pairs)


def checked_coefficients(given: object) -> tuple[float, ...]:
    """Return coefficients as floats; refuse any but finite numbers of which the first is 1."""
    if isinstance(given, (str, bytes)):
        raise InvalidArgument("coefficients", given, "a sequence of numbers")
    try:
        coefficients = tuple(float(c) for c in given)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise InvalidArgument("coefficients", given, "a sequence of numbers") from None
    if not coefficients or coefficients[0] != 1.0 or not np.isfinite(coefficients).all():
        raise InvalidArgument("coefficients", given, "finite numbers, the first of them 1")
    return coefficients


def checked_scales(given: object) -> tuple[float, ...]:
    """Return factors of scales as floats; refuse any but positive finite numbers, at most 64 of them."""
    try:
        scales = tuple(float(c) for c in given)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise InvalidArgument("scales", given, "a sequence of numbers") from None
    if isinstance(given, (str, bytes)) or len(scales) > 64 or not all(1e-6 <= c <= 1e6 for c in scales):
        raise InvalidArgument("scales", given, "at most 64 numbers from 1e-6 to 1e6")
    return scales
