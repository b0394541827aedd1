"""Sums of float32 vectors: what a release is made of, and how long an input is."""

from __future__ import annotations

from typing import SupportsFloat

import numpy as np

from dpstream.kernel.twin.arguments import Double, Single, array_of, check_apart, check_items
from dpstream.kernel.twin.scratch_memory import CHUNK

RUN_LANES = 64  # sums that are formed side by side
RUN_ROWS = 16  # squares to each of them in float32, before it is taken over in float64


def release_f32(x: Single, total: Double, release: Single, grid: SupportsFloat, /) -> None:
    """Take `x` into the sums: ``total += x``, and ``release`` becomes total + release, rounded to the `grid`.

    `release` holds the noise on entry. The grid is a power of two, so that scaling by it rounds nothing; from 2^23 of
    its steps on a float32 has no bits below it, and is left as it is.
    """
    source = array_of("x", x, np.float32)
    sums = array_of("total", total, np.float64, write=True)
    target = array_of("release", release, np.float32, write=True)
    step, per_step = np.float32(float(grid)), np.float32(1 / float(grid))
    check_items("total", sums, source.size)
    check_items("release", target, source.size)
    check_apart({"total": sums, "release": target}, {"x": source})
    whole = np.float32(2.0**23)
    for first in range(0, source.size, CHUNK):
        here = slice(first, first + CHUNK)
        part = sums[here]
        part += source[here]
        steps = (part + target[here]).astype(np.float32) * per_step
        size = np.abs(steps)
        nearest = np.where(size < whole, (size + whole) - whole, size)
        np.multiply(np.where(steps < 0, -nearest, nearest), step, out=target[here])


def squared_norm_f32(x: Single, /) -> float:
    """Σ x², to a relative error below 2^-19; inf or NaN if it overflows.

    Squares are summed in float32, 16 at a time, and these sums in float64.
    """
    source = array_of("x", x, np.float32)
    totals = np.zeros(RUN_LANES)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for first in range(0, source.size, CHUNK):
            part = source[first : first + CHUNK]
            runs = np.zeros(-(-part.size // (RUN_LANES * RUN_ROWS)) * RUN_LANES * RUN_ROWS, np.float32)
            np.multiply(part, part, out=runs[: part.size])
            rows = runs.reshape(-1, RUN_ROWS, RUN_LANES)
            sums = rows[:, 0].copy()
            for row in range(1, RUN_ROWS):
                sums += rows[:, row]
            for run in sums:
                totals += run
        total = 0.0
        for lane in totals.tolist():
            total += lane
    return total
