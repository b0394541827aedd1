"""Normal and Laplace draws from words, and which of them carry no proof."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpstream.kernel.twin.arguments import (
    Double,
    Single,
    Words,
    array_of,
    check_apart,
    check_words,
    memory_of,
    words_of,
)
from dpstream.kernel.twin.scratch_memory import CHUNK, scratch
from dpstream.kernel.twin.transform import TILE_F32, TILE_F64, NegativeLog64, Normals32, Normals64

#: How far a float64 draw that `flag_unsafe` does not name can be from the ideal one (docs/exact-rounding.md).
NORMAL_ERROR = 2.0**-47
LAPLACE_ERROR = 2.0**-47

# The words for which that is proven: of normals the first of a pair, of Laplace draws the 63 bits of the fraction.
NORMAL_LOWEST, NORMAL_HIGHEST = 2**45, 2**64 - 2**34
LAPLACE_LOWEST = 2**47


# Of the top 32 bits of the first word of a pair: below it, `flag_tails_f32` and `flag_tails_f64` name both draws.
TAIL_LIMIT = 256


def _transform(tile: int) -> Any:
    return scratch.keep("f32", Normals32) if tile == TILE_F32 else scratch.keep("f64", Normals64)


def normals_in_chunks(words: NDArray[Any], tile: int, name: str) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield pairs (where it starts, normals of the next chunk); each chunk is overwritten by the next.

    `words` may hold the normals themselves (see `source_of`).
    """
    dtype = np.float32 if tile == TILE_F32 else np.float64
    out: NDArray[Any] = scratch.keep(f"{name} {tile}", lambda: np.empty((CHUNK // tile, tile), dtype))
    transform = np.positive if words.dtype == dtype else _transform(tile)
    rows = words.reshape(-1, tile)
    for first in range(0, len(rows), CHUNK // tile):
        part = rows[first : first + CHUNK // tile]
        transform(part, out[: len(part)])
        yield first * tile, out[: len(part)].reshape(-1)


def _normal(words: Words, out: object, tile: int) -> None:
    single = tile == TILE_F32
    source = words_of("words", words, np.uint32 if single else np.uint64)
    target = array_of("out", out, np.float32 if single else np.float64, write=True)
    if target.size % tile:
        raise ValueError(f"out must have a multiple of {tile} items, got {target.size}")
    check_words("words", source, target.size, tile)
    check_apart({"out": target}, {"words": source})
    rows, results = source.reshape(-1, tile), target.reshape(-1, tile)
    transform = _transform(tile)
    for first in range(0, len(rows), CHUNK // tile):
        here = slice(first, first + CHUNK // tile)
        transform(rows[here], results[here])


def normal_f32(words: Words, out: Single, /) -> None:
    """Make standard normals from words; `out` takes whole tiles of 64.

    The error is below 2^-21 of the radius r = √(-2 ln u), u the middle of what a word leaves open. |z| is at most 6.77:
    `flag_tails_f32` names the draws that need more bits.
    """
    _normal(words, out, TILE_F32)


def normal_f64(words: Words, out: Double, /) -> None:
    """Make standard normals from words; `out` takes whole tiles of 32.

    Unless `flag_unsafe` names a draw, it is within `NORMAL_ERROR` of the ideal normal of *every*
    continuation of its two words to infinite binary fractions (docs/exact-rounding.md, "The transform").
    """
    _normal(words, out, TILE_F64)


def laplace_f64(words: Words, out: Double, /) -> None:
    """Laplace draws of scale 1 from words, one word each.

    Unless `flag_unsafe` names a draw, it is within `LAPLACE_ERROR` of the ideal draw of every continuation
    of its word.
    """
    source = words_of("words", words, np.uint64)
    target = array_of("out", out, np.float64, write=True)
    check_words("words", source, target.size, 1)
    check_apart({"out": target}, {"words": source})
    log = scratch.keep("log", NegativeLog64)
    numerator, side = scratch.keep("laplace", lambda: np.empty((2, CHUNK // 2), np.uint64))
    for first in range(0, target.size, CHUNK // 2):
        w, z = source[first : first + CHUNK // 2], target[first : first + CHUNK // 2]
        u, s = numerator[: w.size], side[: w.size]
        np.left_shift(w, 1, out=u)
        np.bitwise_or(u, 1, out=u)
        np.right_shift(u, 63, out=s)
        np.negative(s, out=s)
        np.bitwise_xor(u, s, out=u)
        np.subtract(u, s, out=u)
        np.left_shift(u, 1, out=u)
        log(u, s, z)
        bits = z.view(np.uint64)
        np.bitwise_and(w, 0x8000000000000000, out=s)
        np.bitwise_or(bits, s, out=bits)


def flag_unsafe(words: Words, kind: Literal["normal", "laplace"], /) -> NDArray[np.int64]:
    """Find the float64 draws for which no error bound is proven: their positions, in order.

    These are both normals of a pair whose first word is below 2^45 or above 2^64 - 2^34 (one pair in
    500,000), and Laplace draws whose fraction, of 63 bits, is below 2^47 (one in 65,000).
    """
    if kind not in ("normal", "laplace"):
        raise ValueError(f"kind must be 'normal' or 'laplace', got {kind!r}")
    view = memory_of("words", words)
    unit = 8 * TILE_F64 if kind == "normal" else 8
    if view.nbytes % unit:
        raise ValueError(f"words must have a multiple of {unit} bytes, got {view.nbytes}")
    source = words_of("words", words, np.uint64)
    if kind == "laplace":
        return np.flatnonzero(source & np.uint64(2**63 - 1) < LAPLACE_LOWEST).astype(np.int64, copy=False)
    first = source.reshape(-1, 2, TILE_F64 // 2)[:, :1]
    unsafe = (first < NORMAL_LOWEST) | (first > NORMAL_HIGHEST)
    return np.flatnonzero(np.repeat(unsafe, 2, axis=1)).astype(np.int64, copy=False)


def flag_tails_f32(words: Words, /) -> bytes:
    """Find the float32 normals that need more bits than their words have.

    These are both normals of a pair whose first word is below `TAIL_LIMIT` (one pair in 2^24): the radius is above 5.7,
    and 32 bits tell it to 3·10^-4. Returns their positions, in order, as the bytes of int64 numbers, so that the
    common answer, none, costs nothing.
    """
    return _flag_tails(words, TILE_F32)


def flag_tails_f64(words: Words, /) -> bytes:
    """`flag_tails_f32` for float64 normals, by the top 32 bits of the first word: below 2^40."""
    return _flag_tails(words, TILE_F64)


def _flag_tails(words: Words, tile: int) -> bytes:
    view = memory_of("words", words)
    if view.nbytes % 256:
        raise ValueError(f"words must have a multiple of 256 bytes, got {view.nbytes}")
    first = words_of("words", words, np.uint32).reshape(-1, 2, 32)[:, :1, TILE_F32 // tile - 1 :: TILE_F32 // tile]
    return np.flatnonzero(np.repeat(first < TAIL_LIMIT, 2, axis=1)).astype(np.int64, copy=False).tobytes()
