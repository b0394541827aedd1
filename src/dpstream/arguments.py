"""Checks of arguments that several rooms need. Each returns the checked value or raises `InvalidArgument`."""

from __future__ import annotations

import numpy as np

from dpstream.errors import InvalidArgument

__all__ = ["check_horizon", "check_whole"]


def check_whole(name: str, value: object, *, least: int = 1) -> int:
    """Return `value` as an int; refuse anything but a whole number of at least `least`.

    Booleans, floats (also 2.0), NaN and text are refused.

    >>> check_whole("steps", 3)
    3
    """
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= least:
        return int(value)
    raise InvalidArgument(name, value, f"a whole number of at least {least}")


def check_horizon(value: object, *, most: int = 2**50) -> int:
    """Return a horizon as an int; refuse anything but a whole number from 1 to `most`."""
    horizon = check_whole("horizon", value)
    if horizon > most:
        raise InvalidArgument("horizon", value, f"at most {most}")
    return horizon
