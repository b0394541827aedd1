"""Elementary functions, sums and filters whose bits are the same on every machine.

Libraries of mathematics differ in the last digit from one machine to another, BLAS and NumPy's sums in the order in
which they add, compilers in whether x·y + z is rounded once or twice. Whatever enters noise is computed by these
functions instead: additions, subtractions, multiplications, divisions and square roots of doubles, each a NumPy call
of its own, which IEEE 754 fixes to the last bit, in an order that is written here. `np.add.accumulate` is a sum from
the first term to the last by its definition; frexp, ldexp and rint are exact.

Results are within two units in the last place (one or two multiples of 2^-53 of them) where nothing underflows; tests
hold them against ball arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "arctan2",
    "cosine_sine",
    "dot",
    "exp",
    "expm1",
    "log",
    "log1p",
    "one_pole",
    "real_sequence",
    "reciprocal_series",
    "series_product",
    "series_product_error",
    "tail_of_product",
    "tail_of_product_error",
    "total",
    "weighted_sum",
]

RealArray = NDArray[np.float64]

#: Ln 2 as a sum of two doubles, the first with 32 bits, so that its products with exponents are exact.
LN2_HIGH, LN2_LOW = float.fromhex("0x1.62e42feep-1"), float.fromhex("0x1.a39ef35793c76p-33")
#: π/2 as a sum of three doubles, of which the first two have 33 bits.
HALF_PI = (
    float.fromhex("0x1.921fb544p+0"),
    float.fromhex("0x1.0b4611a6p-34"),
    float.fromhex("0x1.3198a2e037073p-69"),
)
INVERSE_LN2, TWO_OVER_PI = 1.4426950408889634, 0.6366197723675814
#: The tangent of π/8.
TAN_EIGHTH = 0.41421356237309503
#: Exponentials below this are 0.
LEAST = -745.0
#: Power series are inverted by substitution up to so many terms.
SUBSTITUTED = 2**12
#: Entries at a time.
BLOCK = 2**12
#: Entries of rows at a time that are added up.
WIDE = 2**13
#: Entries of a matrix at a time, where several operations follow each other: 256 kB.
PIECE = 2**15
#: What a Fourier transform of 2^k points loses at most, in units of 2^-53 of the norm and for each of k + 1: Higham,
#: Accuracy and Stability, 2nd ed., Theorem 24.2, μ + 4√2 = 12.8 for roots that are within μ = 7.1 units: 4.3 by the
#: angle, which is rounded, and 2 by cosine and sine each. The one more is for turning what goes in or comes out.
TRANSFORM_UNITS = 14
UNIT = 2.0**-53


def exp(x: ArrayLike) -> RealArray:
    """Return eˣ; 0 below -745."""
    return _by_blocks(_exp, x)


def expm1(x: ArrayLike) -> RealArray:
    """Return eˣ - 1, accurate near 0."""
    return _by_blocks(_expm1, x)


def _exp(x: RealArray) -> RealArray:
    power, rest = _reduced(x)
    grown = _expm1_near_0(rest)
    grown += 1.0
    grown = np.ldexp(grown, power)
    grown[x < LEAST] = 0.0
    return grown


def _expm1(x: RealArray) -> RealArray:
    power, rest = _reduced(x)
    grown = np.ldexp(_expm1_near_0(rest), power) + (np.ldexp(1.0, power) - 1.0)
    grown[x < LEAST] = -1.0
    return grown


def _by_blocks(function: Callable[[RealArray], RealArray], x: ArrayLike) -> RealArray:
    """Apply a function of every entry to so many at a time that all stay in the cache."""
    x = np.asarray(x, dtype=np.float64)
    flat = x.reshape(-1)
    found = np.empty(flat.size)
    for start in range(0, flat.size, BLOCK):
        found[start : start + BLOCK] = function(flat[start : start + BLOCK])
    return found.reshape(x.shape)


def log(x: ArrayLike) -> RealArray:
    """Return ln x for x > 0."""
    fraction, power = np.frexp(np.asarray(x, dtype=np.float64))
    low = fraction < math.sqrt(0.5)
    fraction, power = np.where(low, 2.0 * fraction, fraction), np.where(low, power - 1, power).astype(np.float64)
    return power * LN2_HIGH + (_log1p_near_0(fraction - 1.0) + power * LN2_LOW)


def log1p(x: ArrayLike) -> RealArray:
    """Return ln(1 + x) for x > -1, accurate near 0."""
    x = np.asarray(x, dtype=np.float64)
    near = np.abs(x) < 0.25
    whole = np.where(near, 1.0, 1.0 + x)
    lost = np.where(near, 0.0, (x - (whole - 1.0)) / whole)  # what 1 + x lost by rounding
    return np.where(near, _log1p_near_0(np.where(near, x, 0.0)), log(whole) + lost)


def cosine_sine(x: ArrayLike) -> tuple[RealArray, RealArray]:
    """Return cos x and sin x for |x| up to 2^20; their absolute error is that of a rounding of x."""
    x = np.asarray(x, dtype=np.float64)
    turns = np.rint(x * TWO_OVER_PI)
    rest = ((x - turns * HALF_PI[0]) - turns * HALF_PI[1]) - turns * HALF_PI[2]
    square = rest * rest
    cosine, sine = np.zeros_like(rest), np.zeros_like(rest)
    for k in range(18, 0, -2):
        cosine = (cosine + 1.0) * (square / -float(k * (k - 1)))
        sine = (sine + 1.0) * (square / -float(k * (k + 1)))
    cosine, sine = cosine + 1.0, sine * rest + rest
    quarter = turns.astype(np.int64) & 3
    swapped = (quarter & 1) == 1
    c, s = np.where(swapped, sine, cosine), np.where(swapped, cosine, sine)
    return np.where((quarter == 1) | (quarter == 2), -c, c), np.where(quarter >= 2, -s, s)


def arctan2(y: ArrayLike, x: ArrayLike) -> RealArray:
    """Return the angle of the points (x, y), from -π to π; not for (0, 0). Its error is below 2^-51.

    >>> arctan2([1.0, 1.0, -1.0], [0.0, 1.0, -1.0]).tolist() == [math.pi / 2, math.pi / 4, -3 * math.pi / 4]
    True
    """
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    across, along = np.abs(y), np.abs(x)
    steep = across > along
    slope = np.where(steep, along, across) / np.where(steep, across, along)
    far = slope > TAN_EIGHTH
    slope = np.where(far, (slope - 1.0) / (slope + 1.0), slope)
    square = slope * slope
    series = np.zeros_like(slope)
    for k in range(43, 1, -2):
        series = (1.0 / k - series) * square
    angle = slope - series * slope
    angle = np.where(far, angle + 0.25 * math.pi, angle)
    angle = np.where(steep, 0.5 * math.pi - angle, angle)
    angle = np.where(x < 0.0, math.pi - angle, angle)
    return np.asarray(np.copysign(angle, y))


def total(x: ArrayLike) -> float:
    """Return the sum of all entries, from the first to the last."""
    x = np.asarray(x, dtype=np.float64).ravel()
    return float(np.add.accumulate(x)[-1]) if x.size else 0.0


def dot(x: ArrayLike, y: ArrayLike) -> float:
    """Return the sum of products, from the first to the last."""
    return total(np.multiply(x, y))


def weighted_sum(weights: NDArray[Any], rows: NDArray[Any], out: NDArray[Any]) -> None:
    """Write Σ_j weights_j · rows_j to `out`, from the first row to the last; all of one floating type.

    >>> out = np.empty(2)
    >>> weighted_sum(np.array([1.0, 10.0]), np.array([[1.0, 2.0], [3.0, 4.0]]), out)
    >>> out.tolist()
    [31.0, 42.0]
    """
    if out.size < 8:  # many short rows: one call for all of them
        out[...] = np.add.accumulate(rows * weights[:, None], axis=0)[-1]
        return
    room = np.empty(min(out.size, WIDE), dtype=out.dtype)
    for low in range(0, out.size, WIDE):
        part, here = out[low : low + WIDE], rows[:, low : low + WIDE]
        term = room[: part.size]
        np.multiply(here[0], weights[0], out=part)
        for row, weight in zip(here[1:], weights[1:], strict=True):
            np.multiply(row, weight, out=term)
            np.add(part, term, out=part)


def one_pole(x: RealArray, poles: RealArray, before: RealArray) -> RealArray:
    """Return y_t = pole · y_{t-1} + x_t for each pole, a row each, with y = `before` before the first.

    Blocks of about √n entries are filtered side by side, and what each hands on is added afterwards.

    >>> one_pole(np.array([1.0, 0.0, 0.0, 1.0]), np.array([0.5, 0.0]), np.array([2.0, 0.0])).tolist()
    [[2.0, 1.0, 0.5, 1.25], [1.0, 0.0, 0.0, 1.0]]
    """
    n, count = x.size, poles.size
    width = 1 << (max(n, 1).bit_length() // 2)
    blocks = -(-n // width)
    padded = np.zeros(blocks * width)
    padded[:n] = x
    entering = np.ascontiguousarray(padded.reshape(blocks, width).T)  # a row for each place in a block
    rows = np.empty((width, count, blocks))
    powers = np.empty((width, count, 1))
    decay, powers[0, :, 0] = poles[:, None], poles
    rows[0] = entering[0]
    for i in range(1, width):
        np.multiply(rows[i - 1], decay, out=rows[i])
        rows[i] += entering[i]
        np.multiply(powers[i - 1], decay, out=powers[i])
    handed = np.empty((count, blocks))  # what each block begins with
    state = before
    for block in range(blocks):
        handed[:, block] = state
        state = rows[-1, :, block] + powers[-1, :, 0] * state
    rows += powers * handed
    return np.ascontiguousarray(rows.transpose(1, 2, 0)).reshape(count, -1)[:, :n]


def series_product(a: RealArray, b: RealArray, count: int) -> RealArray:
    """Return the first `count` coefficients of the product of two power series, by Fourier transform.

    >>> series_product(np.array([1.0, 2.0]), np.array([1.0, 3.0]), 3).round(12).tolist()
    [1.0, 5.0, 6.0]
    """
    a, b = a[:count], b[:count]
    size = 1 << max(a.size + b.size - 2, 1).bit_length()
    real, imag = np.zeros(size), np.zeros(size)
    # (a + ib)² = a² - b² + 2iab: the product is half of the imaginary part. Both are scaled to the same norm, since
    # rounding errors are those of the larger one.
    balance = _power_of_two(math.sqrt(dot(b, b)) / math.sqrt(dot(a, a))) if a.any() and b.any() else 1.0
    real[: a.size], imag[: b.size] = a * balance, b
    real, imag = _transformed(real, imag)
    square = real * real - imag * imag, 2.0 * (real * imag)
    _, doubled = _transformed(square[0], -square[1])
    found = np.zeros(count)
    found[: min(count, size)] = -doubled[:count] / (2.0 * size * balance)
    return found


def series_product_error(a: RealArray, b: RealArray) -> float:
    """Return how far any coefficient of `series_product` may be from the true one.

    With c = a + ib, scaled as there, two equal transforms err by a part of ‖c‖₂ each, which Cauchy and Schwarz carry
    to every entry of the result, as ‖c‖₂². The last one errs by a part of ‖c ∗ c‖₂ ≤ ‖c‖₁ ‖c‖₂.
    """
    norms = [(total(np.abs(x)), math.sqrt(dot(x, x))) for x in (a, b)]
    if not (norms[0][1] and norms[1][1]):
        return 0.0
    balance = _power_of_two(norms[1][1] / norms[0][1])
    one = balance * norms[0][0] + norms[1][0]
    two = math.sqrt(balance * balance * dot(a, a) + dot(b, b))  # not hypot, which libraries have otherwise
    units = TRANSFORM_UNITS * (max(a.size + b.size - 2, 1).bit_length() + 1)
    return 1.01 * UNIT * units * (2.0 * two * two + one * two) / (2.0 * balance)


def tail_of_product(series: RealArray, block: NDArray[Any]) -> RealArray:
    """Return ``out[i] = Σ_j series[n + i - j] · block[j]`` for i < n: what n inputs (axis 0) add to the n that follow.

    n is a power of two, and `series` has 2n coefficients. Each column is computed alike, whatever stands beside it.

    >>> tail_of_product(np.array([4.0, 3.0, 2.0, 1.0]), np.array([[1.0], [10.0]])).round(12).tolist()
    [[32.0], [21.0]]
    """
    # The product modulo x^2n + 1, which mixes only those coefficients that are not asked for: the remainder modulo
    # x^n - i, y_j + i·y_{j+n}, is a cyclic product of n complex numbers, once x is turned by a quarter of a turn / n.
    n = block.shape[0]
    cosine, sine = cosine_sine(np.arange(n) * (0.5 * math.pi / n))
    low, high = series[:n], series[n:]
    p, q = _transformed(low * cosine - high * sine, low * sine + high * cosine)
    p, q, c, s = p[:, None], q[:, None], cosine[:, None], sine[:, None]
    columns = block.reshape(n, -1)
    found = np.empty(columns.shape)
    width = max(1, PIECE // n)
    for first in range(0, columns.shape[1], width):
        here = slice(first, first + width)
        x, y = _transformed(columns[:, here] * c, columns[:, here] * s)
        # conj(F(conj(z)))/n is the inverse transform of z.
        x, y = _transformed(x * p - y * q, -(x * q + y * p))
        found[:, here] = -(y * c + x * s) / n
    return found.reshape(block.shape)


def tail_of_product_error(series: RealArray, block_norm: float) -> float:
    """Return how far `tail_of_product` may be from the true values, for columns of norm `block_norm` at most.

    As `series_product_error`: two transforms by Cauchy and Schwarz, the last by ‖series‖₁ · block_norm.
    """
    one, two = total(np.abs(series)), math.sqrt(dot(series, series))
    units = TRANSFORM_UNITS * (series.size.bit_length() + 1)
    return 1.01 * UNIT * units * (2.0 * two + one) * block_norm


def real_sequence(real: RealArray, imag: RealArray) -> RealArray:
    """Return the 2m real numbers whose discrete Fourier transform begins with these m + 1; m is a power of two.

    >>> real_sequence(np.array([10.0, -2.0, -2.0]), np.array([0.0, 2.0, 0.0])).tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    m = real.size - 1
    x, y, mirrored_x, mirrored_y = real[:m], imag[:m], real[:0:-1], -imag[:0:-1]
    # Even entries are the real part, odd entries the imaginary part of a sequence of m complex numbers.
    c, s = _roots(2 * m)
    even_x, even_y, odd_x, odd_y = x + mirrored_x, y + mirrored_y, x - mirrored_x, y - mirrored_y
    odd_x, odd_y = odd_x * c + odd_y * s, odd_y * c - odd_x * s
    found_x, found_y = _transformed(even_x - odd_y, -(even_y + odd_x))
    return np.column_stack([found_x, -found_y]).reshape(-1) / (2.0 * m)


