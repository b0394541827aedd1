"""Words for the figures of a plan."""

from __future__ import annotations

from dpstream.mechanisms.banded import Banded
from dpstream.mechanisms.banded_inverse import BandedInverse
from dpstream.mechanisms.base import Mechanism
from dpstream.mechanisms.fitted_toeplitz import FittedToeplitz

__all__ = ["mechanism_title", "size_text", "time_text"]


def mechanism_title(mechanism: Mechanism) -> str:
    """Return the name of a mechanism and what tells it from others of its class."""
    name = type(mechanism).__name__
    if isinstance(mechanism, FittedToeplitz):
        return f"{name}, {len(mechanism.poles)} buffers"
    if isinstance(mechanism, (Banded, BandedInverse)):
        return f"{name}, {len(mechanism.coefficients)} bands"
    return f"{name}, padded" if getattr(mechanism, "padded", False) else name


def size_text(count: float) -> str:
    """Return a number of bytes with its unit."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def time_text(nanoseconds: float) -> str:
    """Return a time with its unit."""
    for unit in ("ns", "µs", "ms"):
        if nanoseconds < 1000:
            return f"{nanoseconds:.3g} {unit}"
        nanoseconds /= 1000
    return f"{nanoseconds:.3g} s"
