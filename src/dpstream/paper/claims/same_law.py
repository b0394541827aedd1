"""The identical law of every release's error: exactly, and in two-sample tests on the noise that is really made."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import exp
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from dpstream.mechanisms import Binary, SmoothBinary
from dpstream.mechanisms.base import NoiseLaw
from dpstream.mechanisms.labels import label_at
from dpstream.noise import NoiseStream
from dpstream.paper.claims.small_trees import node_matrices
from dpstream.paper.claims.wording import listed, number, steps
from dpstream.paper.model import Claim, ClaimMaker, Row, column, judge
from dpstream.testing import fixed_key

__all__ = ["FALSE_ALARM", "SAME_LAW"]

#: The chance that a right mechanism fails any of the two-sample tests, over the choice of key.
FALSE_ALARM = 1e-6
_HORIZON = 19

Build = Callable[[int, NoiseLaw], SmoothBinary]


def _padded(horizon: int, noise: NoiseLaw) -> SmoothBinary:
    half = SmoothBinary.paper(horizon).ones
    return SmoothBinary(horizon, noise=noise, padded=True, sensitivity_of="nodes", zeros=half, ones=half)


def _same_law(quick: bool, build: Build = _padded) -> Claim:
    dense = (5, 69, 250) if quick else (5, 69, 250, 923)
    counts = {T: set(node_matrices(build(T, "gaussian"))[0].sum(axis=1).tolist()) for T in dense}
    far = build(10**12, "gaussian")
    spread = np.random.default_rng(1).integers(1, 10**12, 1000)
    labels = {label_at(far.zeros, far.ones, int(t)).bit_count() for t in spread}
    rows: list[Row] = []
    for noise in ("gaussian", "laplace"):
        rows += _two_samples(build(_HORIZON, noise), 20_000 if quick else 100_000)
    least = min(column(rows, "p"))
    failed = sum(p * len(rows) < FALSE_ALARM for p in column(rows, "p"))
    holds = not failed and labels == {far.ones} and all(len(found) == 1 for found in counts.values())
    unpadded = SmoothBinary(1023, padded=False, zeros=7, ones=7)
    padded = SmoothBinary(1023, padded=True, sensitivity_of="releases", zeros=7, ones=7)
    sharper = (
        "What the identical law costs: nodes without elements, at T = 1,023 a mean V of "
        f"{number(build(1023, 'gaussian').mean_variance())} where {number(unpadded.mean_variance())} would do, and the "
        "same largest. But with Gaussian noise and the sensitivity of the releases the same padding also hides the "
        f"nodes, and V falls to {number(padded.max_variance())} at every step: the identical law then costs nothing."
        if padded.max_variance() < unpadded.mean_variance()
        else ""
    )
    return Claim(
        SAME_LAW.key,
        SAME_LAW.title,
        "With k ones in every label, the error of each release is a sum of k independent draws, so that it has the "
        "same law at every step, whatever the law of a draw. (Any mechanism can be given this by adding fresh noise.)",
        f"A release sums {listed(' or '.join(map(str, sorted(found))) for found in counts.values())} nodes, for all t "
        f"at T = {listed(steps(T) for T in dense)}, and {' or '.join(map(str, sorted(labels)))} for 1,000 random t at "
        f"T = 10^12. On real noise at T = {_HORIZON}, Gaussian and Laplace, {len(rows)} "
        f"two-sample Kolmogorov-Smirnov tests between releases have a least p of {number(least)}; {failed} fail at "
        f"a false-alarm rate of {FALSE_ALARM:g} for all together. The binary mechanism with fresh noise added up to "
        f"its largest variance has rows of one norm too: {_evened(250)} of 250 at T = 250.",
        judge(holds, sharper),
        sharper,
        rows,
    )


def _two_samples(tree: SmoothBinary, streams: int) -> list[Row]:
    """Compare each release with the next, and with the first, on different streams: their noise is independent."""
    half = streams // 2
    exact = tree.noise == "laplace"
    # Integers so fine that no ties blur the test.
    stream = NoiseStream(
        tree, 1e6 if exact else 1.0, (streams,), dtype="int64" if exact else "float64", key=fixed_key("one law")
    )
    noise: NDArray[Any] = stream.block(tree.horizon)
    pairs = sorted({*pairwise(range(tree.horizon)), *((0, t) for t in range(1, tree.horizon))})
    rows: list[Row] = []
    for first, second in pairs:
        distance = float(scipy.stats.ks_2samp(noise[first, :half], noise[second, half:], method="asymp").statistic)
        # Two samples of n ≥ 458 of one law are further apart with at most this chance (Wei, Dudley 2011,
        # arXiv:1107.5356): no approximation, so that the false-alarm rate is kept.
        chance = min(1.0, 2 * exp(-half * distance**2))
        rows.append({"noise": tree.noise, "t": first + 1, "u": second + 1, "distance": distance, "p": chance})
    return rows


def _evened(horizon: int) -> int:
    """How many rows of a binary tree have the largest norm once fresh noise fills them up."""
    L, R = Binary(horizon).factors()
    fresh = np.sqrt((L**2).sum(axis=1).max() - (L**2).sum(axis=1))
    wide, tall = np.hstack([L, np.diag(fresh)]), np.vstack([R, np.zeros((horizon, horizon))])
    norms = (wide**2).sum(axis=1)
    return int(np.isclose(norms, norms.max()).sum()) if np.array_equal(wide @ tall, np.tri(horizon)) else 0


SAME_LAW = ClaimMaker("same-law", "Section 3.2, one law at every step", _same_law)
