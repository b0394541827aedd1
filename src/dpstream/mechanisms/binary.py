"""Binary mechanism: the classical tree of partial sums.

Guarantee: rho-zCDP (Gaussian) or pure epsilon-DP (Laplace) for streams that differ in one element by at most
`per_person`, all releases together, adaptive inputs.
Error: V_t = h · popcount(t), h = bit_length(horizon) (Laplace: h² · popcount(t)).   Cost: one draw a step, h
vectors.
Dwork, Naor, Pitassi, Rothblum 2010; Chan, Shi, Song 2011, Algorithm 2; with the exact variance of Andersson
and Pagh 2023, arXiv:2306.09666, Theorem 3.3. Nodes that no release reads (right children) are left out, as
there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpstream.arguments import check_horizon
from dpstream.mechanisms.base import NoiseLaw, check_noise_law
from dpstream.mechanisms.one_node_trees import OneNodeTree, level_sensitivity
from dpstream.mechanisms.stack import Entry, Move
from dpstream.participation import Participation

__all__ = ["Binary", "bit_counts", "heaviest"]


@dataclass(frozen=True)
class Binary(OneNodeTree):
    """The binary mechanism: release t sums one node for each one in the binary form of t.

    Parameters
    ----------
    horizon
        The number of releases.
    noise
        "gaussian" or "laplace".

    Examples
    --------
    >>> m = Binary(7)
    >>> m.variance().round(6).tolist()
    [3.0, 3.0, 6.0, 3.0, 6.0, 6.0, 9.0]
    >>> [entry.step for entry in m.entries(6)]  # 6 = 110: the node of steps 1 to 4 and that of steps 5 and 6
    [4, 6]
    """

    reference: ClassVar[str] = "Dwork, Naor, Pitassi, Rothblum 2010; Chan, Shi, Song 2011"

    horizon: int
    _: KW_ONLY
    noise: NoiseLaw = "gaussian"

    def __post_init__(self) -> None:
        object.__setattr__(self, "horizon", check_horizon(self.horizon))
        check_noise_law("Binary", self.noise)

    @property
    def unit_weights(self) -> bool:
        """True."""
        return True

    @property
    def memory(self) -> int:
        """The most ones in the binary form of a step."""
        return round(self.max_squared_row_norm(self.horizon))

    def cursor_after(self, t: int) -> int:
        return t

    def next_move(self, cursor: int) -> tuple[Move, int]:
        t = cursor + 1
        return Move((t & -t).bit_length() - 1, (1.0,)), t

    def entries(self, t: int) -> tuple[Entry, ...]:
        """One entry for each one of t, highest first, pushed at the step with all lower bits cleared."""
        bits = [1 << i for i in reversed(range(t.bit_length())) if t >> i & 1]
        return tuple(Entry(t & -bit, 0, 1.0) for bit in bits)

    def _depths(self, first: int, count: int) -> NDArray[np.int64]:
        return np.bitwise_count(np.arange(first, first + count, dtype=np.int64)).astype(np.int64)

    def _sensitivity(self, participation: Participation) -> tuple[float, bool]:
        # Level l has a node for every other interval of 2^l steps, as far as it ends by the horizon.
        levels = [(1 << i, ((self.horizon >> i) + 1) // 2) for i in range(self.horizon.bit_length())]
        return level_sensitivity(self.noise, participation, levels), participation.times == 1

    def squared_row_norm(self, t: int) -> float:
        return float(t.bit_count())

    def squared_row_norms(self, steps: int) -> NDArray[np.float64]:
        return self._depths(1, steps).astype(np.float64)

    def max_squared_row_norm(self, steps: int) -> float:
        return heaviest(steps, [1.0] * steps.bit_length())

    def mean_squared_row_norm(self, steps: int) -> float:
        return sum(bit_counts(steps)) / steps


def bit_counts(last: int) -> list[int]:
    """For each bit, lowest first: how many of 1..last have it set.

    >>> bit_counts(6)  # 1, 10, 11, 100, 101, 110
    [3, 3, 3]
    """
    n = last + 1
    counts = []
    for i in range(last.bit_length()):
        period, rest = divmod(n, 2 << i)
        counts.append((period << i) + max(0, rest - (1 << i)))
    return counts


def heaviest(last: int, weights: Sequence[float]) -> float:
    """Return the largest Σ weights[i] over the set bits i of a number in 1..last.

    Weights are positive, that of the lowest bit first.

    >>> heaviest(12, [1.0, 1.0, 1.0, 1.0])  # 1011, or 0111
    3.0
    """
    best = above = 0.0
    for i in reversed(range(last.bit_length())):
        if last >> i & 1:
            # The numbers that first fall below `last` at bit i may have all lower bits set.
            best = max(best, above + sum(weights[:i]))
            above += weights[i]
    return max(best, above)
