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

from dpstream.mechanisms.base import Mechanism, NoiseLaw
from dpstream.mechanisms.convolution import ConvolutionMechanism
from dpstream.mechanisms.optimal import Optimal, OptimalState
from dpstream.mechanisms.stack import StackMechanism
from dpstream.mechanisms.unbounded import Unbounded, epoch_of
from dpstream.noise.keystream import Keystream

__all__ = ["TOTALS_SLOT", "Address", "ideal_double", "ideal_draw", "ideal_noise", "nearest_integer"]

Ball = Any  # flint.arb, which has no type information

WORD_BITS = 64
PAIRS_PER_TILE = 16  # of float64 normals: words p and 16 + p make lanes p and 16 + p
WORDS_PER_TILE = 32
BLOCKS_PER_TILE = 16

#: The slot of the totals of `Unbounded`, out of the way of any inner mechanism's.
TOTALS_SLOT = 2**20

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


def ideal_noise(mechanism: Mechanism, draw: Callable[[int, int], Ball], t: int) -> Ball:
    """(L z)_t in ball arithmetic, with L the real matrix that the mechanism's doubles denote.

    O(log T) draws for a tree, t draws for the others; `draw(step, slot)` gives one. The mechanism's own pure step does
    the work, so that this can not be a different matrix from the one that is streamed.
    """
    if isinstance(mechanism, StackMechanism):
        entries = mechanism.entries(t - 1)
        if entries is not None:
            stack: list[Ball] = []
            for entry in entries:
                node = draw(entry.step, entry.slot) * entry.weight
                stack.append(stack[-1] + node if stack else node)
            state: Any = mechanism.state_at(t - 1, stack)
            return mechanism.advance(state, [draw(t, slot) for slot in range(mechanism.draws_at(t))])[0]
    if isinstance(mechanism, ConvolutionMechanism):  # term by term is quadratic in its pure step, linear here
        scale = mechanism.input_scale(1, t).tolist()
        coefficients = mechanism.coefficients(t).tolist()
        return sum((draw(j, 0) * scale[j - 1]) * coefficients[t - j] for j in range(1, t + 1))
    if isinstance(mechanism, Optimal):  # needs nothing but the draws
        return mechanism.advance(OptimalState(t - 1, tuple(draw(j, 0) for j in range(1, t))), [draw(t, 0)])[0]
    if isinstance(mechanism, Unbounded):  # only the epoch at hand has inner noise
        j, within = epoch_of(t)
        inner = ideal_noise(mechanism.epoch(j), lambda step, slot: draw(2**j - 1 + step, slot), within)
        totals = sum(draw(2**i, TOTALS_SLOT) * mechanism.scales(i - 1)[0] for i in range(1, j + 1))
        return inner * mechanism.scales(j)[1] + totals
    state = mechanism.start()
    noise: Ball = None
    for step in range(1, t + 1):
        noise, state = mechanism.advance(state, [draw(step, slot) for slot in range(mechanism.draws_at(step))])
    return noise


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
