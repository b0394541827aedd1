"""Numbers in sentences: short, and the same in every claim."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["listed", "number", "steps"]


def steps(count: int) -> str:
    """A number of steps as a reader would write it.

    >>> steps(1023), steps(2**20), steps(10**7), steps(155117520)
    ('1,023', '2^20', '10^7', '155,117,520')
    """
    if count >= 4096 and count & (count - 1) == 0:
        return f"2^{count.bit_length() - 1}"
    power = len(str(count)) - 1
    return f"10^{power}" if count == 10**power and power > 3 else f"{count:,}"


def number(value: float) -> str:
    """A number with four digits that count, without an exponent where none is needed.

    >>> number(25.0), number(16.7559), number(8.5e-13), number(1234567.8)
    ('25', '16.76', '8.5e-13', '1,234,568')
    """
    if value == 0 or 1e-4 <= abs(value) < 1e4:
        return f"{value:.4g}"
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e12 else f"{value:.3g}"


def listed(parts: Iterable[str]) -> str:
    """Join with commas, and "and" before the last.

    >>> listed(["5", "19", "250"])
    '5, 19 and 250'
    """
    *head, last = list(parts)
    return f"{', '.join(head)} and {last}" if head else last
