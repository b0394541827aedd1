"""Draws docs/error-against-memory.svg: error against memory for training, every mechanism a point.

usage: python research/plot_error_against_memory.py

2048 steps, 8 epochs, separation 256, root of the mean variance at 2ρ = 1; memory in vectors of the size of a gradient,
for increments. Needs matplotlib.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt

from dpstream import Participation, mechanisms
from dpstream.mechanisms import Banded, BandedInverse, FittedToeplitz, Independent

T, EPOCHS = 2048, Participation(8, 256)
TARGET = Path(__file__).parent.parent / "docs" / "error-against-memory.svg"


def main() -> None:
    def error(mechanism: mechanisms.Mechanism) -> float:
        return mechanism.mean_variance(participation=EPOCHS) ** 0.5

    fitted = [
        FittedToeplitz.fit(T, participation=EPOCHS, objective="mean", buffers=buffers) for buffers in (1, 2, 3, 4, 6)
    ]
    inverse = [BandedInverse.fit(T, participation=EPOCHS, objective="mean", bands=p) for p in (2, 4, 8, 16)]
    banded = [Banded.fit(T, participation=EPOCHS, objective="mean", bands=p) for p in (4, 16, 64, 256)]
    figure, axes = plt.subplots(figsize=(7.5, 4.6), layout="constrained")
    axes.set_xscale("symlog", linthresh=1, linscale=0.6)
    axes.set_yscale("log")
    series = [
        ("FittedToeplitz (2 real; 4, 6 complex)", fitted, "#009E73", "o-"),
        ("Banded (4, 16, 64, 256 bands)", banded, "#0072B2", "s--"),
    ]
    for label, made, colour, style in series:
        axes.plot([m.increment_memory for m in made], [error(m) for m in made], style, color=colour, label=label)
    axes.plot(
        [0] * len(inverse), [error(m) for m in inverse], "^", color="#E69F00", label="BandedInverse (2, 4, 8, 16 bands)"
    )
    for m, bands in zip(inverse, (2, 4, 8, 16), strict=True):
        axes.annotate(str(bands), (0, error(m)), xytext=(-12, -3), textcoords="offset points", fontsize=8)
    axes.plot([0], [error(Independent(T))], "x", color="#7f7f7f", label="Independent (DP-SGD)")
    others = [
        ("BalancedToeplitz", "d", mechanisms.BalancedToeplitz(T)),
        ("BufferedToeplitz", "X", mechanisms.BufferedToeplitz(T)),
        ("SmoothBinary", "P", mechanisms.SmoothBinary(T)),
        ("Honaker", "v", mechanisms.Honaker(T)),
        ("Binary", "*", mechanisms.Binary(T)),
    ]
    for label, marker, m in others:
        axes.plot([m.memory], [error(m)], marker, color="#000000", label=label, linestyle="none")
    axes.set_xticks([0, 1, 2, 4, 8, 16, 64, 256], labels=["0", "1", "2", "4", "8", "16", "64", "256"])
    axes.set_yticks([10, 15, 20, 30, 50, 90], labels=["10", "15", "20", "30", "50", "90"])
    axes.minorticks_off()
    axes.set_xlim(-0.4, 400)
    axes.set_xlabel("memory: vectors of the size of a gradient")
    axes.set_ylabel("root of the mean variance at 2ρ = 1")
    axes.set_title(f"{T:,} steps, {EPOCHS.times} epochs, {EPOCHS.separation} steps apart", fontsize=11)
    axes.grid(visible=True, alpha=0.25)
    axes.legend(fontsize=8, ncols=2, loc="upper right")
    mpl.rcParams["svg.hashsalt"] = "dpstream"  # the same file every time
    figure.savefig(TARGET, metadata={"Date": None})


if __name__ == "__main__":
    main()
