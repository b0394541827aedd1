"""Signed digits: a k-ary tree whose releases both add and subtract nodes.

Guarantee: pure epsilon-DP (Laplace) or rho-zCDP (Gaussian) for streams that differ in one element by at most
`per_person`, all releases together, adaptive inputs.
Error: V_t = h² · Σ|digits of t| (Gaussian: h · Σ|digits of t|) for an odd base k, digits from -(k-1)/2 to
(k-1)/2 and h levels: a lower mean than the smooth tree under Laplace noise, and a higher maximum.
Cost: one draw a step or fewer on average for wide bases, 1 + (h - 1)(k - 1)/2 at worst; h (k - 1)/2 vectors.
Andersson, Pagh, Steiner, Torkamani 2024, arXiv:2408.07021, k-ary trees with subtraction.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpstream.arguments import check_horizon, check_whole
from dpstream.errors import InvalidArgument
from dpstream.mechanisms.base import DrawsPerStep, NoiseLaw, check_noise_law
from dpstream.mechanisms.one_node_trees import level_sensitivity
from dpstream.mechanisms.stack import Entry, Move, StackMechanism
from dpstream.participation import Participation

__all__ = ["SignedDigits"]


@dataclass(frozen=True, init=False)
class SignedDigits(StackMechanism):
    """Release t sums |d| nodes per level for each digit d of t, added if d > 0 and subtracted if d < 0.

    Half the nodes of a level are read from the left, half from the right of the next higher one, and the
    middle one never: so a release reads fewer. A node may be read before its last element has come; the
    elements that are still to come cancel, and only noise is ever kept.

    Parameters
    ----------
    horizon
        The number of releases.
    noise
        "laplace" or "gaussian".
    base
        An odd number of at least 3. Left out, the one with the least maximal variance at this horizon and
        noise law.

    Examples
    --------
    >>> m = SignedDigits(40, base=3)
    >>> m.digits(5)  # 5 = 9 - 3 - 1
    [1, -1, -1]
    >>> m.entries(5)  # all pushed by step 5, that added the node of steps 1 to 9
    (Entry(step=5, slot=0, weight=1.0), Entry(step=5, slot=1, weight=-1.0), Entry(step=5, slot=2,
    weight=-1.0))
    """

    reference: ClassVar[str] = "Andersson, Pagh, Steiner, Torkamani 2024, arXiv:2408.07021"

    horizon: int
    noise: NoiseLaw
    base: int

    # Written out, since None ("choose") is an argument but never the value of a field.
    def __init__(self, horizon: int, *, noise: NoiseLaw = "laplace", base: int | None = None) -> None:
        horizon = check_horizon(horizon)
        noise = check_noise_law("SignedDigits", noise)
        base = _best_base(horizon, 2 if noise == "laplace" else 1) if base is None else check_whole("base", base)
        if base < 3 or base % 2 == 0:
            raise InvalidArgument("base", base, "an odd whole number of at least 3")
        for field, value in zip(fields(self), (horizon, noise, base), strict=True):
            object.__setattr__(self, field.name, value)

    @property
    def levels(self) -> int:
        """h: how many digits the horizon needs."""
        return _levels(self.horizon, self.base)

    def digits(self, t: int) -> list[int]:
        """Return the signed digits of t, highest first, without leading zeros."""
        digits = []
        while t:
            digit = (t + self._most) % self.base - self._most
            digits.append(digit)
            t = (t - digit) // self.base
        return digits[::-1]

    @property
    def _most(self) -> int:
        return self.base // 2

    @property
    def unit_weights(self) -> bool:
        """True."""
        return True

    @property
    def draws_per_step(self) -> DrawsPerStep:
        """Draws of a release; not a constant here.

        Most steps take one draw or none; a carry into level i takes (k - 1)/2 for each level below it.
        `worst` is attained at the first step that reads the highest level.
        """
        m, k, total = self._most, self.base, 0
        for i in range(self.levels):
            carries = _carries(self.horizon, k, i)
            total += m * (carries // k) + min(carries % k, m)  # those that make the digit positive
            total += m * _carries(self.horizon, k, i + 1)
        return DrawsPerStep(1 + (self.levels - 1) * m, total / self.horizon)

    @property
    def memory(self) -> int:
        """The largest Σ|digits| of a step."""
        return round(self.max_squared_row_norm(self.horizon))

    def cursor_after(self, t: int) -> tuple[int, ...]:
        return tuple(self.digits(t)[::-1])

    def next_move(self, cursor: tuple[int, ...]) -> tuple[Move, tuple[int, ...]]:
        """Let the lowest digit grow, with carries; the cursor holds the digits, lowest first."""
        m = self._most
        carry = 0
        while carry < len(cursor) and cursor[carry] == m:
            carry += 1
        digit = (cursor[carry] if carry < len(cursor) else 0) + 1
        # The levels below the carry roll from +m to -m. A digit that grows to 0 or less loses the node
        # farthest left, which lies on top of its level since subtracted nodes are pushed from the right.
        grows = digit > 0
        pops = carry * m + (not grows)
        pushes = (1.0,) * grows + (-1.0,) * (carry * m)
        return Move(pops, pushes), (-m,) * carry + (digit,) + cursor[carry + 1 :]

    def entries(self, t: int) -> tuple[Entry, ...]:
        """|d| entries for each digit d, highest level first; subtracted nodes from right to left."""
        m, k = self._most, self.base
        entries, position = [], 0
        carry_slots = 0  # draws of the step that last carried above the next level, before those of that level
        digits = self.digits(t)
        for level, digit in zip(reversed(range(len(digits))), digits, strict=True):
            size = k**level
            if digit > 0:
                # Pushed when the digit grew to j, and all lower ones rolled to -m.
                steps = (position + j * size - size // 2 for j in range(1, digit + 1))
                entries += [Entry(step, 0, 1.0) for step in steps]
            elif digit < 0:
                step = position - k * size // 2
                entries += [Entry(step, carry_slots + j, -1.0) for j in range(-digit)]
            position += digit * size
            carry_slots = carry_slots + m if digit == -m else int(digit > 0)
        return tuple(entries)

    def _factors(self, steps: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        nodes: dict[tuple[int, int], int] = {}
        rows = []
        for t in range(1, steps + 1):
            row, position = [], 0
            digits = self.digits(t)
            for level, digit in zip(reversed(range(len(digits))), digits, strict=True):
                size = self.base**level
                starts = (
                    range(position, position + digit * size, size)
                    if digit > 0
                    else range(position - size, position + digit * size - 1, -size)
                )
                for start in starts:
                    row.append((nodes.setdefault((start, size), len(nodes)), float(np.sign(digit))))
                position += digit * size
            rows.append(row)
        L, R = np.zeros((steps, len(nodes))), np.zeros((len(nodes), steps))
        for i, row in enumerate(rows):
            for column, weight in row:
                L[i, column] = weight
        for (start, size), i in nodes.items():
            R[i, start : start + size] = 1.0
        return L, R

    def _sensitivity(self, participation: Participation) -> tuple[float, bool]:
        levels = [(self.base**i, None) for i in range(self.levels)]
        return level_sensitivity(self.noise, participation, levels), participation.times == 1

    def squared_row_norm(self, t: int) -> float:
        return float(sum(abs(digit) for digit in self.digits(t)))

    def squared_row_norms(self, steps: int) -> NDArray[np.float64]:
        rest = np.arange(1, steps + 1, dtype=np.int64)
        norms = np.zeros(steps, dtype=np.int64)
        while rest[-1]:
            carried = (rest + self._most) // self.base
            norms += np.abs(rest - carried * self.base)
            rest = carried
        return norms.astype(np.float64)

    def max_squared_row_norm(self, steps: int) -> float:
        return float(_largest_digit_sum(steps, self.base))

    def mean_squared_row_norm(self, steps: int) -> float:
        m, k, total = self._most, self.base, 0
        for i in range(_levels(steps, k)):
            # u // k^i counts the carries into level i, of which the digit is the residue nearest to 0.
            size = k**i
            for sign, below in ((1, steps + size // 2 + 1), (-1, size // 2 + 1)):
                carries, rest = divmod(below, size)
                total += sign * (size * _digit_sum(carries, k) + rest * abs((carries + m) % k - m))
        return total / steps


def _levels(horizon: int, base: int) -> int:
    """Return the least h with (base^h - 1)/2 ≥ horizon."""
    levels, power = 1, base
    while power // 2 < horizon:
        levels, power = levels + 1, power * base
    return levels


def _carries(last: int, base: int, level: int) -> int:
    """How many of the steps 1..last change the digit at `level`."""
    size: int = base**level
    return (last + size // 2) // size


def _digit_sum(below: int, base: int) -> int:
    """Σ over 0 ≤ j < below of |lowest signed digit of j|: 0 + 1 + .. + m + m + .. + 1 + 0 + 1 + ..

    >>> _digit_sum(7, 5)  # 0 1 2 2 1 0 1
    7
    """
    m = base // 2
    cycles, rest = divmod(below, base)
    rising, falling = min(rest, m + 1), max(rest - m - 1, 0)
    return cycles * m * (m + 1) + rising * (rising - 1) // 2 + falling * (2 * m + 1 - falling) // 2


def _largest_digit_sum(last: int, base: int) -> int:
    """Return the largest Σ|digits| of a number in 1..last.

    Signed digits order numbers as their digits do, read from the highest. So a smaller number agrees with
    `last` down to some level, has a smaller digit there, and anything below.
    """
    m = base // 2
    best = above = 0
    level = _levels(last, base) - 1
    rest = last
    while level >= 0:
        size = base**level
        digit = (rest + size // 2) // size
        if rest == last:
            # No digit above: the smaller ones are 0 (and then the highest is lower) up to digit - 1.
            best = max(best, digit - 1 + level * m if digit > 0 else 0)
        elif digit > -m:
            best = max(best, above + m + level * m)
        above += abs(digit)
        rest -= digit * size
        level -= 1
    return max(best, above)


@lru_cache(maxsize=1024)
def _best_base(horizon: int, power: int) -> int:
    """Return the odd base with the least ``levels^power · (largest digit sum)``; ties to the smaller."""
    best, chosen = horizon, 2 * horizon + 1  # with one digit every base reads t nodes at step t
    starts: list[tuple[int, int]] = []
    levels, base = 1, chosen
    while base > 3:
        levels += 1
        base = _least_base(horizon, levels)
        starts.append((levels, base))
    for levels, base in sorted(starts, key=lambda start: _optimistic(start[0], start[1], power)):
        while _levels(horizon, base) == levels and _optimistic(levels, base, power) <= best:
            variance = levels**power * _largest_digit_sum(horizon, base)
            if (variance, base) < (best, chosen):
                best, chosen = variance, base
            base += 2
    return chosen


def _optimistic(levels: int, base: int, power: int) -> float:
    """Return the variance of the number with digits 1, -m, .., -m, which is always within the horizon."""
    return float(levels**power) * (1 + (levels - 1) * (base // 2))


def _least_base(horizon: int, levels: int) -> int:
    """Return the least odd base with which `levels` digits reach the horizon."""
    low, high = 0, horizon  # of (base - 1)/2
    while high - low > 1:
        middle = (low + high) // 2
        if (2 * middle + 1) ** levels // 2 >= horizon:
            high = middle
        else:
            low = middle
    return 2 * high + 1
