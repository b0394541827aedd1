"""The pages: an overview of all streams, and one page for each. They are whole without any script."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from urllib.parse import quote

import polars as pl

from dpstream.events.number_words import number
from dpstream.events.windows import Window
from dpstream.serve.elements import Element, element, html_text
from dpstream.serve.pictures import MOST_CHART_POINTS, bar_picture, chart_data, sparkline, total_picture
from dpstream.serve.shown_stream import ShownStream
from dpstream.store.composition import in_words

__all__ = ["error_page", "overview_page", "stream_page"]

#: So many of the last rows are in the table of a page; the downloads have all of them.
ROWS_SHOWN = 30
#: So many of the largest categories are in the table of the overview.
LARGEST_SHOWN = 5
#: So many categories, those with the largest totals, have pictures of their own.
CATEGORIES_DRAWN = 24
#: Of a search fewer: its page is made for one reader.
FOUND_DRAWN = 12
#: Longer names are cut where they are read; downloads and the API have them whole.
LONGEST_SHOWN = 80
#: What tells the chart library that its own rules are in a style sheet of the page and need not be added.
CHART_STYLES = {"id": "plotly.js-style-global", "class": "no-inline-styles"}
DOWNLOADS = {"csv": "CSV", "json": "JSON", "parquet": "Parquet"}


def overview_page(streams: Sequence[ShownStream], *, live: bool = False) -> bytes:
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


def stream_page(stream: ShownStream, *, live: bool = False, find: str = "") -> bytes:
    """Return the page of one stream; see `overview_page`.

    Parameters
    ----------
    find
        Draw the categories whose names hold this text, instead of the largest.
    """
    events = f"/api/streams/{quote(stream.name, safe='')}/events-stream?after={stream.t}" if live else None
    body: list[Element | None] = [
        element("p", element("a", "All streams", href="../index.html"), class_="back"),
        element("h1", _short(stream.name)),
        _state(stream),
        _notice(),
        _numbers_now(stream, ROWS_SHOWN if stream.discovers else LARGEST_SHOWN),
    ]
    if stream.t:
        body += _search(stream, find, live=live)
        body += _charts(stream, find)
        body += [] if stream.discovers else [_table(stream)]
    body += [_downloads(stream), _protection(stream)]
    finer = f"/api/streams/{quote(stream.name, safe='')}/releases" if live else None
    main = element("main", *body, id="content", data_releases=finer)
    return _page(_short(stream.name), main, root="../", events=events)


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
        element(
            "link",
            rel="stylesheet",
            href=f"{root}static/page.css",
            id="plotly.js-style-global",
            class_="no-inline-styles",
        ),
        element("script", src=f"{root}static/page.js", defer="defer", data_plotly=f"{root}static/plotly.min.js"),
    )
    body = element(
        "body",
        element("a", "To the content", href="#content", class_="skip"),
        main,
        element("p", "", id="news", role="status", aria_live="polite"),
        element("footer", "Every number here has random noise added, which protects people."),
        data_events=events,
    )
    return b"<!doctype html>\n" + html_text(element("html", head, body, lang="en")).encode("utf-8", "replace")


# -- the overview -----------------------------------------------------------------------------------------------------


def _notice() -> Element:
    return element(
        "p",
        "Each number has random noise added, so it may be negative. The ± is its margin of error: 95 times in 100 the"
        " number without noise is within it.",
    )


def _card(stream: ShownStream) -> Element:
    address = f"streams/{stream.slug}.html"
    spark = None
    if stream.t > 1:
        what = "Names published in" if stream.discovers else "The course of"
        spark = sparkline(stream.course, f"{what} {_short(stream.name)}")
    return element(
        "section",
        element("h2", element("a", _short(stream.name), href=address)),
        spark,
        _numbers_now(stream),
        _state(stream),
        class_="card",
    )


def _state(stream: ShownStream) -> Element:
    info, parts = stream.info, []
    if not stream.t:
        parts.append("Nothing is released yet.")
    elif (date := stream.last_date) is not None:
        parts.append(f"Released up to {_cell(date)} ({number(stream.t, 'step')}).")
    else:
        parts.append(f"{number(stream.t, 'step')} released.")
    if stream.discovers:
        parts.append(
            f"{number(len(stream.names), 'name')} published; a name appears once enough people have brought it."
        )
    if info.retired:
        parts.append("The stream has ended.")
    elif info.remaining is not None:
        parts.append(f"{number(info.remaining, 'step')} left.")
    else:
        parts.append("There is no last step.")
    budgets = [in_words(part.budget) for part in stream.parts]
    if len(budgets) == 1:
        parts.append(f"Privacy budget for all releases: {budgets[0]}.")
    else:
        parts.append(f"Privacy budget in {len(budgets)} parts, which add up: {', '.join(budgets)}.")
    if stream.limit:
        parts.append(stream.limit)
    return element("p", " ".join(parts), class_="state")


def _numbers_now(stream: ShownStream, most: int = LARGEST_SHOWN) -> Element | None:
    """The last total and the last windows; of categories those that are largest."""
    frame = stream.last_windows if not stream.names else stream.largest
    if frame is None or not frame.height:
        return None
    shown, several = frame.head(most), bool(stream.names)
    heads = [element("th", "name" if stream.discovers else "category", scope="col")] if several else []
    heads += [element("th", "since", scope="col")] if stream.discovers else []
    heads += [element("th", "total", scope="col")]
    heads += [element("th", f"last {window.words.removeprefix('1 ')}", scope="col") for window in stream.windows]
    rows = []
    for row in shown.iter_rows(named=True):
        cells = [element("th", _short(str(row["category"])), scope="row")] if several else []
        cells += [element("td", _since(stream, row["since"]))] if stream.discovers else []
        for prefix in ("", *(window.name for window in stream.windows)):
            value = row[prefix or "value"]
            if value is None:  # it was not published yet when the window began
                cells.append(element("td", "–"))
                continue
            off = row[f"{prefix}_high" if prefix else "high"] - value
            cells.append(element("td", _cell(value), element("small", f" ±{_cell(off)}")))
        rows.append(element("tr", *cells))
    kind = "names" if stream.discovers else "categories"
    caption = f"The {shown.height} largest of {len(stream.names):,} {kind}" if frame.height > most else "Now"
    if stream.discovers:
        caption += "; – where a name was published after the window began"
    table = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", *heads)),
        element("tbody", *rows),
        class_="now",
    )
    return _scrolling(table, f"{_short(stream.name)}: {caption}")


def _since(stream: ShownStream, step: int) -> str:
    if not step:
        return "declared"
    date = stream.date_of(step)
    return f"step {step:,}" if date is None else _cell(date)


# -- a stream ---------------------------------------------------------------------------------------------------------


def _search(stream: ShownStream, find: str, *, live: bool) -> list[Element]:
    """A server looks among all categories; a script, where there is one, among those that are drawn."""
    if len(stream.names) <= LARGEST_SHOWN and not find:
        return []
    what = "Find a name " if stream.discovers else "Find a category "
    field = element("input", type="search", id="find", name="find", value=find or None, autocomplete="off")
    label = element("label", what, field)
    if not live or len(stream.names) <= CATEGORIES_DRAWN:
        return [element("p", label, class_="find", hidden="hidden")]
    address = f"{stream.slug}.html"
    button = element("button", "Find", type="submit")
    return [element("form", label, " ", button, class_="find", role="search", method="get", action=address)]


def _charts(stream: ShownStream, find: str) -> list[Element]:
    subjects, note = _drawn(stream, find)
    found = [] if note is None or not find else [element("p", note)]
    for window in stream.windows:
        # A single bar says what the numbers at the top say.
        figures = [_bars(stream, window, name, len(subjects)) for name in subjects]
        drawn = [figure for figure in figures if figure is not None]
        if drawn:
            words = f"Each {window.words}" if window.count > 1 else f"Each {window.words.split()[1]}"
            table = None if stream.names else _figures_table(stream.bars(window, None), words)
            found.append(element("section", element("h2", words), _side_by_side(stream, drawn), table))
    if subjects:
        totals = [_total(stream, name, len(subjects)) for name in subjects]
        found.append(element("section", element("h2", "Running total"), _side_by_side(stream, totals)))
    if note is not None and not find:
        found.append(element("p", note))
    return found


def _drawn(stream: ShownStream, find: str) -> tuple[list[str | None], str | None]:
    """Which categories are drawn ([None]: the stream has none), and what is said of it."""
    kind = "names" if stream.discovers else "categories"
    if find:
        names = stream.find(find)
        if not names:
            return [], f"None of {len(stream.names):,} {kind} holds “{_short(find)}”."
        shown = "it is drawn" if len(names) == 1 else f"the {min(len(names), FOUND_DRAWN)} largest are drawn"
        holds = "holds" if len(names) == 1 else "hold"
        return [
            *names[:FOUND_DRAWN]
        ], f"{len(names):,} of {len(stream.names):,} {kind} {holds} “{_short(find)}”; {shown}."
    if not stream.names:
        return ([] if stream.discovers else [None]), None
    if len(stream.names) <= CATEGORIES_DRAWN and not stream.discovers:
        return [*stream.names], None
    assert stream.largest is not None  # noqa: S101
    drawn = stream.largest["category"].head(CATEGORIES_DRAWN).to_list()
    if len(drawn) == len(stream.names):
        return drawn, None
    return drawn, f"Pictures show the {len(drawn)} largest of {len(stream.names):,} {kind}; the downloads have all."


def _side_by_side(stream: ShownStream, figures: list[Element]) -> Element:
    return element("div", *figures, class_="several" if stream.names else None)


def _bars(stream: ShownStream, window: Window, name: str | None, pictures: int) -> Element | None:
    frame = stream.bars(window, name)
    if frame["from"].n_unique() < 2:
        return None
    shown = _short(name or stream.name)
    data = chart_data(frame, "bars", shown, _points(pictures))
    return _figure(bar_picture(frame, f"{shown}: bars of {window.words} with 95 % bands"), data, name, frame)


def _total(stream: ShownStream, name: str | None, pictures: int) -> Element:
    frame, shown = stream.totals(name), _short(name or stream.name)
    data = chart_data(frame, "total", shown, _points(pictures))
    return _figure(total_picture(frame, f"{shown}: running total with its 95 % band"), data, name, frame)


def _points(pictures: int) -> int:
    """How many points a chart has at most: fewer each where there are many charts."""
    return max(200, MOST_CHART_POINTS // max(1, pictures))


def _figure(picture: Element, data: str, name: str | None, frame: pl.DataFrame) -> Element:
    last = frame.row(-1, named=True)
    part = "" if last.get("complete", True) else ", so far"
    words = f" last: {_cell(last['value'])} ±{_cell(last['high'] - last['value'])}{part}"
    caption = element("figcaption", element("b", _short(name)) if name else None, words)
    return element("figure", caption, picture, data_chart=data, data_name=name)


def _figures_table(frame: pl.DataFrame, words: str) -> Element:
    """The figures of a picture as a table: whoever subtracts totals instead would take their errors for these."""
    shown = frame.tail(ROWS_SHOWN).reverse()
    heads = [element("th", name, scope="col") for name in ("from", "through", "figure", "between")]
    rows = [
        element(
            "tr",
            element("td", _cell(row["from"])),
            element("td", _cell(row["through"]) + ("" if row["complete"] else ", so far")),
            element("td", _cell(row["value"])),
            element("td", f"{_cell(row['low'])} and {_cell(row['high'])}"),
        )
        for row in shown.iter_rows(named=True)
    ]
    caption = words if frame.height <= ROWS_SHOWN else f"{words}: the last {ROWS_SHOWN}"
    table = element(
        "table", element("caption", caption), element("thead", element("tr", *heads)), element("tbody", *rows)
    )
    return element("details", element("summary", "As a table"), _scrolling(table, caption))


def _table(stream: ShownStream) -> Element:
    frame = stream.table.tail(ROWS_SHOWN).reverse()
    heads = [element("th", name, scope="col") for name in frame.columns]
    rows = [element("tr", *(element("td", _short(_cell(cell))) for cell in row)) for row in frame.iter_rows()]
    caption = "All releases" if stream.table.height <= ROWS_SHOWN else f"The last {ROWS_SHOWN} rows; downloads have all"
    table = element(
        "table", element("caption", caption), element("thead", element("tr", *heads)), element("tbody", *rows)
    )
    return element("section", element("h2", "Releases"), _scrolling(table, caption))


def _scrolling(table: Element, label: str) -> Element:
    """A wide table scrolls in itself, also by keyboard."""
    return element("div", table, class_="wide", tabindex="0", role="region", aria_label=label)


def _downloads(stream: ShownStream) -> Element:
    links: list[Element | str] = []
    for suffix, title in DOWNLOADS.items():
        links += [element("a", title, href=f"{stream.slug}.{suffix}", download=f"{stream.slug}.{suffix}"), " "]
    return element("section", element("h2", "Download"), element("p", *links, class_="downloads"))


def _protection(stream: ShownStream) -> Element:
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


def _short(text: str) -> str:
    """Return a name, cut in its middle if it is too long to be read."""
    if len(text) <= LONGEST_SHOWN:
        return text
    return f"{text[: LONGEST_SHOWN - 20]}…{text[-12:]} ({len(text):,} characters)"


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.5g}"
    if isinstance(value, (int, Decimal)):
        return f"{value:,}"
    return str(value.isoformat()).removesuffix("T00:00:00") if hasattr(value, "isoformat") else str(value)
