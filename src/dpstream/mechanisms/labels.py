"""Labels of a smooth tree: bit strings with a fixed number of zeros and ones, in increasing order.

All questions that a smooth tree asks about its leaves are answered here: which label has a given number, how
many ones it ends in, and sums of such things over the first leaves. A subtree with z zeros and o ones left to
place has C(z + o, z) leaves; its left child has type (z - 1, o), its right child (z, o - 1).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import accumulate
from math import comb

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "label_at",
    "least_ones_for",
    "lowest_run_of_ones",
    "next_label",
    "push_steps",
    "sum_over_leaves",
    "trailing_ones",
]

#: Subtrees up to this many leaves are kept as ready-made arrays; longer ranges are copied together from them.
_BLOCK = 4096


def label_at(zeros: int, ones: int, index: int) -> int:
    """Return the label number `index`, counted from 0.

    >>> [format(label_at(2, 2, i), "04b") for i in range(6)]
    ['0011', '0101', '0110', '1001', '1010', '1100']
    """
    label, size = 0, comb(zeros + ones, zeros)
    while zeros and ones:
        left = size * zeros // (zeros + ones)
        if index < left:
            label, zeros, size = label << 1, zeros - 1, left
        else:
            label, ones, size, index = label << 1 | 1, ones - 1, size - left, index - left
    return label << zeros if zeros else (label + 1 << ones) - 1


def next_label(label: int) -> int:
    """Return the next larger number with as many ones."""
    low = label & -label
    grown = label + low
    return grown | (((grown & -grown) // low >> 1) - 1)


def lowest_run_of_ones(label: int) -> int:
    """How many ones the lowest block of ones has: the nodes that the next label replaces.

    >>> lowest_run_of_ones(0b1011100)
    3
    """
    shifted = label // (label & -label)
    return (~shifted & (shifted + 1)).bit_length() - 1


def push_steps(zeros: int, ones: int, index: int) -> list[int]:
    """For each one of label number `index`, from the top: how many leaves lie before the subtree under it.

    That is the step at which the node of this one was pushed. Trailing ones name nodes without elements and
    are left out.

    >>> push_steps(2, 2, 4)  # label 1010
    [3, 4]
    """
    steps = []
    size = comb(zeros + ones, zeros)
    while zeros and ones:
        left = size * zeros // (zeros + ones)
        if index < left:
            zeros, size = zeros - 1, left
        else:
            steps.append(left)
            ones, size, index = ones - 1, size - left, index - left
    return list(accumulate(steps))


def least_ones_for(given: int, leaves: int) -> int:
    """Return the least number of ones (zeros) that makes `leaves` labels or more with `given` zeros (ones).

    >>> least_ones_for(5, 1024)
    8
    """
    low, high = 0, 1
    while comb(given + high, given) < leaves:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if comb(given + middle, given) < leaves:
            low = middle
        else:
            high = middle
    return high


def sum_over_leaves(zeros: int, ones: int, leaves: int, full: Callable[[int, int], int]) -> int:
    """Σ of a quantity over the first `leaves` labels, given its sum ``full(z, o)`` over a whole subtree.

    The quantity must not change when a label with a zero in it is prefixed by further bits, as trailing ones
    do not.
    """
    total = 0
    while leaves < comb(zeros + ones, zeros):
        left = comb(zeros - 1 + ones, ones)
        if leaves <= left:
            zeros -= 1
        else:
            total += full(zeros - 1, ones)
            ones, leaves = ones - 1, leaves - left
    return total + full(zeros, ones)


def trailing_ones(zeros: int, ones: int, first: int, count: int) -> NDArray[np.int64]:
    """How many ones the labels number ``first .. first + count - 1`` end in.

    >>> trailing_ones(2, 2, 0, 6).tolist()
    [2, 1, 0, 1, 0, 0]
    """
    out = np.empty(count, dtype=np.int64)
    filled, skip = 0, first
    pending = [(zeros, ones)]
    while filled < count:
        z, o = pending.pop()
        size = comb(z + o, z)
        if skip >= size:
            skip -= size
        elif size <= _BLOCK:
            part = _block(z, o)[skip : skip + count - filled]
            out[filled : filled + part.size] = part
            filled, skip = filled + part.size, 0
        else:
            pending += [(z, o - 1), (z - 1, o)]
    return out


@lru_cache(maxsize=4096)
def _block(zeros: int, ones: int) -> NDArray[np.int64]:
    """Return the trailing ones of all labels of a small subtree."""
    if zeros == 0 or ones == 0:
        block = np.array([ones], dtype=np.int64)
    elif zeros == 1:
        block = np.arange(ones, -1, -1, dtype=np.int64)
    elif ones == 1:
        block = np.zeros(zeros + 1, dtype=np.int64)
        block[0] = 1
    else:
        block = np.concatenate([_block(zeros - 1, ones), _block(zeros, ones - 1)])
    block.flags.writeable = False
    return block
