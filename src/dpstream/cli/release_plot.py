"""The picture of a published count: the released totals with their error band."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from dpstream.charts import GREY, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_releases"]

#: Colours of categories, in order, with dashes where they begin again (Okabe and Ito).
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
#: So few releases get a dot each.
FEW = 20
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
            marker="o" if part.height <= FEW else None,
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
