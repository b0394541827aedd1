"""Smooth binary mechanism: every release carries the same noise law.

Guarantee: rho-zCDP (Gaussian) or pure epsilon-DP (Laplace) for streams that differ in one element by at most
`per_person`, all releases together, adaptive inputs.
Error: V = zeros · ones at every step for the sensitivity of the nodes (Laplace: zeros² · ones), a quarter to a half
less if the releases are; without padding the first is the maximum.   Cost: at most two draws a step (Laplace
with padding: two on average, or nearly), at most `ones` vectors.
Andersson and Pagh 2023, arXiv:2306.09666, Algorithm 2. Deviations, same or better law (docs/mathematics.md): zeros and
ones need not be equal; a step's padding nodes, which cover no element, are merged into one Gaussian draw or
left out; the sensitivity may be that of the releases (`dpstream.mechanisms.released_sensitivity`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache, lru_cache
from math import comb, sqrt
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dpstream.arguments import check_horizon, check_whole
from dpstream.errors import CapacityError, InvalidArgument, NoiseLawError
from dpstream.mechanisms.base import DrawsPerStep, NoiseLaw, SensitivityOf, check_noise_law
from dpstream.mechanisms.labels import (
    label_at,
    least_ones_for,
    lowest_run_of_ones,
    next_label,
    push_steps,
    sum_over_leaves,
    trailing_ones,
)
from dpstream.mechanisms.one_node_trees import OneNodeTree, level_sensitivity
from dpstream.mechanisms.released_sensitivity import best_tree_shape, squared_sensitivity_of_releases
from dpstream.mechanisms.stack import Entry, Move, Moves
from dpstream.participation import Participation

__all__ = ["SmoothBinary"]


@dataclass(frozen=True, init=False)
class SmoothBinary(OneNodeTree):
    """The smooth binary mechanism: a tree whose leaves all have the same number of ones in their label.

    Whatever is left out is chosen to make the largest variance small, under the given noise law: with
    Gaussian noise the tree is padded and the sensitivity is that of its releases; with Laplace noise, where it is
    that of the nodes, there is no padding (nor with Gaussian noise if the sensitivity of nodes is asked for:
    padding would only raise the mean). Trees with more ones than steps are not considered; their memory would
    grow with the horizon.

    Parameters
    ----------
    horizon
        The number of releases T.
    noise
        "gaussian" or "laplace".
    padded
        Whether each release also carries the noise of nodes without elements, so that all errors have the
        same law.
    sensitivity_of
        "nodes" or "releases": what the sensitivity is that of (the same without padding; Laplace has "nodes"
        only).
    zeros, ones
        The numbers of zeros and ones in each leaf's label; there must be at least T + 1 such labels. Zeros
        that the horizon could do without add nodes over everything, which no release reads: the sensitivity of the
        nodes includes them (that of `paper` too, as published: at T = 2^20 one of its 12), that of the
        releases does not.

    Examples
    --------
    >>> SmoothBinary(1023)
    SmoothBinary(horizon=1023, noise='gaussian', padded=True, sensitivity_of='releases', zeros=5, ones=8)
    >>> SmoothBinary(1023, noise="laplace")
    SmoothBinary(horizon=1023, noise='laplace', padded=False, sensitivity_of='nodes', zeros=3, ones=17)

    The paper's tree for five steps, its figure 2:

    >>> m = SmoothBinary.paper(5)
    >>> [format(m.label(t), "04b") for t in range(1, 7)]
    ['0011', '0101', '0110', '1001', '1010', '1100']
    >>> m.nodes(5)
    [(1, 8), (9, 12)]
    >>> m.variance().round(6).tolist()
    [4.0, 4.0, 4.0, 4.0, 4.0]
    """

    reference: ClassVar[str] = "Andersson, Pagh 2023, arXiv:2306.09666"

    horizon: int
    noise: NoiseLaw
    padded: bool
    sensitivity_of: SensitivityOf
    zeros: int
    ones: int

    # Written out, since None ("choose") is an argument but never the value of a field.
    def __init__(
        self,
        horizon: int,
        *,
        noise: NoiseLaw = "gaussian",
        padded: bool | None = None,
        sensitivity_of: SensitivityOf | None = None,
        zeros: int | None = None,
        ones: int | None = None,
    ) -> None:
        horizon = check_horizon(horizon)
        noise = check_noise_law("SmoothBinary", noise)
        sensitivity_of = _check_sensitivity_of(sensitivity_of, noise)
        padded = noise == "gaussian" and sensitivity_of != "nodes" if padded is None else padded
        if not isinstance(padded, bool):
            raise InvalidArgument("padded", padded, "True, False or None")
        if sensitivity_of is None:
            sensitivity_of = "releases" if noise == "gaussian" and padded else "nodes"
        zeros = None if zeros is None else check_whole("zeros", zeros)
        ones = None if ones is None else check_whole("ones", ones)
        zeros, ones = _shape(horizon + 1, noise, padded and sensitivity_of == "releases", zeros, ones)
        holds = comb(zeros + ones, zeros) - 1
        if holds < horizon:
            raise CapacityError(zeros=zeros, ones=ones, holds=holds, horizon=horizon)
        values = (horizon, noise, padded, sensitivity_of, zeros, ones)
        for field, value in zip(fields(self), values, strict=True):
            object.__setattr__(self, field.name, value)

    @classmethod
    def paper(cls, horizon: int) -> Self:
        """Build the tree as published: even height, zeros equal to ones, padded, with the sensitivity of its nodes."""
        horizon, half = check_horizon(horizon), 1
        while comb(2 * half, half) < horizon + 1:
            half += 1
        return cls(horizon, padded=True, sensitivity_of="nodes", zeros=half, ones=half)

    def label(self, t: int) -> int:
        """Label m(t) of the leaf of element t, up to t = T + 1; release t is read off ``label(t + 1)``."""
        t = check_whole("t", t)
        if t > self.horizon + 1:
            raise InvalidArgument("t", t, f"at most {self.horizon + 1}, one more than the horizon")
        return label_at(self.zeros, self.ones, t - 1)

    def nodes(self, t: int) -> list[tuple[int, int]]:
        """Nodes that release t sums, as (first, last) leaf of the full binary tree, both counted from 1.

        The paper's Algorithm 2: one node for each one in ``label(t + 1)``; without padding only those with
        elements.
        """
        self._steps(t, "nodes")
        label = self.label(t + 1)
        lowest = 0 if self.padded else (~label & (label + 1)).bit_length() - 1
        ones = [i for i in reversed(range(lowest, label.bit_length())) if label >> i & 1]
        return [((label >> i + 1 << i + 1) + 1, (label >> i + 1 << i + 1) + (1 << i)) for i in ones]

    @property
    def draws_per_step(self) -> DrawsPerStep:
        """One without padding, at most two with it; for Laplace noise one for each node replaced."""
        if not self.padded:
            return DrawsPerStep(1, 1.0)
        if self.noise == "laplace":
            # Release t has as much padding as label(t + 1) has trailing ones; no release reads label(1).
            padding = self._sum(self.horizon, lambda z, o: comb(z + o, z + 1)) - self.ones
            return DrawsPerStep(self.ones, 1 + padding / self.horizon)
        padding = self._sum(self.horizon, lambda z, o: comb(z + o - 1, z) if o else 0) - 1
        return DrawsPerStep(2 if padding else 1, 1 + padding / self.horizon)

    @property
    def memory(self) -> int:
        """As many vectors as a label has ones."""
        return min(self.ones, self.horizon)

    def cursor_after(self, t: int) -> int:
        return label_at(self.zeros, self.ones, t)

    def next_move(self, cursor: int) -> tuple[Move, int]:
        replaced = lowest_run_of_ones(cursor)
        # Trailing ones are padding of the release before: they were never stored.
        pops = 0 if cursor & 1 else replaced
        return _move(pops, replaced - 1 if self.padded else 0, self.noise), next_label(cursor)

    def entries(self, t: int) -> tuple[Entry, ...]:
        """One entry for each one of ``label(t + 1)`` that is not a trailing one."""
        return tuple(Entry(step, 0, 1.0) for step in push_steps(self.zeros, self.ones, t))

    @property
    def unit_weights(self) -> bool:
        """Whether no padding is merged into draws of larger weight."""
        return not self.padded or self.noise == "laplace"

    def label_before(self, step: int) -> int | None:
        """Return the label of the release before, unless a step may take several padding draws."""
        return None if self.padded and self.noise == "laplace" else self.cursor_after(step - 1)

    def moves(self, first: int, count: int) -> Moves | None:
        """As for any such tree; None for Laplace noise with padding, which may take many draws in a step."""
        if self.padded and self.noise == "laplace":
            return None
        return super().moves(first, count)

    @property
    def _unread(self) -> int:
        """How many zeros are more than the horizon needs."""
        return self.zeros - least_ones_for(self.ones, self.horizon + 1)

    def _factors(self, steps: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        L, R = super()._factors(steps)
        unread = self._unread if self.sensitivity_of == "nodes" else 0
        return np.hstack([L, np.zeros((steps, unread))]), np.vstack([R, np.ones((unread, steps))])

    def _depths(self, first: int, count: int) -> NDArray[np.int64]:
        return self.ones - trailing_ones(self.zeros, self.ones, first, count)

    def _padding_weights(self, first: int, count: int) -> NDArray[np.float64]:
        if not self.padded:
            return np.zeros(count)
        return np.sqrt(trailing_ones(self.zeros, self.ones, first, count))

    def _sensitivity(self, participation: Participation) -> tuple[float, bool]:
        # Zeros beyond those needed lead every label: their nodes hold everything and are never read, but they
        # are nodes.
        zeros = self.zeros - (self._unread if self.sensitivity_of == "releases" else 0)
        # A node below which i zeros are left to place has at most this many elements.
        levels = [(min(comb(i + self.ones, i), self.horizon), None) for i in range(zeros)]
        nodes = level_sensitivity(self.noise, participation, levels)
        if self.sensitivity_of == "releases" and self.padded:
            # Without padding L is square, and both sensitivities are the same.
            releases = participation.times * sqrt(
                squared_sensitivity_of_releases(self.zeros, self.ones, self.horizon + 1)
            )
            nodes = min(nodes, releases)
        return nodes, participation.times == 1

    def squared_row_norm(self, t: int) -> float:
        return float(self.ones if self.padded else len(push_steps(self.zeros, self.ones, t)))

    def squared_row_norms(self, steps: int) -> NDArray[np.float64]:
        return np.full(steps, float(self.ones)) if self.padded else self._depths(1, steps).astype(np.float64)

    def max_squared_row_norm(self, steps: int) -> float:
        # Without padding release t reads t nodes until there are `ones` of them.
        return float(self.ones if self.padded else min(self.ones, steps))

    def mean_squared_row_norm(self, steps: int) -> float:
        if self.padded:
            return float(self.ones)
        missing = self._sum(steps, lambda z, o: comb(z + o, z + 1)) - self.ones
        return (self.ones * steps - missing) / steps

    def _sum(self, steps: int, full: Callable[[int, int], int]) -> int:
        """Σ over the labels 1 .. steps + 1 of a quantity with sum ``full(z, o)`` over a whole subtree."""
        return sum_over_leaves(self.zeros, self.ones, steps + 1, full)


def _check_sensitivity_of(value: object, noise: NoiseLaw) -> SensitivityOf | None:
    if value not in ("nodes", "releases", None):
        raise InvalidArgument("sensitivity_of", value, "'nodes', 'releases' or None")
    if value == "releases" and noise == "laplace":
        raise NoiseLawError(
            "sensitivity_of='releases' needs Gaussian noise: with Laplace noise the sensitivity is that of the nodes;"
            " use sensitivity_of='nodes'"
        )
    return value


def _shape(leaves: int, noise: NoiseLaw, releases: bool, zeros: int | None, ones: int | None) -> tuple[int, int]:
    """Return the given numbers of zeros and ones; those not given such that the largest variance is least."""
    if zeros is not None and ones is not None:
        return zeros, ones
    if ones is not None:
        return least_ones_for(ones, leaves), ones
    if zeros is None:
        return best_tree_shape(leaves) if releases else _smallest_product(leaves, 2 if noise == "laplace" else 1)
    least_ones = least_ones_for(zeros, leaves)
    return zeros, best_tree_shape(leaves, least_ones)[1] if releases else least_ones


@lru_cache(maxsize=1024)
def _smallest_product(leaves: int, power: int) -> tuple[int, int]:
    """Return the (zeros, ones) of enough labels and least ``zeros^power · ones``; ties to fewer zeros."""
    zeros, chosen = 1, (1, least_ones_for(1, leaves))
    best = chosen[1]
    while zeros**power < best:
        ones = least_ones_for(zeros, leaves)
        if zeros**power * ones < best:
            best, chosen = zeros**power * ones, (zeros, ones)
        zeros += 1
    return chosen


@cache
def _move(pops: int, padding: int, noise: NoiseLaw) -> Move:
    """One of the few moves there are: one node, and padding, which Gaussian noise merges into one draw."""
    if noise == "gaussian":
        return Move(pops, (1.0,), (sqrt(padding),) if padding else ())
    return Move(pops, (1.0,), (1.0,) * padding)
