"""The walk of a smooth tree: from label to label, and what each step pops and pads.

Labels follow each other like numbers with the same count of ones. Whole runs of them are kept as arrays, since
the lowest bits go through the same patterns again and again.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from functools import cache
from math import comb
from typing import SupportsIndex

import numpy as np
from numpy.typing import NDArray

from dpstream.kernel.twin.arguments import array_of, check_apart, check_items

LONGEST_RUN = 2**14  # labels kept as one array


@cache
def _labels(zeros: int, ones: int) -> NDArray[np.uint64]:
    """List the labels with so many zeros and ones, in increasing order."""
    if zeros == 0 or ones == 0:
        return np.array([2**ones - 1], np.uint64)
    right = _labels(zeros, ones - 1) | np.uint64(2 ** (zeros + ones - 1))
    return np.concatenate([_labels(zeros - 1, ones), right])


def _next_label(label: int) -> int:
    low = label & -label
    above = label + low
    return above | ((above & -above) // low >> 1) - 1


def _label_runs(label: int) -> Iterator[NDArray[np.uint64]]:
    """Yield the labels from `label` on, in runs.

    A label that ends in zeros followed by ones begins the run of all labels that differ in those bits only.
    """
    while label < 2**64:
        ones = (~label & label + 1).bit_length() - 1
        above = label >> ones
        zeros = (above & -above).bit_length() - 1 if above else 64 - ones
        while comb(zeros + ones, ones) > LONGEST_RUN:
            zeros -= 1
        fixed = label >> zeros + ones << zeros + ones
        run = _labels(zeros, ones) | np.uint64(fixed)
        yield run
        label = _next_label(int(run[-1]))


def smooth_moves(label: SupportsIndex, pops: NDArray[np.uint8], padding: NDArray[np.uint8], /) -> int:
    """Walk a smooth tree from `label`, one step for each item of `pops`, and return the label reached.

    A step replaces the n ones of the label's lowest block by one node and n - 1 padding nodes. Trailing
    ones were padding, which is never stored: then nothing is popped, otherwise n entries are. ``padding``
    gets n - 1.
    """
    start = operator.index(label)
    if not 0 < start < 2**64:
        raise ValueError(f"label must be from 1 to 2**64 - 1, got {label!r}")
    popped = array_of("pops", pops, np.uint8, write=True, ndim=1)
    padded = array_of("padding", padding, np.uint8, write=True, ndim=1)
    check_items("padding", padded, popped.size)
    check_apart({"pops": popped, "padding": padded}, {})
    done, runs = 0, _label_runs(start)
    while done < popped.size:
        run = next(runs)[: popped.size - done]
        here = slice(done, done + run.size)
        low = run & -run
        above = run + low
        if above[-1] == 0:
            raise ValueError(f"label {label!r} has fewer than the wanted successors in 64 bits")
        ones = np.bitwise_count((above & -above) - low)
        np.subtract(ones, 1, out=padded[here])
        np.multiply(ones, (run & 1 == 0).view(np.uint8), out=popped[here])
        done += run.size
        start = _next_label(int(run[-1]))
    return start
