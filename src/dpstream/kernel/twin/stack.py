"""Many steps of a tree over a short vector, whose draws are already made."""

from __future__ import annotations

from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from dpstream.kernel.twin.arguments import Double, array_of, check_apart, check_items, check_shape, whole_number

FEW_COLUMNS = 4  # columns up to which Python's floats are faster than NumPy's arrays


def _check_moves(
    pops: NDArray[np.uint8],
    padding: Double,
    depth: int,
    most: int,
    has_pad: bool,
    mix_rows: int | None,
) -> NDArray[np.int64]:
    """Find the level at which each step pushes; refuse the first step that breaks a rule."""
    after = depth + np.cumsum(1 - pops.astype(np.int64))
    level = after - 1
    rules = [
        (level < 0, "pops more entries than there are"),
        (after > most, "pushes past the end of the stack"),
    ]
    if not has_pad:
        rules.append((padding != 0, "has padding, but zpad is None"))
    if mix_rows is not None:
        rules.append((pops >= mix_rows, "pops more entries than mix has rows for"))
    broken = [(int(np.argmax(where)), order) for order, (where, _) in enumerate(rules) if where.any()]
    if broken:
        step, order = min(broken)
        raise ValueError(f"step {step} of the block {rules[order][1]}")
    return level


def _stack_up(level: NDArray[np.int64], stack: NDArray[Any], result: NDArray[Any]) -> None:
    """Add to each step's draw the entry below it, level by level: a level needs only the one under it."""
    under = np.flatnonzero(level == 0)
    for height in range(int(level.max()) + 1):
        here = np.flatnonzero(level == height)
        if height > 0 and here.size:
            parent = np.searchsorted(under, here) - 1  # the last step before this one that pushed a level lower
            inherited = parent < 0  # below lies an entry from before the block
            base = result[under[parent]] if under.size else np.empty_like(result[here])
            base[inherited] = stack[height - 1]
            result[here] = base + result[here]
        under = here
    # Only now, since the lines above read the old entries.
    for height in range(int(level.max()) + 1):
        here = np.flatnonzero(level == height)
        if here.size:
            stack[height] = result[here[-1]]


def _stack_mixed(
    level: NDArray[np.int64],
    pops: NDArray[np.uint8],
    mix: NDArray[Any],
    stack: NDArray[Any],
    result: NDArray[Any],
) -> None:
    """Step by step: with mixing, a new entry also needs those that it replaces."""
    moves = list(zip(level.tolist(), pops.tolist(), strict=True))
    if stack.dtype == np.float64 and stack.shape[1] <= FEW_COLUMNS:
        # One column after the other in Python's floats: the same arithmetic, without the cost of NumPy's calls.
        weights = mix.tolist()
        for column in range(stack.shape[1]):
            entries, releases = stack[:, column].tolist(), result[:, column].tolist()
            _mix(moves, weights, entries, releases)
            stack[:, column], result[:, column] = entries, releases
    else:
        _mix(moves, list(mix), stack, result)


def _mix(moves: list[tuple[int, int]], mix: Any, entries: Any, releases: Any) -> None:
    for t, (height, popped) in enumerate(moves):
        top = entries[height - 1] if height else None
        for former, weight in zip(entries[height : height + popped][::-1], mix[popped], strict=False):
            difference = former if height == 0 else former - entries[height - 1]
            top = difference * weight if top is None else top + difference * weight
        if top is not None:
            releases[t] = top + releases[t]
        entries[height] = releases[t]


def stack_block_f64(
    pops: NDArray[np.uint8],
    push: Double,
    padding: Double,
    mix: Double | None,
    z: Double,
    zpad: Double | None,
    stack: Double,
    depth: SupportsIndex,
    out: Double,
    /,
) -> int:
    """Make many steps of a tree over short vectors, and return the new depth.

    It is `StackMechanism.advance`, to the last bit.

    Step t pops ``pops[t]`` of the `depth` entries, pushes ``top + push[t] · z[t]`` and releases that plus
    ``padding[t] · zpad[t]`` (where the weight is not 0). With `mix`, row k of it weighs the k popped
    entries, former top first, as in `Move.mix`. `stack` holds the entries, bottom first, one a row; nothing
    is changed if any step is refused.
    """
    popped = array_of("pops", pops, np.uint8, ndim=1)
    push_weight = array_of("push", push, np.float64, ndim=1)
    pad_weight = array_of("padding", padding, np.float64, ndim=1)
    table = None if mix is None else array_of("mix", mix, np.float64, ndim=2)
    draws = array_of("z", z, np.float64, ndim=2)
    pads = None if zpad is None else array_of("zpad", zpad, np.float64, ndim=2)
    levels = array_of("stack", stack, np.float64, write=True, ndim=2)
    depth = whole_number("depth", depth)
    result = array_of("out", out, np.float64, write=True, ndim=2)
    n, d, most = popped.size, draws.shape[1], len(levels)
    check_items("push", push_weight, n)
    check_items("padding", pad_weight, n)
    check_shape("z", draws, n, d)
    if pads is not None:
        check_shape("zpad", pads, n, d)
    check_shape("stack", levels, most, d)
    check_shape("out", result, n, d)
    check_apart(
        {"stack": levels, "out": result},
        {"pops": popped, "push": push_weight, "padding": pad_weight, "mix": table, "z": draws, "zpad": pads},
    )
    if depth > most:
        raise ValueError(f"depth must be at most {most}, the rows of stack, got {depth}")
    level = _check_moves(popped, pad_weight, depth, most, pads is not None, None if table is None else len(table))
    if n == 0:
        return depth
    np.multiply(draws, push_weight[:, None], out=result)
    if table is None:
        _stack_up(level, levels, result)
    else:
        _stack_mixed(level, popped, table, levels, result)
    if pads is not None:
        extra = pad_weight
        padded = np.flatnonzero(extra)
        result[padded] += pads[padded] * extra[padded, None]
    return int(level[-1]) + 1
