"""The pictures of `dpstream plan`: error over the steps, and error over the budget."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from dpstream.budget import Budget, noise_scale
from dpstream.charts import ACCENT, curve, new_figure
from dpstream.cli.budget_options import budget_in_words
from dpstream.mechanisms.base import Mechanism
from dpstream.mechanisms.binary import Binary
from dpstream.mechanisms.smooth import SmoothBinary
from dpstream.release.interval import half_width, noise_at
from dpstream.release.least_budget import BudgetKind, largest_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["error_over_budget", "error_over_steps", "steps_to_draw"]

#: A picture has no room for more steps; of neighbouring ones the largest error is drawn.
POINTS = 1000
#: Up to here every step is looked at; above, some.
EVERY_STEP = 2**20
#: Budgets per picture, from a tenth of the one found to ten times it.
BUDGETS = 60


def error_over_steps(mechanism: Mechanism, budget: Budget, *, bound: float, steps: int, confidence: float) -> Figure:
    """How far each release may be off, for the planned mechanism and the classic ones."""
    figure = new_figure()
    axes = figure.add_subplot()
    for name, one in _shown(mechanism, steps):
        scale = noise_scale(one, budget, per_person=bound)
        at = steps_to_draw(one, steps)
        errors = [half_width(noise_at(one, scale, t), confidence) for t in at]
        axes.plot(at, errors, label=name, drawstyle="steps-mid", **_thin(curve(name), steps))
    axes.set_title(f"{budget_in_words(budget)}, {steps:,} releases")
    axes.set_xlabel("release" if steps <= POINTS else "release (of neighbouring ones the largest error)")
    _finish(axes, figure, confidence)
    axes.set_xlim(0, steps)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    return figure


def error_over_budget(
    mechanism: Mechanism, kind: BudgetKind, found: Budget, *, bound: float, steps: int, confidence: float
) -> Figure:
    """How the largest error falls with the budget, and where the one that was asked for is."""
    name, amount = next((n, getattr(found, n)) for n in ("rho", "epsilon") if hasattr(found, n))
    amounts = np.geomspace(amount / 10, amount * 10, BUDGETS)
    figure = new_figure()
    axes = figure.add_subplot()
    for title, one in _shown(mechanism, steps):
        errors = [largest_error(one, kind(float(x)), bound, steps, confidence) for x in amounts]
        axes.plot(amounts, errors, label=title, **curve(title))
    error = largest_error(mechanism, found, bound, steps, confidence)
    axes.plot([amount], [error], "o", color=ACCENT, markersize=9, label=f"±{error} at {budget_in_words(found)}")
    axes.set_xscale("log")
    axes.set_yscale("symlog", linthresh=1)
    axes.set_title(f"What accuracy costs over {steps:,} releases")
    letter = "ρ" if name == "rho" else "ε"
    axes.set_xlabel(f"budget {letter}" + (f" at δ = {found.delta:g}" if hasattr(found, "delta") else ""))
    _finish(axes, figure, confidence)
    return figure


def _shown(mechanism: Mechanism, steps: int) -> list[tuple[str, Mechanism]]:
    """The planned mechanism, the paper's tree (its own tree for Laplace noise) and the binary tree."""
    noise = mechanism.noise
    smooth = SmoothBinary.paper(steps) if noise == "gaussian" else SmoothBinary(steps, noise=noise)
    classic = {"SmoothBinary.paper" if noise == "gaussian" else "SmoothBinary": smooth}
    return list(({type(mechanism).__name__: mechanism} | classic | {"Binary": Binary(steps, noise=noise)}).items())


def steps_to_draw(mechanism: Mechanism, steps: int) -> list[int]:
    """So many steps as a picture has room for: of neighbouring ones that of the largest error."""
    if steps <= POINTS:
        return list(range(1, steps + 1))
    edges = np.linspace(0, steps, POINTS + 1).astype(np.int64)
    if steps > EVERY_STEP:
        return [int(t) for t in edges[1:]]
    norms = mechanism.squared_row_norms(steps)
    return [int(low + norms[low:high].argmax()) + 1 for low, high in pairwise(edges)]


def _thin(look: dict[str, Any], steps: int) -> dict[str, Any]:
    """Long streams are drawn with thin lines: the binary tree's error jumps at every step."""
    return look | {"linewidth": 1.0} if steps > POINTS / 4 else look


def _finish(axes: Axes, figure: Figure, confidence: float) -> None:
    axes.set_ylabel(f"a release is within ± this, {100 * confidence:g} % of the time")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize="small")
