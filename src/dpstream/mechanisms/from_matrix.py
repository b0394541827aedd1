"""A mechanism from a matrix of your own.

Error: whatever your L gives.   Cost: one draw and O(t) operations at step t, all draws in memory.
L is taken as it is, R = L⁻¹A is computed, and the sensitivity is that of R with a proven bound on its rounding
(`verified_inverse`): exact for one or two steps of a person and where the columns' products fall with time, a safe
bound otherwise (`matrix_participation`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpstream.mechanisms.base import DENSE_LIMIT, NoiseLaw, check_noise_law
from dpstream.mechanisms.dense import DenseMechanism
from dpstream.mechanisms.given_numbers import GivenNumbers, given_array, refused
from dpstream.mechanisms.matrix_participation import ColumnGram
from dpstream.mechanisms.verified_inverse import verified_right
from dpstream.participation import Participation

__all__ = ["FromMatrix"]


@dataclass(frozen=True, eq=False, repr=False, init=False)
class FromMatrix(GivenNumbers, DenseMechanism):
    """The mechanism whose releases carry L z, for a square lower-triangular L.

    Parameters
    ----------
    left
        L: finite, lower-triangular, no zero on the diagonal, at most 4,096 rows. It is copied. There are as many
        releases as rows.

    Raises
    ------
    InvalidArgument
        If L is none such; when the sensitivity is asked for, also if L is too ill-conditioned to know it.

    Examples
    --------
    The square root of the matrix of ones, rounded:

    >>> m = FromMatrix([[1, 0, 0], [0.5, 1, 0], [0.375, 0.5, 1]])
    >>> m
    FromMatrix([[1.0, 0.0, 0.0], [0.5, 1.0, 0.0], [0.375, 0.5, 1.0]])
    >>> round(m.sensitivity() ** 2, 6), m.horizon
    (1.390625, 3)
    """

    numbers: NDArray[np.float64]
    horizon: int = field(init=False)
    noise: NoiseLaw = field(default="gaussian", kw_only=True)

    reference: ClassVar[str] = "the caller's own matrix"

    def __init__(self, left: ArrayLike, *, noise: NoiseLaw = "gaussian") -> None:
        check_noise_law("FromMatrix", noise, allowed=("gaussian",))
        L = given_array("left", left, dimensions=2)
        if L.shape[0] != L.shape[1]:
            raise refused("left", L, "a square matrix")
        if L.shape[0] > DENSE_LIMIT:
            raise refused("left", L, f"at most {DENSE_LIMIT} rows (for a Toeplitz matrix use FromCoefficients)")
        if np.triu(L, 1).any():
            raise refused("left", L, "lower-triangular: a release may use no draw of a later step")
        if not (L.diagonal() != 0).all():
            raise refused("left", L, "a matrix without zeros on its diagonal: it must have an inverse")
        object.__setattr__(self, "numbers", L)
        object.__setattr__(self, "horizon", L.shape[0])
        object.__setattr__(self, "noise", noise)

    @property
    def left(self) -> NDArray[np.float64]:
        """L, read-only."""
        return self.numbers

    @cached_property
    def _verified(self) -> tuple[NDArray[np.float64], float]:
        return verified_right(self.numbers)

    @property
    def right(self) -> NDArray[np.float64]:
        """R = L⁻¹A as computed in doubles, read-only."""
        return self._verified[0]

    @cached_property
    def _gram(self) -> ColumnGram:
        return ColumnGram.of(*self._verified)

    def _sensitivity(self, participation: Participation) -> tuple[float, bool]:
        return self._gram.sensitivity(participation)
