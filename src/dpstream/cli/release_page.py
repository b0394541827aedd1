"""The page of releases: a picture that answers to the mouse, a table and the data, in one file without a network."""

from __future__ import annotations

import html
from typing import Any

import numpy as np

from dpstream.cli.output import as_text, shown_cell
from dpstream.cli.page import band, data_link, page
from dpstream.cli.release_picture import COLOURS, TRUE_COLOUR, ReleasePicture, capital

__all__ = ["release_page"]

#: Tables of more rows are folded up.
OPEN_ROWS = 120


def release_page(picture: ReleasePicture, still: str, paragraph: str = "") -> str:
    """Return the page.

    Parameters
    ----------
    picture
        What is shown.
    still
        The same as an SVG, for browsers that run no scripts.
    paragraph
        How the figures are protected, to stand below them.
    """
    protection = f"<p>{html.escape(paragraph)}</p>\n" if paragraph else ""
    links = " and ".join(
        data_link(frame, name, words)
        for frame, name, words in (
            (picture.figures, "figures.csv", f"the figures {picture.per_window}"),
            (picture.totals, "totals.csv", "the running totals"),
        )
    )
    below = f"{_table(picture)}\n<p>Download {links} (CSV).</p>\n{protection}"
    return page(picture.heading, picture.subtitle, _figure(picture), picture.description, still, below)


def _table(picture: ReleasePicture) -> str:
    """The figures of the windows, the way people write them."""
    frame = picture.figures
    names = bool(picture.released.names)
    columns = ["from", "through", *(["category"] if names else []), "value", "±", "low", "high"]
    text = {"from", "through", "category"}
    heads = "".join(f'<th scope="col"{_class(name in text)}>{html.escape(name)}</th>' for name in columns)
    rows = []
    for row in as_text(frame).iter_rows(named=True):
        cells = row | {"±": row["high"] - row["value"]}
        so_far = "" if row["complete"] else " (not whole)"
        cells["through"] = f"{shown_cell(row['through'])}{so_far}"
        rows.append(
            "<tr>"
            + "".join(f"<td{_class(name in text)}>{html.escape(shown_cell(cells[name]))}</td>" for name in columns)
            + "</tr>"
        )
    caption = html.escape(f"{capital(picture.counted)} {picture.per_window}")
    table = f"<table><caption>{caption}</caption><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    unfolded = " open" if frame.height <= OPEN_ROWS else ""
    return f"<details{unfolded}><summary>Table</summary>{table}</details>"


def _class(is_text: bool) -> str:
    return ' class="text"' if is_text else ""


def _figure(picture: ReleasePicture) -> Any:
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, row_heights=[0.6, 0.4], vertical_spacing=0.06)
    for i, name in enumerate(picture.names):
        colour = COLOURS[i % len(COLOURS)]
        for trace in _window_traces(go, picture, name, colour):
            figure.add_trace(trace, row=1, col=1)
        for trace in _total_traces(go, picture, name, colour):
            figure.add_trace(trace, row=2, col=1)
    numbers = {"tickformat": ",", "rangemode": "tozero", "zeroline": True, "zerolinecolor": "#444"}
    figure.update_yaxes(title_text=f"{picture.counted} {picture.per_window}", row=1, col=1, **numbers)
    figure.update_yaxes(title_text=f"{picture.counted} in total", row=2, col=1, **numbers)
    if not picture.dated:
        figure.update_xaxes(title_text="step", row=2, col=1)
    figure.update_layout(
        template="plotly_white",
        hovermode="closest",
        separators=".,",
        showlegend=len(picture.names) > 1,
        legend={"orientation": "h", "y": -0.12},
        margin={"l": 70, "r": 20, "t": 20, "b": 60},
    )
    return figure


def _window_traces(go: Any, picture: ReleasePicture, name: str, colour: str) -> list[Any]:
    spans, drawn = picture.spans, picture.drawn
    left, right = picture.edges[spans.since][drawn], picture.edges[spans.t][drawn]
    rows = (row for row in picture.figures.iter_rows(named=True) if row.get("category", "") == name)
    said = [_said(next(rows), name, picture) if known else "" for known in picture.known(picture.figures, name)]
    words = [each for each, keep in zip(said, drawn, strict=True) if keep]
    value, low, high = (picture.values(picture.figures, name)[part][drawn] for part in ("value", "low", "high"))
    at = right if picture.rolling or picture.every else left + (right - left) / 2
    same: dict[str, Any] = {"x": at, "name": name or "released", "text": words, "hoverinfo": "text"}
    if not picture.as_bars:
        line = go.Scatter(**same, y=value, mode="lines", line={"color": colour}, legendgroup=name)
        return [*band(go, at, low, high, colour, name), line, *_truth(go, picture, name, at, 0)]
    pattern = ["" if whole else "/" for whole in spans.complete[drawn]]
    width = (right - left) / np.timedelta64(1, "ms") if picture.dated else right - left
    bars = {"type": "data", "array": high - value, "arrayminus": value - low, "color": "black", "thickness": 1.2}
    look = {"color": colour, "pattern": {"shape": pattern}}
    bar = go.Bar(**same, y=value, width=0.85 * width, marker=look, error_y=bars, textposition="none")
    return [bar, *_truth(go, picture, name, at, 0)]


def _total_traces(go: Any, picture: ReleasePicture, name: str, colour: str) -> list[Any]:
    rows = (row for row in picture.totals.iter_rows(named=True) if row.get("category", "") == name)
    words = [_said(next(rows), name, picture) if known else "" for known in picture.known(picture.totals, name)]
    value, low, high = (picture.values(picture.totals, name)[part] for part in ("value", "low", "high"))
    at = picture.edges[1:]
    line = go.Scatter(
        x=at,
        y=value,
        mode="lines",
        line={"color": colour},
        name=name or "released",
        text=words,
        hoverinfo="text",
        legendgroup=name,
        showlegend=False,
    )
    return [*band(go, at, low, high, colour, name), line, *_truth(go, picture, name, at, 1)]


def _truth(go: Any, picture: ReleasePicture, name: str, at: Any, which: int) -> list[Any]:
    """The true figures of windows (0) or the true totals (1), if they are to be drawn."""
    truth = picture.true_values(name)
    if truth is None:
        return []
    true = truth[0][picture.drawn] if which == 0 else truth[1]
    look = {"mode": "markers" if which == 0 else "lines", "marker": {"symbol": "x", "color": TRUE_COLOUR}}
    return [go.Scatter(x=at, y=true, name=picture.true_label, line={"color": TRUE_COLOUR, "dash": "dot"}, **look)]


def _said(row: dict[str, Any], name: str, picture: ReleasePicture) -> str:
    """What the mouse is told of a figure, or of a total: 812 ± 19, from 793 to 831."""
    if "step" in row:
        at = row.get("start", row["step"])
        when = f"up to {picture.span_in_words({'from': at, 'through': at})}"
    else:
        when = picture.span_in_words(row)
    value, low, high = (shown_cell(row[part]) for part in ("value", "low", "high"))
    off = shown_cell(row["high"] - row["value"])
    of = f"{html.escape(name)}<br>" if name else ""
    whole = "" if row.get("complete", True) else "<br>not a whole window"
    return f"{of}{when}<br><b>{value} ± {off}</b><br>from {low} to {high}{whole}"
