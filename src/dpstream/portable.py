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

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "cosine_sine",
    "dot",
    "exp",
    "expm1",
    "log",
    "log1p",
    "one_pole",
    "reciprocal_series",
    "series_product",
    "total",
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
#: Exponentials below this are 0.
LEAST = -745.0
#: Power series are inverted by substitution up to so many terms.
SUBSTITUTED = 2**12
#: Entries at a time.
BLOCK = 2**12


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


def total(x: ArrayLike) -> float:
    """Return the sum of all entries, from the first to the last."""
    x = np.asarray(x, dtype=np.float64).ravel()
    return float(np.add.accumulate(x)[-1]) if x.size else 0.0


def dot(x: ArrayLike, y: ArrayLike) -> float:
    """Return the sum of products, from the first to the last."""
    return total(np.multiply(x, y))


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
    """The discrete Fourier transform of a power of two of complex numbers (Stockham's order, radix 2)."""
    size = real.size
    angle = np.arange(size // 2) * (2.0 * math.pi / size)
    cosine, sine = cosine_sine(angle)
    left, count = size // 2, 1
    while left >= 1:
        x, y = real.reshape(2, left, count), imag.reshape(2, left, count)
        c, s = cosine[:: size // (2 * left)][:, None], -sine[:: size // (2 * left)][:, None]
        u, v = x[0] - x[1], y[0] - y[1]
        real, imag = np.empty((left, 2, count)), np.empty((left, 2, count))
        np.add(x[0], x[1], out=real[:, 0])
        np.add(y[0], y[1], out=imag[:, 0])
        np.subtract(u * c, v * s, out=real[:, 1])
        np.add(u * s, v * c, out=imag[:, 1])
        left, count = left // 2, count * 2
    return real.reshape(-1), imag.reshape(-1)


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
