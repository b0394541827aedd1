"""The picture of `dpstream compare`: the error of mechanisms over time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpstream.budget import Budget
from dpstream.charts import curve, new_figure
from dpstream.cli.budget_options import budget_in_words
from dpstream.cli.plan_picture import POINTS, steps_to_draw
from dpstream.mechanisms.base import Mechanism
from dpstream.participation import Participation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["MOST_CURVES", "variance_over_time"]

#: If nobody chooses, so many mechanisms are drawn, those of the least largest error: more would be a tangle.
MOST_CURVES = 8
#: A curve that turns more often than this is drawn as its largest values nearby, above the range of all values.
TURNS = 8
#: Errors of which the largest is so many times the least are drawn on a logarithmic scale.
RATIO = 30
#: What is nearby: one so-manyth part of all steps to each side.
NEARBY = 60


def variance_over_time(
    mechanisms: Mapping[str, Mechanism],
    horizon: int,
    budget: Budget | None,
    participation: Participation | None = None,
    *,
    chosen: bool = False,
) -> Figure:
    """V_t, or with a budget the standard deviation, of each release; of all mechanisms if they were `chosen`."""
    figure = new_figure(9.0, 5.2)
    axes = figure.add_subplot()
    best = sorted(mechanisms, key=lambda name: mechanisms[name].max_variance(horizon, participation=participation))
    drawn = list(mechanisms) if chosen else best[:MOST_CURVES]
    ends, jagged = {}, False
    for name in drawn:
        mechanism = mechanisms[name]
        at = np.array(steps_to_draw(mechanism, horizon))
        sensitivity = mechanism.sensitivity(participation)
        errors = np.array([mechanism.squared_row_norm(int(t)) for t in at]) * sensitivity**2
        if budget is not None:
            errors = budget.scale(1.0) * np.sqrt(errors)
        look = curve(name) | {"linewidth": 1.8}
        if _turns(errors) > TURNS:
            jagged = True
            low, high = _range_nearby(errors)
            axes.fill_between(at, low, high, color=look["color"], alpha=0.12, linewidth=0)
            errors = high
        (line,) = axes.plot(at, errors, label=name, **look)
        ends[line] = float(errors[-1])
    _scale(axes)
    axes.set_xlim(0, horizon)
    axes.set_xlabel("release" if horizon <= POINTS else "release (of neighbouring ones the largest error)")
    axes.set_ylabel("normalised variance V" if budget is None else "standard deviation of a release")
    words = [f"{horizon:,} releases"] + ([] if budget is None else [budget_in_words(budget)])
    if participation is not None:
        words.append(f"at most {participation.times} times a person, at least {participation.separation} steps apart")
    if len(drawn) < len(mechanisms):
        words.append(
            f"the {len(drawn)} of {len(mechanisms)} mechanisms with the least error (--mechanism draws others)"
        )
    if jagged:
        words.append("errors that jump: the largest nearby, above all of them")
    axes.set_title(";\n".join([", ".join(words[:2]), *words[2:]]), fontsize="medium", loc="left")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    # In the order of the curves' ends, so that the eye finds them.
    lines = sorted(ends, key=lambda line: -ends[line])
    figure.legend(handles=lines, loc="outside right upper", frameon=False, fontsize="small")
    return figure


def _scale(axes: Axes) -> None:
    """Draw errors of very different sizes on a logarithmic scale, with labels that do not run into each other."""
    from matplotlib.ticker import LogLocator, NullFormatter

    heights = np.concatenate([np.asarray(line.get_ydata(), dtype=float) for line in axes.get_lines()])
    if heights.max() > RATIO * heights.min():
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter("{x:,.10g}")
    axes.xaxis.set_major_formatter("{x:,.0f}")


def _turns(errors: NDArray[np.float64]) -> int:
    """How often a curve turns up or down by more than a twentieth."""
    steps = np.sign(np.diff(np.round(20 * np.log(errors))))
    steps = steps[steps != 0]
    return int((steps[1:] != steps[:-1]).sum())


def _range_nearby(errors: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The least and the largest of the values nearby."""
    reach = max(len(errors) // NEARBY, 1)
    padded = np.pad(errors, reach, mode="edge")
    near = np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1)
    return near.min(axis=1), near.max(axis=1)
