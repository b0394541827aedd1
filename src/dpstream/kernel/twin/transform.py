"""``transform.h`` in NumPy: words of keystream to normals and logarithms, a chunk of tiles at a time.

Every operation is one NumPy call into memory that already exists, in the order of the C code; only + - x /,
square root and integer operations, which round alike everywhere. docs/exact-rounding.md proves the error.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstream.kernel.twin.arguments import Double, Single
from dpstream.kernel.twin.coefficients import COS32, COS64, LN2_HIGH, LN2_LOW, LOG32, LOG64, SIN32, SIN64
from dpstream.kernel.twin.scratch_memory import CHUNK

TILE_F32 = 64  # words, and draws, of a float32 tile
TILE_F64 = 32


class Normals32:
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


class NegativeLog64:
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


class Normals64:
    """float64 normals, up to `CHUNK` at a time; owns the scratch memory."""

    def __init__(self) -> None:
        tiles = CHUNK // TILE_F64
        self._log = NegativeLog64()
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
