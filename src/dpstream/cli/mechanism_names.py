"""Mechanisms by name: what people type, and what they get."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import NamedTuple

from dpstream import mechanisms as m
from dpstream.errors import InvalidArgument
from dpstream.mechanisms.base import Mechanism, NoiseLaw

__all__ = ["mechanism_named", "names_for"]


class _Named(NamedTuple):
    """How a mechanism of this name is made, and what it can serve."""

    make: Callable[[int, NoiseLaw], Mechanism]
    laplace: bool = False
    endless: bool = False


_NAMED: dict[str, _Named] = {
    "Binary": _Named(lambda T, noise: m.Binary(T, noise=noise), laplace=True),
    "Honaker": _Named(lambda T, _: m.Honaker(T)),
    "SmoothBinary": _Named(lambda T, noise: m.SmoothBinary(T, noise=noise), laplace=True),
    "SmoothBinary.paper": _Named(lambda T, _: m.SmoothBinary.paper(T)),
    "WeightedTree": _Named(lambda T, _: m.WeightedTree(T)),
    "SignedDigits": _Named(lambda T, noise: m.SignedDigits(T, noise=noise), laplace=True),
    "SquareRoot": _Named(lambda T, _: m.SquareRoot(T, normalized=True)),
    "BufferedToeplitz": _Named(lambda T, _: m.BufferedToeplitz(T)),
    "BalancedToeplitz": _Named(lambda T, _: m.BalancedToeplitz(T)),
    "Optimal": _Named(lambda T, _: m.Optimal(T)),
    "Unbounded": _Named(lambda _, noise: m.Unbounded(noise=noise), laplace=True, endless=True),
    "GrowingSmooth": _Named(lambda _, noise: m.GrowingSmooth(noise=noise), laplace=True, endless=True),
    "LogMatrix": _Named(lambda *_: m.LogMatrix(), endless=True),
    "AnytimeToeplitz": _Named(lambda *_: m.AnytimeToeplitz(), endless=True),
}


def names_for(horizon: int | None, noise: NoiseLaw) -> list[str]:
    """The mechanisms that can serve this horizon (None: no last step) under this noise law."""
    return [
        name
        for name, kind in _NAMED.items()
        if (kind.laplace or noise == "gaussian") and (kind.endless or horizon is not None)
    ]


def mechanism_named(text: str, horizon: int | None, noise: NoiseLaw) -> Mechanism:
    """The mechanism of this name, built for the horizon (None: no last step) and the noise law.

    Capitals, hyphens, underscores, dots and spaces do not matter, and the beginning of a name is enough if no other
    name begins so.

    Raises
    ------
    InvalidArgument
        If no mechanism, or more than one, has this name; or the one that has it cannot serve. The message says which
        name may have been meant, and lists those that can serve.

    Examples
    --------
    >>> mechanism_named("smooth-binary", 1000, "gaussian")
    SmoothBinary(horizon=1000, ...)
    >>> mechanism_named("anytime", None, "gaussian")
    AnytimeToeplitz(limit=1099511627776)
    >>> mechanism_named("bnary", 10, "laplace")
    Traceback (most recent call last):
    dpstream.errors.InvalidArgument: mechanism must be one of Binary, ... (did you mean Binary?), got 'bnary'
    """
    found = _meant(text)
    if found in names_for(horizon, noise):
        # Those without a last step do not look at the horizon.
        return _NAMED[found].make(0 if horizon is None else horizon, noise)
    raise InvalidArgument("mechanism", text, _allowed(text, found, horizon, noise))


def _meant(text: str) -> str:
    """The name that the text stands for; "" if it stands for none, or for more than one."""
    letters = _letters(text)
    beginning = [name for name in _NAMED if letters and _letters(name).startswith(letters)]
    shortest = min(beginning, key=len, default="")
    # "smooth" is SmoothBinary although SmoothBinary.paper begins so, too.
    return shortest if all(name.startswith(shortest) for name in beginning) else ""


def _letters(text: str) -> str:
    return "".join(c for c in text.casefold() if c.isalnum())


def _allowed(text: str, found: str, horizon: int | None, noise: NoiseLaw) -> str:
    """What could have been typed instead, the nearest named first."""
    law = "Gaussian" if noise == "gaussian" else "Laplace"
    length = "without a horizon" if horizon is None else f"over {horizon:,} steps"
    serving = {_letters(name): name for name in names_for(horizon, noise)}
    near = difflib.get_close_matches(_letters(text), serving, n=1)
    hint = f" ({found} cannot serve that)" if found else f" (did you mean {serving[near[0]]}?)" if near else ""
    return f"one of {', '.join(serving.values())} for {law} noise {length}{hint}"
