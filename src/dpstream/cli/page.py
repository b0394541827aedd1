"""Pages that hold a picture: they answer to the mouse, and need no network."""

from __future__ import annotations

import base64
import html
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from dpstream.cli.output import as_text
from dpstream.errors import MissingExtra

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["band", "curves_page", "data_link", "empty_page", "page", "require_plotly"]

_STYLE = """
body { max-width: 64rem; margin: 2rem auto; padding: 0 1rem; font-family: system-ui, sans-serif; color: #222 }
h1 { font-size: 1.6rem; margin-bottom: .3rem } p { line-height: 1.5 }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums }
th, td { padding: .25rem .8rem; border-bottom: 1px solid #ddd; text-align: right }
th { position: sticky; top: 0; background: white }
td.text, th.text { text-align: left } caption { text-align: left; font-weight: 600; padding-bottom: .4rem }
figure { margin: 1rem 0 } summary { cursor: pointer }
"""
_DASHES = {"-": "solid", "--": "dash", ":": "dot", "-.": "dashdot"}


def require_plotly() -> None:
    """Raise `MissingExtra` unless pages can be made."""
    try:
        import plotly  # noqa: F401
    except ImportError:
        raise MissingExtra(extra="plot", needs="plotly") from None


def page(heading: str, subtitle: str, figure: Any, description: str, still: str, below: str) -> str:
    """Return a page with a picture.

    Parameters
    ----------
    heading, subtitle
        What stands above the picture.
    figure
        A figure of plotly's, whose program the page holds.
    description
        What is to be seen, for those who do not see it.
    still
        The same picture as an SVG, for browsers that run no scripts.
    below
        What stands below the picture, in HTML.
    """
    title, seen = html.escape(heading), html.escape(description, quote=True)
    image = base64.b64encode(still.encode()).decode()
    drawn = figure.to_html(
        full_html=False,
        include_plotlyjs=True,
        config={"displaylogo": False, "responsive": True},
        default_width="100%",
        default_height="640px",
        div_id="picture",
    )
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n<p>{html.escape(subtitle)}</p>\n"
        f'<figure role="img" aria-label="{seen}">\n{drawn}\n'
        f'<noscript><img alt="{seen}" style="width:100%" src="data:image/svg+xml;base64,{image}"></noscript>\n'
        f"</figure>\n{below}</body>\n</html>\n"
    )


def empty_page(heading: str) -> str:
    """Return a page that has nothing to show yet."""
    title = html.escape(heading)
    return f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{title}</title><h1>{title}</h1></html>\n'


def data_link(frame: pl.DataFrame, name: str, words: str) -> str:
    """Return a link that saves a table as CSV."""
    data = base64.b64encode(as_text(frame).write_csv().encode()).decode()
    return f'<a download="{name}" href="data:text/csv;base64,{data}">{html.escape(words)}</a>'


def band(go: Any, at: Any, low: Any, high: Any, colour: str, name: str) -> list[Any]:
    """Return two lines that cannot be seen, and the area between them."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    common = {"x": at, "mode": "lines", "line": {"width": 0}, "hoverinfo": "skip", "showlegend": False}
    fill = {"fill": "tonexty", "fillcolor": f"rgba({red},{green},{blue},0.2)"}
    return [go.Scatter(**common, y=low, legendgroup=name), go.Scatter(**common, **fill, y=high, legendgroup=name)]


def curves_page(drawn: Figure, heading: str, still: str) -> str:
    """Return a page with the curves of a drawn figure: its one pair of axes, its lines, their names."""
    import plotly.graph_objects as go

    (axes,) = drawn.axes
    figure = go.Figure()
    frames, ends = [], []
    for line in axes.get_lines():
        name, x, y = str(line.get_label()), *(np.asarray(each, dtype=float) for each in line.get_data())
        look = {"color": line.get_color(), "width": 1.6 * line.get_linewidth()}
        shape = {"dash": _DASHES.get(str(line.get_linestyle()), "solid")}
        mode = "lines" if len(x) > 1 else "markers"
        says = f"{html.escape(name)}<br>%{{x:,}}: <b>%{{y:,.4~g}}</b><extra></extra>"
        figure.add_trace(go.Scatter(x=x, y=y, name=name, mode=mode, line=look | shape, hovertemplate=says))
        frames.append(pl.DataFrame({"curve": [name] * len(x), "x": x, "y": y}))
        ends.append(f"{name} ends at {y[-1]:.4g}")
    for scale, update in ((axes.get_xscale(), figure.update_xaxes), (axes.get_yscale(), figure.update_yaxes)):
        update(type="log" if scale == "log" else "linear", tickformat=",")
    figure.update_xaxes(title_text=axes.get_xlabel())
    figure.update_yaxes(title_text=axes.get_ylabel(), rangemode="tozero")
    figure.update_layout(template="plotly_white", margin={"l": 70, "r": 20, "t": 20, "b": 60}, hovermode="closest")
    subtitle = axes.get_title() or axes.get_title(loc="left")
    description = f"{heading}. {subtitle}. {axes.get_ylabel()}, over {axes.get_xlabel()}: {'; '.join(ends)}."
    below = f"<p>Download {data_link(pl.concat(frames), 'curves.csv', 'the curves')} (CSV).</p>\n"
    return page(heading, subtitle.replace("\n", " "), figure, description, still, below)
