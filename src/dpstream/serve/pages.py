"""The pages: an overview of all streams, and one page for each. They are whole without any script."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import polars as pl

from dpstream.events.number_words import number
from dpstream.serve.elements import Element, element, html_text
from dpstream.serve.figures import StreamFigures
from dpstream.serve.pictures import MOST_CHART_POINTS, bar_picture, chart_data, sparkline, total_picture
from dpstream.store.composition import in_words

__all__ = ["error_page", "overview_page", "stream_page"]

#: So many of the last rows are in the table of a page; the downloads have all of them.
ROWS_SHOWN = 30
#: So many categories, those with the largest totals, have pictures of their own.
CATEGORIES_DRAWN = 24
DOWNLOADS = {"csv": "CSV", "json": "JSON", "parquet": "Parquet"}


def overview_page(streams: Sequence[StreamFigures], *, live: bool = False) -> bytes:
    """Return the page that lists every stream.

    Parameters
    ----------
    live
        Whether a server will tell of new releases; a page in a file cannot.
    """
    cards = [_card(stream) for stream in streams]
    # Releases that are made before the page's script asks for them are not missed.
    events = f"/api/events-stream?after={sum(stream.t for stream in streams)}" if live else None
    empty = element("p", "This store has no counters yet.") if not cards else None
    main = element("main", element("h1", "Private running totals"), _notice(), empty, *cards, id="content")
    return _page("Private running totals", main, root="", events=events)


def stream_page(stream: StreamFigures, *, live: bool = False) -> bytes:
    """Return the page of one stream; see `overview_page`."""
    events = f"/api/streams/{quote(stream.name, safe='')}/events-stream?after={stream.t}" if live else None
    body: list[Element | None] = [
        element("p", element("a", "All streams", href="../index.html"), class_="back"),
        element("h1", stream.name),
        _state(stream),
        _numbers_now(stream),
    ]
    if stream.t:
        body += _search(stream)
        body += _charts(stream)
        body += [_table(stream)]
    body += [_downloads(stream), _protection(stream)]
    finer = f"/api/streams/{quote(stream.name, safe='')}/releases" if live else None
    return _page(stream.name, element("main", *body, id="content", data_releases=finer), root="../", events=events)


def error_page(status: int, message: str) -> bytes:
    """Return a page that says what went wrong, and leads back."""
    main = element(
        "main",
        element("h1", f"{status}"),
        element("p", message),
        element("p", element("a", "All streams", href="/")),
        id="content",
    )
    return _page(str(status), main, root="/")


def _page(title: str, main: Element, *, root: str, events: str | None = None) -> bytes:
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("title", title),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("link", rel="stylesheet", href=f"{root}static/page.css"),
        element("script", src=f"{root}static/page.js", defer="defer", data_plotly=f"{root}static/plotly.min.js"),
    )
    body = element(
        "body",
        element("a", "To the content", href="#content", class_="skip"),
        main,
        element("p", "", id="news", role="status", aria_live="polite"),
        element("footer", "Every number here carries random noise that protects people; no true count is shown."),
        data_events=events,
    )
    return b"<!doctype html>\n" + html_text(element("html", head, body, lang="en")).encode("utf-8", "replace")


# -- the overview -----------------------------------------------------------------------------------------------------


def _notice() -> Element:
    return element(
        "p",
        "Each number is the true one plus noise. Behind ± stands how far it may be off: 95 times in 100 the truth is"
        " within.",
    )


def _card(stream: StreamFigures) -> Element:
    address = f"streams/{stream.slug}.html"
    spark = None
    if stream.t > 1:
        spark = sparkline(_spark_values(stream), f"The course of {stream.name}")
    return element(
        "section",
        element("h2", element("a", stream.name, href=address)),
        spark,
        _numbers_now(stream),
        _state(stream),
        class_="card",
    )


def _spark_values(stream: StreamFigures) -> list[float]:
    if stream.windows and stream.t > 3:
        frame = stream.bars(stream.windows[0])
        by = "from"
    else:
        frame, by = stream.table, "step"
    return frame.group_by(by, maintain_order=True).agg(pl.col("value").cast(pl.Float64).sum())["value"].to_list()


def _state(stream: StreamFigures) -> Element:
    info, parts = stream.info, []
    if not stream.t:
        parts.append("Nothing is released yet.")
    elif "start" in stream.table.columns:
        parts.append(f"Released up to {_cell(stream.table['start'][-1])} ({number(stream.t, 'step')}).")
    else:
        parts.append(f"{number(stream.t, 'step')} released.")
    if info.retired:
        parts.append("The stream has ended.")
    elif info.remaining is not None:
        parts.append(f"{number(info.remaining, 'step')} left.")
    else:
        parts.append("There is no last step.")
    budgets = [in_words(part.budget) for part in stream.parts]
    if len(budgets) == 1:
        parts.append(f"Promised for all of them together: {budgets[0]}.")
    else:
        parts.append(f"Promised in {len(budgets)} parts, which add up: {', '.join(budgets)}.")
    return element("p", " ".join(parts), class_="state")


def _numbers_now(stream: StreamFigures) -> Element | None:
    """The last total and the last windows; of categories those that are largest."""
    frame = stream.last_windows
    if frame is None:
        return None
    largest = frame.sort("value", descending=True, maintain_order=True).head(5) if stream.names else frame
    heads = [element("th", "", scope="col") if stream.names else None, element("th", "total", scope="col")]
    heads += [element("th", f"last {window.words}", scope="col") for window in stream.windows]
    rows = []
    for row in largest.iter_rows(named=True):
        cells: list[Element | None] = [element("th", str(row["category"]), scope="row") if stream.names else None]
        for prefix in ("", *(window.name for window in stream.windows)):
            value = row[prefix or "value"]
            cells.append(element("td", _cell(value), element("small", f" ±{_cell(row[_of(prefix, 'high')] - value)}")))
        rows.append(element("tr", *cells))
    caption = f"The {len(largest)} largest of {len(stream.names)} categories" if len(stream.names) > 5 else "Now"
    table = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", *heads)),
        element("tbody", *rows),
        class_="now",
    )
    return _scrolling(table, f"{stream.name}: {caption}")


def _of(prefix: str, name: str) -> str:
    return f"{prefix}_{name}" if prefix else name


# -- a stream ---------------------------------------------------------------------------------------------------------


def _search(stream: StreamFigures) -> list[Element]:
    if len(stream.names) < 6:
        return []
    label = element("label", "Find a category ", element("input", type="search", id="find", autocomplete="off"))
    return [element("p", label, class_="find", hidden="hidden")]


def _charts(stream: StreamFigures) -> list[Element]:
    drawn: list[str] = list(stream.names)
    if len(drawn) > CATEGORIES_DRAWN:
        last = stream.table.tail(len(drawn)).sort("value", descending=True, maintain_order=True)
        drawn = last["category"].head(CATEGORIES_DRAWN).to_list()
    subjects: list[str | None] = [*drawn] or [None]
    found = []
    for window in stream.windows:
        if stream.bars(window)["from"].n_unique() < 2:  # which the numbers at the top say
            continue
        figures = [_bars(stream, window, name) for name in subjects]
        title = element("h2", f"Each {window.words}" if window.count > 1 else f"Each {window.words.split()[1]}")
        found.append(element("section", title, element("div", *figures, class_="several" if drawn else None)))
    totals = [_total(stream, name) for name in subjects]
    found.append(
        element("section", element("h2", "Running total"), element("div", *totals, class_="several" if drawn else None))
    )
    if len(drawn) < len(stream.names):
        note = f"Pictures show the {len(drawn)} largest of {len(stream.names):,} categories; the downloads have all."
        found.append(element("p", note))
    return found


def _bars(stream: StreamFigures, window: Any, name: str | None) -> Element:
    frame = _only(stream.bars(window), name)
    label = f"{name or stream.name}: bars of {window.words} with 95 % bands"
    data = chart_data(frame, "bars", name or stream.name, _points(stream))
    return _figure(bar_picture(frame, label), data, name, _last_words(frame))


def _total(stream: StreamFigures, name: str | None) -> Element:
    frame = _only(stream.table, name)
    label = f"{name or stream.name}: running total with its 95 % band"
    data = chart_data(frame, "total", name or stream.name, _points(stream))
    return _figure(total_picture(frame, label), data, name, _last_words(frame))


def _points(stream: StreamFigures) -> int:
    """How many points a chart of this stream has at most: fewer each where there are many charts."""
    return max(200, MOST_CHART_POINTS // max(1, min(len(stream.names), CATEGORIES_DRAWN)))


def _last_words(frame: pl.DataFrame) -> str:
    last = frame.row(-1, named=True)
    part = "" if last.get("complete", True) else ", so far"
    return f"last: {_cell(last['value'])} ±{_cell(last['high'] - last['value'])}{part}"


def _figure(picture: Element, data: str, name: str | None, last: str) -> Element:
    caption = element("figcaption", element("b", name) if name else None, f" {last}")
    return element("figure", caption, picture, data_chart=data, data_name=name)


def _only(frame: pl.DataFrame, name: str | None) -> pl.DataFrame:
    return frame if name is None else frame.filter(pl.col("category") == name)


def _table(stream: StreamFigures) -> Element:
    frame = stream.table.tail(ROWS_SHOWN).reverse()
    heads = [element("th", name, scope="col") for name in frame.columns]
    rows = [element("tr", *(element("td", _cell(cell)) for cell in row)) for row in frame.iter_rows()]
    caption = "All releases" if stream.table.height <= ROWS_SHOWN else f"The last {ROWS_SHOWN} rows; downloads have all"
    table = element(
        "table", element("caption", caption), element("thead", element("tr", *heads)), element("tbody", *rows)
    )
    return element("section", element("h2", "Releases"), _scrolling(table, caption))


def _scrolling(table: Element, label: str) -> Element:
    """A wide table scrolls in itself, also by keyboard."""
    return element("div", table, class_="wide", tabindex="0", role="region", aria_label=label)


def _downloads(stream: StreamFigures) -> Element:
    links: list[Element | str] = []
    for suffix, title in DOWNLOADS.items():
        links += [element("a", title, href=f"{stream.slug}.{suffix}", download=f"{stream.slug}.{suffix}"), " "]
    return element("section", element("h2", "Download"), element("p", *links, class_="downloads"))


def _protection(stream: StreamFigures) -> Element:
    """In words for everyone; folded away what exactly is promised, and the draft for a registry."""
    exact = element("details", element("summary", "The promise in full"), *(element("p", w) for w in stream.promises))
    registry = element("a", "Draft for OpenDP's registry (JSON)", href=f"{stream.slug}.registry.json")
    return element(
        "section",
        element("h2", "Who is protected"),
        element("p", stream.protection),
        exact,
        element("p", registry),
        class_="protection",
    )


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.5g}"
    if isinstance(value, (int, Decimal)):
        return f"{value:,}"
    return str(value.isoformat()).removesuffix("T00:00:00") if hasattr(value, "isoformat") else str(value)
