"""How fast something grows, and how much a stream really holds between two releases, counted in its own memory.

Every floating-point number that can be reached from the stream's working state is counted, an array once and at the
size of the memory behind it. A row of as many numbers as a release has is a vector of state; anything else (a matrix,
the weights of a few buffers) does not grow with the size of a release and is counted as constants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstream.mechanisms.base import Mechanism
from dpstream.noise.stream import NoiseStream
from dpstream.testing import fixed_key

__all__ = ["Held", "exponent", "exponent_of", "held_by", "most_held", "two_digits"]

#: Enough coordinates for one step at a time (fewer than 64 are made many steps ahead), and the size of nothing else.
WIDE = 101


@dataclass(frozen=True)
class Held:
    """`vectors` of the size of a release, and `constants` that do not grow with it."""

    vectors: float
    constants: int


def held_by(thing: object, coordinates: int) -> Held:
    """Count what can be reached from `thing`, for releases of so many coordinates.

    >>> held_by({"a": np.zeros((3, 10)), "b": [np.zeros(10), np.zeros(4)]}, 10)
    Held(vectors=4.0, constants=4)
    """
    state = constants = 0
    for found in _numbers(thing, set()):
        if isinstance(found, int):
            constants += found
        elif found.ndim and found.shape[-1] == coordinates:
            state += found.size
        else:
            constants += found.size
    return Held(state / coordinates, constants)


def most_held(mechanism: Mechanism, steps: int) -> Held:
    """The most that a float32 stream of this mechanism holds between two of its first `steps` releases."""
    stream = NoiseStream(mechanism, 1.0, (WIDE,), key=fixed_key("paper"), threads=1)
    out = np.empty(WIDE, dtype=np.float32)
    most = Held(0.0, 0)
    for _ in range(steps):
        stream.step(out)
        # The engine, not the stream: it is what remembers.
        now = held_by(stream._engine, WIDE)
        most = Held(max(most.vectors, now.vectors), max(most.constants, now.constants))
    return most


def _numbers(thing: Any, seen: set[int]) -> Iterator[NDArray[np.floating] | int]:
    """Every array of floats reachable from `thing`, a view by the array whose memory it shows; and counts of floats."""
    while isinstance(thing, np.ndarray) and isinstance(thing.base, np.ndarray):
        thing = thing.base
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, np.ndarray):
        if np.issubdtype(thing.dtype, np.floating):
            yield thing
    elif isinstance(thing, (dict, list, tuple)):
        values = list(thing.values()) if isinstance(thing, dict) else thing
        if set(map(type, values)) == {float}:  # some lists hold thousands, and are looked at after every step
            yield len(values)
            return
        for value in values:
            if isinstance(value, float):
                yield 1
            else:
                yield from _numbers(value, seen)
    elif type(thing).__module__.startswith("dpstream.") and hasattr(thing, "__dict__"):
        yield from _numbers(vars(thing), seen)


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The e of the best fit ``value = c · size^e``, by least squares on both logarithms.

    >>> round(exponent([1, 2, 4], [3, 12, 48]), 6)
    2.0
    """
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def exponent_of(law: Callable[[float], float], sizes: Sequence[float]) -> float:
    """What `exponent` would show for a known law over the same sizes.

    >>> round(exponent_of(lambda T: T * np.log(T), [2**8, 2**13]), 3)
    1.14
    """
    return exponent(sizes, [law(size) for size in sizes])


def two_digits(value: float) -> str:
    """An exponent in print, without a sign before nothing.

    >>> two_digits(-0.001), two_digits(1.125)
    ('0.00', '1.12')
    """
    return f"{round(value, 2) + 0.0:.2f}"
