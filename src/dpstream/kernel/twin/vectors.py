"""One step of a long vector: draws are made, weighed and added in the same pass."""

from __future__ import annotations

from typing import Any, SupportsFloat, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from dpstream.kernel.twin.arguments import (
    Double,
    Single,
    Words,
    array_of,
    check_apart,
    check_items,
    check_range,
    check_shape,
    check_words,
    source_of,
    state_rows,
    whole_number,
)
from dpstream.kernel.twin.draws import normals_in_chunks
from dpstream.kernel.twin.transform import TILE_F32, TILE_F64


def _stack_step(
    tile: int,
    node_words: Words,
    node_weight: SupportsFloat,
    pad_words: Words | None,
    pad_weight: SupportsFloat,
    base: object | None,
    top: object,
    out: object | None,
) -> None:
    dtype = np.float32 if tile == TILE_F32 else np.float64
    node_source = source_of("node_words", node_words, dtype)
    weight = dtype(float(node_weight))
    pad_source = None if pad_words is None else source_of("pad_words", pad_words, dtype)
    extra = dtype(float(pad_weight))
    below = None if base is None else array_of("base", base, dtype)
    stored = array_of("top", top, dtype, write=True)
    result = None if out is None else array_of("out", out, dtype, write=True)
    if pad_source is not None and result is None:
        raise ValueError("out must be given when pad_words is")
    n = stored.size
    check_words("node_words", node_source, n, tile)
    if pad_source is not None:
        check_words("pad_words", pad_source, n, tile)
    if below is not None:
        check_items("base", below, n)
    written = {"top": stored}
    if result is not None:
        check_items("out", result, n)
        written["out"] = result
    check_apart(written, {"node_words": node_source, "pad_words": pad_source, "base": below}, in_place="base")
    pads = normals_in_chunks(pad_source, tile, "pad") if pad_source is not None else None
    for start, z in normals_in_chunks(node_source, tile, "node"):
        stop = min(n, start + z.size)
        here = slice(start, stop)
        z = z[: stop - start]
        np.multiply(z, weight, out=z)
        if below is None:
            stored[here] = z
        else:
            np.add(below[here], z, out=stored[here])
        if result is None:
            continue
        if pads is None:
            result[here] = stored[here]
        else:
            _, pad = next(pads)
            pad = pad[: stop - start]
            np.multiply(pad, extra, out=pad)
            np.add(stored[here], pad, out=result[here])


def stack_step_f32(
    node_words: Words,
    node_weight: SupportsFloat,
    pad_words: Words | None,
    pad_weight: SupportsFloat,
    base: Single | None,
    top: Single,
    out: Single | None,
    /,
) -> None:
    """One step of a tree: ``top = base + node_weight · z`` and ``out = top + pad_weight · z'``.

    Words may be keystream, or draws that were made from it already: an array of the result's type, whole tiles of it.
    Without a `base` the sum starts at ``node_weight · z``; without `pad_words`, `out` is a copy of `top`.
    `top` may be the memory of `base` itself; no other overlap is allowed.
    """
    _stack_step(TILE_F32, node_words, node_weight, pad_words, pad_weight, base, top, out)


def stack_step_f64(
    node_words: Words,
    node_weight: SupportsFloat,
    pad_words: Words | None,
    pad_weight: SupportsFloat,
    base: Double | None,
    top: Double,
    out: Double | None,
    /,
) -> None:
    """`stack_step_f32` in float64."""
    _stack_step(TILE_F64, node_words, node_weight, pad_words, pad_weight, base, top, out)


def _stack_increment(
    tile: int,
    node_words: Words,
    node_weight: SupportsFloat,
    pad_words: Words | None,
    pad_weight: SupportsFloat,
    base: object | None,
    top: object,
    last: object,
    out: object,
) -> None:
    dtype = np.float32 if tile == TILE_F32 else np.float64
    stored = array_of("top", top, dtype, write=True)
    before = array_of("last", last, dtype, write=True)
    target = array_of("out", out, dtype, write=True)
    check_items("last", before, stored.size)
    check_items("out", target, stored.size)
    others = {
        "node_words": source_of("node_words", node_words, dtype),
        "pad_words": None if pad_words is None else source_of("pad_words", pad_words, dtype),
        "base": None if base is None else array_of("base", base, dtype),
    }
    check_apart({"top": stored, "last": before, "out": target}, others, in_place="base")
    noise = np.empty_like(stored)
    _stack_step(tile, node_words, node_weight, pad_words, pad_weight, base, top, noise)
    _add_increment(dtype, noise, before, target)


