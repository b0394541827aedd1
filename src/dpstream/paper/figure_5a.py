"""Figure 5a: computation time per input of 10^4 coordinates, five runs of each method at each horizon."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import TYPE_CHECKING

from dpstream.charts import curve, legend_below, new_figure
from dpstream.mechanisms import Binary, BufferedToeplitz, SmoothBinary, SquareRoot
from dpstream.paper.as_published import PlainSmooth, square_root_at_once
from dpstream.paper.model import Grid, Measured, Part, Progress, Row
from dpstream.paper.table_1_time import all_outputs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["COORDINATES", "METHODS", "PART", "compute", "draw"]

COORDINATES = 10**4
RUNS = 5

#: Seconds, in pieces that add up.
Run = Callable[[], list[float]]


def _plain_smooth(horizon: int) -> Run:
    def run() -> list[float]:
        noise = PlainSmooth(horizon, COORDINATES)
        start = time.perf_counter()
        for _ in range(horizon):
            noise.step()
        return [time.perf_counter() - start]

    return run


def _at_once(horizon: int) -> Run:
    def run() -> list[float]:
        start = time.perf_counter()
        square_root_at_once(horizon, COORDINATES)
        return [time.perf_counter() - start]

    return run


#: Title: (look, hollow marker, log2 of the longest horizon, what to run). Hollow: not our implementation.
METHODS: dict[str, tuple[str, bool, int, Callable[[int], Run]]] = {
    "Smooth binary, plain NumPy (paper)": ("SmoothBinary.paper", True, 14, _plain_smooth),
    "Henzinger et al., matmul_toeplitz (paper)": ("SquareRoot", True, 11, _at_once),
    "Henzinger et al., streaming (ours)": ("SquareRoot", False, 12, lambda T: all_outputs(SquareRoot(T), COORDINATES)),
    "Binary (ours)": ("Binary", False, 14, lambda T: all_outputs(Binary(T), COORDINATES)),
    "Smooth binary (ours)": ("SmoothBinary", False, 14, lambda T: all_outputs(SmoothBinary(T), COORDINATES)),
    "Buffered Toeplitz (ours)": (
        "BufferedToeplitz",
        False,
        14,
        lambda T: all_outputs(BufferedToeplitz(T), COORDINATES),
    ),
}


def compute(quick: bool, report: Progress) -> Measured:
    """Five runs of every method at every horizon, in turns, so that a noisy moment hits all of them."""
    exponents = (3, 5, 7) if quick else (4, 6, 8, 10, 11, 12, 13, 14)
    _at_once(8)()  # SciPy loads its FFT at the first call
    rows: list[Row] = []
    for i, e in enumerate(exponents):
        runs = {title: prepare(2**e) for title, (_, _, longest, prepare) in METHODS.items() if e <= longest}
        for number in range(RUNS):
            for title, run in runs.items():
                rows.append({"method": title, "T": 2**e, "run": number + 1, "us_per_input": 1e6 * sum(run()) / 2**e})
            report((i + (number + 1) / RUNS) / len(exponents))
    common = 2 ** max(e for e in exponents if all(e <= longest for _, _, longest, _ in METHODS.values()))
    at_common = {title: median(_times(rows, title, common)) for title in METHODS}
    lines = []
    for title in METHODS:
        reached = max(int(row["T"]) for row in rows if row["method"] == title)
        times = _times(rows, title, reached)
        lines.append(
            [
                title,
                f"{at_common[title]:.1f}",
                f"{at_common['Smooth binary, plain NumPy (paper)'] / at_common[title]:.1f}",
                f"{reached:,}",
                f"{median(times):.1f}",
                f"{min(times):.1f} – {max(times):.1f}",
            ]
        )
    slow, ours, binary = (
        at_common[title] for title in ("Smooth binary, plain NumPy (paper)", "Smooth binary (ours)", "Binary (ours)")
    )
    toeplitz, streamed = at_common["Henzinger et al., matmul_toeplitz (paper)"], at_common["Buffered Toeplitz (ours)"]
    findings = [
        f"d = {COORDINATES:,}, {RUNS} runs of each method at each horizon, taken in turns. The paper's two methods are"
        " its algorithms in plain NumPy and SciPy, in float64; ours are NoiseStream in float32 on one thread, with a"
        " keyed generator fit for secrets.",
        f"At T = {common:,} the plain version takes {slow / ours:.1f} times as long as ours, which takes"
        f" {ours / binary:.2f} times as long as our binary mechanism (the paper: twice as much fresh noise; here at"
        " most two draws a release, the second only where there is padding).",
        f"matmul_toeplitz takes {toeplitz / slow:.1f} times as long as the plain smooth binary mechanism, and"
        f" {toeplitz / streamed:.0f} times as long as the buffered Toeplitz mechanism, whose error is within a few per"
        " cent of its own or below.",
        "Curves stop where memory does: matmul_toeplitz holds all T releases and their Fourier transforms at once"
        " (figure 5b counts them), the streaming square root half the horizon.",
    ]
    headings = [
        "method",
        f"µs an input, T = {common:,}",
        "times faster than plain",
        "longest T",
        "µs an input there",
        "least – most",
    ]
    return Measured(rows, findings, Grid(headings, lines))


def _times(rows: list[Row], title: str, horizon: int) -> list[float]:
    return [float(row["us_per_input"]) for row in rows if row["method"] == title and row["T"] == horizon]


def draw(data: Measured) -> Figure:
    """Every run a point, the medians a line."""
    figure = new_figure(7.0, 4.8)
    axes = figure.subplots()
    for title, (name, hollow, _, _) in METHODS.items():
        look = curve(name, markers=True)
        rows = [row for row in data.rows if row["method"] == title]
        reached = sorted({int(row["T"]) for row in rows})
        face = "white" if hollow else look["color"]
        axes.plot(reached, [median(_times(rows, title, T)) for T in reached], label=title, markerfacecolor=face, **look)
        points = look | {"linestyle": "none", "markersize": 4, "alpha": 0.5, "markerfacecolor": face}
        axes.plot([float(row["T"]) for row in rows], [float(row["us_per_input"]) for row in rows], **points)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set(xlabel="horizon T (releases)", ylabel=f"µs an input of {COORDINATES:,} numbers")
    legend_below(figure)
    return figure


PART = Part(
    "figure-5a",
    "Figure 5a: computation time",
    "Average computational time per output for elements of dimension d = 10^4, five runs for each method. The smooth"
    " binary mechanism in Python outperforms Henzinger et al. by matmul_toeplitz; it generates twice as much fresh"
    " noise per time step on average as the binary mechanism, which likely is the dominating time sink.",
    "Microseconds for an input of ten thousand numbers against the horizon, five points for each method and horizon."
    " Hollow markers are the paper's methods, filled ones are ours.",
    compute,
    draw,
)
