"""Ball arithmetic: real numbers rounded correctly to doubles (Arb, through python-flint).

A ball holds the number that is meant; as soon as both of its ends round to the same double, that is the double nearest
to the number, whatever the machine. python-flint is imported when it is first needed: that takes a tenth of a second.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["Ball", "rounded", "working_precision"]

Ball = Any  # flint.arb, which has no type information

#: Arb's working precision is one setting of the whole process.
_PRECISION = threading.RLock()
#: A number that is not told apart from the middle of two doubles by so many bits lies there; it is rounded to even.
MOST_BITS = 4096


@contextmanager
def working_precision(bits: int) -> Iterator[None]:
    """Compute with so many bits; no other thread does ball arithmetic meanwhile."""
    import flint

    with _PRECISION, flint.ctx.workprec(bits):
        yield


def rounded(ball_of: Callable[[], Ball], bits: int = 128) -> float:
    """Return the double nearest to the number that `ball_of` returns a ball of, at whatever the working precision is.

    >>> import flint
    >>> rounded(lambda: flint.arb(2).log())
    0.6931471805599453
    """
    while True:
        with working_precision(bits):
            ball = ball_of()
            low, high = float(ball.lower()), float(ball.upper())
        if low == high or bits >= MOST_BITS:
            return low
        bits *= 2
