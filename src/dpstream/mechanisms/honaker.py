"""Honaker's tree, estimation from below: each node's estimate is refined by what its children said.

Guarantee: rho-zCDP for streams that differ in one element by at most `per_person`,
all releases together, adaptive inputs.
Error: V_t = Δ² · Σ c_l over the set bits l of t, c_l = 2^l / (2^(l+1) - 1), Δ² about 0.86 ·
bit_length(horizon).
Cost: one draw a step, bit_length(horizon) vectors.
Honaker 2015, "Efficient use of differentially private binary trees", the estimate from below. Deviations,
same law of the releases or a lower sensitivity (docs/mathematics.md): one draw a step instead of one per node
of the tree, amortised constant time, and the sensitivity is that of the releases, not of all the nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpstream.arguments import check_horizon, check_whole
from dpstream.mechanisms.base import DrawsPerStep, NoiseLaw, check_noise_law
from dpstream.mechanisms.binary import bit_counts, heaviest
from dpstream.mechanisms.stack import Entry, Move, Moves, StackMechanism
from dpstream.participation import Participation

__all__ = ["Honaker"]


@dataclass(frozen=True)
class Honaker(StackMechanism):
    """The binary tree with every node estimated from its own noise and its children's.

    A node of level k is a fresh draw of variance φ_k, φ_0 = 1, φ_l = c_l² + (1 - c_l)² φ_(l-1), plus Σ_l
    g_(k,l) e_l over the estimates e_l of the nodes that it replaces, g_(k,l) = Π_(l < j ≤ k) (1 - c_j). L is
    square, so nodes and releases have the same sensitivity: that of the fresh draw of each step.

    Parameters
    ----------
    horizon
        The number of releases.
    noise
        "gaussian".

    Examples
    --------
    >>> m = Honaker(1023)
    >>> round(m.sensitivity() ** 2, 3), round(m.max_variance(), 2)
    (8.557, 49.66)
    """

    reference: ClassVar[str] = "Honaker 2015"
    sensitivity_of = "releases"

    horizon: int
    noise: NoiseLaw = field(default="gaussian", kw_only=True, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "horizon", check_horizon(self.horizon))
        check_noise_law("Honaker", self.noise, ("gaussian",))

    @property
    def draws_per_step(self) -> DrawsPerStep:
        """One, always."""
        return DrawsPerStep(1, 1.0)

    @property
    def memory(self) -> int:
        """The most ones in the binary form of a step."""
        return round(heaviest(self.horizon, [1.0] * self.horizon.bit_length()))

    def cursor_after(self, t: int) -> int:
        return t

    def next_move(self, cursor: int) -> tuple[Move, int]:
        t = cursor + 1
        return _move((t & -t).bit_length() - 1), t

    def entries(self, t: int) -> tuple[Entry, ...] | None:
        """None: an entry mixes those that it replaced."""
        return None

    def moves(self, first: int, count: int) -> Moves:
        """As arrays, with a table of mixes: a step that pops k entries always mixes them in the same way."""
        first, count = check_whole("first", first), check_whole("count", count, least=0)
        if count:
            self._steps(first + count - 1, "moves")
        t = np.arange(first, first + count, dtype=np.int64)
        pops = np.bitwise_count((t & -t) - 1)
        levels = self.horizon.bit_length()
        push = np.array([_move(k).pushes[0] for k in range(levels)])[pops]
        mix = np.zeros((levels, max(levels - 1, 1)))
        for k in range(levels):
            mix[k, :k] = _move(k).mix
        return Moves(pops, push, np.zeros(count), mix)

    def _factors(self, steps: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        L, R = np.zeros((steps, steps)), np.zeros((steps, steps))
        estimates: list[NDArray[np.float64]] = []
        for t in range(1, steps + 1):
            k = (t & -t).bit_length() - 1
            scale = sqrt(_variances(k)[k])
            new = np.zeros(steps)
            new[t - 1] = scale
            R[t - 1, t - 1] = 1 / scale
            # Within a step's interval the node replaced at level l holds 2^l elements;
            # the new element comes last.
            for level in range(k):
                shrunk = _shrunk(k, level)
                new += shrunk * estimates.pop()
                R[t - 1, t - (2 << level) : t - (1 << level)] = (1 - shrunk) / scale
            estimates.append(new)
            L[t - 1] = np.sum(estimates, axis=0)
        return L, R

    def _sensitivity(self, participation: Participation) -> tuple[float, bool]:
        levels = self.horizon.bit_length()
        crowds = tuple(participation.reach(1 << k) for k in range(levels))
        # As in the weighted tree: a node that meets c steps of one person adds at most crowd
        # · Σ of c squares.
        return sqrt(participation.times * _largest_squared_sensitivity(crowds)), participation.times == 1

    def squared_row_norm(self, t: int) -> float:
        return float(sum(c for i, c in enumerate(_shares(t.bit_length())) if t >> i & 1))

    def squared_row_norms(self, steps: int) -> NDArray[np.float64]:
        t = np.arange(1, steps + 1, dtype=np.int64)
        norms = np.zeros(steps)
        for i, c in enumerate(_shares(steps.bit_length())):
            norms += c * (t >> i & 1)
        return norms

    def max_squared_row_norm(self, steps: int) -> float:
        return heaviest(steps, _shares(steps.bit_length()))

    def mean_squared_row_norm(self, steps: int) -> float:
        counts = bit_counts(steps)
        return sum(c * n for c, n in zip(_shares(len(counts)), counts, strict=True)) / steps


def _shares(levels: int) -> list[float]:
    """c_l: how much of a node's estimate is its own noise; also the variance of the estimate."""
    return [2.0**i / (2.0 ** (i + 1) - 1) for i in range(levels)]


