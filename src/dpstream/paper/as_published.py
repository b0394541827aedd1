"""The paper's two ways of making noise, in plain NumPy and SciPy, to be measured beside ours.

Andersson and Pagh 2023, arXiv:2306.09666: Algorithm 2 with the update of "Constant average time per output", written as
their published code is: a noise array for each node in use, a running total, the old `numpy.random.normal` in float64.
(The published code passes a variance where NumPy takes a standard deviation; this passes the standard deviation.) And
for the factorisation of Henzinger et al., one call of `scipy.linalg.matmul_toeplitz`, as in section 4.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from dpstream.mechanisms import SquareRoot

__all__ = ["PlainSmooth", "square_root_at_once"]


class PlainSmooth:
    """The smooth binary mechanism's noise, node by node.

    Parameters
    ----------
    horizon
        The number of releases.
    coordinates
        The length of one release.

    Examples
    --------
    >>> noise = PlainSmooth(5, 3)
    >>> noise.step().shape, len(noise.nodes)
    ((3,), 2)
    """

    def __init__(self, horizon: int, coordinates: int) -> None:
        half = 1
        while math.comb(2 * half, half) < horizon + 1:
            half += 1
        self._deviation = math.sqrt(half)
        self._coordinates = coordinates
        self._label = (1 << half) - 1
        self.nodes = {1 << i: self._draw() for i in range(half)}
        self.total: NDArray[np.float64] = np.sum(list(self.nodes.values()), axis=0)

    def _draw(self) -> NDArray[np.float64]:
        return np.random.normal(0.0, self._deviation, self._coordinates)  # noqa: NPY002

    def step(self) -> NDArray[np.float64]:
        """The noise of the next release: nodes that leave are subtracted, those that come are added."""
        label = self._label
        low = label & -label
        carried = label + low
        following = carried | (((carried & -carried) // low >> 1) - 1)
        changed, bit = label ^ following, 1
        while bit <= changed:
            if label & bit:
                self.total -= self.nodes.pop(bit)
            if following & bit:
                self.nodes[bit] = self._draw()
                self.total += self.nodes[bit]
            bit <<= 1
        self._label = following
        return self.total


def square_root_at_once(horizon: int, coordinates: int) -> NDArray[np.float64]:
    """All the noise of the square-root factorisation, one row a release: a Toeplitz product by FFT."""
    coefficients = SquareRoot(horizon).coefficients(horizon)
    draws = np.random.normal(0.0, 1.0, (horizon, coordinates))  # noqa: NPY002
    first_row = np.zeros(horizon)
    first_row[0] = coefficients[0]
    return np.asarray(scipy.linalg.matmul_toeplitz((coefficients, first_row), draws), dtype=np.float64)
