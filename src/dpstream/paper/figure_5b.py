"""Figure 5b: how many numbers are held in memory, against the horizon."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import TYPE_CHECKING

from dpstream.charts import curve, legend_below, new_figure
from dpstream.mechanisms import Binary, BufferedToeplitz, SmoothBinary, SquareRoot
from dpstream.mechanisms.base import Mechanism
from dpstream.paper.as_published import PlainSmooth, square_root_at_once
from dpstream.paper.measuring import WIDE, held_by, most_held
from dpstream.paper.model import Grid, Measured, Part, Progress, Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PART", "compute", "draw"]

PLAIN = "Smooth binary, plain NumPy (paper)"
AT_ONCE = "Henzinger et al., matmul_toeplitz (paper)"


def _plain(horizon: int) -> float:
    """The most that the plain version holds: its nodes, and the running total."""
    noise, most = PlainSmooth(horizon, WIDE), 0.0
    for _ in range(horizon):
        noise.step()
        most = max(most, held_by(vars(noise), WIDE).vectors)
    return most


def _at_once(horizon: int) -> float:
    """The peak memory of the one call, in doubles, for one coordinate."""
    square_root_at_once(horizon, 1)  # coefficients are made once, and kept
    tracemalloc.start()
    try:
        square_root_at_once(horizon, 1)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return peak / 8


def _streamed(make: Callable[[int], Mechanism]) -> Callable[[int], float]:
    return lambda horizon: most_held(make(horizon), horizon).vectors


#: Title: (look, hollow marker, log2 of the longest horizon, what to measure).
METHODS: dict[str, tuple[str, bool, int, Callable[[int], float]]] = {
    AT_ONCE: ("SquareRoot", True, 20, _at_once),
    "Henzinger et al., streaming (ours)": ("SquareRoot", False, 14, _streamed(SquareRoot)),
    "Binary (ours)": ("Binary", False, 16, _streamed(Binary)),
    PLAIN: ("SmoothBinary.paper", True, 16, _plain),
    "Smooth binary (ours)": ("SmoothBinary", False, 16, _streamed(SmoothBinary)),
    "Buffered Toeplitz (ours)": ("BufferedToeplitz", False, 16, _streamed(BufferedToeplitz)),
}


def compute(quick: bool, report: Progress) -> Measured:
    """The most that each method holds, counted while it runs."""
    exponents = (4, 6, 8, 10) if quick else range(4, 21)
    rows: list[Row] = []
    for i, e in enumerate(exponents):
        for title, (_, _, longest, measure) in METHODS.items():
            if e <= longest:
                rows.append({"method": title, "T": 2**e, "numbers": measure(2**e)})
        report((i + 1) / len(exponents))
    lines = []
    for title in METHODS:
        found = [row for row in rows if row["method"] == title]
        lines.append([title, f"{int(found[-1]['T']):,}", f"{float(found[-1]['numbers']):,.0f}"])
    last = next(row for row in reversed(rows) if row["method"] == AT_ONCE)
    peak = float(last["numbers"]) / float(last["T"])
    findings = [
        "Numbers for each coordinate of a release, counted in the memory of the running program between two releases"
        f" (matmul_toeplitz: at its peak, as Python's allocator sees it). Ours are measured on streams of {WIDE}"
        " coordinates.",
        f"matmul_toeplitz holds {peak:.0f} numbers for each step: draws, padded transforms and the result, all at"
        " once.",
        "Our smooth tree keeps no running total and no noise for padding nodes: as many vectors as its labels have"
        " ones.",
    ]
    return Measured(rows, findings, Grid(["method", "longest T measured", "numbers held"], lines))


def draw(data: Measured) -> Figure:
    """Numbers held over T, both logarithmic."""
    figure = new_figure(7.0, 4.8)
    axes = figure.subplots()
    for title, (name, hollow, _, _) in METHODS.items():
        look = curve(name, markers=True)
        rows = [row for row in data.rows if row["method"] == title]
        face = "white" if hollow else look["color"]
        held = [float(row["numbers"]) for row in rows]
        axes.plot([float(row["T"]) for row in rows], held, label=title, markerfacecolor=face, **look)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set(xlabel="horizon T (releases)", ylabel="numbers held for each coordinate")
    legend_below(figure)
    return figure


PART = Part(
    "figure-5b",
    "Figure 5b: memory",
    "The maximum number of floats that has to be stored in memory when outputting all prefix sums up to a given time:"
    " logarithmic in T for the tree-based methods, linear for matrix multiplication.",
    "Numbers held in memory against the horizon: two straight lines for the methods that grow with T, flat ones for"
    " trees and for the buffered Toeplitz mechanism. Hollow markers are the paper's methods.",
    compute,
    draw,
)
