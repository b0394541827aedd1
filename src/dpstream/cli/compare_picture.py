"""The picture of `dpstream compare`: the error of every Gaussian mechanism over time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from dpstream.budget import Budget
from dpstream.charts import curve, new_figure
from dpstream.cli.budget_options import budget_in_words
from dpstream.cli.pictures import POINTS, steps_to_draw
from dpstream.mechanisms.base import Mechanism

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["variance_over_time"]


def variance_over_time(mechanisms: Mapping[str, Mechanism], horizon: int, budget: Budget | None) -> Figure:
    """V_t, or with a budget the standard deviation, of each release."""
    figure = new_figure(9.0, 5.0)
    axes = figure.add_subplot()
    for name, mechanism in mechanisms.items():
        at = steps_to_draw(mechanism, horizon)
        sensitivity = mechanism.sensitivity()
        errors = np.array([mechanism.squared_row_norm(t) for t in at]) * sensitivity**2
        if budget is not None:
            errors = budget.scale(1.0) * np.sqrt(errors)
        axes.plot(at, errors, label=name, **curve(name) | {"linewidth": 1.2})
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("{x:g}")
    axes.tick_params(axis="y", which="minor", labelsize="small")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlim(0, horizon)
    axes.set_xlabel("release" if horizon <= POINTS else "release (of neighbouring ones the largest error)")
    axes.set_ylabel("normalised variance V" if budget is None else "standard deviation of a release")
    axes.set_title(f"{horizon:,} releases" + ("" if budget is None else f", {budget_in_words(budget)}"))
    axes.grid(alpha=0.3)
    # In the order of the curves' ends, so that the eye finds them.
    lines = sorted(axes.get_lines(), key=lambda line: -float(np.asarray(line.get_ydata())[-1]))
    figure.legend(handles=lines, loc="outside right upper", frameon=False, fontsize="small")
    return figure
