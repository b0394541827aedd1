"""Table 1, its last column: what kind of matrices the factors L and R are, read off the factors themselves."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpstream.charts import new_figure
from dpstream.paper.contenders import CONTENDERS
from dpstream.paper.model import Grid, Measured, Part, Progress, Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PART", "compute", "draw", "kind_of"]

#: What is below this is rounding, not an entry: the largest entries are about 1.
ZERO = 1e-12
#: The horizon whose factors are drawn.
DRAWN = 63


def kind_of(matrix: NDArray[np.float64], most: int, horizon: int) -> str:
    """Sparse, Toeplitz (perhaps with scaled columns) or dense.

    Parameters
    ----------
    matrix
        The factor.
    most
        The nonzero entries of its fullest row, or column; up to 2 log2 T of them are few.
    horizon
        T.

    Examples
    --------
    >>> kind_of(np.tri(9), 9, 9), kind_of(np.tri(9) * np.arange(1, 10), 9, 9), kind_of(np.eye(9), 1, 9)
    ('Toeplitz', 'Toeplitz · diagonal', 'sparse')
    """
    if most <= 2 * math.log2(horizon):
        return "sparse"
    if matrix.shape[0] != matrix.shape[1]:
        return "dense"
    if _is_toeplitz(matrix):
        return "Toeplitz"
    diagonal = matrix.diagonal()
    if np.all(diagonal != 0) and (_is_toeplitz(matrix / diagonal) or _is_toeplitz(matrix / diagonal[:, None])):
        return "Toeplitz · diagonal"
    return "dense"


def _is_toeplitz(matrix: NDArray[np.float64]) -> bool:
    return bool(np.allclose(matrix[1:, 1:], matrix[:-1, :-1], rtol=1e-9, atol=ZERO))


def _counts(matrix: NDArray[np.float64], axis: int) -> NDArray[np.int64]:
    counts: NDArray[np.int64] = (np.abs(matrix) > ZERO).sum(axis=axis)
    return counts


def compute(quick: bool, report: Progress) -> Measured:
    """Nonzero entries of the factors at a few horizons, and the kind that follows from their growth."""
    exponents = (5, 6, 7) if quick else (7, 8, 9, 10)
    rows: list[Row] = []
    lines = []
    for i, contender in enumerate(CONTENDERS):
        left, right = [], []
        for done, e in enumerate(exponents):
            L, R = contender.make(2**e).factors()
            left.append(int(_counts(L, 1).max()))
            right.append(int(_counts(R, 0).max()))
            rows.append(
                {
                    "mechanism": contender.title,
                    "T": 2**e,
                    "L_row_most": left[-1],
                    "L_row_share": float((_counts(L, 1) / L.shape[1]).mean()),
                    "R_column_most": right[-1],
                    "R_column_share": float((_counts(R, 0) / R.shape[0]).mean()),
                    "R_row_share": float((_counts(R, 1) / R.shape[1]).mean()),
                }
            )
            report((i + (done + 1) / len(exponents)) / len(CONTENDERS))
        last = rows[-1]
        lines.append(
            [
                contender.title,
                contender.published[3] if contender.published else "–",
                kind_of(L, left[-1], 2**e),
                kind_of(R, right[-1], 2**e),
                f"{left[-1]}",
                f"{right[-1]}",
                f"{float(last['L_row_share']):.1%}",
                f"{float(last['R_row_share']):.1%}",
            ]
        )
    findings = [
        f"From the factors at T = 2^{exponents[0]} … 2^{exponents[-1]} (the counts are those of the last): sparse if"
        " the fullest row of L, or column of R, has at most 2 log2 T entries; Toeplitz if the entries are the same"
        " along every diagonal.",
        "Honaker Online has no sparse L, whatever its R: an estimate from below weighs every node below, so the row of"
        " release t has of the order of t entries. (With one column for each node of the tree, instead of one for each"
        " draw as here, R is sparse and L is not.)",
        "Rows of R are long in every tree, because a node near the root holds half of the stream; it is the columns,"
        " one for each element, that have few entries.",
    ]
    headings = [
        "mechanism",
        "paper",
        "L",
        "R",
        "most in a row of L",
        "most in a column of R",
        "nonzero in L",
        "nonzero in R",
    ]
    return Measured(rows, findings, Grid(headings, lines))


def draw(data: Measured) -> Figure:
    """The factors at a small horizon, dark where an entry is not zero."""
    del data  # the picture shows the factors, not their counts
    figure = new_figure(9.0, 3.1)
    panes = figure.subplots(2, len(CONTENDERS))
    for column, contender in enumerate(CONTENDERS):
        L, R = contender.make(DRAWN).factors()
        for row, matrix in enumerate((L, R)):
            axes = panes[row][column]
            size = np.abs(matrix)
            axes.imshow(
                np.where(size > ZERO, np.sqrt(size / size.max()) + 0.25, 0), cmap="Greys", aspect="auto", vmin=0
            )
            axes.set(xticks=[], yticks=[])
        panes[0][column].set_title(textwrap.fill(contender.title, 18), fontsize=7)
    panes[0][0].set_ylabel("L")
    panes[1][0].set_ylabel("R")
    return figure


PART = Part(
    "table-1-matrices",
    "Table 1: matrix type",
    "The factors are sparse (O(log T) nonzero entries in every row or column) for the binary mechanism, Honaker Online"
    " and the smooth binary mechanism, Toeplitz for Henzinger et al., dense for Denisov et al.",
    f"The factors L (above) and R (below) of each mechanism at T = {DRAWN}; the darker, the larger the entry.",
    compute,
    draw,
)
