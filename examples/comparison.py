"""The mechanisms that the examples compare, and how results are tuned, printed and drawn.

Every contender gets the same budget, epochs and tuning effort: each learning rate of the grid is tried with one key,
the best one is run with the keys that are reported. Choosing by test data flatters all of them alike.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import dpstream as dp
from dpstream.budget import ApproxDP
from dpstream.testing import fixed_key

__all__ = ["compare", "contenders", "options"]

#: A run of one contender: (mechanism or None for no privacy, learning rate, key) to test accuracy.
Run = Callable[[dp.mechanisms.Mechanism | None, float, bytes], float]


def contenders(steps: int, participation: dp.Participation) -> Iterator[tuple[str, dp.mechanisms.Mechanism | None]]:
    """Yield the names and mechanisms that are compared, by what theory says of their error, largest first."""
    m = dp.mechanisms
    yield "no privacy", None
    yield "DP-SGD, independent noise", m.Independent(steps)
    yield "binary tree", m.Binary(steps)
    yield "Honaker", m.Honaker(steps)
    yield "smooth tree", m.SmoothBinary(steps)
    yield "BLT for one epoch", m.BufferedToeplitz(steps)
    yield "fitted, 2 buffers", m.FittedToeplitz.fit(steps, participation=participation, objective="mean", buffers=2)
    yield "fitted, 6 buffers", m.FittedToeplitz.fit(steps, participation=participation, objective="mean", buffers=6)
    yield "banded", m.Banded.fit(steps, participation=participation, objective="mean")


def compare(
    title: str,
    run: Run,
    *,
    steps: int,
    participation: dp.Participation,
    budget: ApproxDP,
    rates: list[float],
    keys: int,
    folder: Path,
) -> None:
    """Tune and run all contenders; print a table and draw it into `folder`."""
    print(f"{title}: {budget}, {steps} steps, {participation}; rates {rates}, {keys} keys\n")
    print(f"{'':28} {'error':>7} {'memory':>6} {'rate':>5}   accuracy (mean ± standard error)", flush=True)
    rows, at_the_edge = [], []
    for name, mechanism in contenders(steps, participation):
        start = time.perf_counter()
        tuned = max(rates, key=lambda rate: run(mechanism, rate, fixed_key("tuning")))
        found = [run(mechanism, tuned, fixed_key(f"example {i}")) for i in range(keys)]
        mean, error = statistics.mean(found), statistics.stdev(found) / keys**0.5
        noise = "" if mechanism is None else f"{_stddev(mechanism, budget, participation):.1f}"
        memory = "" if mechanism is None else f"{mechanism.memory}"
        spent = time.perf_counter() - start
        print(f"{name:28} {noise:>7} {memory:>6} {tuned:>5}   {mean:.3f} ± {error:.3f}   {spent:.0f} s", flush=True)
        rows.append((name, mean, error))
        at_the_edge += [name] if tuned in (min(rates), max(rates)) else []
    print("\nerror: root mean square of the noise in the running sums, for gradients clipped to norm 1")
    if at_the_edge:
        print(f"best at the first or last rate tried, so that a wider grid may do better: {', '.join(at_the_edge)}")
    folder.mkdir(parents=True, exist_ok=True)
    _draw(title, budget, rows, keys, folder)


def _stddev(mechanism: dp.mechanisms.Mechanism, budget: ApproxDP, participation: dp.Participation) -> float:
    return float(mechanism.mean_variance(participation=participation) ** 0.5 / budget.mu)


def _draw(title: str, budget: ApproxDP, rows: list[tuple[str, float, float]], keys: int, folder: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "dpstream"})  # small, and the same every time
    from matplotlib import pyplot
    from scipy.stats import t as student

    figure, axes = pyplot.subplots(figsize=(7, 3.6), layout="constrained")
    wide = float(student.ppf(0.975, keys - 1))
    for place, (_, mean, error) in enumerate(reversed(rows)):
        axes.errorbar(mean, place, xerr=wide * error, fmt="o", capsize=4, color="#0072b2")
    axes.set_yticks(range(len(rows)), [name for name, _, _ in reversed(rows)])
    axes.set_xlabel(f"test accuracy (mean over {keys} keys, bars: 95 % confidence)")
    figure.suptitle(f"{title}, ε = {budget.epsilon:g}, δ = {budget.delta:g}", fontsize=10)
    axes.grid(axis="x", alpha=0.3)
    for kind, metadata in (("png", {}), ("svg", {"Date": None})):
        figure.savefig(folder / f"{title.split(':')[0].replace(' ', '-').lower()}.{kind}", dpi=150, metadata=metadata)
    pyplot.close(figure)


def options(description: str, *, epochs: int, keys: int = 5) -> argparse.Namespace:
    """Return the options that both examples take."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--epochs", type=int, default=epochs)
    parser.add_argument("--keys", type=int, default=keys, help="independent trainings of each contender")
    parser.add_argument("--epsilon", type=float, default=8.0)
    parser.add_argument("--rates", type=float, nargs="+", help="learning rates that are tried")
    parser.add_argument("--output", type=Path, default=Path("output/examples"))
    return parser.parse_args()
