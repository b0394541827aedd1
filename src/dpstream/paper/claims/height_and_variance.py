"""How high the tree must be, and Lemma 3.4, which follows from it: Section 3.2.

The paper's text prescribes the smallest even h of at least ⌈log2 T⌉ + log2 log2 T; the numbers of its figures come from
the smallest even h that has enough leaves, which is what `SmoothBinary.paper` builds. Both are looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, comb, log2
from typing import TYPE_CHECKING

import numpy as np

from dpstream.charts import ACCENT, GREY, curve, new_figure
from dpstream.mechanisms import SmoothBinary
from dpstream.paper.claims.wording import listed, number, steps
from dpstream.paper.model import Claim, ClaimMaker, Row, column, judge

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["HEIGHT", "LEMMA_3_4"]

Height = Callable[[int], int]


def prescribed_height(T: int) -> int:
    """The paper's rule.

    >>> prescribed_height(250), smallest_height(250)
    (12, 10)
    """
    return 2 * ceil(((T - 1).bit_length() + log2(log2(T))) / 2)


def smallest_height(T: int) -> int:
    """The height of the tree that `SmoothBinary.paper` builds."""
    tree = SmoothBinary.paper(T)
    return tree.zeros + tree.ones


def _height(quick: bool, rule: Height = prescribed_height) -> Claim:
    last = 10**4 if quick else 10**5
    short = [T for T in range(3, last + 1) if comb(rule(T), rule(T) // 2) < T + 1]
    T = np.arange(13, last + 1, dtype=np.float64)
    log = np.log2(T)
    chain = log * T / np.sqrt(2 * (np.ceil(log) + np.log2(log))) - (T + 1)
    heights = range(2, 2000, 2)
    unequal = sum(comb(h, h // 2) ** 2 * 2 * h < 4**h for h in heights)
    # From one T to the next only the height's steps matter: the last T before each step is the hardest.
    far = [h for h in range(8, 400, 2) if _log_leaves(h) < _last_log(h)]
    less = [h for h in range(8, 4000, 2) if _log_leaves(h) < _last_log(h, 0.6)]
    rows: list[Row] = [
        {
            "T": T,
            "prescribed height": rule(T),
            "smallest height": smallest_height(T),
            "prescribed V": (rule(T) / 2) ** 2,
            "smallest V": (smallest_height(T) / 2) ** 2,
        }
        for T in (13, 20, 69, 250, 1023, 4096, 2**16, 2**20, 10**7, 10**9, 10**12)
    ]
    holds = not unequal and bool((chain >= 0).all()) and all(T < 13 for T in short) and not far and _ends(less)
    higher = [row for row in rows if row["prescribed height"] != row["smallest height"]]
    sharper = (
        f"The rule often asks for more than is needed: at {len(higher)} of {len(rows)} horizons looked at, for "
        f"instance height {rows[3]['prescribed height']} and V = {number(float(rows[3]['prescribed V']))} at T = 250, "
        f"where height {rows[3]['smallest height']} and V = {number(float(rows[3]['smallest V']))} are enough. The "
        "smallest even h with C(h, h/2) ≥ T + 1 is as easy to find."
        if rows[3] in higher
        else ""
    )
    return Claim(
        HEIGHT.key,
        HEIGHT.title,
        "C(h, h/2) ≥ 2^h/√(2h), so the smallest even h ≥ ⌈log2 T⌉ + log2 log2 T gives at least "
        "T·log2 T/√(2(⌈log2 T⌉ + log2 log2 T)) ≥ T + 1 balanced leaves for T ≥ 13. A factor a > 1/2 before log2 log2 T "
        "is enough for large T.",
        f"The first inequality, in whole numbers, fails for {unequal} of the even h up to {heights[-1]}; the last for "
        f"{int((chain < 0).sum())} of the T from 13 to {steps(last)}, with {number(float(chain.min()))} to spare at "
        "the tightest. "
        f"The rule gives too few leaves for {len(short)} of the T from 3 to {steps(last)}"
        + (f" (the last: {short[-1]})" if short else "")
        + f", and for {len(far)} of the hardest T of each height up to 398, where T is some 2^{_last_log(398):.0f}. "
        f"With 0.6·log2 log2 T it gives too few at {len(less)} heights below 4,000"
        + (f", the last of them {less[-1]}." if less else "."),
        judge(holds, sharper),
        sharper,
        rows,
    )


def _log_leaves(height: int) -> float:
    return log2(comb(height, height // 2))


def _last_log(height: int, a: float = 1.0) -> float:
    """log2 of the last T for which the paper's rule gives this height: ⌈log2 T⌉ + a·log2 log2 T ≤ height."""
    whole = height
    while whole + a * log2(whole) > height:
        whole -= 1
    # Beyond 2^whole the first term is one larger, and the second may still leave room.
    room: float = 2.0 ** ((height - whole - 1) / a)
    return max(float(whole), min(whole + 1.0, room))


def _ends(failing: list[int]) -> bool:
    """Whether failures stop well before the end of what was looked at."""
    return not failing or failing[-1] < 2000


