"""The normals of the float lane have no largest value: small fractions take more bits of the keystream.

A keystream with planted words takes every draw down the rare path, which one pair in 2^24 takes otherwise.
"""

from __future__ import annotations

import math

import flint
import numpy as np
import pytest
from scipy import stats

from dpstream import NoiseStream, kernel
from dpstream.kernel import twin
from dpstream.mechanisms import Binary, BufferedToeplitz, Optimal, SmoothBinary, SquareRoot, Unbounded
from dpstream.noise import engine as engine_module
from dpstream.noise.draws import Draws
from dpstream.noise.keystream import Keystream
from dpstream.testing import fixed_key

DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])


class Planted(Keystream):
    """A keystream in which the first words of chosen tiles are overwritten.

    Parameters
    ----------
    first
        Called with a tile's number and its 128 bytes of first words, as words of the draws' size; changes them.
    extension
        Called with (block, extension), returns the two words there; None for the honest ones.
    """

    def __init__(self, dtype, first, extension=None):
        super().__init__(fixed_key("tails"))
        self.width, self.first, self.extension = np.dtype(dtype).itemsize, first, extension

    def fill(self, out, *, slot, block, extension=0):
        super().fill(out, slot=slot, block=block, extension=extension)
        assert extension == 0
        assert block % 16 == 0
        for i, tile in enumerate(out.reshape(-1, 256)):
            self.first(block // 16 + i, tile[:128].view(f"u{self.width}"))

    def words(self, *, slot, block, extension=0):
        if extension:
            honest = super().words(slot=slot, block=block, extension=extension)
            return honest if self.extension is None else self.extension(block, extension)
        tile = np.empty(256, np.uint8)
        self.fill(tile, slot=slot, block=block // 16 * 16)
        return tuple(tile.view("<u8")[2 * (block % 16) :][:2].tolist())


def drawn(dtype, first, extension=None, *, coordinates=64, steps=1):
    source = Planted(dtype, first, extension)
    return Draws(source, "gaussian", coordinates, np.dtype(dtype)).rows(1, steps, 0)


def zeros(_, words):
    words[...] = 0


@DTYPES
def test_a_draw_as_far_out_as_it_takes_can_happen(dtype):
    """The attack: beyond the largest possible noise there is no doubt that somebody is in.

    With d = 10^12 coordinates, noise as far out as chance 2^-100 asks for must be possible.
    """
    needed = stats.norm.isf(2.0**-100 / 1e12)
    assert 13.6 < needed < 13.7
    farthest = drawn(dtype, zeros, lambda block, extension: (0, 0) if extension < 3 else (2**63, 2**63))
    assert np.abs(farthest).max() > needed


@DTYPES
def test_known_answers(dtype):
    """Draws worked out from their bits: 32 or 64 in the word, then 64 more from each extension block."""
    bits = 8 * np.dtype(dtype).itemsize
    rng = np.random.default_rng(5)
    firsts = [0, 1, 2, 5, 77, 255]
    more = {e: [int(w) for w in rng.integers(0, 2**64, 2, dtype=np.uint64)] for e in (1, 2, 3, 4)}

    def plant(_, words):
        words[: len(firsts)] = np.array(firsts, words.dtype) << np.array(bits - 32, words.dtype)

    def extension(block, number):
        return tuple(more[number])

    source = Planted(dtype, plant, extension)
    words = np.empty(256, np.uint8)
    source.fill(words, slot=0, block=0)
    words = words.view(f"u{bits // 8}").tolist()
    draws = drawn(dtype, plant, extension)[0]
    half = len(words) // 2
    with flint.ctx.workprec(300):
        for p in range(len(firsts)):
            fractions = []
            for lane, which in ((p, 0), (half + p, 1)):
                whole = words[lane]
                for e in (1, 2, 3, 4):
                    whole = whole << 64 | more[e][which]
                fractions.append(flint.arb(flint.fmpz(2 * whole + 1)) / flint.arb(2) ** (bits + 257))
            radius = (-2 * fractions[0].log()).sqrt()
            for lane, turned in ((p, (2 * fractions[1]).cos_pi()), (half + p, (2 * fractions[1]).sin_pi())):
                assert draws[lane] == dtype(float((radius * turned).mid()))
    assert abs(draws[0] ** 2 + draws[half] ** 2) > 2 * 32 * math.log(2)


def excesses(dtype, first, bits, count):
    """How far r²/2 is above its least value where the first `bits` bits are 0: of law Exp(1); and the angles."""
    half = 128 // np.dtype(dtype).itemsize
    draws = drawn(dtype, first, coordinates=2 * half, steps=count // half).astype(np.float64)
    x, y = draws[:, :half].ravel(), draws[:, half:].ravel()
    return (x**2 + y**2) / 2 - bits * math.log(2), np.arctan2(y, x) / (2 * math.pi) + 0.5


@DTYPES
def test_the_law_beyond_the_old_end(dtype):
    """Given a first word of 0 the excess is Exp(1); at 32 bits all draws were equal there. False alarms 10^-6 each."""
    excess, angle = excesses(dtype, zeros, 8 * np.dtype(dtype).itemsize, 1600)
    assert stats.kstest(excess, "expon").pvalue > 1e-6
    assert stats.kstest(angle, "uniform").pvalue > 1e-6
    assert stats.kstest(excess * 1.25, "expon").pvalue < 1e-6  # a tail 25 % too long would be seen


@DTYPES
def test_the_law_from_the_switch_on(dtype):
    """All first words below the limit, evenly, as they come: the tail continues without a seam. False alarms 10^-6."""
    rng = np.random.default_rng(6)
    shift = 8 * np.dtype(dtype).itemsize - 32

    def small(_, words):
        words[...] = rng.integers(0, kernel.TAIL_LIMIT << shift, words.size, dtype=words.dtype)

    # The same tile is read more than once: what is planted must not change.
    kept = {}

    def steady(tile, words):
        if tile not in kept:
            small(tile, words)
            kept[tile] = words.copy()
        words[...] = kept[tile]

    excess, _ = excesses(dtype, steady, 24, 1600)
    assert excess.min() > -1e-5
    assert stats.kstest(excess, "expon").pvalue > 1e-6


@pytest.mark.parametrize(("dtype", "cell"), [(np.float32, 2.0**-11), (np.float64, 2.0**-40)])
def test_no_step_at_the_switch(dtype, cell):
    """The last word that takes more bits and the first that does not: their radii are neighbours."""
    shift = 8 * np.dtype(dtype).itemsize - 32
    last = kernel.TAIL_LIMIT << shift

    def plant(_, words):
        words[:3] = np.array([last - 1, last, last + 1], words.dtype)

    for low in ((0, 0), (2**64 - 1, 0)):
        draws = drawn(dtype, plant, lambda *_, low=low: low)[0].astype(np.float64)
        half = 128 // np.dtype(dtype).itemsize
        below, at, above = np.hypot(draws[:3], draws[half : half + 3])
        assert below >= at - 2e-6 >= above - 4e-6
        assert below - above < 4 * cell


def plant_some(tile, words):
    """A tail in every seventh tile."""
    if tile % 7 == 3:
        words[tile % words.size] = tile % 5


MECHANISMS = {
    "Binary": lambda: Binary(100),
    "SmoothBinary": lambda: SmoothBinary(100),
    "BufferedToeplitz": lambda: BufferedToeplitz(100),
    "SquareRoot": lambda: SquareRoot(100),
    "Optimal": lambda: Optimal(20),
    "Unbounded": lambda: Unbounded(Binary),
}


def planted_stream(name, dtype, coordinates, threads=1):
    stream = NoiseStream(MECHANISMS[name](), 2.0, coordinates, dtype=dtype, key=fixed_key("x"), threads=threads)
    stream._engine.draws.keystream = Planted(dtype if coordinates >= 64 else "f8", plant_some)
    if name == "Unbounded":
        stream.seek(0)
    return stream


@pytest.mark.parametrize("coordinates", [3, 5003])
@DTYPES
@pytest.mark.parametrize("name", MECHANISMS)
def test_chunks_threads_and_kernels_change_no_bit(name, dtype, coordinates, monkeypatch):
    steps = 40 if coordinates == 3 else 9
    steps = min(steps, 20) if name == "Optimal" else steps
    noise = planted_stream(name, dtype, coordinates).block(steps)
    if coordinates > 64:
        assert np.abs(noise).max() / 2 > 6.5  # there are tails in it
    one_by_one = planted_stream(name, dtype, coordinates)
    np.testing.assert_array_equal(np.array([one_by_one.step() for _ in range(steps)]), noise)
    monkeypatch.setattr(engine_module, "CHUNK_COORDINATES", 640)
    np.testing.assert_array_equal(planted_stream(name, dtype, coordinates, threads=3).block(steps), noise)
    for function in twin.__all__:
        if function.islower():
            monkeypatch.setattr(kernel, function, getattr(twin, function))
    np.testing.assert_array_equal(planted_stream(name, dtype, coordinates).block(steps), noise)


@DTYPES
def test_the_fused_step_takes_the_same_draws(dtype):
    """The first release of a tree is scale · z, and z is what `rows` gives."""
    stream = planted_stream("Binary", dtype, 5003)
    z = stream._draws.rows(1, 1, 0)[0]
    assert np.abs(z).max() > 6.5
    np.testing.assert_array_equal(stream.step(), np.dtype(dtype).type(2.0) * z)