def _power_of_two(x: float) -> float:
    return math.ldexp(1.0, math.frexp(x)[1])


def reciprocal_series(a: RealArray) -> RealArray:
    """Invert the power series a to as many terms as it has: by substitution, then by Newton's iteration.

    >>> reciprocal_series(np.array([1.0, 0.5, 0.375])).tolist()
    [1.0, -0.5, -0.125]
    """
    n = a.size
    direct = min(n, SUBSTITUTED)
    rest = np.zeros(direct)
    rest[0] = 1.0
    b = np.empty(direct)
    for t in range(direct):
        b[t] = rest[t] / a[0]
        rest[t + 1 :] -= a[1 : direct - t] * b[t]
    while b.size < n:
        count = min(2 * b.size, n)
        correction = -series_product(a, b, count)
        correction[0] += 2.0
        b = series_product(b, correction, count)
    return b


def _transformed(real: RealArray, imag: RealArray) -> tuple[RealArray, RealArray]:
    """The discrete Fourier transform along axis 0 of a power of two of complex numbers (Stockham's order, radix 2)."""
    shape, size = real.shape, real.shape[0]
    cosine, sine = _roots(size)
    left, count = size // 2, real.size // size
    while left >= 1:
        x, y = real.reshape(2, left, count), imag.reshape(2, left, count)
        c, s = cosine[:: size // (2 * left)][:, None], sine[:: size // (2 * left)][:, None]
        u, v = x[0] - x[1], y[0] - y[1]
        real, imag = np.empty((left, 2, count)), np.empty((left, 2, count))
        np.add(x[0], x[1], out=real[:, 0])
        np.add(y[0], y[1], out=imag[:, 0])
        np.subtract(u * c, v * s, out=real[:, 1])
        np.add(u * s, v * c, out=imag[:, 1])
        left, count = left // 2, count * 2
    return real.reshape(shape), imag.reshape(shape)


@lru_cache(maxsize=4)
def _roots(size: int) -> tuple[RealArray, RealArray]:
    """The first half of the roots of unity, clockwise: cosines and sines."""
    cosine, sine = cosine_sine(np.arange(size // 2) * (2.0 * math.pi / size))
    return cosine, -sine


def _reduced(x: RealArray) -> tuple[NDArray[np.int32], RealArray]:
    """Return k and x - k ln 2, of at most ln 2 / 2; x is taken as at least -746 and at most 709.7."""
    rest = np.minimum(np.maximum(x, LEAST - 1.0), 709.7)
    power = np.rint(rest * INVERSE_LN2)
    rest -= power * LN2_HIGH
    rest -= power * LN2_LOW
    return power.astype(np.int32), rest


#: 1/14!, 1/13!, …, 1/2!, each rounded once.
_INVERSE_FACTORIALS = tuple(1.0 / math.factorial(k) for k in range(14, 1, -1))


def _expm1_near_0(x: RealArray) -> RealArray:
    """eˣ - 1 for |x| ≤ 0.35, by its Taylor series to x^14/14!."""
    series = np.full_like(x, _INVERSE_FACTORIALS[0])
    for coefficient in _INVERSE_FACTORIALS[1:]:
        series *= x
        series += coefficient
    series *= x
    series *= x
    series += x
    return series


def _log1p_near_0(x: RealArray) -> RealArray:
    """Ln(1 + x) for |x| < 0.42, as 2 artanh(s), s = x/(2 + x), by its Taylor series."""
    s = x / (2.0 + x)
    square = s * s
    series = np.zeros_like(x)
    for k in range(23, 1, -2):
        series += 1.0 / float(k)
        series *= square
    # 2s = x - s·x, so that the leading term is x itself and is not rounded.
    return x - s * (x - 2.0 * series)
