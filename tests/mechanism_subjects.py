"""The mechanisms that tests go through: the catalogue's, and variants with other settings.

Names say how each is made for a horizon; nothing is made before a test asks for it.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from dpstream.mechanisms import (
    BalancedToeplitz,
    BufferedToeplitz,
    FromCoefficients,
    FromMatrix,
    SignedDigits,
    SmoothBinary,
    SquareRoot,
    Unbounded,
)
from dpstream.mechanisms.base import Mechanism
from dpstream.mechanisms.catalogue import ENTRIES

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
}
#: Made of numbers that the caller brings.
FROM_NUMBERS: dict[str, Maker] = {
    "FromMatrix": lambda T: FromMatrix(BalancedToeplitz(T).factors()[0]),
    "FromCoefficients": lambda T: FromCoefficients(0.6 ** np.arange(float(T))),
}
#: Those without, or with a limit far beyond any test.
ENDLESS: dict[str, Maker] = _from_the_catalogue(endless=True) | {
    "Unbounded-SquareRoot": lambda _: Unbounded(inner=SquareRoot),
    "Unbounded-BufferedToeplitz": lambda _: Unbounded(inner=BufferedToeplitz),
}
