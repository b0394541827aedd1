"""Lemma 3.5, constant average time, and Lemma 3.6, logarithmic space: which nodes are replaced, and when."""

from __future__ import annotations

from collections.abc import Callable
from math import comb
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpstream.charts import curve, new_figure
from dpstream.mechanisms import Binary, SmoothBinary
from dpstream.mechanisms.labels import lowest_run_of_ones, next_label, sum_over_leaves
from dpstream.paper.claims.wording import listed, number, steps
from dpstream.paper.model import Claim, ClaimMaker, Row, column, judge

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FRESH_NOISE", "LEMMA_3_5", "LEMMA_3_6"]


def stated_count(half: int) -> int:
    """The paper's number of replaced nodes in a full tree of height 2·half."""
    return comb(2 * half + 1, half + 1) - (2 * half + 1)


def _lemma_3_5(quick: bool, stated: Callable[[int], int] = stated_count) -> Claim:
    rows: list[Row] = []
    agreeing, holds = 0, True
    for half in range(1, 9 if quick else 12):
        blocks = _blocks(half)
        T, total = len(blocks), int(blocks.sum())
        proof = [_double_sum(half), _single_sum(half)]
        agreeing += total - half == stated(half) == proof[0] == proof[1]
        holds = holds and stated(half) <= 2 * comb(2 * half, half) and stated(half) <= 2 * T
        # The trees of this height serve the horizons that the next smaller one cannot.
        first = comb(2 * half - 2, half - 1)
        averages = (np.cumsum(blocks) / np.arange(1, T + 1))[first - 1 :]
        tree = SmoothBinary.paper(T)
        rows.append(
            {
                "k": half,
                "T": T,
                "replaced from release 2 on": total - half,
                "stated": stated(half),
                "all releases": total,
                "most in one": int(blocks.max()),
                "largest average at any T": float(averages.max()),
                "at T": first + int(averages.argmax()),
                "our most draws in one": tree.draws_per_step.worst,
                "our average": tree.draws_per_step.average,
            }
        )
    worst = max(rows, key=lambda row: float(row["largest average at any T"]))
    highest = int(rows[-1]["k"])
    far = _average(10**12)
    holds = holds and agreeing == len(rows) and float(worst["largest average at any T"]) <= 4 and far <= 4
    most, average = max(column(rows, "our most draws in one")), max(column(rows, "our average"))
    ratio = (comb(2 * highest, highest) - 1) / comb(2 * highest - 2, highest - 1)
    sharper = (
        f"1. The average over any horizon up to {steps(int(rows[-1]['T']))} is at most "
        f"{number(float(worst['largest average at any T']))} (at "
        f"T = {worst['at T']}), first release included, not 4; the paper's comparison with the next full tree, up to "
        f"{number(ratio)} times as long, gives {number(2 * ratio)} by itself. "
        "2. All replaced nodes but one cover no element and live for one step: their Gaussian noise can be drawn as "
        f"one. So a step takes {number(most)} draws in the worst case, not up to {highest} at height {2 * highest}, "
        f"and {number(average)} on average, with the same law."
        if most == 2
        else ""
    )
    return Claim(
        LEMMA_3_5.key,
        LEMMA_3_5.title,
        "Releasing all T = C(2k, k) - 1 sums of a full tree of height 2k replaces C(2k+1, k+1) - (2k+1) ≤ 2·C(2k, k) "
        "nodes, so at most 2 a release on average; for other T at most 4 on average, and O(log T) in a single release.",
        f"Counted label by label for k = 1 to {highest}: equal to the formula, and to the sums in its proof, in "
        f"{agreeing} of {len(rows)} cases, if the count starts with the second release; the first needs another k "
        "nodes. With them the average in "
        f"a full tree is at most {number(max(float(row['all releases']) / float(row['T']) for row in rows))}, and "
        f"{number(far)} at T = 10^12. A single release replaces up to {number(max(column(rows, 'most in one')))}.",
        judge(holds, sharper),
        sharper,
        rows,
    )


def _blocks(half: int) -> NDArray[np.int64]:
    """How many nodes each release of a full tree replaces."""
    label, blocks = (1 << half) - 1, []
    for _ in range(comb(2 * half, half) - 1):
        blocks.append(lowest_run_of_ones(label))
        label = next_label(label)
    return np.array(blocks, dtype=np.int64)


def _double_sum(k: int) -> int:
    return -k + sum(n * comb(i, k - n) for n in range(1, k + 1) for i in range(k - n, 2 * k - n))


def _single_sum(k: int) -> int:
    return -2 * k + sum(comb(k + i, k) for i in range(1, k + 1))


def _average(T: int) -> float:
    """Nodes replaced a release: release t replaces one more than label m(t + 1) has trailing ones."""
    tree = SmoothBinary.paper(T)
    trailing = sum_over_leaves(tree.zeros, tree.ones, T + 1, lambda z, o: comb(z + o, z + 1)) - tree.ones
    return 1 + trailing / T


