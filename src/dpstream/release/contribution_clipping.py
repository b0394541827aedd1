"""Clips what one person adds, before it is added up: the only place where clipping is private."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpstream.arguments import check_positive
from dpstream.errors import InputNotFinite, InputTypeError

__all__ = ["clip_contribution"]


def clip_contribution(x: ArrayLike, per_person: float) -> NDArray[Any]:
    """Return one person's vector, scaled down to ℓ2 norm `per_person` if it is longer.

    Call it for each person's contribution to a step, then add the results up and give the sum to `RunningSum.add`.
    **Never call it for a step's total**: one person more can change a clipped total in every coordinate, by far more
    than `per_person`.

    Guarantee
    ---------
    The exact ℓ2 norm of the result is at most ``per_person·(1 + 2^-20)``, up to 2^30 coordinates: within what
    `RunningSum` scales its noise for, ``per_person·(1 + 2^-15)``. NaN and infinities are refused.

    Parameters
    ----------
    x
        One person's contribution, of any shape; float32 stays float32, all else becomes float64.
    per_person
        The largest ℓ2 norm, as given to `RunningSum`.

    Examples
    --------
    >>> gradients = [[3.0, 4.0], [0.0, 0.5]]  # one row a person
    >>> sum(clip_contribution(x, per_person=1.0) for x in gradients)
    array([0.6, 1.3])
    """
    most = check_positive("per_person", per_person)
    given = np.asarray(x)
    if given.dtype.kind not in "fiub":
        raise InputTypeError(given=f"{given.dtype.name} values", allowed="real numbers")
    dtype = np.float32 if given.dtype == np.float32 else np.float64
    wide = given.astype(np.float64)
    largest = float(np.abs(wide).max(initial=0.0))
    if not math.isfinite(largest):  # a NaN is the largest of all to NumPy
        raise InputNotFinite
    if largest > 0:
        unit = (wide / largest).reshape(-1)  # so that no square overflows or vanishes
        norm = math.sqrt(float(np.dot(unit, unit)))
        if norm * largest > most:
            wide = (unit * (most / norm)).reshape(wide.shape)
    return wide.astype(dtype)