def stack_increment_f32(
    node_words: Words,
    node_weight: SupportsFloat,
    pad_words: Words | None,
    pad_weight: SupportsFloat,
    base: Single | None,
    top: Single,
    last: Single,
    out: Single,
    /,
) -> None:
    """One step of a tree, as `stack_step_f32`, whose noise minus `last` is added to `out`; `last` becomes the noise."""
    _stack_increment(TILE_F32, node_words, node_weight, pad_words, pad_weight, base, top, last, out)


def stack_increment_f64(
    node_words: Words,
    node_weight: SupportsFloat,
    pad_words: Words | None,
    pad_weight: SupportsFloat,
    base: Double | None,
    top: Double,
    last: Double,
    out: Double,
    /,
) -> None:
    """`stack_increment_f32` in float64."""
    _stack_increment(TILE_F64, node_words, node_weight, pad_words, pad_weight, base, top, last, out)


def _recurrence_step(
    tile: int,
    words: Words,
    input_scale: SupportsFloat,
    output_scale: SupportsFloat,
    gaps: object,
    weights: object,
    slow_state: object | None,
    fast_state: object,
    lo: SupportsIndex,
    hi: SupportsIndex,
    out: object,
) -> None:
    dtype = np.float32 if tile == TILE_F32 else np.float64
    source = source_of("words", words, dtype)
    q, p = dtype(float(input_scale)), dtype(float(output_scale))
    gap = array_of("gaps", gaps, np.float64, ndim=1)
    weight = array_of("weights", weights, np.float64, ndim=1)
    slow = None if slow_state is None else array_of("slow_state", slow_state, np.float64, write=True, ndim=2)
    fast = array_of("fast_state", fast_state, dtype, write=True, ndim=2)
    lo, hi = whole_number("lo", lo), whole_number("hi", hi)
    result = array_of("out", out, dtype, write=True)
    row = fast.shape[1]
    check_range(lo, hi, row, tile)
    count = len(fast) + (0 if slow is None else len(slow))
    check_words("words", source, hi - lo, tile)
    check_items("gaps", gap, count)
    check_items("weights", weight, count)
    written = {"fast_state": fast, "out": result}
    if slow is not None:
        check_shape("slow_state", slow, len(slow), row)
        written["slow_state"] = slow
    check_items("out", result, hi - lo)
    check_apart(written, {"words": source, "gaps": gap, "weights": weight})
    for start, z in normals_in_chunks(source, tile, "node"):
        stop = min(hi - lo, start + z.size)
        here, columns = slice(start, stop), slice(lo + start, lo + stop)
        u = z[: stop - start]
        np.multiply(u, q, out=u)
        total = result[here]
        total[:] = u
        i = 0
        if slow is not None and len(slow):
            part = np.zeros(0)
            for state in slow[:, columns]:
                decayed = state - state * gap[i]
                part = decayed * weight[i] if i == 0 else part + decayed * weight[i]
                np.add(decayed, u, out=state)
                i += 1
            total += part.astype(dtype)
        for state in fast[:, columns]:
            decayed = state - state * dtype(gap[i])
            total += decayed * dtype(weight[i])
            np.add(decayed, u, out=state)
            i += 1
        total *= p


def recurrence_step_f32(
    words: Words,
    input_scale: SupportsFloat,
    output_scale: SupportsFloat,
    gaps: Double,
    weights: Double,
    slow_state: Double | None,
    fast_state: Single,
    lo: SupportsIndex,
    hi: SupportsIndex,
    out: Single,
    /,
) -> None:
    """One step of a buffered Toeplitz stream, in columns ``lo .. hi - 1`` of its buffers.

    ``u = input_scale · z``; each buffer decays, ``s - gap · s``, then takes u in; the release is
    ``output_scale`` times u plus the weighted sum of the decayed buffers. The slow buffers come first in
    `gaps` and `weights` and live in float64: their sum is formed in float64, rounded once and added to u;
    then the others are added in order.

    `lo` is the start of a tile; `words` and `out` hold those columns only, the states hold all. Words may be keystream,
    or draws that were made from it already.
    """
    _recurrence_step(TILE_F32, words, input_scale, output_scale, gaps, weights, slow_state, fast_state, lo, hi, out)


def recurrence_step_f64(
    words: Words,
    input_scale: SupportsFloat,
    output_scale: SupportsFloat,
    gaps: Double,
    weights: Double,
    slow_state: Double | None,
    fast_state: Double,
    lo: SupportsIndex,
    hi: SupportsIndex,
    out: Double,
    /,
) -> None:
    """`recurrence_step_f32` in float64; without slow buffers, it is `RecurrenceMechanism.advance`."""
    _recurrence_step(TILE_F64, words, input_scale, output_scale, gaps, weights, slow_state, fast_state, lo, hi, out)


