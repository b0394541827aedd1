"""Exact rounding: ideal draws as balls, and the integer nearest to an ideal noise.

A draw is an ideal real number fixed by infinitely many keystream bits. Floating point comes first; where its proven
error bound cannot decide which integer is nearest, more bits and ball arithmetic (Arb, through python-flint) do.
docs/exact-rounding.md has the argument.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import flint

from dpstream.balls import Ball, working_precision
from dpstream.mechanisms.base import NoiseLaw
from dpstream.noise.keystream import Keystream

__all__ = ["Address", "ideal_double", "ideal_draw", "ideal_normal", "nearest_integer"]

WORD_BITS = 64  # of a block's halves, and of a float64 draw's fractions before they are extended
TILE_BITS = 2048
BLOCKS_PER_TILE = 16


class Address(NamedTuple):
    """Where a draw lives: slot, tile and lane (see `dpstream.noise.draws`); `word_bits` is 32 for float32 draws."""

    slot: int
    tile: int
    lane: int
    word_bits: int = WORD_BITS


def ideal_draw(keystream: Keystream, law: NoiseLaw, address: Address, bits: int) -> Ball:
    """A ball around the ideal draw, from at least `bits` bits of its binary fractions, at that working precision.

    Gaussian: √(-2 ln u₁) · cos 2πu₂ (first half of a tile) or sin (second half). Laplace: ∓ln u, first bit the sign.
    """
    slot, tile, lane, width = address
    words = TILE_BITS // width
    extensions = -(-bits // WORD_BITS)
    with working_precision(bits + 32):
        if law == "laplace":
            word = _word(keystream, address, lane)
            further = _extensions(keystream, slot, tile * words + lane, extensions)
            magnitude = -_fraction(word & (2**63 - 1), width - 1, [pair[0] for pair in further]).log()
            return -magnitude if word >> 63 else magnitude
        pairs = words // 2  # words p and pairs + p make lanes p and pairs + p
        pair = lane % pairs
        further = _extensions(keystream, slot, tile * pairs + pair, extensions)
        words_of_pair = _word(keystream, address, pair), _word(keystream, address, pairs + pair)
        return ideal_normal(*words_of_pair, further, bits, sine=lane >= pairs, width=width)


def ideal_normal(
    first: int, second: int, further: list[tuple[int, int]], bits: int, *, sine: bool, width: int = WORD_BITS
) -> Ball:
    """A ball around √(-2 ln u₁) · cos 2πu₂, or sin, whose fractions begin with these two words and go on as `further`.

    `width` is the number of bits of the two words; the working precision is `bits` and 32 more.
    """
    with working_precision(bits + 32):
        radius = (-2 * _fraction(first, width, [pair[0] for pair in further]).log()).sqrt()
        angle = 2 * _fraction(second, width, [pair[1] for pair in further])
        return radius * (angle.sin_pi() if sine else angle.cos_pi())


def _word(keystream: Keystream, address: Address, index: int) -> int:
    """Word number `index` of the tile, read from the half block it lies in."""
    position = index * address.word_bits
    half = position // WORD_BITS
    found = keystream.words(slot=address.slot, block=address.tile * BLOCKS_PER_TILE + half // 2)[half % 2]
    return found >> position % WORD_BITS & (1 << address.word_bits) - 1


def _extensions(keystream: Keystream, slot: int, index: int, count: int) -> list[tuple[int, int]]:
    return [keystream.words(slot=slot, block=index, extension=e) for e in range(1, count + 1)]


def _fraction(word: int, bits: int, further: list[int]) -> Ball:
    """The binary fraction that starts with these bits: a ball that holds every continuation."""
    for more in further:
        word, bits = word << WORD_BITS | more, bits + WORD_BITS
    return flint.arb((2 * word + 1, -bits - 1), (1, -bits - 1))


def ideal_double(draw: Callable[[int], Ball]) -> float:
    """The double nearest to an ideal draw (up to the last bit), with as many bits as that takes."""
    bits = 128
    while True:
        ball = draw(bits)
        if ball.is_finite() and ball.rel_accuracy_bits() >= 60:
            return float(ball.mid())
        bits *= 2


def nearest_integer(evaluate: Callable[[int], Ball]) -> int:
    """The integer nearest to an ideal real number, given balls around it of any wanted precision.

    Ends with probability one: a ball that holds a half-integer is evaluated again with twice the bits.
    """
    bits = 128
    while True:
        with working_precision(bits + 32):
            nearest = (evaluate(bits) + 0.5).floor().unique_fmpz()
        if nearest is not None:
            return int(nearest)
        bits *= 2
