"""Streams any mechanism by its own pure step: slower than an engine made for its kind, and right for every mechanism.

In the exact lane the step is made with numbers that carry a bound on their own rounding error (running error analysis:
Higham, Accuracy and Stability, 2nd ed., section 3.3). A pure step is a sequence of additions and of products with
doubles, so that the bounds follow it through, whatever it does. Where the bound leaves two integers possible, the whole
stream is replayed in ball arithmetic (`Mechanism.noise_of_release`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstream.mechanisms.base import Mechanism
from dpstream.noise.draws import Draws
from dpstream.noise.engine import DRAW_ERROR, PURE_STEP, UNIT, Chunks, Engine

__all__ = ["PureStepEngine", "TrackedError"]

#: Error bounds are themselves computed in doubles, in at most six operations a time: this covers their rounding.
ROUND_UP = 1 + 2.0**-49
#: The largest error of an operation whose result underflows, and more.
UNDERFLOW = 2.0**-1000


class _Source:
    """The error of a number that others are multiples of."""

    __slots__ = ("error",)

    def __init__(self, error: float) -> None:
        self.error = error


class TrackedError:
    """An array, and a bound on how far any of its numbers is from the ideal one.

    A number remembers which multiple of which source it is, so that ``s - s * gap`` is known to carry 1 - gap times the
    error of s, and not 1 + gap times: the bound of a decaying buffer stays small for ever.

    >>> tenth = TrackedError(np.array([1.0]), 1e-9) * 0.1
    >>> bool(tenth.error < 1.001e-10), (tenth - tenth).value.tolist(), bool((tenth - tenth).error < 1e-15)
    (True, [0.0], True)
    """

    __slots__ = ("_coefficient", "_local", "_slack", "_source", "value")
    __array_ufunc__ = None  # NumPy numbers leave arithmetic with these to the methods below

    def __init__(self, value: NDArray[np.float64], error: float) -> None:
        self.value = value
        self._source = _Source(error)
        self._coefficient = 1.0  # this number is that multiple of the source, up to `slack`,
        self._slack = 0.0
        self._local = 0.0  # and up to this much, which arose since

    @property
    def error(self) -> float:
        """How far any number may be from the ideal one."""
        return ((abs(self._coefficient) + self._slack) * self._source.error + self._local) * ROUND_UP

    def _multiple(self, value: NDArray[np.float64], coefficient: float, slack: float, local: float) -> TrackedError:
        """Return another multiple of the same source, after one rounded operation."""
        result = TrackedError.__new__(TrackedError)
        result.value, result._source, result._coefficient = value, self._source, coefficient
        result._slack = (slack + UNIT * abs(coefficient)) * ROUND_UP + UNDERFLOW
        result._local = (local + _rounding(value)) * ROUND_UP
        return result

    def __add__(self, other: Any) -> TrackedError:
        if not isinstance(other, TrackedError):
            return TrackedError(value := self.value + _number(other), (self.error + _rounding(value)) * ROUND_UP)
        value = self.value + other.value
        if self._source is not other._source:
            return TrackedError(value, (self.error + other.error + _rounding(value)) * ROUND_UP)
        coefficient = self._coefficient + other._coefficient
        return self._multiple(value, coefficient, self._slack + other._slack, self._local + other._local)

    __radd__ = __add__

    def __neg__(self) -> TrackedError:
        return self * -1.0

    def __sub__(self, other: Any) -> TrackedError:
        return self.__add__(-other)

    def __rsub__(self, other: Any) -> TrackedError:
        return (-self).__add__(other)

    def __mul__(self, other: Any) -> TrackedError:
        factor = _number(other)
        size = abs(factor)
        return self._multiple(self.value * factor, self._coefficient * factor, self._slack * size, self._local * size)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> TrackedError:
        divisor = _number(other)
        return TrackedError(value := self.value / divisor, (self.error / abs(divisor) + _rounding(value)) * ROUND_UP)


def _rounding(value: NDArray[np.float64]) -> float:
    """Return the largest rounding error of an operation with these results."""
    return UNIT * float(np.abs(value).max(initial=0.0)) + UNDERFLOW


def _number(value: Any) -> float:
    """Return a number as the double it is."""
    if not isinstance(value, (int, float, np.integer, np.floating)) or float(value) != value:
        raise TypeError(
            f"a pure step may add and subtract values and multiply them by floats, but was about to use {value!r}"
        )
    return float(value)


class PureStepEngine(Engine, streams=Mechanism):
    """Calls `Mechanism.advance`, in float64. `seek` and `restore` make all steps again."""

    error_is_measured = True

    def __init__(self, mechanism: Mechanism, draws: Draws, chunks: Chunks, gain: float = 1.0) -> None:
        super().__init__(mechanism, draws, chunks, gain)
        self.reset()

    @classmethod
    def nanoseconds(cls, mechanism: Mechanism, steps: int, coordinates: int, *, exact: bool) -> float:
        """Return the time of a step in Python that reads and writes every vector it keeps."""
        total = super().nanoseconds(mechanism, steps, coordinates, exact=exact)
        return total + PURE_STEP + (1 + mechanism.memory) * coordinates

    def reset(self) -> None:
        self.t = 0
        self._state: Any = self.mechanism.start()
        self._largest_error = 0.0

    def seek(self, t: int) -> None:
        self.replay(t)

    def rows(self, count: int) -> NDArray[np.float64]:
        made: dict[int, NDArray[np.float64]] = {}
        out = np.empty((count, self.draws.coordinates))
        first = self.t + 1
        for i in range(count):
            needed = self.mechanism.draws_at(first + i)
            for slot in range(len(made), needed):
                made[slot] = self.draws.rows(first, count, slot)
            out[i] = self._advance([made[slot][i] for slot in range(needed)])
        return out

    def step(self, out: NDArray[Any]) -> None:
        count = self.mechanism.draws_at(self.t + 1)
        draws = [self.draws.rows(self.t + 1, 1, slot)[0].astype(np.float64) for slot in range(count)]
        np.multiply(self._advance(draws), self.gain, out=out, casting="same_kind")

    def _advance(self, draws: list[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Make one step; return its noise."""
        if not self.draws.exact:
            noise, state = self.mechanism.advance(self._state, draws)
        else:
            tracked, state = self.mechanism.advance(self._state, [TrackedError(draw, DRAW_ERROR) for draw in draws])
            noise = tracked.value
            self._largest_error = max(self._largest_error, tracked.error)
        self._state, self.t = state, self.t + 1
        return np.asarray(noise, dtype=np.float64)

    def error(self, t: int) -> float:
        """Return the largest bound among the releases made so far."""
        return self._error(t)

    def _error(self, t: int) -> float:
        del t
        return self._largest_error
