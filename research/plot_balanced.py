"""Draw max V of every mechanism over the lower bound, against the horizon, into docs/balanced.svg.

    pip install -r research/requirements.txt
    python research/plot_balanced.py           # about 2 minutes on one core

The lower bound holds for every factorisation: γ₂(A) ≥ ‖√u A √v‖_* for all u, v in the simplex. Up to 512 steps it
is the certified optimum; beyond, u = v = 1/T, where the singular values of A are 1/(2 sin((2k-1)π/(4T+2))).
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np

from dpstream import mechanisms

OUTPUT = Path(__file__).parents[1] / "docs/balanced.svg"
HORIZONS = [2**e for e in (3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20)]
CERTIFIED = 512
CURVES = {
    "Binary": lambda T: mechanisms.Binary(T),
    "Honaker": lambda T: mechanisms.Honaker(T),
    "WeightedTree": lambda T: mechanisms.WeightedTree(T),
    "GrowingSmooth, no horizon": lambda _: mechanisms.GrowingSmooth(),
    "Unbounded, no horizon": lambda _: mechanisms.Unbounded(),
    "SmoothBinary": lambda T: mechanisms.SmoothBinary(T),
    "LogMatrix, no horizon": lambda _: mechanisms.LogMatrix(),
    "AnytimeToeplitz, 2^40": lambda _: mechanisms.AnytimeToeplitz(),
    "SquareRoot": lambda T: mechanisms.SquareRoot(T),
    "BufferedToeplitz": lambda T: mechanisms.BufferedToeplitz(T),
    "BalancedToeplitz": lambda T: mechanisms.BalancedToeplitz(T),
}


def lower_bound(horizon: int) -> float:
    """No factorisation has a smaller max V."""
    if horizon <= CERTIFIED:
        return mechanisms.Optimal(horizon).certificate.lower
    k = np.arange(1, horizon + 1)
    return float((0.5 / np.sin((2 * k - 1) * np.pi / (4 * horizon + 2))).mean() ** 2)


def main() -> None:
    bounds = [lower_bound(T) for T in HORIZONS]
    plt.figure(figsize=(9, 5))
    for (name, make), color in zip(
        CURVES.items(), mpl.colormaps["turbo"](np.linspace(0.95, 0.05, len(CURVES))), strict=True
    ):
        V = [make(T).max_variance(T) for T in HORIZONS]
        print(f"{name:28}", " ".join(f"{v:8.3f}" for v in V), flush=True)
        plt.plot(HORIZONS, np.array(V) / bounds, marker=".", label=name, color=color)
    plt.axvline(CERTIFIED, color="0.8", linewidth=1)
    plt.text(CERTIFIED, 0.93, "bound: optimum | uniform weights", fontsize=7, color="0.5", ha="center")
    plt.xscale("log", base=2)
    plt.yscale("log")
    ticks = [1, 1.1, 1.25, 1.5, 2, 3, 4, 6, 8, 12, 16, 24]
    plt.yticks(ticks, [str(tick) for tick in ticks])
    plt.minorticks_off()
    plt.xlabel("releases T")
    plt.ylabel("max V over the lower bound")
    plt.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    plt.tight_layout()
    mpl.rcParams["svg.hashsalt"] = "dpstream"
    plt.savefig(OUTPUT, metadata={"Date": None})


if __name__ == "__main__":
    main()