def _fresh_noise(_: bool) -> Claim:
    rows: list[Row] = []
    for T in (250, 10**5, 10**7, 10**12):
        draws, binary = SmoothBinary.paper(T).draws_per_step, Binary(T).draws_per_step.average
        rows.append({"T": T, "binary": binary, "smooth": _average(T), "smooth, ours": draws.average})
    ratios = [smooth / binary for smooth, binary in zip(column(rows, "smooth"), column(rows, "binary"), strict=True)]
    ours = column(rows, "smooth, ours")
    sharper = (
        f"Drawing a step's padding as one takes {number(min(ours))} to {number(max(ours))} draws a step instead."
        if max(ours) < min(ratios)
        else ""
    )
    return Claim(
        FRESH_NOISE.key,
        FRESH_NOISE.title,
        "The smooth binary mechanism draws twice as much fresh noise a step as the binary mechanism, on average.",
        f"Exact averages at T = {listed(steps(int(T)) for T in column(rows, 'T'))}: "
        f"{listed(number(ratio) for ratio in ratios)} times as much.",
        judge(all(abs(ratio - 2) < 0.25 for ratio in ratios), sharper),
        sharper,
        rows,
    )


def _lemma_3_6(quick: bool, build: Callable[[int], SmoothBinary] = SmoothBinary.paper) -> Claim:
    rows: list[Row] = []
    holds = True
    for T in (5, 69, 923) if quick else (5, 69, 923, 12869):
        tree = build(T)
        seen: set[tuple[int, int]] = set()
        held: set[tuple[int, int]] = set()
        back = most = 0
        for t in range(1, T + 1):
            nodes = set(tree.nodes(t))
            back += len((nodes - held) & seen)
            seen |= nodes
            held, most = nodes, max(most, len(nodes))
        holds = holds and back == 0 and most == tree.ones
        rows.append({"T": T, "nodes in use": most, "come back": back, "we store": tree.memory, "log2 T": _log(T)})
    far = {T: build(T).memory for T in (10**6, 10**9, 10**12, 2**50)}
    holds = holds and all(memory <= _log(T) for T, memory in far.items())
    sharper = (
        f"The constant is about 1/2: {listed(f'{memory} values at T = {steps(T)}' for T, memory in far.items())}. "
        f"Padding is never stored: a run of 923 steps holds {number(_stored(build(923)))} of its {build(923).ones} "
        "nodes on average."
        if all(2 * memory <= 1.3 * _log(T) for T, memory in far.items())
        else ""
    )
    return Claim(
        LEMMA_3_6.key,
        LEMMA_3_6.title,
        "The smooth binary mechanism runs in O(log T) space: a node that has left a sum never comes back, so that only "
        "the nodes of the current sum must be kept (proof in Appendix A).",
        f"Node by node at T = {listed(steps(int(T)) for T in column(rows, 'T'))}: "
        f"{number(sum(column(rows, 'come back')))} nodes come back, and "
        f"{listed(number(most) for most in column(rows, 'nodes in use'))} are in use at once.",
        judge(holds, sharper),
        sharper,
        rows,
    )


def _log(T: int) -> float:
    return float(np.log2(float(T)))


def _stored(tree: SmoothBinary) -> float:
    """How many entries the stream holds after a step, on average, counted by running it."""
    state, total = tree.start(), 0
    for t in range(1, tree.horizon + 1):
        _, state = tree.advance(state, [0.0] * tree.draws_at(t))
        total += len(state.stack)
    return total / tree.horizon


def _draw_lemma_3_5(claim: Claim) -> Figure:
    figure = new_figure()
    axes = figure.subplots()
    T, full = column(claim.rows, "T"), np.array(column(claim.rows, "all releases"))
    axes.plot(
        column(claim.rows, "at T"),
        column(claim.rows, "largest average at any T"),
        **curve("Binary", markers=True),
        label="as published, the worst horizon of each height",
    )
    axes.plot(T, full / T, **curve("SmoothBinary.paper", markers=True), label="as published, full trees")
    axes.plot(T, column(claim.rows, "our average"), **curve("SmoothBinary", markers=True), label="padding drawn as one")
    axes.set(xscale="log", xlabel="horizon T", ylabel="draws a release, on average", ylim=(0.9, 2.5))
    axes.grid(alpha=0.3)
    axes.legend()
    return figure


LEMMA_3_5 = ClaimMaker("lemma-3.5", "Lemma 3.5", _lemma_3_5, _draw_lemma_3_5)
LEMMA_3_6 = ClaimMaker("lemma-3.6", "Lemma 3.6", _lemma_3_6)
FRESH_NOISE = ClaimMaker("fresh-noise", "Section 4, fresh noise", _fresh_noise)
