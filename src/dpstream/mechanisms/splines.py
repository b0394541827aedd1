"""Cubic splines whose values have the same bits on every machine."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

__all__ = ["clamped_spline", "interpolated"]

RealArray = NDArray[np.float64]


def clamped_spline(knots: RealArray, coefficients: RealArray, x: RealArray) -> RealArray:
    """Return the cubic B-spline with these coefficients, two more than knots, at x; its end knots count four times.

    De Boor's recursion (de Boor 1978, A Practical Guide to Splines, chapter X), entry by entry.
    """
    padded = np.concatenate((knots[[0, 0, 0]], knots, knots[[-1, -1, -1]]))
    piece = np.clip(np.searchsorted(knots, x, side="right") - 1, 0, knots.size - 2) + 3
    d = [coefficients[piece - 3 + j] for j in range(4)]
    for level in range(1, 4):
        for j in range(3, level - 1, -1):
            low, high = padded[piece + j - 3], padded[piece + j + 1 - level]
            share = (x - low) / (high - low)
            d[j] = (1.0 - share) * d[j - 1] + share * d[j]
    return d[3]


def interpolated(x: Sequence[float], y: RealArray, at: float) -> RealArray:
    """Return the value at `at` of the curve through (x_i, y_i), y_i an array: in fractions, rounded once.

    Up to four points: the polynomial; more: the cubic spline whose third derivative is continuous at the second point
    and at the last but one ("not a knot").
    """
    places, place = [Fraction(v) for v in x], Fraction(at)
    weights = _polynomial(places, place) if len(places) <= 4 else _not_a_knot(places, place)
    columns = y.reshape(len(places), -1).T.tolist()
    values = [
        float(sum((w * Fraction(v) for w, v in zip(weights, column, strict=True)), Fraction(0))) for column in columns
    ]
    return np.array(values, dtype=np.float64).reshape(y.shape[1:])


def _polynomial(x: list[Fraction], at: Fraction) -> list[Fraction]:
    """What each value weighs in the polynomial through all of them (Lagrange)."""
    weights = []
    for i, own in enumerate(x):
        weight = Fraction(1)
        for j, other in enumerate(x):
            if j != i:
                weight *= (at - other) / (own - other)
        weights.append(weight)
    return weights


def _not_a_knot(x: list[Fraction], at: Fraction) -> list[Fraction]:
    """What each value weighs in the spline: its second derivatives solve a linear system, by elimination."""
    n = len(x)
    h = [after - before for before, after in pairwise(x)]
    rows: list[list[Fraction]] = []  # n unknowns, then what each value contributes to the right-hand side
    zero = Fraction(0)
    for i in range(n):
        row = [zero] * (2 * n)
        if i in (0, n - 1):
            k = 1 if i == 0 else n - 2  # the third derivative does not jump here
            row[k - 1], row[k], row[k + 1] = h[k], -(h[k - 1] + h[k]), h[k - 1]
        else:
            row[i - 1], row[i], row[i + 1] = h[i - 1], 2 * (h[i - 1] + h[i]), h[i]
            row[n + i - 1], row[n + i + 1] = 6 / h[i - 1], 6 / h[i]
            row[n + i] = -row[n + i - 1] - row[n + i + 1]
        rows.append(row)
    for i in range(n):
        pivot = next(k for k in range(i, n) if rows[k][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [v / rows[i][i] for v in rows[i]]
        for k in range(n):
            if k != i and rows[k][i]:
                factor = rows[k][i]
                rows[k] = [v - factor * w for v, w in zip(rows[k], rows[i], strict=True)]
    piece = min(max(sum(v <= at for v in x) - 1, 0), n - 2)
    left, right, width = x[piece + 1] - at, at - x[piece], h[piece]
    bends = [(piece, (left**3 / width - width * left) / 6), (piece + 1, (right**3 / width - width * right) / 6)]
    weights = [zero] * n
    weights[piece], weights[piece + 1] = left / width, right / width
    for knot, bend in bends:
        weights = [w + bend * c for w, c in zip(weights, rows[knot][n:], strict=True)]
    return weights
