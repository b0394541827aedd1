"""The mechanisms that tests go through: the catalogue's, and variants with other settings.

Names say how each is made for a horizon; nothing is made before a test asks for it.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from dpstream.mechanisms import (
    BalancedToeplitz,
    Banded,
    BandedInverse,
    BufferedToeplitz,
    FittedToeplitz,
    FromCoefficients,
    FromMatrix,
    SignedDigits,
    SmoothBinary,
    SquareRoot,
    Unbounded,
)
from dpstream.mechanisms.base import Mechanism
from dpstream.mechanisms.catalogue import ENTRIES

#: A pair that turns by 0.3 a step, and two real roots.
PAIR_POLES = (0.85 + 0.3j, 0.85 - 0.3j, 0.7, 0.4)
PAIR_ZEROS = (0.9 + 0.35j, 0.9 - 0.35j, 0.55, 0.2)

Maker = Callable[[int], Mechanism]


def _from_the_catalogue(*, endless: bool) -> dict[str, Maker]:
    """Name, and "-laplace" for that noise law."""
    return {
        entry.name + ("" if noise == "gaussian" else "-laplace"): partial(_made, entry.make, noise)
        for entry in ENTRIES
        if entry.endless is endless
        for noise in entry.laws
    }


def _made(make: Callable[..., Mechanism], noise: str, horizon: int) -> Mechanism:
    return make(horizon, noise)


#: Those with a last release.
BOUNDED: dict[str, Maker] = _from_the_catalogue(endless=False) | {
    "SmoothBinary-unpadded": lambda T: SmoothBinary(T, padded=False),
    "SmoothBinary-nodes": lambda T: SmoothBinary(T, sensitivity_of="nodes"),
    "SmoothBinary-laplace-padded": lambda T: SmoothBinary(T, noise="laplace", padded=True),
    "SignedDigits-laplace-3": lambda T: SignedDigits(T, base=3),
    "SignedDigits-laplace-7": lambda T: SignedDigits(T, base=7),
    "BufferedToeplitz-plain": lambda T: BufferedToeplitz(T, normalized=False),
    "BufferedToeplitz-3": lambda T: BufferedToeplitz(T, buffers=3),
    "FittedToeplitz-normalized": lambda T: FittedToeplitz(T, (0.95, 0.6), (0.8, 0.25)),
    "FittedToeplitz-pair": lambda T: FittedToeplitz(T, PAIR_POLES, PAIR_ZEROS),
    "FittedToeplitz-scaled": lambda T: FittedToeplitz(T, PAIR_POLES, PAIR_ZEROS, scales=(1.0, 1.25, 0.75)),
    "FittedToeplitz-pair-plain": lambda T: FittedToeplitz(T, PAIR_POLES, PAIR_ZEROS, normalized=False),
    "FittedToeplitz-signs": lambda T: FittedToeplitz(T, (0.9, -0.7), (0.3, 0.6)),
    "Banded-signs": lambda T: Banded(T, (1.0, 0.4, 0.3, -0.2)),
    "Banded-plain": lambda T: Banded(T, (1.0, 0.5, 0.375), normalized=False),
    "BandedInverse-signs": lambda T: BandedInverse(T, (1.0, 0.6, -0.2)),
}
#: Made of numbers that the caller brings.
FROM_NUMBERS: dict[str, Maker] = {
    "FromMatrix": lambda T: FromMatrix(BalancedToeplitz(T).factors()[0]),
    # Products one after the other: powers have other last digits on other machines.
    "FromCoefficients": lambda T: FromCoefficients(np.cumprod([1.0] + (T - 1) * [0.6])),
}
#: Those without, or with a limit far beyond any test.
ENDLESS: dict[str, Maker] = _from_the_catalogue(endless=True) | {
    "Unbounded-SquareRoot": lambda _: Unbounded(inner=SquareRoot),
    "Unbounded-BufferedToeplitz": lambda _: Unbounded(inner=BufferedToeplitz),
}
