"""The kernel's loops in NumPy: the same functions as the compiled ones, the same results to the last bit.

Every operation of ``transform.h``, ``arrays.h`` and ``loops.h`` stands here in the same order, each rounded
once, and no function of a mathematical library is used. Slower than C by a factor of five to fifty, and
available everywhere.

Layouts: a tile of float32 normals is 64 little-endian 32-bit words, of which words p and 32 + p make the
normals p and 32 + p (Box-Muller); a tile of float64 normals is 32 words of 64 bits, words p and 16 + p
making normals p and 16 + p. A Laplace draw is one word of 64 bits: the top bit is the sign, the others
begin the fraction. Wherever a vector may end inside its last tile, its words still cover whole tiles.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Iterator
from functools import cache
from math import comb
from typing import Any, Literal, SupportsFloat, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = [
    "LAPLACE_ERROR",
    "NORMAL_ERROR",
    "TILE_F32",
    "TILE_F64",
    "add_into_f32",
    "add_into_f64",
    "flag_unsafe",
    "laplace_f64",
    "normal_f32",
    "normal_f64",
    "recurrence_block_f64",
    "recurrence_step_f32",
    "recurrence_step_f64",
    "round_guarded",
    "smooth_moves",
    "stack_block_f32",
    "stack_block_f64",
    "stack_step_f32",
    "stack_step_f64",
]

Words: TypeAlias = Any  # anything with the buffer protocol: bytes, bytearray, memoryview, an array
Single: TypeAlias = NDArray[np.float32]
Double: TypeAlias = NDArray[np.float64]

#: How far a float64 draw that `flag_unsafe` does not name can be from the ideal one (docs/exact-rounding.md).
NORMAL_ERROR = 2.0**-48
LAPLACE_ERROR = 2.0**-49

TILE_F32 = 64
TILE_F64 = 32
FEW = 4  # columns up to which Python's floats are faster than NumPy's arrays
CHUNK = 65536  # draws worked on at once: enough to hide the cost of a NumPy call, few enough for the cache


def _coefficients(*values: str) -> tuple[float, ...]:
    return tuple(float.fromhex(value) for value in values)


# research/fit_polynomials.py
LOG64 = _coefficients(
    "0x1.5555555555558p-1",
    "0x1.99999999952b2p-2",
    "0x1.2492492df6947p-2",
    "0x1.c71c62debf86bp-3",
    "0x1.7462b69705382p-3",
    "0x1.39fe208c33457p-3",
    "0x1.2b5b5fb2eac92p-3",
)
SIN64 = _coefficients(
    "0x1.921fb54442d18p+2",
    "-0x1.4abbce625be41p+5",
    "0x1.466bc677587f8p+6",
    "-0x1.32d2cce2e5b19p+6",
    "0x1.50782fda12d96p+5",
    "-0x1.e30071afc3e59p+3",
    "0x1.e3f38399551bep+1",
)
COS64 = _coefficients(
    "-0x1.3bd3cc9be45dep+4",
    "0x1.03c1f081b5acp+6",
    "-0x1.55d3c7e3cb241p+6",
    "0x1.e1f5068688d5bp+5",
    "-0x1.a6d1eef479be1p+4",
    "0x1.f9ce245cada0bp+2",
    "-0x1.b2f3eb054afcdp+0",
)
LOG32 = _coefficients(
    "0x1p+1",
    "-0x1.fffffep-1",
    "0x1.555638p-1",
    "-0x1.000306p-1",
    "0x1.9906ep-2",
    "-0x1.53ba8p-2",
    "0x1.2fd26cp-2",
    "-0x1.2206d4p-2",
    "0x1.67fdd2p-3",
)
SIN32 = _coefficients(
    "0x1.921fb6p+2",
    "-0x1.4abbbap+5",
    "0x1.465ec4p+6",
    "-0x1.2d9b4p+6",
)
COS32 = _coefficients(
    "-0x1.3bd3c6p+4",
    "0x1.03b98ep+6",
    "-0x1.503902p+6",
)
LN2_HIGH = float.fromhex("0x1.62e42feep-1")
LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")


# ---- buffers ----


def _words(name: str, words: Words, dtype: DTypeLike) -> NDArray[Any]:
    view = _memory(name, words)
    if not view.c_contiguous:
        raise ValueError(f"{name} must be contiguous")
    size = np.dtype(dtype).itemsize
    if view.nbytes % size:
        raise ValueError(f"{name} must have a multiple of {size} bytes, got {view.nbytes}")
    return np.frombuffer(view.cast("B") if view.nbytes else b"", np.uint8).view(np.dtype(dtype).newbyteorder("<"))


def _memory(name: str, buffer: object) -> memoryview:
    try:
        return memoryview(buffer)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} must be a buffer, such as a NumPy array") from None


def _array(name: str, buffer: object, dtype: DTypeLike, *, write: bool = False, ndim: int = 0) -> NDArray[Any]:
    """View a buffer as an array of exactly this type and `ndim` dimensions (0: any, flattened)."""
    view = _memory(name, buffer)
    if not view.c_contiguous or (write and view.readonly):
        raise ValueError(f"{name} must be contiguous{' and writable' if write else ''}")
    array = np.asarray(view)
    if array.dtype != np.dtype(dtype):
        raise ValueError(f"{name} must hold {np.dtype(dtype)}, got format '{view.format}'")
    if ndim and array.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} dimension{'s' if ndim > 1 else ''}, got {array.ndim}")
    if not array.flags.aligned:
        raise ValueError(f"{name} must be aligned to its items")
    return array if ndim else array.reshape(-1)


def _has_items(name: str, array: NDArray[Any], count: int) -> None:
    if array.size != count:
        raise ValueError(f"{name} must have {count} items, got {array.size}")


def _has_shape(name: str, array: NDArray[Any], rows: int, columns: int) -> None:
    if array.shape != (rows, columns):
        raise ValueError(f"{name} must have shape ({rows}, {columns}), got {array.shape}")


def _has_words(name: str, words: NDArray[Any], draws: int, tile: int) -> None:
    wanted = -(-draws // tile) * tile
    if words.size != wanted:
        raise ValueError(f"{name} must have {wanted * words.itemsize} bytes, got {words.nbytes}")


def _are_apart(written: dict[str, NDArray[Any]], read: dict[str, NDArray[Any] | None], in_place: str = "") -> None:
    """Refuse overlaps of what is written with anything else; ``top`` may be the memory of `in_place`."""
    for name, a in written.items():
        for other, b in (written | read).items():
            if b is None or other == name or not np.may_share_memory(a, b):
                continue
            if other == in_place and name == "top" and a.ctypes.data == b.ctypes.data:
                continue
            raise ValueError(f"{name} must not overlap {other}")


def _whole(name: str, value: SupportsIndex) -> int:
    number = operator.index(value)
    if not 0 <= number < 2**63:
        raise ValueError(f"{name} must be a whole number from 0 on")
    return number


# ---- draws ----


class _Normals32:
    """float32 normals, up to `CHUNK` at a time; owns the scratch memory."""

    def __init__(self) -> None:
        tiles = CHUNK // TILE_F32
        self._integers = np.empty((3, tiles, TILE_F32 // 2), np.uint32)
        self._floats = np.empty((4, tiles, TILE_F32 // 2), np.float32)

    def __call__(self, words: NDArray[np.uint32], out: Single) -> None:
        """Words and normals as arrays of shape (tiles, 64)."""
        half, tiles = TILE_F32 // 2, len(words)
        w, side, bits = self._integers[:, :tiles]
        f, t, x, y = self._floats[:, :tiles]
        t_bits, f_bits, x_bits, y_bits = (array.view(np.uint32) for array in (t, f, x, y))

        np.copyto(w, words[:, :half])
        np.right_shift(w.view(np.int32), 31, out=side.view(np.int32))
        np.bitwise_xor(w, side, out=w)
        np.copyto(f, w.view(np.int32), casting="unsafe")
        np.add(f, 0.5, out=f)
        np.multiply(f, 2.0**-32, out=f)
        np.bitwise_and(side, 0x80000000, out=bits)
        np.bitwise_xor(f_bits, bits, out=f_bits)
        np.bitwise_and(side, 0x3F800000, out=side)
        np.add(side.view(np.float32), f, out=x)
        np.subtract(x_bits, 0x3F3504F3, out=bits)
        np.bitwise_and(bits, 0x007FFFFF, out=t_bits)
        np.add(t_bits, 0x3F3504F3, out=t_bits)
        np.subtract(t, 1.0, out=t)
        signed = bits.view(np.int32)
        below = side.view(np.int32)
        np.right_shift(signed, 31, out=below)
        np.bitwise_xor(t_bits, f_bits, out=t_bits)
        np.bitwise_and(t_bits, side, out=t_bits)
        np.bitwise_xor(t_bits, f_bits, out=t_bits)
        np.right_shift(signed, 23, out=signed)
        e = f
        np.copyto(e, signed, casting="unsafe")
        np.multiply(e, float.fromhex("-0x1.62e430p+0"), out=e)
        square, even, odd = side.view(np.float32), x, y
        np.multiply(t, t, out=square)
        _horner(LOG32[8::-2], square, even)
        _horner(LOG32[7::-2], square, odd)
        np.multiply(odd, t, out=odd)
        np.add(even, odd, out=even)
        np.multiply(even, t, out=even)
        np.subtract(e, even, out=e)
        r = np.sqrt(e, out=e)

        np.copyto(w, words[:, half:])
        np.left_shift(w, 2, out=side)
        turn = t
        np.copyto(turn, side.view(np.int32), casting="unsafe")
        np.add(turn, 2.0, out=turn)
        np.multiply(turn, 2.0**-34, out=turn)
        np.multiply(turn, turn, out=square)
        cosine, sine = x, y
        _horner(SIN32[::-1], square, sine)
        np.multiply(sine, turn, out=sine)
        _horner((*COS32[::-1], 1.0), square, cosine)
        np.add(w, 0x20000000, out=w)
        swap = bits.view(np.int32)
        np.left_shift(w, 1, out=bits)
        np.right_shift(swap, 31, out=swap)
        change = side
        np.bitwise_xor(x_bits, y_bits, out=change)
        np.bitwise_and(change, bits, out=change)
        np.bitwise_xor(x_bits, change, out=x_bits)
        np.bitwise_xor(y_bits, change, out=y_bits)
        np.bitwise_and(w, 0x80000000, out=bits)
        np.bitwise_xor(y_bits, bits, out=y_bits)
        np.add(w, 0x40000000, out=w)
        np.bitwise_and(w, 0x80000000, out=w)
        np.bitwise_xor(x_bits, w, out=x_bits)
        np.multiply(cosine, r, out=out[:, :half])
        np.multiply(sine, r, out=out[:, half:])


def _horner(coefficients: tuple[float, ...], x: NDArray[Any], out: NDArray[Any]) -> None:
    """Evaluate the polynomial with the given coefficients, highest first."""
    highest, *rest = coefficients
    np.multiply(x, highest, out=out)
    np.add(out, rest[0], out=out)
    for coefficient in rest[1:]:
        np.multiply(out, x, out=out)
        np.add(out, coefficient, out=out)


def _doubles(integers: NDArray[np.uint64], offset: float, out: Double, scratch: NDArray[np.uint64]) -> None:
    """Compute ``integers - offset``, rounded once: by halves, in the low bits of large doubles."""
    low = out.view(np.uint64)
    np.right_shift(integers, 32, out=scratch)
    np.bitwise_or(scratch, 0x4530000000000000, out=scratch)
    np.bitwise_and(integers, 0xFFFFFFFF, out=low)
    np.bitwise_or(low, 0x4330000000000000, out=low)
    high = scratch.view(np.float64)
    np.subtract(high, 2.0**84 + offset + 2.0**52, out=high)
    np.add(high, out, out=out)


class _NegativeLog64:
    """-ln u of up to `CHUNK` / 2 fractions u at a time."""

    def __init__(self) -> None:
        self._integers = np.empty((2, CHUNK // 2), np.uint64)
        self._floats = np.empty((5, CHUNK // 2), np.float64)

    def __call__(self, numerator: NDArray[np.uint64], side: NDArray[np.uint64], out: Double) -> None:
        """Take u = numerator 2^-65, or 1 - that where `side` is all ones; both are overwritten."""
        count = numerator.size
        bits, shifted = self._integers[:, :count]
        f, x, t, s, even = self._floats[:, :count]
        _doubles(numerator, 0.0, f, bits)
        np.multiply(f, 2.0**-65, out=f)
        np.bitwise_and(side, 0x8000000000000000, out=bits)
        np.bitwise_xor(f.view(np.uint64), bits, out=f.view(np.uint64))
        np.bitwise_and(side, 0x3FF0000000000000, out=side)
        one = side.view(np.float64)
        np.add(one, f, out=x)
        lost = one
        np.subtract(one, x, out=lost)
        np.add(lost, f, out=lost)
        np.subtract(x.view(np.uint64), 0x3FE6A09E667F3BCD, out=shifted)
        np.add(shifted, 0x3FF0000000000000, out=shifted)
        np.bitwise_and(shifted, 0x000FFFFFFFFFFFFF, out=bits)
        np.add(bits, 0x3FE6A09E667F3BCD, out=bits)
        np.right_shift(shifted, 52, out=shifted)
        np.bitwise_or(shifted, 0x4330000000000000, out=shifted)
        e = shifted.view(np.float64)
        np.subtract(e, 2.0**52 + 1023.0, out=e)
        np.subtract(1.0, e, out=t)
        np.multiply(lost, t, out=lost)
        np.subtract(bits.view(np.float64), 1.0, out=t)
        np.add(t, lost, out=t)
        np.add(t, 2.0, out=s)
        np.divide(t, s, out=s)
        v, square, odd = f, x, bits.view(np.float64)
        np.multiply(s, s, out=v)
        np.multiply(v, v, out=square)
        _horner(LOG64[6::-2], square, even)
        _horner(LOG64[5::-2], square, odd)
        np.multiply(odd, v, out=odd)
        np.add(even, odd, out=even)
        np.multiply(even, v, out=even)
        half = x
        np.multiply(t, 0.5, out=half)
        np.multiply(half, t, out=half)
        np.add(half, even, out=even)
        np.multiply(s, even, out=even)
        np.subtract(half, even, out=even)
        np.multiply(e, -LN2_LOW, out=s)
        np.add(even, s, out=even)
        np.subtract(even, t, out=even)
        np.multiply(e, -LN2_HIGH, out=e)
        np.add(e, even, out=out)


class _Normals64:
    """float64 normals, up to `CHUNK` at a time; owns the scratch memory."""

    def __init__(self) -> None:
        tiles = CHUNK // TILE_F64
        self._log = _NegativeLog64()
        self._integers = np.empty((4, tiles, TILE_F64 // 2), np.uint64)
        self._floats = np.empty((4, tiles, TILE_F64 // 2), np.float64)

    def __call__(self, words: NDArray[np.uint64], out: Double) -> None:
        """Words and normals as arrays of shape (tiles, 32)."""
        half, tiles = TILE_F64 // 2, len(words)
        w, side, bits, change = self._integers[:, :tiles]
        r, turn, x, y = self._floats[:, :tiles]
        x_bits, y_bits = x.view(np.uint64), y.view(np.uint64)

        np.copyto(w, words[:, :half])
        np.right_shift(w, 63, out=side)
        np.negative(side, out=side)
        np.bitwise_xor(w, side, out=w)
        np.left_shift(w, 1, out=w)
        np.bitwise_or(w, 1, out=w)
        self._log(w.reshape(-1), side.reshape(-1), r.reshape(-1))
        np.multiply(r, 2.0, out=r)
        np.sqrt(r, out=r)

        np.copyto(w, words[:, half:])
        np.left_shift(w, 2, out=side)
        np.bitwise_or(side, 2, out=side)
        np.bitwise_xor(side, 0x8000000000000000, out=side)
        _doubles(side, 2.0**63, turn, bits)
        np.multiply(turn, 2.0**-66, out=turn)
        square = bits.view(np.float64)
        np.multiply(turn, turn, out=square)
        cosine, sine = x, y
        _horner(SIN64[::-1], square, sine)
        np.multiply(sine, turn, out=sine)
        _horner((*COS64[::-1], 1.0), square, cosine)
        np.add(w, 0x2000000000000000, out=w)
        np.left_shift(w, 1, out=bits)
        np.right_shift(bits, 63, out=bits)
        np.negative(bits, out=bits)
        np.bitwise_xor(x_bits, y_bits, out=change)
        np.bitwise_and(change, bits, out=change)
        np.bitwise_xor(x_bits, change, out=x_bits)
        np.bitwise_xor(y_bits, change, out=y_bits)
        np.bitwise_and(w, 0x8000000000000000, out=bits)
        np.bitwise_xor(y_bits, bits, out=y_bits)
        np.add(w, 0x4000000000000000, out=w)
        np.bitwise_and(w, 0x8000000000000000, out=w)
        np.bitwise_xor(x_bits, w, out=x_bits)
        np.multiply(cosine, r, out=out[:, :half])
        np.multiply(sine, r, out=out[:, half:])


class _Scratch(threading.local):
    """What a thread works in, kept between calls: fresh memory costs more than the arithmetic."""

    def __init__(self) -> None:
        self._kept: dict[str, Any] = {}

    def keep(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self._kept:
            self._kept[name] = make()
        return self._kept[name]


_scratch = _Scratch()


def _transform(tile: int) -> Any:
    return _scratch.keep("f32", _Normals32) if tile == TILE_F32 else _scratch.keep("f64", _Normals64)


def _normals(words: NDArray[Any], tile: int, name: str) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield pairs (where it starts, normals of the next chunk); each chunk is overwritten by the next."""
    dtype = np.float32 if tile == TILE_F32 else np.float64
    out: NDArray[Any] = _scratch.keep(f"{name} {tile}", lambda: np.empty((CHUNK // tile, tile), dtype))
    transform = _transform(tile)
    rows = words.reshape(-1, tile)
    for first in range(0, len(rows), CHUNK // tile):
        part = rows[first : first + CHUNK // tile]
        transform(part, out[: len(part)])
        yield first * tile, out[: len(part)].reshape(-1)


def _normal(words: Words, out: object, tile: int) -> None:
    single = tile == TILE_F32
    source = _words("words", words, np.uint32 if single else np.uint64)
    target = _array("out", out, np.float32 if single else np.float64, write=True)
    if target.size % tile:
        raise ValueError(f"out must have a multiple of {tile} items, got {target.size}")
    _has_words("words", source, target.size, tile)
    _are_apart({"out": target}, {"words": source})
    rows, results = source.reshape(-1, tile), target.reshape(-1, tile)
    transform = _transform(tile)
    for first in range(0, len(rows), CHUNK // tile):
        here = slice(first, first + CHUNK // tile)
        transform(rows[here], results[here])


def normal_f32(words: Words, out: Single, /) -> None:
    """Make standard normals from words; `out` takes whole tiles of 64.

    |z| is at most 6.77; the error is below 2^-21 of the radius r = √(-2 ln u).
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
    source = _words("words", words, np.uint64)
    target = _array("out", out, np.float64, write=True)
    _has_words("words", source, target.size, 1)
    _are_apart({"out": target}, {"words": source})
    log = _scratch.keep("log", _NegativeLog64)
    numerator, side = _scratch.keep("laplace", lambda: np.empty((2, CHUNK // 2), np.uint64))
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

    These are both normals of a pair whose first word is below 2^50 or above 2^64 - 2^34 (one pair in
    16,000), and Laplace draws whose fraction, of 63 bits, is below 2^50 (one in 8,000).
    """
    if kind not in ("normal", "laplace"):
        raise ValueError(f"kind must be 'normal' or 'laplace', got {kind!r}")
    view = _memory("words", words)
    unit = 8 * TILE_F64 if kind == "normal" else 8
    if view.nbytes % unit:
        raise ValueError(f"words must have a multiple of {unit} bytes, got {view.nbytes}")
    source = _words("words", words, np.uint64)
    if kind == "laplace":
        return np.flatnonzero(source & np.uint64(2**63 - 1) < 2**50).astype(np.int64, copy=False)
    first = source.reshape(-1, 2, TILE_F64 // 2)[:, :1]
    unsafe = (first < 2**50) | (first > 2**64 - 2**34)
    return np.flatnonzero(np.repeat(unsafe, 2, axis=1)).astype(np.int64, copy=False)


# ---- one step of a long vector ----


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
    dtype, word = (np.float32, np.uint32) if tile == TILE_F32 else (np.float64, np.uint64)
    node_source = _words("node_words", node_words, word)
    weight = dtype(float(node_weight))
    pad_source = None if pad_words is None else _words("pad_words", pad_words, word)
    extra = dtype(float(pad_weight))
    below = None if base is None else _array("base", base, dtype)
    stored = _array("top", top, dtype, write=True)
    result = None if out is None else _array("out", out, dtype, write=True)
    if pad_source is not None and result is None:
        raise ValueError("out must be given when pad_words is")
    n = stored.size
    _has_words("node_words", node_source, n, tile)
    if pad_source is not None:
        _has_words("pad_words", pad_source, n, tile)
    if below is not None:
        _has_items("base", below, n)
    written = {"top": stored}
    if result is not None:
        _has_items("out", result, n)
        written["out"] = result
    _are_apart(written, {"node_words": node_source, "pad_words": pad_source, "base": below}, in_place="base")
    pads = _normals(pad_source, tile, "pad") if pad_source is not None else None
    for start, z in _normals(node_source, tile, "node"):
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
    dtype, word = (np.float32, np.uint32) if tile == TILE_F32 else (np.float64, np.uint64)
    source = _words("words", words, word)
    q, p = dtype(float(input_scale)), dtype(float(output_scale))
    gap = _array("gaps", gaps, np.float64, ndim=1)
    weight = _array("weights", weights, np.float64, ndim=1)
    slow = None if slow_state is None else _array("slow_state", slow_state, np.float64, write=True, ndim=2)
    fast = _array("fast_state", fast_state, dtype, write=True, ndim=2)
    lo, hi = _whole("lo", lo), _whole("hi", hi)
    result = _array("out", out, dtype, write=True)
    row = fast.shape[1]
    if lo % tile or not lo <= hi <= row:
        raise ValueError(f"lo must be a multiple of {tile} and lo <= hi <= {row}, got lo={lo} and hi={hi}")
    count = len(fast) + (0 if slow is None else len(slow))
    _has_words("words", source, hi - lo, tile)
    _has_items("gaps", gap, count)
    _has_items("weights", weight, count)
    written = {"fast_state": fast, "out": result}
    if slow is not None:
        _has_shape("slow_state", slow, len(slow), row)
        written["slow_state"] = slow
    _has_items("out", result, hi - lo)
    _are_apart(written, {"words": source, "gaps": gap, "weights": weight})
    for start, z in _normals(source, tile, "node"):
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

    `lo` is the start of a tile; `words` and `out` hold those columns only, the states hold all.
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


def _add_into(dtype: type[np.float32 | np.float64], out: object, x: object, weight: SupportsFloat) -> None:
    target = _array("out", out, dtype, write=True)
    source = _array("x", x, dtype)
    factor = dtype(float(weight))
    _has_items("x", source, target.size)
    _are_apart({"out": target}, {"x": source})
    scratch = np.empty(min(CHUNK, target.size), dtype)
    for first in range(0, target.size, CHUNK):
        here = slice(first, first + CHUNK)
        part = scratch[: target[here].size]
        np.multiply(source[here], factor, out=part)
        np.add(target[here], part, out=target[here])


def add_into_f32(out: Single, x: Single, weight: SupportsFloat, /) -> None:
    """``out += weight · x``."""
    _add_into(np.float32, out, x, weight)


def add_into_f64(out: Double, x: Double, weight: SupportsFloat, /) -> None:
    """``out += weight · x``."""
    _add_into(np.float64, out, x, weight)


# ---- many steps of a short vector ----


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


def _stack_block(
    dtype: type[np.float32 | np.float64],
    pops: object,
    push: object,
    padding: object,
    mix: object | None,
    z: object,
    zpad: object | None,
    stack: object,
    depth: SupportsIndex,
    out: object,
) -> int:
    popped = _array("pops", pops, np.uint8, ndim=1)
    push_weight = _array("push", push, np.float64, ndim=1)
    pad_weight = _array("padding", padding, np.float64, ndim=1)
    table = None if mix is None else _array("mix", mix, np.float64, ndim=2)
    draws = _array("z", z, dtype, ndim=2)
    pads = None if zpad is None else _array("zpad", zpad, dtype, ndim=2)
    levels = _array("stack", stack, dtype, write=True, ndim=2)
    depth = _whole("depth", depth)
    result = _array("out", out, dtype, write=True, ndim=2)
    n, d, most = popped.size, draws.shape[1], len(levels)
    _has_items("push", push_weight, n)
    _has_items("padding", pad_weight, n)
    _has_shape("z", draws, n, d)
    if pads is not None:
        _has_shape("zpad", pads, n, d)
    _has_shape("stack", levels, most, d)
    _has_shape("out", result, n, d)
    _are_apart(
        {"stack": levels, "out": result},
        {"pops": popped, "push": push_weight, "padding": pad_weight, "mix": table, "z": draws, "zpad": pads},
    )
    if depth > most:
        raise ValueError(f"depth must be at most {most}, the rows of stack, got {depth}")
    level = _check_moves(popped, pad_weight, depth, most, pads is not None, None if table is None else len(table))
    if n == 0:
        return depth
    np.multiply(draws, push_weight.astype(dtype)[:, None], out=result)
    if table is None:
        _stack_up(level, levels, result)
    else:
        _stack_mixed(level, popped, table.astype(dtype), levels, result)
    if pads is not None:
        extra = pad_weight.astype(dtype)
        padded = np.flatnonzero(extra)
        result[padded] += pads[padded] * extra[padded, None]
    return int(level[-1]) + 1


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
    if stack.dtype == np.float64 and stack.shape[1] <= FEW:
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


def stack_block_f32(
    pops: NDArray[np.uint8],
    push: Double,
    padding: Double,
    mix: Double | None,
    z: Single,
    zpad: Single | None,
    stack: Single,
    depth: SupportsIndex,
    out: Single,
    /,
) -> int:
    """`stack_block_f64` in float32; the weights are rounded to float32 first."""
    return _stack_block(np.float32, pops, push, padding, mix, z, zpad, stack, depth, out)


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
    return _stack_block(np.float64, pops, push, padding, mix, z, zpad, stack, depth, out)


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
    popped = _array("pops", pops, np.uint8, write=True, ndim=1)
    padded = _array("padding", padding, np.uint8, write=True, ndim=1)
    _has_items("padding", padded, popped.size)
    _are_apart({"pops": popped, "padding": padded}, {})
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


# ---- double-double ----


def _two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    total = a + b
    moved = total - a
    return total, (a - (total - moved)) + (b - moved)


def _quick_two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    total = a + b
    return total, b - (total - a)


def _two_product(a: Any, b: Any) -> tuple[Any, Any]:
    product = a * b
    a_wide, b_wide = 134217729.0 * a, 134217729.0 * b
    a_high, b_high = a_wide - (a_wide - a), b_wide - (b_wide - b)
    a_low, b_low = a - a_high, b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _scale(a: Any, a_low: Any, b: Any) -> tuple[Any, Any]:
    product, rest = _two_product(a, b)
    return _quick_two_sum(product, rest + a_low * b)


def _add(a: Any, a_low: Any, b: Any, b_low: Any) -> tuple[Any, Any]:
    total, rest = _two_sum(a, b)
    return _quick_two_sum(total, rest + (a_low + b_low))


def recurrence_block_f64(
    z: Double,
    input_scale: Double,
    output_scale: Double,
    gaps: Double,
    weights: Double,
    high: Double,
    low: Double | None,
    out: Double,
    rest: Double | None,
    /,
) -> None:
    """Make many steps of a buffered Toeplitz stream over short vectors, with buffers ``high + low``.

    Each operation errs by less than 2^-102 of its operands, so that no recurrence is long enough for it to
    matter. ``out + rest`` is the release, ``out`` its nearest double. With ``low=None`` the buffers are
    plain doubles, about four times faster, and the step is `RecurrenceMechanism.advance` to the last bit.
    """
    draws = _array("z", z, np.float64, ndim=2)
    q = _array("input_scale", input_scale, np.float64, ndim=1)
    p = _array("output_scale", output_scale, np.float64, ndim=1)
    gap = _array("gaps", gaps, np.float64, ndim=1)
    weight = _array("weights", weights, np.float64, ndim=1)
    state = _array("high", high, np.float64, write=True, ndim=2)
    state_low = None if low is None else _array("low", low, np.float64, write=True, ndim=2)
    result = _array("out", out, np.float64, write=True, ndim=2)
    result_low = None if rest is None else _array("rest", rest, np.float64, write=True, ndim=2)
    (n, d), b = draws.shape, gap.size
    if state_low is None and result_low is not None:
        raise ValueError("rest must be None when low is: plain doubles keep no rest")
    _has_items("input_scale", q, n)
    _has_items("output_scale", p, n)
    _has_items("weights", weight, b)
    written = {"high": state, "out": result}
    _has_shape("high", state, b, d)
    if state_low is not None:
        _has_shape("low", state_low, b, d)
        written["low"] = state_low
    _has_shape("out", result, n, d)
    if result_low is not None:
        _has_shape("rest", result_low, n, d)
        written["rest"] = result_low
    _are_apart(written, {"z": draws, "input_scale": q, "output_scale": p, "gaps": gap, "weights": weight})
    if d <= 4 * FEW:
        # One column after the other in Python's floats: the same arithmetic, without the cost of NumPy's calls.
        scales, factors = (q.tolist(), p.tolist()), (gap.tolist(), weight.tolist())
        for j in range(d):
            buffers, releases, rests = state[:, j].tolist(), [0.0] * n, [0.0] * n
            buffers_low = None if state_low is None else state_low[:, j].tolist()
            _recur(draws[:, j].tolist(), *scales, *factors, buffers, buffers_low, releases, rests)
            state[:, j], result[:, j] = buffers, releases
            if state_low is not None:
                state_low[:, j] = buffers_low
            if result_low is not None:
                result_low[:, j] = rests
    else:
        _recur(
            draws, q, p, gap, weight, state, state_low, result, np.empty((n, d)) if result_low is None else result_low
        )


def _recur(
    z: Any, q: Any, p: Any, gap: Any, weight: Any, state: Any, state_low: Any, releases: Any, rests: Any
) -> None:
    """Advance the buffers through all steps; numbers or rows of numbers alike."""
    for t in range(len(z)):
        if state_low is None:
            total = u = z[t] * q[t]
            for i in range(len(state)):
                decayed = state[i] - state[i] * gap[i]
                total = total + decayed * weight[i]
                state[i] = decayed + u
            releases[t] = total * p[t]
            continue
        total, total_low = u, u_low = _two_product(z[t], q[t])
        for i in range(len(state)):
            lost, lost_low = _scale(state[i], state_low[i], gap[i])
            kept, kept_low = _add(state[i], state_low[i], -lost, -lost_low)
            part, part_low = _scale(kept, kept_low, weight[i])
            state[i], state_low[i] = _add(kept, kept_low, u, u_low)
            total, total_low = _add(total, total_low, part, part_low)
        releases[t], rests[t] = _scale(total, total_low, p[t])


# ---- rounding ----


def round_guarded(x: Double, guard: SupportsFloat, out: NDArray[np.int64], /) -> NDArray[np.int64]:
    """Round to the nearest integers; return the positions of items within `guard` of a half-integer.

    There the other neighbour may be the right one.

    Refuses, before writing anything, what is not finite or not below 2^62 in size.
    """
    source = _array("x", x, np.float64)
    margin = float(guard)
    target = _array("out", out, np.int64, write=True)
    _has_items("out", target, source.size)
    _are_apart({"out": target}, {"x": source})
    if not margin >= 0:
        raise ValueError(f"guard must be a number from 0 on, got {guard!r}")
    if not (np.abs(source) < 2.0**62).all():
        raise ValueError("x must be finite and below 2**62 in size")
    close = []
    scratch = np.empty(min(CHUNK, source.size))
    for first in range(0, source.size, CHUNK):
        part = source[first : first + CHUNK]
        nearest = np.rint(part, out=scratch[: part.size])
        np.copyto(target[first : first + CHUNK], nearest, casting="unsafe")
        away = np.abs(np.subtract(part, nearest, out=nearest), out=nearest)
        close.append(np.flatnonzero(np.subtract(0.5, away, out=away) <= margin) + first)
    return np.concatenate(close) if close else np.empty(0, np.int64)
