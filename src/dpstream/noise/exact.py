"""Exact rounding: ideal draws as balls, and the integer nearest to an ideal noise.

A draw is an ideal real number fixed by infinitely many keystream bits. Floating point comes first; where its proven
error bound cannot decide which integer is nearest, more bits and ball arithmetic (Arb, through python-flint) do.
docs/exact-rounding.md has the argument.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import flint

from dpstream.mechanisms.base import NoiseLaw
from dpstream.noise.keystream import Keystream

__all__ = ["Address", "ideal_double", "ideal_draw", "nearest_integer"]

Ball = Any  # flint.arb, which has no type information

WORD_BITS = 64
PAIRS_PER_TILE = 16  # of float64 normals: words p and 16 + p make lanes p and 16 + p
WORDS_PER_TILE = 32
BLOCKS_PER_TILE = 16

# Arb's working precision is one setting of the whole process.
_PRECISION = threading.RLock()


class Address(NamedTuple):
    """Where a float64 draw lives: slot, tile and lane (see `dpstream.noise.draws`)."""

    slot: int
    tile: int
    lane: int


def ideal_draw(keystream: Keystream, law: NoiseLaw, address: Address, bits: int) -> Ball:
    """A ball around the ideal draw, from at least `bits` bits of its binary fractions, at that working precision.

    Gaussian: √(-2 ln u₁) · cos 2πu₂ (first half of a tile) or sin (second half). Laplace: ∓ln u, first bit the sign.
    """
    slot, tile, lane = address
    extensions = -(-bits // WORD_BITS)
    with _PRECISION, flint.ctx.workprec(bits + 32):
        if law == "laplace":
            word = _word(keystream, slot, tile, lane)
            further = _extensions(keystream, slot, tile * WORDS_PER_TILE + lane, extensions)
            magnitude = -_fraction(word & (2**63 - 1), WORD_BITS - 1, [pair[0] for pair in further]).log()
            return -magnitude if word >> 63 else magnitude
        pair = lane % PAIRS_PER_TILE
        further = _extensions(keystream, slot, tile * PAIRS_PER_TILE + pair, extensions)
        first = _fraction(_word(keystream, slot, tile, pair), WORD_BITS, [e[0] for e in further])
        second = _fraction(_word(keystream, slot, tile, PAIRS_PER_TILE + pair), WORD_BITS, [e[1] for e in further])
        radius = (-2 * first.log()).sqrt()
        angle = 2 * second
        return radius * (angle.cos_pi() if lane < PAIRS_PER_TILE else angle.sin_pi())


def _word(keystream: Keystream, slot: int, tile: int, index: int) -> int:
    return keystream.words(slot=slot, block=tile * BLOCKS_PER_TILE + index // 2)[index % 2]


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
        with _PRECISION, flint.ctx.workprec(bits + 32):
            nearest = (evaluate(bits) + 0.5).floor().unique_fmpz()
        if nearest is not None:
            return int(nearest)
        bits *= 2
