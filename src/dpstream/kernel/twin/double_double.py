"""Numbers of twice a double's precision: the unevaluated sum of two doubles.

Additions and products keep what they round off (Dekker 1971, Knuth 4.2.2). Numbers or arrays of numbers alike.
"""

from __future__ import annotations

from typing import Any


def two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """Add two doubles: what a + b is rounded to, and what that loses."""
    total = a + b
    moved = total - a
    return total, (a - (total - moved)) + (b - moved)


def quick_two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """`two_sum` for |a| ≥ |b|."""
    total = a + b
    return total, b - (total - a)


def two_product(a: Any, b: Any) -> tuple[Any, Any]:
    """Multiply two doubles: what a · b is rounded to, and what that loses."""
    product = a * b
    a_wide, b_wide = 134217729.0 * a, 134217729.0 * b
    a_high, b_high = a_wide - (a_wide - a), b_wide - (b_wide - b)
    a_low, b_low = a - a_high, b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def multiply(a: Any, a_low: Any, b: Any, b_low: Any) -> tuple[Any, Any]:
    """(a + a_low) · (b + b_low), off by less than 7 · 2^-106 of itself."""
    product, rest = two_product(a, b)
    return quick_two_sum(product, rest + (a * b_low + a_low * b))


def add(a: Any, a_low: Any, b: Any) -> tuple[Any, Any]:
    """(a + a_low) + b, off by less than 2 · 2^-106 of itself."""
    total, rest = two_sum(a, b)
    return quick_two_sum(total, rest + a_low)
