"""Independent draws, each a pure function of (key, step, slot, coordinate).

Layout. A *tile* is 256 bytes of keystream: 64 float32 normals, or 32 float64 normals or Laplace draws; the order of
words within a tile is the kernel's. A step takes `stride` consecutive draws of its slot:

* fewer than 64 coordinates (narrow): stride = coordinates, so that many steps share a tile, and one call makes the
  draws of many steps. Narrow draws are always float64.
* 64 or more (wide): stride = coordinates rounded up to a multiple of 64, so that every step starts a tile, and any
  range of whole tiles can be made on its own.

Draw number n = (step - 1) · stride + coordinate of a slot is lane n mod tile of tile n div tile, whose keystream starts
at block 16 · (n div tile).

Tails. A word ends, and with it the radius of a normal made from one word: at 6.8 of 32 bits, at 9.5 of 64. Coordinates
are many, and a sum beyond the largest possible noise would give a person away. So the few normals whose first word is
almost 0 (`kernel.flag_tails_f32`: one pair in 2^24) are made from as many bits as they need, in ball arithmetic, from
the extension blocks of the keystream that the exact lane uses too: their law has no end.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpstream import kernel
from dpstream.errors import InvalidArgument
from dpstream.mechanisms.base import NoiseLaw
from dpstream.noise.exact import Address, ideal_double, ideal_draw
from dpstream.noise.keystream import BLOCK_BYTES, Keystream

__all__ = ["COORDINATES_LIMIT", "NARROW", "STEPS_LIMIT", "Draws"]

#: Fewer coordinates than this are drawn many steps at a time.
NARROW = 64
#: With these bounds the block number stays below 2^80, its share of the counter.
COORDINATES_LIMIT = 2**30
STEPS_LIMIT = 2**50

#: Lends memory for a purpose, a size and a dtype.
Room = Callable[[str, int, Any], NDArray[Any]]

TILE_BYTES = 256
BLOCKS_PER_TILE = TILE_BYTES // BLOCK_BYTES


class Draws:
    """The draws of one stream.

    Parameters
    ----------
    keystream
        Where the bits come from.
    law
        "gaussian" or "laplace" (float64 only).
    coordinates
        How many independent draws a slot of a step has.
    dtype
        float32 or float64; narrow draws are float64 whatever is asked for.
    exact
        Replace the few draws that the kernel cannot vouch for by correctly rounded ones (exact lane).
    offset
        Added to every step number: draws of an inner stream that starts later (`Unbounded`).
    part
        The coordinates (low, high) of a wide stream that are made here, `low` a multiple of 64; None: all of them.
        `coordinates` is their number from then on, and coordinate 0 is the first of them.
    """

    def __init__(
        self,
        keystream: Keystream,
        law: NoiseLaw,
        coordinates: int,
        dtype: np.dtype[np.floating],
        *,
        exact: bool = False,
        offset: int = 0,
        part: tuple[int, int] | None = None,
    ) -> None:
        self.keystream = keystream
        self.law = law
        self._whole, self._part = coordinates, part
        low, high = (0, coordinates) if part is None else part
        self.coordinates, self._base = high - low, low
        self.narrow = coordinates < NARROW
        self.dtype = np.dtype(np.float64) if self.narrow else np.dtype(dtype)
        if law == "laplace" and self.dtype != np.float64:
            raise InvalidArgument("dtype", dtype, "float64 for Laplace draws")
        self.exact = exact
        self.offset = offset
        self.stride = coordinates if self.narrow else -(-coordinates // NARROW) * NARROW
        self.tile = TILE_BYTES // self.dtype.itemsize
        self._kind: Literal["normal", "laplace"] = "laplace" if law == "laplace" else "normal"
        self._flag_tails: Callable[[NDArray[np.uint8]], bytes] = (
            kernel.flag_tails_f32 if self.dtype == np.float32 else kernel.flag_tails_f64
        )
        self._transform: Callable[[NDArray[np.uint8], NDArray[Any]], None] = (
            kernel.laplace_f64
            if law == "laplace"
            else kernel.normal_f32
            if self.dtype == np.float32
            else kernel.normal_f64
        )

    def shifted(self, steps: int) -> Draws:
        """The same draws, counted from step `steps` on."""
        offset = self.offset + steps
        return Draws(
            self.keystream, self.law, self._whole, self.dtype, exact=self.exact, offset=offset, part=self._part
        )

    def _number(self, step: int, coordinate: int = 0) -> int:
        """The number of a draw within its slot; see the module's text."""
        return (self.offset + step - 1) * self.stride + self._base + coordinate

    def words(self, step: int, slot: int, low: int, high: int, out: NDArray[np.uint8]) -> NDArray[Any]:
        """The keystream of coordinates low..high of a wide step; `low` starts a tile. Written to the front of `out`.

        In the float lane, if one of them needs more bits than its word has, the draws themselves, whole tiles of them:
        the fused loops of the kernel take either.
        """
        first = self._number(step, low) // self.tile
        words = out[: -(-(high - low) // self.tile) * TILE_BYTES]
        self.keystream.fill(words, slot=slot, block=first * BLOCKS_PER_TILE)
        if not self.exact and (tails := self._flag_tails(words)):
            draws = np.empty(words.size // self.dtype.itemsize, dtype=self.dtype)
            self._transform(words, draws)
            self._make_again(np.frombuffer(tails, np.int64), first, slot, draws)
            return draws
        return words

    def rows(self, first: int, count: int, slot: int, room: Room | None = None) -> NDArray[Any]:
        """The draws of `count` steps from step `first` on, one row a step.

        `room(name, size, dtype)` may lend the memory of a narrow stream's draws; they are then good until it is lent
        again.
        """
        if self.narrow:
            start = self._number(first)
            flat = self._range(start, start + count * self.stride, slot, room)
            return flat.reshape(count, self.coordinates)
        rows = np.empty((count, self.coordinates), dtype=self.dtype)
        for i in range(count):
            start = self._number(first + i)
            rows[i] = self._range(start, start + self.coordinates, slot)
        return rows

    def columns(self, first: int, count: int, slot: int, low: int, high: int) -> NDArray[Any]:
        """Coordinates low..high (low starts a tile, unless narrow) of `count` steps, one row a step."""
        if self.narrow:
            return self.rows(first, count, slot)[:, low:high]
        out = np.empty((count, high - low), dtype=self.dtype)
        for i in range(count):
            start = self._number(first + i, low)
            out[i] = self._range(start, start + high - low, slot)
        return out

    def unsafe(self, low: int, words: NDArray[np.uint8]) -> list[int]:
        """Which coordinates from `low` on the kernel cannot vouch for, given the `words` of a wide step."""
        limit = self.coordinates
        return [low + int(i) for i in kernel.flag_unsafe(words, self._kind) if low + int(i) < limit]

    def double(self, step: int, slot: int, coordinate: int) -> float:
        """One draw, ideal up to one rounding, whatever its bits."""
        return ideal_double(partial(self.ideal, step, slot, coordinate))

    def ideal(self, step: int, slot: int, coordinate: int, bits: int) -> object:
        """One draw as a ball (flint.arb) that holds its ideal value, from at least `bits` bits of its fractions."""
        return ideal_draw(self.keystream, self.law, self._address(self._number(step, coordinate), slot), bits)

    def _address(self, number: int, slot: int) -> Address:
        tile, lane = divmod(number, self.tile)
        return Address(slot, tile, lane, 8 * self.dtype.itemsize)

    def _make_again(self, positions: NDArray[np.int64], first: int, slot: int, draws: NDArray[Any]) -> None:
        """Make these draws once more, from as many bits as they need; `draws` begins with tile number `first`."""
        for i in positions.tolist():
            address = self._address(first * self.tile + i, slot)
            draws[i] = ideal_double(partial(ideal_draw, self.keystream, self.law, address))

    def _range(self, start: int, stop: int, slot: int, room: Room | None = None) -> NDArray[Any]:
        """Draws number start..stop of a slot."""
        first, last = start // self.tile, -(-stop // self.tile)
        lend = _new_memory if room is None else room
        words = lend("words", (last - first) * TILE_BYTES, np.uint8)
        self.keystream.fill(words, slot=slot, block=first * BLOCKS_PER_TILE)
        flat = lend(f"draws of slot {slot}", (last - first) * self.tile, self.dtype)
        self._transform(words, flat)
        if self.exact:  # what the kernel cannot vouch for
            self._make_again(kernel.flag_unsafe(words, self._kind), first, slot, flat)
        elif tails := self._flag_tails(words):
            self._make_again(np.frombuffer(tails, np.int64), first, slot, flat)
        return flat[start - first * self.tile : stop - first * self.tile]


def _new_memory(_: str, size: int, dtype: Any) -> NDArray[Any]:
    return np.empty(size, dtype=dtype)
