"""Pictures of releases as SVG, drawn on the server: bars of windows with their bands, the running total, a sparkline.

Colours come from the page's style sheet, so that one picture serves light, dark and print.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpstream.serve.elements import Element, element

__all__ = ["bar_picture", "chart_data", "sparkline", "total_picture"]

RealArray = NDArray[np.float64]
WIDTH, HEIGHT = 720.0, 260.0
LEFT, RIGHT, TOP, BOTTOM = 90.0, 10.0, 10.0, 34.0
#: So many bars have room in a picture that is 390 pixels wide; the last ones are drawn.
MOST_BARS = 62
#: So many points of a line; of a longer stream some, evenly, and the last.
MOST_POINTS = 360
#: So many points of a chart, of all charts of a page together about ten times as many; the rest is fetched for a zoom.
MOST_CHART_POINTS = 2000


def bar_picture(frame: pl.DataFrame, label: str) -> Element:
    """Draw the figures of windows (columns from, value, low, high) as bars, each with its band."""
    frame = frame.tail(MOST_BARS)
    value, low, high = _numbers(frame, "value"), _numbers(frame, "low"), _numbers(frame, "high")
    scale = _Scale(min(0.0, low.min()), max(0.0, high.max()))
    width = (WIDTH - LEFT - RIGHT) / len(value)
    parts: list[Element] = [*scale.lines()]
    for i, (v, a, b) in enumerate(zip(value, low, high, strict=True)):
        left, middle = LEFT + i * width, LEFT + (i + 0.5) * width
        top, bottom = scale.y(max(v, 0.0)), scale.y(min(v, 0.0))
        parts.append(
            element("rect", class_="bar", x=left + width * 0.12, y=top, width=width * 0.76, height=bottom - top)
        )
        wing = min(width * 0.22, 6.0)
        parts.append(
            element(
                "path",
                class_="whisker",
                d=f"M{middle:.1f} {scale.y(a):.1f}V{scale.y(b):.1f}"
                + "".join(f"M{middle - wing:.1f} {scale.y(end):.1f}h{2 * wing:.1f}" for end in (a, b)),
            )
        )
    parts += _dates([_moment(one) for one in frame["from"]], lambda i: LEFT + (i + 0.5) * width)
    return _picture(parts, label)


def total_picture(frame: pl.DataFrame, label: str) -> Element:
    """Draw the running total (columns step, start or not, value, low, high) as a line in its band."""
    value, low, high = _numbers(frame, "value"), _numbers(frame, "low"), _numbers(frame, "high")
    at = np.array(_evenly(len(value), MOST_POINTS))
    scale = _Scale(low[at].min(), high[at].max())
    room = WIDTH - LEFT - RIGHT

    def x(i: int) -> float:
        return LEFT + (room * i / (len(value) - 1) if len(value) > 1 else room / 2)

    upper = [f"{x(i):.1f},{scale.y(high[i]):.1f}" for i in at]
    lower = [f"{x(i):.1f},{scale.y(low[i]):.1f}" for i in at[::-1]]
    line = [f"{x(i):.1f},{scale.y(value[i]):.1f}" for i in at]
    dates = frame["start"] if "start" in frame.columns else frame["step"]
    parts = [
        *scale.lines(),
        element("polygon", class_="band", points=" ".join(upper + lower)),
        element("polyline", class_="line", points=" ".join(line)),
        *_dates([_moment(one) for one in dates], x),
    ]
    if len(value) == 1:
        parts.append(element("circle", class_="dot", cx=x(0), cy=scale.y(value[0]), r=4))
    return _picture(parts, label)


def sparkline(values: Sequence[Any], label: str) -> Element:
    """Draw a small line without axes."""
    numbers = np.array([float(v) for v in values][-60:])
    low, spread = numbers.min(), max(numbers.max() - numbers.min(), 1e-9)
    step = 116 / max(len(numbers) - 1, 1)
    points = " ".join(f"{2 + i * step:.1f},{28 - 24 * (v - low) / spread:.1f}" for i, v in enumerate(numbers))
    line = element("polyline", class_="line", points=points)
    return element("svg", element("title", label), line, class_="spark", viewBox="0 0 120 32", role="img")


def chart_data(frame: pl.DataFrame, kind: str, label: str, most: int = MOST_CHART_POINTS) -> str:
    """Return the numbers of a picture as JSON, from which the page's script draws one that can be zoomed.

    Of a line with more than `most` points some, evenly, and the last; of bars the last. `more` says that there are
    others, which the page asks the server for when somebody looks closer.
    """
    x = "from" if "from" in frame.columns else "start" if "start" in frame.columns else "step"
    shown = frame.tail(most) if kind == "bars" else frame[_evenly(frame.height, most)]
    steps = {} if kind == "bars" or "step" not in frame.columns else {"step": shown["step"].to_list()}
    return json.dumps(
        {
            "kind": kind,
            "label": label,
            "x": [one if isinstance(one, int) else _moment(one) for one in shown[x]],
            **steps,
            **{name: _numbers(shown, name).tolist() for name in ("value", "low", "high")},
            **({"more": True} if shown.height < frame.height else {}),
        },
        separators=(",", ":"),
    )


def _evenly(height: int, most: int) -> list[int]:
    """The numbers of at most so many rows, evenly, the first and the last among them."""
    return [int(i) for i in np.unique(np.linspace(0, height - 1, min(most, height)).round())]


def _numbers(frame: pl.DataFrame, name: str) -> RealArray:
    return frame[name].cast(pl.Float64).to_numpy()


def _moment(one: Any) -> str:
    return str(one) if not hasattr(one, "isoformat") else str(one.isoformat()).removesuffix("T00:00:00")


class _Scale:
    """Heights in a picture for numbers from `least` to `most`, and lines at round numbers."""

    def __init__(self, least: float, most: float) -> None:
        spread = (most - least) or max(abs(most), 1.0)
        raw = spread / 4
        size = 10.0 ** math.floor(math.log10(raw))
        self._step = next(m * size for m in (1, 2, 2.5, 5, 10) if m * size >= raw)
        self._low = math.floor(least / self._step) * self._step
        self._high = max(math.ceil(most / self._step) * self._step, self._low + self._step)

    def y(self, number: float) -> float:
        return HEIGHT - BOTTOM - (number - self._low) / (self._high - self._low) * (HEIGHT - TOP - BOTTOM)

    def lines(self) -> list[Element]:
        count = round((self._high - self._low) / self._step)
        found = []
        for i in range(count + 1):
            number = self._low + i * self._step
            y = self.y(number)
            found.append(
                element("line", class_="zero" if number == 0 else "grid", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y)
            )
            shown = f"{number:,.0f}" if self._step >= 1 else f"{number:,.6g}"
            found.append(element("text", shown, x=LEFT - 6, y=y + 5, text_anchor="end"))
        return found


def _dates(texts: list[str], x: Any) -> list[Element]:
    """Labels below a picture: the first and the last at its edges, and one in the middle, so that none meet."""
    y, middle, found = HEIGHT - 9, len(texts) // 2, []
    if len(texts) > 1:
        found.append(element("text", texts[0], x=LEFT, y=y, text_anchor="start"))
        found.append(element("text", texts[-1], x=WIDTH - RIGHT, y=y, text_anchor="end"))
    if len(texts) % 2:
        found.append(element("text", texts[middle], x=x(middle), y=y, text_anchor="middle"))
    return found


def _picture(parts: list[Element], label: str) -> Element:
    return element(
        "svg", element("title", label), *parts, viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}", role="img", class_="picture"
    )
