"""Fits the polynomials of the noise kernel and proves how good they are.

    python research/fit_polynomials.py

prints the coefficients of ``src/dpstream/kernel/coefficients.h`` and ``twin/coefficients.py`` (a test holds the
three equal) and, for each polynomial with its *rounded* coefficients, a rigorous bound on the approximation
error: the difference to a long Taylor polynomial is expanded in Chebyshev polynomials in ball arithmetic,
and the sum of the absolute coefficients bounds it.

Each function is fitted as a power series in one variable x on an interval [low, high], by interpolation at
the Chebyshev nodes (within a small factor of the best possible), and the coefficients are rounded to
nearest.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import mpmath as mp
from flint import arb, ctx, fmpq

mp.mp.prec = 300
ctx.prec = 300

TERMS = 60  # of each Taylor series; what is left out is tiny, and is added to the bound


@dataclass(frozen=True)
class Target:
    """One polynomial: `count` coefficients for `function` on [low, high], the first of them `fixed`."""

    name: str
    single: bool
    function: Callable[[mp.mpf], mp.mpf]
    taylor: Callable[[int], arb]
    low: Fraction
    high: Fraction
    count: int
    fixed: tuple[float, ...] = ()

    def round(self, value: mp.mpf) -> float:
        """Round to the nearest float32 or float64."""
        nearest = float(mp.nstr(value, 40))
        return struct.unpack("f", struct.pack("f", nearest))[0] if self.single else nearest


def factorial(n: int) -> arb:
    return arb(n).fac() if hasattr(arb, "fac") else arb.gamma(arb(n + 1))


TWO_PI = 2 * arb.pi()


def log_tail(x: mp.mpf) -> mp.mpf:
    """(ln((1+s)/(1-s)) - 2s) / s³ as a function of x = s²."""
    if x < mp.mpf(2) ** -100:
        return mp.mpf(2) / 3
    s = mp.sqrt(x)
    return (mp.log1p(s) - mp.log1p(-s) - 2 * s) / s**3


def log_ratio(x: mp.mpf) -> mp.mpf:
    """2 ln(1+x) / x."""
    return mp.mpf(2) if abs(x) < mp.mpf(2) ** -100 else 2 * mp.log1p(x) / x


def sine_ratio(x: mp.mpf) -> mp.mpf:
    """sin(2πy) / y as a function of x = y²."""
    y = mp.sqrt(x)
    return 2 * mp.pi if x < mp.mpf(2) ** -200 else mp.sin(2 * mp.pi * y) / y


def cosine_tail(x: mp.mpf) -> mp.mpf:
    """(cos(2πy) - 1) / y² as a function of x = y²."""
    y = mp.sqrt(x)
    return -2 * mp.pi**2 if x < mp.mpf(2) ** -200 else -2 * mp.sin(mp.pi * y) ** 2 / x


def sine_taylor(k: int) -> arb:
    return (-1) ** k * TWO_PI ** (2 * k + 1) / factorial(2 * k + 1)


def cosine_taylor(k: int) -> arb:
    return (-1) ** (k + 1) * TWO_PI ** (2 * k + 2) / factorial(2 * k + 2)


# |s| = |t|/|2+t| for 1 + t between √½ and √2 is at most (√2-1)/(√2+1) = 0.17157…, and one rounding more.
S_SQUARED = Fraction(2945, 100_000)
EIGHTH = Fraction(1, 64) * (1 + Fraction(1, 2**50))
TARGETS = (
    Target("LOG64", False, log_tail, lambda k: arb(2) / (2 * k + 3), Fraction(0), S_SQUARED, 7),
    Target("SIN64", False, sine_ratio, sine_taylor, Fraction(0), EIGHTH, 7),
    Target("COS64", False, cosine_tail, cosine_taylor, Fraction(0), EIGHTH, 7),
    Target(
        "LOG32",
        True,
        log_ratio,
        lambda k: arb(2) * (-1) ** k / (k + 1),
        Fraction(-2930, 10_000),
        Fraction(4143, 10_000),
        9,
        (2.0,),
    ),
    Target("SIN32", True, sine_ratio, sine_taylor, Fraction(0), EIGHTH, 4),
    Target("COS32", True, cosine_tail, cosine_taylor, Fraction(0), EIGHTH, 3),
)


def fit(target: Target) -> list[float]:
    """Coefficients in the target's precision, lowest first."""
    low, high = (mp.mpf(end.numerator) / end.denominator for end in (target.low, target.high))
    free = target.count - len(target.fixed)
    rows = mp.matrix(free, free)
    left = mp.matrix(free, 1)
    for i in range(free):
        x = (low + high) / 2 + (high - low) / 2 * mp.cos(mp.pi * (2 * i + 1) / (2 * free))
        for j in range(free):
            rows[i, j] = x**j
        given = mp.fsum(c * x**j for j, c in enumerate(target.fixed))
        left[i] = (target.function(x) - given) / x ** len(target.fixed)
    return [*target.fixed, *(target.round(c) for c in mp.lu_solve(rows, left))]


def error_bound(target: Target, coefficients: list[float]) -> arb:
    """Bound |function - polynomial| over the interval, rigorously."""
    difference = [target.taylor(k) - (arb(coefficients[k]) if k < len(coefficients) else 0) for k in range(TERMS)]
    center = arb(fmpq(*((target.low + target.high) / 2).as_integer_ratio()))
    half = arb(fmpq(*((target.high - target.low) / 2).as_integer_ratio()))
    # Horner in the Chebyshev basis: multiply by x = center + half·T_1, add the next coefficient.
    total = [arb(0)]
    for c in reversed(difference):
        grown = [center * a for a in total] + [arb(0)]
        for n, a in enumerate(total):
            if n == 0:
                grown[1] += half * a
            else:
                grown[n + 1] += half * a / 2
                grown[n - 1] += half * a / 2
        grown[0] += c
        total = grown
    # Every term here is at most 0.42 of the one before: the tail is below twice its first term.
    farthest = arb(fmpq(*max(abs(target.low), abs(target.high)).as_integer_ratio()))
    tail = 2 * abs(target.taylor(TERMS)) * farthest**TERMS
    return sum((abs(a) for a in total), arb(0)) + tail


def main() -> None:
    for target in TARGETS:
        coefficients = fit(target)
        bound = error_bound(target, coefficients)
        print(f"{target.name}: |error| <= 2^{float(bound.upper().log() / arb(2).log()):.2f}")
        for c in coefficients:
            print(f"    {c.hex()}  ({c!r})")


if __name__ == "__main__":
    main()