def _lemma_3_4(quick: bool, height: Height = smallest_height) -> Claim:
    rows = [_excess(T, height(T)) for T in _horizons(quick)]
    beyond = [row for row in rows if float(row["excess"]) > float(row["stated bound"])]
    mended = [row for row in rows if float(row["excess"]) > float(row["mended bound"])]
    prescribed = [_excess(int(row["T"]), prescribed_height(int(row["T"]))) for row in rows]
    mended += [row for row in prescribed if float(row["excess"]) > float(row["mended bound"])]
    kept = [steps(int(row["T"])) for row in prescribed if float(row["excess"]) <= float(row["stated bound"])]
    worst = max(rows, key=lambda row: float(row["excess"]) - float(row["stated bound"]))
    lasting = _last_failure(height)
    computed = (
        f"The excess of V over log2(T)²/4 at {len(rows)} horizons from 13 to {steps(int(rows[-1]['T']))}, with the "
        f"smallest even height: {number(max(column(rows, 'excess')))} at most, {number(float(rows[-1]['excess']))} at "
        f"the last. It is above the stated bound at {len(beyond)} of them"
        + (
            f", most at T = {steps(int(worst['T']))} ({number(float(worst['excess']))} against "
            f"{number(float(worst['stated bound']))})"
            if beyond
            else ""
        )
        + f". With the prescribed height it is above the bound at {len(rows) - len(kept)} of {len(rows)}."
    )
    sharper = (
        "The bound forgets that h is rounded up twice, to an integer and to an even one. With log2 log2 T + 3 in place "
        "of log2 log2 T it holds for either height, at all horizons looked at. As it stands, the smallest even height "
        f"breaks it for the last time at T = {steps(lasting)} and keeps it from there on (checked at the first T of "
        "every height up to 2,000), since the height needs only log2 T + ½·log2 log2 T + O(1); the prescribed height "
        f"keeps it only where nothing is rounded, at T = {listed(kept)}."
        if beyond and lasting and kept and not mended
        else ""
    )
    return Claim(
        LEMMA_3_4.key,
        LEMMA_3_4.title,
        "For T ≥ 13 the smooth binary mechanism has variance (1 + o(1))·log2(T)²/(8ρ) at every step, with an o(1) of "
        "at most 2·log2 log2 T/log2 T + (log2 log2 T/log2 T)².",
        computed,
        judge(not beyond, sharper),
        sharper,
        rows,
    )


def _horizons(quick: bool) -> list[int]:
    """The first and last T of every height up to 10^12, the powers of two, and some between."""
    ends = [T for half in range(3, 22) for T in (comb(2 * half - 2, half - 1), comb(2 * half, half) - 1)]
    powers = [2**i for i in range(4, 40)]
    between = np.geomspace(13, 10**12, 50 if quick else 1000).round().astype(np.int64).tolist()
    return sorted({T for T in [*ends, *powers, *between, 10**12] if 13 <= T <= 10**12})


def _excess(T: int, height: int) -> Row:
    log, loglog = log2(T), log2(log2(T))
    return {
        "T": T,
        "height": height,
        "V": (height / 2) ** 2,
        "excess": height**2 / log**2 - 1,
        "stated bound": 2 * loglog / log + (loglog / log) ** 2,
        "mended bound": 2 * (loglog + 3) / log + ((loglog + 3) / log) ** 2,
    }


def _last_failure(height: Height) -> int:
    """The last T at which the stated bound fails, 0 if it does not: within a height, the first T are the hardest."""

    def fails(T: int, h: int) -> bool:
        return h > log2(T) + log2(log2(T))

    firsts = {2 * half: comb(2 * half - 2, half - 1) for half in range(4, 1001)}
    failing = [h for h, T in firsts.items() if fails(T, h)]
    if not failing or height(firsts[failing[-1]]) != failing[-1]:
        return 0
    low, high = firsts[failing[-1]], firsts[failing[-1] + 2]
    while high - low > 1:
        middle = (low + high) // 2
        if fails(middle, failing[-1]):
            low = middle
        else:
            high = middle
    return low


def _draw_lemma_3_4(claim: Claim) -> Figure:
    figure = new_figure()
    axes = figure.subplots()
    T = column(claim.rows, "T")
    axes.plot(
        T, column(claim.rows, "excess"), **curve("SmoothBinary.paper"), label="excess of the smallest even height"
    )
    axes.plot(T, column(claim.rows, "stated bound"), color=ACCENT, linestyle="--", label="Lemma 3.4's bound")
    axes.plot(T, column(claim.rows, "mended bound"), color=GREY, linestyle=":", label="the bound with log2 log2 T + 3")
    axes.set(xscale="log", xlabel="horizon T", ylabel="V / (log2(T)²/4) - 1", ylim=(0, 3))
    axes.grid(alpha=0.3)
    axes.legend()
    return figure


HEIGHT = ClaimMaker("height", "Section 3.2, a penalty in height", _height)
LEMMA_3_4 = ClaimMaker("lemma-3.4", "Lemma 3.4", _lemma_3_4, _draw_lemma_3_4)
