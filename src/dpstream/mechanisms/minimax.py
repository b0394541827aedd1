"""Makes the largest of a few functions least, by linear programs in a box that shrinks where they mislead.

Each step takes the functions as linear and goes to the point of the box whose largest value is then least; it is taken
only if the largest value truly falls. So the result is never worse than the start, and nothing has to be smooth but the
functions themselves, which a norm that stands in for the maximum would blur. (Sequential linear programming: Fletcher
1987, Practical Methods of Optimization, section 14.)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy  # its parts are loaded when they are first used
from numpy.typing import NDArray

__all__ = ["minimax"]

RealArray = NDArray[np.float64]

#: Steps for differences, the first box and the smallest: all relative to parameters of order 1.
DIFFERENCE, WIDEST, NARROWEST = 1e-6, 0.3, 1e-4
#: A step that promises less than this is not worth another.
ENOUGH = 1e-4


def minimax(functions: Callable[[RealArray], RealArray], start: RealArray, iterations: int = 25) -> RealArray:
    """Return a point whose largest value is no larger than at `start`, and least nearby.

    >>> minimax(lambda z: np.array([z[0] + 0.5 * z[0] ** 2, -z[0]]), np.array([1.0])).round(3).tolist()
    [0.0]
    """
    point, values, box = start, functions(start), WIDEST
    for _ in range(iterations):
        moved = [functions(point + DIFFERENCE * unit) for unit in np.eye(point.size)]
        slopes = (np.array(moved) - values).T / DIFFERENCE
        if not np.isfinite(slopes).all():
            break
        while box > NARROWEST:
            step, level = _best_in_box(values, slopes, box)
            promised = values.max() - level
            if promised < ENOUGH:
                return point
            tried = functions(point + step)
            gained = values.max() - tried.max()
            if gained > 0.1 * promised:
                point, values = point + step, tried
                box *= 2.0 if gained > 0.5 * promised else 1.0
                break
            box /= 3.0
        else:
            break
    return point


def _best_in_box(values: RealArray, slopes: RealArray, box: float) -> tuple[RealArray, float]:
    """Minimise the largest of values + slopes · step over steps of at most `box` in each direction."""
    count, size = slopes.shape
    found = scipy.optimize.linprog(
        np.append(np.zeros(size), 1.0),
        A_ub=np.hstack([slopes, -np.ones((count, 1))]),
        b_ub=-values,
        bounds=[(-box, box)] * size + [(None, None)],
    )
    if found.x is None:  # the solver gave up: stay
        return np.zeros(size), float(values.max())
    return found.x[:-1], float(found.x[-1])