@lru_cache(maxsize=128)
def _variances(level: int) -> Sequence[float]:
    """φ_0 .. φ_level: the variance of the fresh draw of a node."""
    variances = [1.0]
    for c in _shares(level + 1)[1:]:
        variances.append(c**2 + (1 - c) ** 2 * variances[-1])
    return tuple(variances)


@lru_cache(maxsize=4096)
def _shrunk(level: int, below: int) -> float:
    """Return g, what is left of the estimate of a node at level `below` in that of the one replacing it."""
    product = 1.0
    for c in _shares(level + 1)[below + 1 :]:
        product *= 1 - c
    return product


@lru_cache(maxsize=128)
def _move(level: int) -> Move:
    """Return the move of a step whose node is at `level`: the nodes of all lower levels leave the stack."""
    shrunk = [_shrunk(level, below) for below in range(level)]
    # The stack is cumulative, its top holding all of e_0 + e_1 + ...: e_l is the difference of two entries.
    mix = tuple(g - before for g, before in zip(shrunk, [0.0, *shrunk], strict=False))
    return Move(level, (sqrt(_variances(level)[level]),), mix=mix)


@lru_cache(maxsize=1024)
def _largest_squared_sensitivity(crowds: tuple[int, ...]) -> float:
    """Return the largest Σ_k crowd_k · (move of the draw at level k)² over all elements.

    With crowds of 1 that is the exact squared sensitivity.

    Element x is in a node of level k if bit k of x is 0, and moves its draw by (1 - g)/√φ_k, where g is that
    of the replaced node that holds x: its level is k - 1 less the number of ones that lead the lower k bits
    of x (g = 0 if all are ones).
    So a table over that number, from the lowest bit up, finds the largest over all elements.
    """
    best = {0: 0.0}
    for k, crowd in enumerate(crowds):
        variance = _variances(k)[k]
        grown = {leading + 1: cost for leading, cost in best.items()}
        grown[0] = max(
            cost + crowd * (1 - (_shrunk(k, k - 1 - leading) if leading < k else 0.0)) ** 2 / variance
            for leading, cost in best.items()
        )
        best = grown
    return max(best.values())
