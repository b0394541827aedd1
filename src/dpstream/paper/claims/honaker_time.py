"""Honaker's estimate from below: the variance and time that Table 1 and Section 4 give it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpstream.mechanisms import Binary, Honaker
from dpstream.paper.claims.wording import listed, number, steps
from dpstream.paper.model import Claim, ClaimMaker, Row, column, judge

__all__ = ["HONAKER", "all_nodes_law"]


def _honaker(quick: bool, build: Callable[[int], Honaker] = Honaker) -> Claim:
    dense = (7, 63, 250) if quick else (7, 63, 250, 1023)
    gap = max(_largest_gap(build(T)) for T in dense)
    rows: list[Row] = []
    for T in (250, 1023, 2**16 - 1, 10**5) if quick else (250, 1023, 2**16 - 1, 10**5, 2**20, 10**7):
        ours, binary = build(T), Binary(T)
        h = T.bit_length()
        nodes = ours.max_variance() / ours.sensitivity() ** 2 * h
        rows.append(
            {
                "T": T,
                "draws a step": ours.draws_per_step.worst,
                "moves a step": (T + int(ours.moves(1, T).pops.sum(dtype=np.int64))) / T,
                "binary max V": round(binary.max_variance(), 6),
                "max V, sensitivity of nodes": nodes,
                "max V, sensitivity of releases": ours.max_variance(),
            }
        )
    binary_V = np.array(column(rows, "binary max V"))
    factors = binary_V / np.array(column(rows, "max V, sensitivity of nodes"))
    released = binary_V / np.array(column(rows, "max V, sensitivity of releases"))
    linear = max(column(rows, "moves a step")) < 2 and max(column(rows, "draws a step")) == 1
    holds = gap < 1e-9 and bool((factors < 2).all())
    sharper = (
        "O(T log T) time is not tight. A new node's estimate is a fresh draw plus fixed multiples of the estimates "
        f"that it replaces: one draw a step, fewer than {number(max(column(rows, 'moves a step')))} values stored or "
        f"dropped a step, O(T) in all, and the same law: the covariance differs by at most {number(gap)} from that of "
        f"the whole tree at T = {listed(steps(T) for T in dense)}. And with the sensitivity of its releases the "
        "factor is "
        f"{number(float(released.min()))} to {number(float(released.max()))}, beyond 2."
        if linear and gap < 1e-9 and released.max() > 2
        else ""
    )
    return Claim(
        HONAKER.key,
        HONAKER.title,
        "Honaker's online estimate takes O(T log T) time for T releases, and its variance is lower than the binary "
        "mechanism's by at most a factor 2.",
        "Largest V of the binary mechanism over Honaker's, both with the sensitivity of their nodes, at "
        f"T = {listed(steps(int(T)) for T in column(rows, 'T'))}: {listed(number(float(f)) for f in factors)}.",
        judge(holds, sharper),
        sharper,
        rows,
    )


def all_nodes_law(horizon: int) -> NDArray[np.float64]:
    """Return the covariance of the estimate from below as it is usually made: unit noise at every node of the tree.

    The estimate of a node of level l mixes its own value, with weight c_l = 2^l/(2^(l+1) - 1), and the sum of its
    children's estimates; release t adds the estimates of the nodes of its binary form.

    >>> all_nodes_law(2).round(4).tolist()  # [1, 2] is estimated from itself, 2/3, and from its children, 1/3
    [[1.0, 0.3333], [0.3333, 0.6667]]
    """
    columns = 2 * 2 ** horizon.bit_length()
    estimates: dict[tuple[int, int], NDArray[np.float64]] = {}
    used = 0
    for level in range(horizon.bit_length()):
        c = 2.0**level / (2.0 ** (level + 1) - 1)
        for i in range(horizon >> level):
            own = np.zeros(columns)
            own[used] = 1.0
            used += 1
            if level:
                own = c * own + (1 - c) * (estimates[level - 1, 2 * i] + estimates[level - 1, 2 * i + 1])
            estimates[level, i] = own
    L = np.zeros((horizon, columns))
    for t in range(1, horizon + 1):
        for level in range(t.bit_length()):
            if t >> level & 1:
                L[t - 1] += estimates[level, (t >> level) - 1]
    covariance: NDArray[np.float64] = L @ L.T
    return covariance


def _largest_gap(mechanism: Honaker) -> float:
    L, R = mechanism.factors()
    sums = np.abs(L @ R - np.tri(mechanism.horizon)).max()
    return float(max(np.abs(L @ L.T - all_nodes_law(mechanism.horizon)).max(), sums))


HONAKER = ClaimMaker("honaker-time", "Table 1, Honaker online", _honaker)