def _increment_step(
    tile: int,
    words: Words,
    input_scale: SupportsFloat,
    output_scale: SupportsFloat,
    buffers: object,
    slow: SupportsIndex,
    slow_state: object | None,
    fast_state: object,
    total: object | None,
    lo: SupportsIndex,
    hi: SupportsIndex,
    out: object,
    add: SupportsIndex,
) -> None:
    dtype = np.float32 if tile == TILE_F32 else np.float64
    source = source_of("words", words, dtype)
    q, p = dtype(float(input_scale)), dtype(float(output_scale))
    table = array_of("buffers", buffers, np.float64, ndim=2)
    slow = whole_number("slow", slow)
    held = None if slow_state is None else array_of("slow_state", slow_state, np.float64, write=True, ndim=2)
    fast = array_of("fast_state", fast_state, dtype, write=True, ndim=2)
    sums = None if total is None else array_of("total", total, np.float64, write=True, ndim=1)
    lo, hi = whole_number("lo", lo), whole_number("hi", hi)
    result = array_of("out", out, dtype, write=True)
    adds = whole_number("add", add) != 0
    row, count = fast.shape[1], len(table)
    check_range(lo, hi, row, tile)
    check_shape("buffers", table, count, 4)
    most = 0 if held is None else count
    if slow > most:
        raise ValueError(f"slow must be at most {most}, the buffers that have a state, got {slow}")
    check_words("words", source, hi - lo, tile)
    written = {"fast_state": fast, "out": result}
    if held is not None:
        check_shape("slow_state", held, state_rows(table[:slow]), row)
        written["slow_state"] = held
    check_shape("fast_state", fast, state_rows(table[slow:]), row)
    if sums is not None:
        check_items("total", sums, row)
        written["total"] = sums
    check_items("out", result, hi - lo)
    check_apart(written, {"words": source, "buffers": table})
    for start, z in normals_in_chunks(source, tile, "node"):
        stop = min(hi - lo, start + z.size)
        here, columns = slice(start, stop), slice(lo + start, lo + stop)
        u = z[: stop - start]
        np.multiply(u, q, out=u)
        increment = u.copy()
        if held is not None and slow:
            increment += _turn(table[:slow], held[:, columns], u, np.zeros(u.size)).astype(dtype)
        increment = _turn(table[slow:].astype(dtype), fast[:, columns], u, increment)
        _hand_out(increment, p, None if sums is None else sums[columns], result[here], adds)


def _turn(table: NDArray[Any], state: NDArray[Any], u: NDArray[Any], total: NDArray[Any]) -> NDArray[Any]:
    """Move all buffers on; return `total` and what they add to it."""
    rows = iter(state)
    for gap, turn, weight, turned_weight in table:
        a = next(rows)
        if turn == 0:
            moved = a - a * gap
            total = total + moved * weight
        else:
            b = next(rows)
            moved = (a - a * gap) - b * turn
            turned = (b - b * gap) + a * turn
            total = (total + moved * weight) + turned * turned_weight
            b[:] = turned
        np.add(moved, u, out=a)
    return total


def _hand_out(increment: NDArray[Any], scale: Any, total: Double | None, out: NDArray[Any], add: bool) -> None:
    """Write the scaled increment, or with `total` the sum of all of them so far, to `out`, or with `add` add it."""
    made = increment * scale
    if total is not None:
        total += made
        made = total.astype(out.dtype)
    if add:
        out += made
    else:
        out[:] = made


def increment_step_f32(
    words: Words,
    input_scale: SupportsFloat,
    output_scale: SupportsFloat,
    buffers: Double,
    slow: SupportsIndex,
    slow_state: Double | None,
    fast_state: Single,
    total: Double | None,
    lo: SupportsIndex,
    hi: SupportsIndex,
    out: Single,
    add: SupportsIndex,
    /,
) -> None:
    """One step of a stream of increments, in columns ``lo .. hi - 1`` of its buffers.

    A row of `buffers` is (gap, turn, weight, turned weight). Without a turn it is one row a of state, as in
    `recurrence_step_f32`; with one it is two, (a, b), a vector that shrinks and turns: ``a' = a - gap·a - turn·b``,
    ``b' = b - gap·b + turn·a``. The increment is ``u = input_scale · z`` plus the weighted a' and b'; then
    ``a = a' + u`` and ``b = b'``. The first `slow` buffers live in float64: their sum is formed there, rounded once and
    added to u; then the others are added in order.

    `out` gets ``output_scale`` times the increment; with a `total`, which is kept in float64, the sum of all of them.
    If `add` is not 0, it is added to what `out` holds.
    """
    _increment_step(
        TILE_F32, words, input_scale, output_scale, buffers, slow, slow_state, fast_state, total, lo, hi, out, add
    )


