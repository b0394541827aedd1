"""Checks of arguments that several rooms need. Each returns the checked value or raises `InvalidArgument`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import TypeGuard

import numpy as np

from dpstream.errors import InvalidArgument

__all__ = [
    "check_horizon",
    "check_positive",
    "check_probability",
    "check_text",
    "check_whole",
    "check_windows",
    "is_number",
]


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


def check_windows(value: object, horizon: int | None) -> tuple[int, ...]:
    """Return lengths of windows as a tuple; refuse anything but rising whole numbers up to the horizon. () is allowed.

    >>> check_windows([1, 7, 30], 365)
    (1, 7, 30)
    """
    allowed = "whole numbers of steps in rising order, each once, such as windows=(1, 7, 30)"
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise InvalidArgument("windows", value, allowed)
    given = tuple(value)
    if not all(isinstance(w, (int, np.integer)) and not isinstance(w, bool) and w >= 1 for w in given):
        raise InvalidArgument("windows", value, allowed)
    if any(one >= other for one, other in pairwise(given)):
        raise InvalidArgument("windows", value, f"{allowed}: give windows={tuple(sorted({int(w) for w in given}))}")
    if given and horizon is not None and given[-1] > horizon:
        raise InvalidArgument("windows", value, f"no longer than the horizon, {horizon} steps")
    return tuple(int(w) for w in given)


def check_positive(name: str, value: object, error: type[InvalidArgument] = InvalidArgument) -> float:
    """Return `value` as a float; refuse anything but a positive, finite number, by `error`."""
    if is_number(value) and value > 0 and math.isfinite(value):
        return float(value)
    raise error(name, value, "a positive, finite number")


def check_probability(name: str, value: object, error: type[InvalidArgument] = InvalidArgument) -> float:
    """Return `value` as a float; refuse anything but a number strictly between 0 and 1, by `error`."""
    if is_number(value) and 0 < value < 1:
        return float(value)
    raise error(name, value, "a number strictly between 0 and 1")


def check_text(name: str, value: object) -> str:
    """Return `value`; refuse anything but text."""
    if not isinstance(value, str):
        raise InvalidArgument(name, value, "text")
    return value


def is_number(value: object) -> TypeGuard[float]:
    """Say whether `value` is a real number; booleans are not."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
