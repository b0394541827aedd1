"""The page in a real browser: it renders, moves when a step closes, and does without scripts, width or light."""

import functools
import http.server
import json
import os
import threading

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect, sync_playwright

import dpstream as dp
from dpstream.serve import live
from dpstream.serve.export import export_site
from dpstream.serve.shown_stream import slug_of
from tests.serve.conftest import EVIL, SOURCE, Served, made, open_visits, path  # noqa: F401
from tests.serve.test_names import fill as fill_names

#: Debian's; Playwright's own browser need not be there.
CHROMIUM = os.environ.get("DPSTREAM_CHROMIUM", "/usr/bin/chromium")
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]
WARDS = f"/streams/{slug_of('by ward/2026')}.html"
PAGES = ("/", "/streams/visits.html", WARDS, f"/streams/{slug_of(EVIL)}.html", f"/streams/{slug_of('x' * 200)}.html")
PATIENCE = 60_000


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


@pytest.fixture
def opened(browser):
    """A function that opens a page; at the end no page may have had an error, or have asked for anything elsewhere.

    Nor may it have broken its policy. The chart library holds one that draws maps, whose styles are not let in: we draw
    none.
    """
    contexts, faults, broken = [], [], []

    def open_page(address, **options):
        context = browser.new_context(**options)
        contexts.append(context)
        if options.get("java_script_enabled", True):
            context.expose_function("brokePolicy", lambda *what: broken.append(what))
            context.add_init_script(
                "addEventListener('securitypolicyviolation', event =>"
                " brokePolicy(event.effectiveDirective, event.sourceFile))"
            )
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("dialog", lambda dialog: (faults.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: "//127.0.0.1:" in request.url or faults.append(request.url))
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert [fault for fault in faults if not fault.startswith(("blob:", "data:"))] == []
    assert {(what, file.rpartition("/")[2]) for what, file in broken} <= {("style-src-elem", "plotly.min.js")}


@pytest.fixture(scope="module")
def server(made):  # noqa: F811
    with Served(made / "counts.db") as server:
        yield server


@pytest.fixture(scope="module")
def names_server(tmp_path_factory):
    """A store with discovered names, one of 4,000 characters; and with a category of 10,000."""
    store_path = tmp_path_factory.mktemp("names") / "counts.db"
    fill_names(store_path)
    with dp.Store(store_path) as store:
        categories = ["x" * 10_000, "<script>alert(3)</script>", "<img src=x onerror=alert(4)>"]
        long = store.counter("long", 100, dp.zcdp(0.5), shape=3, source=json.dumps(SOURCE | {"categories": categories}))
        long.extend(np.full((20, 3), 30))
        store.counter("hours", 10_000, dp.zcdp(0.5)).extend(np.full(8_000, 5))
    with Served(store_path) as server:
        yield server


NAMES_PAGES = ("/", "/streams/searches.html", "/streams/searches.html?find=term", "/streams/long.html")


def serious(page):
    """The faults that axe-core calls serious or critical: which rule, and where."""
    found = Axe().run(page).response["violations"]
    return [
        (rule["id"], node["target"], node.get("failureSummary"))
        for rule in found
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("address", ["/", "/streams/visits.html", WARDS])
def test_axe_finds_nothing_serious(opened, server, address, scheme):
    page = opened(server.address + address, color_scheme=scheme)
    if page.locator("figure").count():
        page.wait_for_selector("figure.drawn")
    assert serious(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("address", ["/", "/streams/searches.html", "/streams/searches.html?find=term"])
def test_axe_finds_nothing_serious_on_names(opened, names_server, address, scheme):
    page = opened(names_server.address + address, color_scheme=scheme)
    if page.locator("figure").count():
        page.wait_for_selector("figure.drawn")
    assert serious(page) == []


def test_axe_finds_what_is_broken(opened, server):
    page = opened(f"{server.address}/streams/visits.html")
    page.evaluate(
        """() => {
            const main = document.getElementById("content");
            main.append(document.createElement("input"));
            const pale = document.createElement("p");
            pale.textContent = "pale";
            pale.style.color = "#ddd";
            main.append(pale);
            document.documentElement.removeAttribute("lang");
        }"""
    )
    assert {rule for rule, *_ in serious(page)} >= {"label", "color-contrast", "html-has-lang"}


@pytest.mark.parametrize("address", NAMES_PAGES)
@pytest.mark.parametrize("scripts", [True, False])
def test_long_and_hostile_names_do_no_harm(opened, names_server, address, scripts):
    """Nothing is run (`opened` sees dialogs and requests), nothing is wider than a telephone or very tall."""
    page = opened(names_server.address + address, viewport={"width": 390, "height": 844}, java_script_enabled=scripts)
    if scripts and page.locator("figure").count():
        page.wait_for_selector("figure.drawn")
    wide = page.locator("main, h1, h2, p, form, figure, section").evaluate_all(
        "found => Math.max(...found.map(one => one.getBoundingClientRect().right))"
    )
    assert wide <= 390
    tall = page.locator("tr, figcaption, h1, h2").evaluate_all(
        "found => Math.max(...found.map(one => one.getBoundingClientRect().height))"
    )
    assert tall < 300


@pytest.mark.parametrize("scripts", [True, False])
def test_names_are_found(opened, names_server, scripts):
    """By the server, among all names; where there is a script also at once, among those that are drawn."""
    page = opened(f"{names_server.address}/streams/searches.html", java_script_enabled=scripts)
    assert page.locator("figure").count() > 24
    field = page.get_by_role("searchbox")
    field.fill("gripPE")
    if scripts:
        expect(page.locator("figure:visible")).to_have_count(page.locator("figure[data-name=Grippe]").count())
    page.get_by_role("button", name="Find").click()
    page.wait_for_url("**find=gripPE")
    expect(page.locator("main")).to_contain_text("1 of 32 names holds “gripPE”")
    assert set(page.locator("figure").evaluate_all("found => found.map(one => one.dataset.name)")) == {"Grippe"}
    expect(page.get_by_role("searchbox")).to_have_value("gripPE")


def test_a_zoom_fetches_finer_points(opened, names_server):
    """The chart holds 2,000 of 8,000 points; of the part that is looked at it gets all, and gives them back after."""
    page = opened(f"{names_server.address}/streams/hours.html")
    figure = page.locator("figure").last
    expect(figure).to_have_class("drawn")
    chart = figure.locator(".chart")
    chart.scroll_into_view_if_needed()
    drawn = "figure => figure.querySelector('.chart').data[2].x.length"
    assert figure.evaluate(drawn) == 2000
    box = chart.locator(".nsewdrag").bounding_box()
    with page.expect_response(lambda answer: "points=2000" in answer.url) as asked:
        page.mouse.move(box["x"] + 200, box["y"] + 60)
        page.mouse.down()
        page.mouse.move(box["x"] + 260, box["y"] + 62, steps=5)
        page.mouse.up()
    assert asked.value.status == 200
    page.wait_for_function("figure => figure.dataset.points", arg=figure.element_handle())
    steps = figure.evaluate("figure => figure.querySelector('.chart').data[2].x")
    (low, high) = figure.evaluate("figure => figure.querySelector('.chart').layout.xaxis.range")
    inside = [step for step in steps if low <= step <= high]
    assert inside == list(range(inside[0], inside[-1] + 1))
    assert len(inside) > 100
    page.mouse.dblclick(box["x"] + 200, box["y"] + 60)
    page.wait_for_function("figure => figure.dataset.points === '2000'", arg=figure.element_handle())


def test_charts_have_their_styles(opened, server):
    """The rules that the chart library may not add are in the style sheet: its layers lie on each other."""
    page = opened(f"{server.address}/streams/visits.html")
    page.wait_for_selector("figure.drawn")
    layers = page.locator(".chart").first.locator(".main-svg")
    assert layers.count() > 1
    tops = layers.evaluate_all("found => found.map(one => one.getBoundingClientRect().top)")
    assert len(set(tops)) == 1
    assert page.locator("style").count() <= 1  # that of maps, which is not let in


def test_pages_render_and_charts_can_be_hovered(opened, server):
    page = opened(server.address)
    page.get_by_role("link", name="visits", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("visits")
    expect(page.locator("figure.drawn")).to_have_count(4, timeout=PATIENCE)
    chart = page.locator("figure .chart").first
    place = chart.locator(".nsewdrag")
    place.hover(position={"x": 100, "y": 100})
    place.hover(position={"x": 120, "y": 110})
    expect(chart.locator(".hovertext").first).to_contain_text("±")


def test_a_step_closes_and_the_chart_moves(opened, path, monkeypatch):  # noqa: F811
    """Without a reload; and again after the server was stopped, steps were released, and it was started."""
    monkeypatch.setattr(live, "LOOK_SECONDS", 0.05)

    def shown_of(page):
        return page.evaluate("document.querySelector('.chart').data[0].y.length")

    with dp.Store(path) as store:
        visits = open_visits(store)
        server = Served(path)
        try:
            page = opened(f"{server.address}/streams/visits.html")
            page.evaluate("window.never = 'reloaded'")
            page.wait_for_selector("figure.drawn")
            page.wait_for_selector("body[data-connected=yes]")
            assert shown_of(page) == 100
            release = visits.add(100)
            page.wait_for_selector("body[data-step='101']")
            page.wait_for_function("document.querySelector('.chart')?.data?.[0].y.length === 101")
            expect(page.locator("#content")).to_contain_text(f"{release:,}")
            expect(page.get_by_role("status")).to_have_text("New: step 101.")
            server.stop()
            page.wait_for_selector("body[data-connected=no]")
            last = visits.extend([100] * 5)[-1]
            server = Served(path, server.port)
            page.wait_for_selector("body[data-step='106']")
            expect(page.locator("#content")).to_contain_text(f"{last:,}")
            assert page.evaluate("window.never") == "reloaded"
        finally:
            server.stop()


@pytest.mark.parametrize("address", PAGES)
def test_without_scripts_it_is_whole(opened, server, address):
    page = opened(server.address + address, java_script_enabled=False)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    if address == "/streams/visits.html":
        assert page.locator("figure svg.picture:visible").count() == 4
        with page.expect_download() as download:
            page.get_by_role("link", name="CSV").click()
        assert download.value.suggested_filename == "visits.csv"


@pytest.mark.parametrize("address", PAGES)
@pytest.mark.parametrize("scripts", [True, False])
def test_it_fits_a_telephone(opened, server, address, scripts):
    page = opened(server.address + address, viewport={"width": 390, "height": 844}, java_script_enabled=scripts)
    if scripts and page.locator("figure").count():
        page.wait_for_selector("figure.drawn")
    wide = page.locator("main, h1, p, figure, section").evaluate_all(
        "found => Math.max(...found.map(one => one.getBoundingClientRect().right))"
    )
    assert wide <= 390


def contrast(page, selector):
    """The contrast of an element's text with the page, as WCAG 2 defines it."""
    colours = page.evaluate(
        """selector => [getComputedStyle(document.querySelector(selector)).color,
                        getComputedStyle(document.body).backgroundColor]""",
        selector,
    )

    def luminance(colour):
        parts = [int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted(map(luminance, colours))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(opened, server, scheme):
    """At least 4.5, which is WCAG's level AA."""
    page = opened(f"{server.address}/streams/visits.html", color_scheme=scheme)
    for selector in ("h1", ".state", "a[href]", "caption", "figcaption", "td", "small", "footer"):
        assert contrast(page, selector) >= 4.5, selector
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 22, 28)"
    assert dark == (scheme == "dark")


def test_keyboard_and_screen_readers(opened, server):
    """Every picture has a name, every table a caption; wide tables scroll by keyboard; the first key skips ahead."""
    page = opened(server.address + WARDS)
    for picture in page.locator("svg[role=img]").all():
        assert picture.locator("title").text_content()
    assert page.locator("table").count() == page.locator("table > caption").count()
    assert page.locator("th:not([scope])").count() == 0
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "To the content"
    assert page.locator("[role=region][tabindex='0'][aria-label]").count() == 2
    assert page.evaluate("document.documentElement.lang") == "en"


def test_print(opened, server):
    """The pictures of the server are printed, not the charts of the script."""
    page = opened(f"{server.address}/streams/visits.html")
    page.wait_for_selector("figure.drawn")
    page.emulate_media(media="print")
    assert page.locator(".chart:visible").count() == 0
    assert page.locator("figure svg.picture:visible").count() == 4
    assert page.pdf().startswith(b"%PDF")


def test_files_work_on_any_server(opened, made, tmp_path):  # noqa: F811
    export_site(made / "counts.db", tmp_path)
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as plain:
        threading.Thread(target=plain.serve_forever).start()
        try:
            page = opened(f"http://127.0.0.1:{plain.server_port}/index.html")
            page.get_by_role("link", name="visits", exact=True).click()
            expect(page.locator("figure.drawn")).to_have_count(4, timeout=PATIENCE)
            page.get_by_role("link", name="All streams").click()
            expect(page.get_by_role("heading", level=1)).to_have_text("Private running totals")
        finally:
            plain.shutdown()
