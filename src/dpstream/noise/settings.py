"""The settings of a noise stream: checked at the door, and spelled out for its keys."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from dpstream.arguments import check_whole
from dpstream.errors import InvalidArgument
from dpstream.noise.draws import COORDINATES_LIMIT, NARROW
from dpstream.noise.keystream import FORMAT_VERSION, configuration_digest

__all__ = ["check_dtype", "check_part", "check_scale", "check_shape", "check_threads", "settings_digest", "settings_of"]

#: Above this many coordinates a stream uses all processors unless told otherwise.
THREADED_COORDINATES = 1 << 18
#: NumPy's arrays have at most 64 sides, and those of `block` have one more than a release.
MOST_SIDES = 63
#: Exactly rounded noise may be this large: far beyond any use, far below 2^62.
LARGEST_EXACT_SCALE = 1e12


def settings_of(mechanism: str, scale: float, shape: tuple[int, ...], dtype: np.dtype[Any]) -> dict[str, object]:
    """Return what decides the noise of a `NoiseStream`: its keys are derived from it, and a saved state must match it.

    Not the settings of a release (`dpstream.release.settings`): a NoiseStream is used without any, for training, and
    knows neither budget nor people. A release's stream has both, its master key being derived from the settings.
    """
    return {
        "mechanism": mechanism,
        "scale": repr(scale),
        "shape": list(shape),
        "dtype": dtype.name,
        "lane": "exact" if dtype == np.int64 else "float",
        "format": FORMAT_VERSION,
    }


@lru_cache(maxsize=256)
def settings_digest(purpose: str, mechanism: str, scale: float, shape: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    """Return the SHA-256 digest of the settings for one purpose. Cached: many streams share settings."""
    return configuration_digest(purpose, settings_of(mechanism, scale, shape, dtype))


def check_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    """One of the three dtypes of a release."""
    try:
        known = np.dtype(dtype)
    except TypeError:
        known = None
    if known not in (np.float32, np.float64, np.int64):
        raise InvalidArgument("dtype", dtype, "'float32', 'float64' or 'int64'")
    assert known is not None  # noqa: S101
    return known


def check_scale(scale: object, *, exact: bool) -> float:
    """A positive, finite scale that the lane can round."""
    most = LARGEST_EXACT_SCALE if exact else math.inf
    if isinstance(scale, bool) or not isinstance(scale, (int, float, np.integer, np.floating)):
        raise InvalidArgument("scale", scale, "a positive, finite number")
    if not (scale > 0 and math.isfinite(scale)):
        raise InvalidArgument("scale", scale, "a positive, finite number")
    if scale > most:
        raise InvalidArgument("scale", scale, f"at most {most:g} in the exact lane")
    return float(scale)


def check_shape(shape: int | Sequence[int]) -> tuple[int, ...]:
    """The lengths of a release's sides, none of them 0; a whole number means one side."""
    try:
        sides = (shape,) if isinstance(shape, (int, np.integer)) and not isinstance(shape, bool) else tuple(shape)  # type: ignore[arg-type]
    except TypeError:
        raise InvalidArgument("shape", shape, "a whole number or a tuple of whole numbers") from None
    if len(sides) > MOST_SIDES:
        raise InvalidArgument("shape", shape, f"of at most {MOST_SIDES} sides (NumPy has 64, and `block` adds one)")
    checked = tuple(check_whole("shape", side) for side in sides)
    if math.prod(checked) > COORDINATES_LIMIT:
        raise InvalidArgument("shape", shape, f"at most {COORDINATES_LIMIT} coordinates in all")
    return checked


def check_part(part: object, coordinates: int) -> tuple[int, int] | None:
    """Return which coordinates of so many are made, or None for all; refuse what the draws cannot be cut to."""
    if part is None:
        return None
    allowed = (
        f"None or (low, high) with 0 <= low < high <= {coordinates} and low a multiple of {NARROW},"
        f" of a stream of at least {NARROW} coordinates"
    )
    if not isinstance(part, tuple) or len(part) != 2 or coordinates < NARROW:
        raise InvalidArgument("part", part, allowed)
    low, high = (check_whole("part", side, least=0) for side in part)
    if not low < high <= coordinates or low % NARROW:
        raise InvalidArgument("part", part, allowed)
    return low, high


def check_threads(threads: object, coordinates: int) -> int:
    """How many threads to use: as many as asked for, or what suits so many coordinates."""
    if threads is None:
        return (os.cpu_count() or 1) if coordinates >= THREADED_COORDINATES else 1
    return check_whole("threads", threads)
