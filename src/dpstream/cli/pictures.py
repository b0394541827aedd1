"""The pictures that commands draw: published totals, errors over steps and over budgets; saved by their suffix."""

from __future__ import annotations

import base64
import html
import io
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from dpstream.budget import Budget, noise_scale
from dpstream.charts import ACCENT, GREY, curve, new_figure, require_matplotlib
from dpstream.cli.budget_options import budget_in_words
from dpstream.cli.targets import NotWritten, Target, check_target, opened
from dpstream.errors import InvalidArgument
from dpstream.mechanisms.base import Mechanism
from dpstream.mechanisms.binary import Binary
from dpstream.mechanisms.smooth import SmoothBinary
from dpstream.release.error_bars import half_width
from dpstream.release.least_budget import BudgetKind, largest_error
from dpstream.release.noise_law import noise_at

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "check_picture",
    "draw_into",
    "draw_releases",
    "error_over_budget",
    "error_over_steps",
    "save_picture",
    "steps_to_draw",
]

SUFFIXES = (".png", ".svg", ".pdf", ".html")


def check_picture(path: Path | None) -> None:
    """Refuse a picture that could not be drawn or saved.

    Raises
    ------
    InvalidArgument
        If the suffix is unknown, or the file cannot be written.
    MissingExtra
        Without matplotlib.
    """
    if path is None:
        return
    if path.suffix.lower() not in SUFFIXES:
        raise InvalidArgument("--plot", str(path), f"a file ending in {', '.join(SUFFIXES)}")
    check_target("--plot", path)
    require_matplotlib()


def save_picture(figure: Figure, path: Path, title: str) -> None:
    """Write the picture in the format that its suffix names; .html is a page that holds it.

    Raises
    ------
    InvalidArgument
        If the file cannot be written.
    """
    with opened("--plot", path) as target:
        if target is not None:
            draw_into(target, figure, title)


def draw_into(target: Target, figure: Figure, title: str) -> None:
    """Write the picture into a target that is open, and finish it.

    Raises
    ------
    NotWritten
        If the disk does not take it.
    """
    suffix = target.path.suffix.lower()
    held = io.BytesIO()
    if suffix == ".html":
        held.write(_page(figure, html.escape(title)).encode())
    else:
        figure.savefig(held, format=suffix[1:], dpi=150)
    try:
        target.file.write(held.getbuffer())
        target.file.flush()
    except OSError as error:
        raise NotWritten(f"{target.option} {target.path}", error.strerror or str(error)) from None
    target.finish()


def _page(figure: Figure, title: str) -> str:
    held = io.BytesIO()
    figure.savefig(held, format="svg")
    picture = base64.b64encode(held.getvalue()).decode()
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{title}</title>\n'
        '<meta name="viewport" content="width=device-width">\n'
        f'<body style="max-width:60rem;margin:2rem auto;font-family:sans-serif"><h1>{title}</h1>\n'
        f'<img alt="{title}" style="width:100%" src="data:image/svg+xml;base64,{picture}"></body></html>\n'
    )


# -- dpstream count --------------------------------------------------------------------------------------------------

#: Colours of categories, in order, with dashes where they begin again (Okabe and Ito).
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
#: Up to this number of releases each gets a dot.
DOTTED = 20
_TRUE = "true total (not for publication)"
_LAST = {"% band": 1, _TRUE[-6:]: 2}
_DASHES = ("-", "--", ":", "-.")


def draw_releases(frame: pl.DataFrame, title: str, confidence: float, truth: dict[str, Any] | None = None) -> Figure:
    """Draw releases (columns step, start or not, category or not, value, low, high).

    Parameters
    ----------
    truth
        The true totals of each category ("" if there are none), to draw beside them. Never for publication.
    """
    figure = new_figure(7.5, 4.5)
    axes = figure.subplots()
    by = "category" in frame.columns
    x = "start" if "start" in frame.columns else "step"
    groups = (
        [(str(key[0]), part) for key, part in frame.group_by("category", maintain_order=True)] if by else [("", frame)]
    )
    for i, (name, part) in enumerate(groups):
        colour, dash = _COLOURS[i % len(_COLOURS)], _DASHES[i // len(_COLOURS) % len(_DASHES)]
        along = _plain(part[x]).to_numpy()
        band = f"{100 * confidence:g} % band" if i == 0 else None
        if part.height == 1:  # a step without a next one has no width
            axes.vlines(along, part["low"].to_numpy(), part["high"].to_numpy(), color=colour, alpha=0.25, linewidth=8)
        axes.fill_between(
            along,
            part["low"].to_numpy(),
            part["high"].to_numpy(),
            color=colour,
            alpha=0.25,
            linewidth=0,
            step="post",
            label=band,
        )
        axes.step(
            along,
            part["value"].to_numpy(),
            where="post",
            color=colour,
            linestyle=dash,
            linewidth=1.4,
            marker="o" if part.height <= DOTTED else None,
            markersize=3,
            label=name or "released total",
        )
        if truth is not None:
            axes.step(
                along,
                np.asarray(truth[name]),
                where="post",
                color=GREY,
                linestyle=":",
                linewidth=1.2,
                label=_TRUE if i == 0 else None,
            )
    axes.set(xlabel="start of the step" if x == "start" else "step", ylabel="running total", title=title)
    axes.grid(alpha=0.3)
    axes.margins(x=0.01)
    # Outside: totals may go anywhere, and a legend must not hide them. What was released first, the truth last.
    found = sorted(zip(*axes.get_legend_handles_labels(), strict=True), key=lambda entry: _LAST.get(entry[1][-6:], 0))
    place: dict[str, Any] = {"loc": "outside lower center", "ncols": 5}
    if len(groups) > 8:
        place = {"loc": "outside right upper", "ncols": 1 + len(found) // 22}
    if found:
        figure.legend(*zip(*found, strict=True), fontsize="small", **place)
    if x == "start":
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator()  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    return figure


def _plain(column: pl.Series) -> pl.Series:
    """Moments as the clock on the wall shows them, which is how they are labelled."""
    return column.dt.replace_time_zone(None) if isinstance(column.dtype, pl.Datetime) else column


# -- dpstream plan ---------------------------------------------------------------------------------------------------

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
