"""Looks at every page of the built site in Chromium, wide, narrow and dark, and fails with all that is wrong.

usage: python docs/_ext/look_at_site.py build/site [--only PART] [--screenshots FOLDER]

Checked are: links and anchors inside the site; titles, languages, headings and texts for pictures; errors and warnings
of the console; requests to other hosts (there may be none); pages wider than a telephone; the contrast of every text
(WCAG AA: 4.5, or 3 for large text); and that the search finds something. Addresses outside are listed, not fetched.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin, urlparse

CHROMIUM = os.environ.get("DPSTREAM_CHROMIUM", "/usr/bin/chromium")
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
#: What is looked at: name, size, colours.
VIEWS = [("wide", WIDE, "light"), ("narrow", NARROW, "light"), ("dark", WIDE, "dark")]
#: Pages that Sphinx makes by itself.
NOT_PAGES = ("genindex.html", "search.html", "py-modindex.html")

#: Returns the texts whose contrast is too small, as "ratio colour on ground: text".
CONTRAST = """() => {
  const parse = (told) => { const n = told.match(/[\\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
  const over = (top, under) => top.slice(0, 3).map((c, i) => c * top[3] + under[i] * (1 - top[3]));
  const light = (c) => { const [r, g, b] = c.map((v) => { v /= 255;
    return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const ground = (element) => { const found = [];
    for (let e = element; e; e = e.parentElement) found.push(parse(getComputedStyle(e).backgroundColor));
    let c = [255, 255, 255];
    for (const layer of found.reverse()) c = over(layer, c);
    return c; };
  const wrong = new Set();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const text = walk.currentNode.textContent.trim(); const e = walk.currentNode.parentElement;
    if (!text || !e.checkVisibility({opacityProperty: true, visibilityProperty: true}) || e.closest("svg")) continue;
    const box = e.getBoundingClientRect(); if (!box.width || !box.height) continue;
    const style = getComputedStyle(e); const under = ground(e);
    const above = over(parse(style.color), under);
    const [a, b] = [light(above), light(under)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05); const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5))
      wrong.add(`${ratio.toFixed(2)} ${style.color} on ${under.map(Math.round)}: ` +
        `${e.tagName.toLowerCase()}.${e.className} "${text.slice(0, 30)}"`);
  }
  return [...wrong].slice(0, 5);
}"""

#: Returns what sticks out of the page at the right.
TOO_WIDE = """() => {
  const most = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= most + 1) return [];
  return [...document.querySelectorAll("article *")].filter((e) => e.getBoundingClientRect().right > most + 1
    && !e.closest("pre, table, .math, .sd-tab-set")).slice(0, 3).map((e) => e.outerHTML.slice(0, 80));
}"""


class _Page(HTMLParser):
    """What a page links to, and what can be linked to in it."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.problems: list[str] = []
        self.headings = 0
        self.title = ""
        self._in_title = False

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        told = dict(attributes)
        self.anchors |= {value for name in ("id", "name") if (value := told.get(name))}
        if tag in ("a", "link") and (href := told.get("href")):
            self.links.append(href)
        if tag in ("img", "script", "source") and (source := told.get("src")):
            self.links.append(source)
        if tag == "img" and len(told.get("alt") or "") < 5:
            self.problems.append(f"a picture without a text: {told.get('src')}")
        if tag == "html" and not told.get("lang"):
            self.problems.append("no language")
        self.headings += tag == "h1"
        self._in_title = tag == "title" and not self.title  # pictures in SVG have titles, too

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False

    def handle_data(self, data: str) -> None:
        self.title += data if self._in_title else ""


def read_site(site: Path) -> tuple[dict[str, _Page], list[str], set[str]]:
    """Read every page; return them, what is wrong with links and texts, and the addresses outside."""
    pages = {}
    for path in sorted(site.rglob("*.html")):
        page = _Page()
        page.feed(path.read_text())
        pages[path.relative_to(site).as_posix()] = page
    wrong, outside, titles = [], set(), {}
    for name, page in pages.items():
        made_by_sphinx = name in NOT_PAGES
        problems = [] if made_by_sphinx else list(page.problems)
        if not page.title.strip():
            problems.append("no title")
        elif not made_by_sphinx and (other := titles.setdefault(page.title, name)) != name:
            problems.append(f"the same title as {other}: {page.title.strip()!r}")
        if page.headings != 1 and not made_by_sphinx:
            problems.append(f"{page.headings} main headings")
        for link in page.links:
            parts = urlparse(link)
            if parts.scheme in ("http", "https"):
                outside.add(link)
            if parts.scheme or link == "#":
                continue
            target, anchor = urldefrag(urljoin(name, unquote(link)))
            target = target.split("?")[0]
            if target.endswith("/"):
                target += "index.html"
            if not (site / target).exists():
                problems.append(f"leads nowhere: {link}")
            elif anchor and target in pages and anchor not in pages[target].anchors:
                problems.append(f"no such place: {link}")
        wrong += [f"{name}: {problem}" for problem in dict.fromkeys(problems)]
    return pages, wrong, outside


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def served(site: Path) -> Iterator[str]:
    """Serve the site on this machine only, and yield its address."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _is_complaint(message: Any) -> bool:
    """Whether a page complained on the console; that a browser finds no icon, which it asks for itself, is none."""
    asked_for_icon = message.location.get("url", "").endswith("/favicon.ico")
    return message.type in ("error", "warning") and not asked_for_icon


def look(site: Path, names: list[str], screenshots: Path | None) -> list[str]:
    """Look at pages in Chromium; return what is wrong."""
    from playwright.sync_api import sync_playwright

    wrong = []
    with served(site) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for view, size, colours in VIEWS:
            context = browser.new_context(viewport=size, color_scheme=colours)  # type: ignore[arg-type]
            tab = context.new_page()
            said: list[str] = []
            tab.on("console", lambda m, said=said: said.append(m.text) if _is_complaint(m) else None)
            tab.on("pageerror", lambda error, said=said: said.append(str(error)))
            tab.on("requestfailed", lambda request, said=said: said.append(f"not loaded: {request.url}"))
            tab.on(
                "request",
                lambda request, said=said: (
                    said.append(f"asks another host: {request.url}")
                    if not request.url.startswith((address, "data:", "blob:"))
                    else None
                ),
            )
            for name in names:
                said.clear()
                tab.goto(address + name)
                problems = list(said)
                if view == "narrow":
                    problems += [f"wider than the screen: {told}" for told in tab.evaluate(TOO_WIDE)]
                if view != "narrow" and name not in NOT_PAGES:
                    problems += [f"contrast {told}" for told in tab.evaluate(CONTRAST)]
                wrong += [f"{name} ({view}): {problem}" for problem in dict.fromkeys(problems)]
                if screenshots is not None:
                    tab.screenshot(path=screenshots / f"{name.replace('/', '-')}.{view}.png", full_page=view != "dark")
            if view == "wide":
                tab.goto(f"{address}search.html?q=horizon")
                tab.wait_for_selector("#search-results li", timeout=20_000)
            context.close()
        browser.close()
    return wrong


def main() -> None:
    """Look at the site, and end with status 1 if something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", type=Path)
    parser.add_argument("--only", default="", help="pages whose name has this in it")
    parser.add_argument("--screenshots", type=Path)
    given = parser.parse_args()
    pages, wrong, outside = read_site(given.site)
    (given.site.parent / "outside-links.txt").write_text("".join(f"{link}\n" for link in sorted(outside)))
    if given.screenshots:
        given.screenshots.mkdir(parents=True, exist_ok=True)
    if Path(CHROMIUM).exists():
        wrong += look(given.site, [name for name in pages if given.only in name], given.screenshots)
    else:
        print(f"NOT RUN: the pages in a browser, which needs {CHROMIUM}", file=sys.stderr)
    for problem in wrong:
        print(problem)
    print(f"{len(pages)} pages, {len(wrong)} problems, {len(outside)} addresses outside (listed, not fetched)")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
