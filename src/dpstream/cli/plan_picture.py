"""The pictures of `dpstream plan`: errors over steps and over budgets."""

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
from dpstream.release.error_bars import half_width
from dpstream.release.least_budget import BudgetKind, largest_error
from dpstream.release.noise_law import noise_at

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["POINTS", "error_over_budget", "error_over_steps", "steps_to_draw"]

#: A picture has no room for more steps; of neighbouring ones the largest error is drawn.
POINTS = 1000
#: Up to here every step is looked at; above, some.
EVERY_STEP = 2**20
#: Budgets per picture, from a tenth of the one found to ten times it.
BUDGETS = 60


def error_over_steps(
    mechanism: Mechanism, budget: Budget, words: str, *, per_person: float, steps: int, confidence: float
) -> Figure:
    """How far each release may be off, for the planned mechanism and the classic ones; `words` name the settings."""
    figure = new_figure(8.0, 4.8)
    axes = figure.add_subplot()
    for name, one in _shown(mechanism, steps):
        scale = noise_scale(one, budget, per_person=per_person)
        at = steps_to_draw(one, steps)
        errors = [half_width(noise_at(one, scale, t), confidence) for t in at]
        axes.plot(
            at, errors, label=_label(name, one is mechanism), drawstyle="steps-mid", **_look(name, one is mechanism)
        )
    axes.set_xlabel("release" if steps <= POINTS else "release (of neighbouring ones the largest error)")
    _finish(axes, figure, words, confidence)
    axes.set_xlim(0, steps)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    return figure


def error_over_budget(
    mechanism: Mechanism,
    kind: BudgetKind,
    found: Budget,
    words: str,
    *,
    per_person: float,
    steps: int,
    confidence: float,
) -> Figure:
    """How the largest error falls with the budget, and where the one that was asked for is."""
    name, amount = next((n, getattr(found, n)) for n in ("rho", "epsilon") if hasattr(found, n))
    amounts = np.geomspace(amount / 10, amount * 10, BUDGETS)
    figure = new_figure(8.0, 4.8)
    axes = figure.add_subplot()
    for title, one in _shown(mechanism, steps):
        errors = [largest_error(one, kind(float(x)), per_person, steps, confidence) for x in amounts]
        axes.plot(amounts, errors, label=_label(title, one is mechanism), **_look(title, one is mechanism))
    error = largest_error(mechanism, found, per_person, steps, confidence)
    at: dict[str, Any] = {"color": ACCENT, "markersize": 10, "zorder": 4, "linestyle": "none"}
    axes.plot([amount], [error], marker="o", label=f"±{error:,} at {budget_in_words(found)}", **at)
    axes.set_xscale("log")
    axes.set_yscale("symlog", linthresh=1)
    letter = "ρ" if name == "rho" else "ε"
    axes.set_xlabel(f"budget {letter}" + (f" at δ = {found.delta:g}" if hasattr(found, "delta") else ""))
    axes.xaxis.set_major_formatter("{x:g}")
    _finish(axes, figure, words, confidence)
    least = min(float(np.min(line.get_ydata())) for line in axes.get_lines())
    axes.set_ylim(bottom=0 if least < 1 else least / 2)
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


def _label(name: str, planned: bool) -> str:
    return f"{name} (planned)" if planned else name


def _look(name: str, planned: bool) -> dict[str, Any]:
    """The planned mechanism is a bold line in front of the others, which are thin: the binary tree's error jumps."""
    if planned:
        return curve(name) | {"color": ACCENT, "linestyle": "-", "linewidth": 3.0, "zorder": 3}
    look = curve(name)
    # The paper's tree has the colour of the one that is drawn boldly.
    return look | {"linewidth": 1.0, "alpha": 0.9} | ({"color": "#D55E00"} if look["color"] == ACCENT else {})


def _finish(axes: Axes, figure: Figure, words: str, confidence: float) -> None:
    axes.set_title(words, fontsize="medium", loc="left")
    axes.set_ylabel(f"a release is within ± this, {100 * confidence:.10g} % of the time")
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter("{x:,.10g}")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize="small")
