"""Table 1, its time column: how long all T outputs take, and how that grows with T."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from dpstream.charts import curve, legend_below, new_figure
from dpstream.mechanisms.base import Mechanism
from dpstream.noise.stream import NoiseStream
from dpstream.paper.as_published import square_root_at_once
from dpstream.paper.contenders import CONTENDERS
from dpstream.paper.measuring import exponent, exponent_of, two_digits
from dpstream.paper.model import Grid, Measured, Part, Progress, Row
from dpstream.testing import fixed_key

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PART", "all_outputs", "compute", "draw"]

#: Coordinates of a release: enough that arithmetic, not the call of a step, decides.
COORDINATES = 1000
AT_ONCE = "Henzinger et al., all at once by FFT"
#: A run is timed in so many pieces: of several runs the best of each piece counts, so that a long run need not be
#: undisturbed as a whole.
PIECES = 16


def all_outputs(mechanism: Mechanism, coordinates: int) -> Callable[[], list[float]]:
    """Seconds to make the noise of all releases, one at a time, in float32, on one thread; built beforehand.

    The run is timed in up to 16 pieces of whole releases, which add up to it.
    """
    stream = NoiseStream(mechanism, 1.0, (coordinates,), key=fixed_key("paper"), threads=1)
    out = np.empty(coordinates, dtype=np.float32)
    steps = mechanism.horizon or 0
    ends = {steps * piece // PIECES for piece in range(1, PIECES + 1)}

    def run() -> list[float]:
        stream.seek(0)
        marks = [time.perf_counter()]
        for step in range(1, steps + 1):
            stream.step(out)
            if step in ends:
                marks.append(time.perf_counter())
        return [end - start for start, end in pairwise(marks)]

    return run


def _at_once(horizon: int) -> list[float]:
    start = time.perf_counter()
    square_root_at_once(horizon, COORDINATES)
    return [time.perf_counter() - start]


def compute(quick: bool, report: Progress) -> Measured:
    """Best of a few runs for each horizon; the growth exponent over all of them."""
    runs = 2 if quick else 5
    lasts = {"Optimal": 8 if quick else 11, "SquareRoot": 9 if quick else 14, AT_ONCE: 9 if quick else 13}
    subjects: list[tuple[str, str, Callable[[int], Callable[[], list[float]]]]] = [
        (contender.title, contender.look, lambda T, make=contender.make: all_outputs(make(T), COORDINATES))  # type: ignore[misc]
        for contender in CONTENDERS
    ]
    subjects.insert(4, (AT_ONCE, AT_ONCE, lambda T: lambda: _at_once(T)))
    _at_once(64)  # SciPy loads its FFT at the first call
    rows: list[Row] = []
    lines = []
    for i, (title, look, prepare) in enumerate(subjects):
        last = lasts.get(look, 10 if quick else 15)
        # A dense product at short horizons is all overhead, and would hide its square.
        horizons = [2**e for e in range(last - (3 if look == "Optimal" else 6), last + 1) if e >= 6]
        prepared = [prepare(horizon) for horizon in horizons]
        taken: list[list[list[float]]] = [[] for _ in horizons]
        for number in range(runs):  # in turns, so that a noisy spell hits all horizons
            for run, times in zip(prepared, taken, strict=True):
                times.append(run())
            report((i + (number + 1) / runs) / len(subjects))
        seconds = [sum(map(min, zip(*times, strict=True))) for times in taken]
        for horizon, best, times in zip(horizons, seconds, taken, strict=True):
            rows.append({"mechanism": title, "T": horizon, "seconds": best, "slowest_run": max(map(sum, times))})
        published = next((c.published[1] for c in CONTENDERS if c.title == title and c.published), "")
        lines.append(
            [
                title,
                published or ("O(T log T)" if look == AT_ONCE else "–"),
                two_digits(exponent(horizons, seconds)),
                two_digits(exponent_of(lambda T: T * math.log(T), horizons)),
                f"2^{int(math.log2(horizons[0]))} … 2^{last}",
                f"{1e6 * seconds[-1] / horizons[-1]:.1f}",
            ]
        )
    findings = [
        f"Noise for {COORDINATES:,} coordinates a release, made one release at a time on one thread in float32 (all at"
        f" once by FFT: float64, as in the paper); of {runs} runs the best of each sixteenth counts. What a mechanism"
        " computes before its first release is not included: for Denisov et al. that is a solver of order T³.",
        "The exponent is the slope of log time over log T. A cost of order T log T shows as the exponent in the column"
        " beside it, not as 1; and where the fixed cost of a release still counts, an exponent is below that of its"
        " law.",
        "Honaker Online takes one draw and amortised constant time a release here: an estimate is built from the"
        " estimates below it, not from every node below it. The paper's O(T log T) is not tight.",
        "Henzinger et al. one release at a time is O(T log² T): the history is convolved block by block as it grows.",
    ]
    headings = [
        "mechanism",
        "paper",
        "exponent, measured",
        "exponent of T log T",
        "range of T",
        "µs a release, longest T",
    ]
    return Measured(rows, findings, Grid(headings, lines))


def draw(data: Measured) -> Figure:
    """Time per release over T, so that linear time is a level line."""
    figure = new_figure(7.0, 4.6)
    axes = figure.subplots()
    looks = {contender.title: curve(contender.look, markers=True) for contender in CONTENDERS}
    looks[AT_ONCE] = curve("SquareRoot", markers=True) | {"linestyle": "--", "marker": "^", "markerfacecolor": "white"}
    for title, look in looks.items():
        rows = [row for row in data.rows if row["mechanism"] == title]
        axes.plot(
            [float(row["T"]) for row in rows],
            [1e6 * float(row["seconds"]) / float(row["T"]) for row in rows],
            label=title,
            **look,
        )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set(xlabel="horizon T (releases)", ylabel=f"µs a release of {COORDINATES:,} numbers")
    legend_below(figure)
    return figure


PART = Part(
    "table-1-time",
    "Table 1: time",
    "Time to produce all T outputs: O(T) for the binary and the smooth binary mechanism, O(T log T) for Honaker Online"
    " and, by FFT, for Henzinger et al., O(T²) for Denisov et al.",
    "Microseconds a release against the horizon; a level line is linear time.",
    compute,
    draw,
)