def increment_step_f64(
    words: Words,
    input_scale: SupportsFloat,
    output_scale: SupportsFloat,
    buffers: Double,
    slow: SupportsIndex,
    slow_state: Double | None,
    fast_state: Double,
    total: Double | None,
    lo: SupportsIndex,
    hi: SupportsIndex,
    out: Double,
    add: SupportsIndex,
    /,
) -> None:
    """`increment_step_f32` in float64."""
    _increment_step(
        TILE_F64, words, input_scale, output_scale, buffers, slow, slow_state, fast_state, total, lo, hi, out, add
    )


def _banded_step(
    tile: int,
    words: Words,
    input_scale: SupportsFloat,
    output_scale: SupportsFloat,
    coefficients: object,
    ring: object,
    position: SupportsIndex,
    total: object | None,
    lo: SupportsIndex,
    hi: SupportsIndex,
    out: object,
    add: SupportsIndex,
) -> None:
    dtype = np.float32 if tile == TILE_F32 else np.float64
    source = source_of("words", words, dtype)
    q, p = dtype(float(input_scale)), dtype(float(output_scale))
    weights = array_of("coefficients", coefficients, np.float64, ndim=1)
    before = array_of("ring", ring, dtype, write=True, ndim=2)
    at = whole_number("position", position)
    sums = None if total is None else array_of("total", total, np.float64, write=True, ndim=1)
    lo, hi = whole_number("lo", lo), whole_number("hi", hi)
    result = array_of("out", out, dtype, write=True)
    adds = whole_number("add", add) != 0
    n, row = before.shape
    check_range(lo, hi, row, tile)
    if at >= max(n, 1):
        raise ValueError(f"position must be below {n}, the rows of ring, got {at}")
    check_words("words", source, hi - lo, tile)
    check_items("coefficients", weights, n)
    written = {"ring": before, "out": result}
    if sums is not None:
        check_items("total", sums, row)
        written["total"] = sums
    check_items("out", result, hi - lo)
    check_apart(written, {"words": source, "coefficients": weights})
    for start, z in normals_in_chunks(source, tile, "node"):
        stop = min(hi - lo, start + z.size)
        here, columns = slice(start, stop), slice(lo + start, lo + stop)
        increment = z[: stop - start] * q
        for j, weight in enumerate(weights.astype(dtype), start=1):
            increment = increment - before[(at - j) % n, columns] * weight
        if n:
            before[at, columns] = increment
        _hand_out(increment, p, None if sums is None else sums[columns], result[here], adds)


def banded_step_f32(
    words: Words,
    input_scale: SupportsFloat,
    output_scale: SupportsFloat,
    coefficients: Double,
    ring: Single,
    position: SupportsIndex,
    total: Double | None,
    lo: SupportsIndex,
    hi: SupportsIndex,
    out: Single,
    add: SupportsIndex,
    /,
) -> None:
    """One step of a stream in which an increment y is ``input_scale · z`` minus the weighted sum of the n before it.

    `ring` holds the last n increments, the j-th last in row ``(position - j) mod n``; y replaces the oldest one, in row
    `position`. `out`, `total` and `add` as in `increment_step_f32`.
    """
    _banded_step(TILE_F32, words, input_scale, output_scale, coefficients, ring, position, total, lo, hi, out, add)


def banded_step_f64(
    words: Words,
    input_scale: SupportsFloat,
    output_scale: SupportsFloat,
    coefficients: Double,
    ring: Double,
    position: SupportsIndex,
    total: Double | None,
    lo: SupportsIndex,
    hi: SupportsIndex,
    out: Double,
    add: SupportsIndex,
    /,
) -> None:
    """`banded_step_f32` in float64."""
    _banded_step(TILE_F64, words, input_scale, output_scale, coefficients, ring, position, total, lo, hi, out, add)


def _add_increment(dtype: type[np.float32 | np.float64], noise: object, last: object, out: object) -> None:
    source = array_of("noise", noise, dtype)
    before = array_of("last", last, dtype, write=True)
    target = array_of("out", out, dtype, write=True)
    check_items("last", before, source.size)
    check_items("out", target, source.size)
    check_apart({"last": before, "out": target}, {"noise": source})
    np.subtract(source, before, out=before)
    np.add(target, before, out=target)
    before[...] = source


def add_increment_f32(noise: Single, last: Single, out: Single, /) -> None:
    """Add the increment to `out`, and keep the noise for the next one: ``out += noise - last``, ``last = noise``."""
    _add_increment(np.float32, noise, last, out)


def add_increment_f64(noise: Double, last: Double, out: Double, /) -> None:
    """`add_increment_f32` in float64."""
    _add_increment(np.float64, noise, last, out)
