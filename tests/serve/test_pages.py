"""Pages, downloads and the API: what they say is what was released, and whatever things are called does no harm."""

import html
import io
import json
import re
import socket
from html.parser import HTMLParser

import numpy as np
import polars as pl
import pytest

import dpstream as dp
from dpstream.events.stored_stream import StoredStream
from dpstream.events.window_figures import window_figures
from dpstream.mechanisms import SmoothBinary
from dpstream.serve.content import HEADERS
from dpstream.serve.figures import Figures
from dpstream.serve.openapi import openapi_document
from dpstream.serve.shown_stream import slug_of
from dpstream.store import PublishedStore

from .conftest import DAYS, EVIL, SOURCE, WARDS, Served, open_visits

PAGES = ("/", "/streams/visits.html", f"/streams/{slug_of('by ward/2026')}.html", f"/streams/{slug_of(EVIL)}.html")


class Seen(HTMLParser):
    """The tags, attributes and text of a page."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.words = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]

    def handle_data(self, data):
        self.words.append(data)


@pytest.mark.parametrize("address", PAGES)
def test_names_are_text(served, address):
    """One script, in the head, of a file of ours; no handler of any event, no inline style; nothing from elsewhere."""
    answer = served.get(address)
    assert answer.status_code == 200
    seen = Seen(answer.text)
    assert seen.tags.count("script") == 1
    assert {tag for tag, name, _ in seen.attributes if name.startswith("on")} == set()
    assert "style" not in seen.tags
    assert "style" not in {name for _, name, _ in seen.attributes}
    for _, name, value in seen.attributes:
        if name in ("href", "src"):
            assert ":" not in value
            assert not value.startswith("//")
    if address != "/streams/visits.html":
        assert "<script>alert" in " ".join(seen.words)


def test_the_numbers_are_the_releases(served, made):
    values = PublishedStore(made / "counts.db").releases("visits")
    words = " ".join(Seen(served.get("/streams/visits.html").text).words)
    assert f"{values[-1]:,}" in words
    assert f"{values[-1] - values[-2]:,}" in words  # the last day
    assert "Released up to 2026-04-10 (100 steps)" in words
    assert "3,550 steps left" in words
    assert "rho = 0.5" in words
    assert "To whom: everyone who is in one step only" in words
    assert "These figures are published with differential privacy." in words


def test_the_figures_of_windows_are_a_table_too(served, made):
    released = StoredStream(PublishedStore(made / "counts.db"), "visits").released()
    last = window_figures(released, "7d").row(-1, named=True)
    words = " ".join(Seen(served.get("/streams/visits.html").text).words)
    assert "As a table" in words
    assert f"{last['value']:,} {last['low']:,} and {last['high']:,}" in words


def test_the_draft_for_the_registry(served):
    entry = served.get("/streams/visits.registry.json").json()
    assert entry["deployment"]["privacy_loss"]["privacy_parameters"] == {"rho": 0.5}
    assert entry["deployment"]["basic"]["name"] == "visits"
    assert entry["deployment"]["basic"]["publication_date"] == "(to fill in)"


def test_every_picture_has_words_and_bands(served):
    page = served.get("/streams/visits.html").text
    seen = Seen(page)
    assert page.count('role="img"') == page.count("<title>") - 1 == 4  # a day, week and month; the total
    charts = [json.loads(value) for _, name, value in seen.attributes if name == "data-chart"]
    assert [chart["kind"] for chart in charts] == ["bars"] * 3 + ["total"]
    assert all(
        low < v < high for low, v, high in zip(charts[0]["low"], charts[0]["value"], charts[0]["high"], strict=True)
    )
    assert page.count('class="whisker"') >= 62 + 15 + 4


def test_releases_in_every_form(served, made):
    values = PublishedStore(made / "counts.db").releases("visits").tolist()
    for address in ("/streams/visits.", "/api/streams/visits/releases?format="):
        table = pl.read_csv(served.get(f"{address}csv").content)
        assert table["value"].to_list() == values
        assert table["start"][0] == "2026-01-01"
        assert pl.read_parquet(io.BytesIO(served.get(f"{address}parquet").content))["value"].to_list() == values
        assert [row["value"] for row in served.get(f"{address}json").json()["releases"]] == values
    accepted = served.get("/api/streams/visits/releases", headers={"accept": "text/csv"})
    assert accepted.headers["content-type"].startswith("text/csv")


def test_some_releases(served):
    def steps(query, name="visits"):
        return [row["step"] for row in served.get(f"/api/streams/{name}/releases?{query}").json()["releases"]]

    assert steps("from=99") == [99, 100]
    assert steps("from=3&to=5") == [3, 4, 5]
    assert steps("from=2026-01-03&to=2026-01-04") == [3, 4]
    assert steps("from=2027-01-01") == []
    assert steps("from=30", "by%20ward%2F2026") == [30, 30, 30]
    rows = served.get("/api/streams/by%20ward%2F2026/releases?from=30").json()["releases"]
    assert [row["category"] for row in rows] == WARDS


@pytest.mark.parametrize(("every", "zone"), [("1h", "Europe/Vienna"), ("1h", "Pacific/Kiritimati"), ("1d", None)])
def test_dates_far_from_the_releases_cost_nothing(tmp_path, every, zone):
    """A stranger names a date; the calendar does not grow up to it."""
    source = json.dumps({"time": "when", "every": every, "start": "2026-01-01", "time_zone": zone})
    with dp.Store(tmp_path / "counts.db") as store:
        store.counter("visits", 10, dp.zcdp(0.5), mechanism=SmoothBinary(10), source=source).extend([5, 5, 5])
    stream = Figures(tmp_path / "counts.db").stream("visits")
    for early in ("0001-01-01", "1900-01-01T00:00+01:00", "2025-12-31T00:00"):
        assert stream.between(early, None)["step"].to_list() == [1, 2, 3]
        assert stream.between(None, early)["step"].to_list() == []
    for late in ("2026-01-04", "3900-01-01", "9999-12-31T23:59:59.999999"):
        assert stream.between(late, None)["step"].to_list() == []
        assert stream.between(None, late)["step"].to_list() == [1, 2, 3]
    second = "2026-01-01T01:00" if every == "1h" else "2026-01-02"
    assert stream.between(second, second)["step"].to_list() == [2]
    assert stream._calendar._starts.len() < 1000


def test_the_list(served):
    found = {stream["name"]: stream for stream in served.get("/api/streams").json()["streams"]}
    assert list(found) == ["visits", "by ward/2026", EVIL, "x" * 200]  # and no gradients
    assert found["visits"]["steps"] == DAYS
    assert found["visits"]["steps_left"] == 3550
    assert found["visits"]["budgets"] == [{"kind": "zcdp", "rho": 0.5}]
    assert found["x" * 200]["steps_left"] is None


def test_metrics_are_gauges(served, made):
    answer = served.get("/metrics")
    assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    lines = answer.text.splitlines()
    assert lines[-1] == "# EOF"
    last = PublishedStore(made / "counts.db").releases("visits")[-1]
    assert f'dpstream_running_count{{stream="visits"}} {last}' in lines
    assert all(line.endswith(" gauge") for line in lines if line.startswith("# TYPE"))
    assert any(r'category="<script>alert(\"ward\")</script>"' in line for line in lines)


@pytest.mark.parametrize("address", [*PAGES, "/api/streams", "/streams/visits.csv", "/metrics", "/static/page.js"])
def test_tags_and_headers(served, address):
    first = served.get(address)
    tag = first.headers["etag"]
    assert tag.startswith('"')  # a strong one
    again = served.get(address, headers={"if-none-match": f'"other", {tag}'})
    assert (again.status_code, again.content) == (304, b"")
    for answer in (first, again, served.get("/nothing"), served.get("/api/streams/nothing/releases")):
        policy = answer.headers["content-security-policy"]
        assert "script-src 'self';" in policy
        assert "style-src 'self';" in policy
        assert "unsafe" not in policy
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in answer.headers
        assert "server" not in answer.headers


def test_headers_of_answers_that_go_wrong(path, monkeypatch):
    """Those that the application fails to make, and those that never reach it, have them, too; each once."""

    def fail(*_, **__):
        raise RuntimeError("no")

    monkeypatch.setattr("dpstream.serve.app.overview_page", fail)
    with Served(path) as server:
        answers = [server.get("/"), server.get("/api/streams/visits/releases"), server.get("/api/streams/")]
        assert [answer.status_code for answer in answers] == [500, 200, 404]
        assert "location" not in answers[2].headers
        for answer in answers:
            for name, value in HEADERS.items():
                assert answer.headers.get_list(name) == [value]
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
            connection.sendall(b"hello\r\n\r\n")
            malformed = connection.recv(4096).decode()
    assert malformed.startswith("HTTP/1.1 400 ")
    assert all(f"{name}: {value}\r\n" in malformed for name, value in HEADERS.items())


@pytest.mark.parametrize(
    ("address", "status", "words"),
    [
        ("/api/streams/nobody/releases", 404, "/api/streams lists them"),
        ("/api/streams/visits/releases?from=soon", 400, "a date such as"),
        ("/api/streams/visits/releases?format=xml", 400, "csv, json or parquet"),
        ("/api/streams/visits/events-stream?after=-1", 400, "the number of a step"),
        ("/api/streams/nobody/events-stream", 404, "no such stream"),
        (f"/api/streams/{'y' * 10_000}/releases", 404, "no such stream"),
        ("/api/nothing", 404, "nothing at this address"),
    ],
)
def test_refusals_are_json(served, address, status, words):
    answer = served.get(address)
    assert answer.status_code == status
    assert words in answer.json()["message"]


def test_pages_that_are_not_there(served):
    for address in ("/streams/nobody.html", "/streams/visits.exe", "/streams/..%2f..%2fetc%2fpasswd", "/static/x.js"):
        answer = served.get(address)
        assert answer.status_code == 404
        assert "All streams" in answer.text
    assert served.get("/healthz").text == "ok\n"


def test_new_releases_are_shown(path):
    with Served(path) as server:
        before = server.get("/streams/visits.html")
        with dp.Store(path) as store:
            release = open_visits(store).add(100)
            assert server.get("/api/streams/visits/releases?from=101").json()["releases"][0]["value"] == release
            after = server.get("/streams/visits.html", headers={"if-none-match": before.headers["etag"]})
            assert after.status_code == 200
            assert f"{release:,}" in after.text


def test_a_successor_goes_on_in_the_same_page(path):
    with dp.Store(path) as store:
        store.start_successor("visits", 50, dp.zcdp(0.25), mechanism=SmoothBinary(50))
        further = store.open_counter("visits-2", store.settings("visits-2"), source=json.dumps(SOURCE)).extend(
            [100] * 3
        )
        values = store.series_values("visits")
    with Served(path) as server:
        assert "visits-2" not in [stream["name"] for stream in server.get("/api/streams").json()["streams"]]
        for name in ("visits", "visits-2"):
            rows = server.get(f"/api/streams/{name}/releases").json()["releases"]
            assert [row["value"] for row in rows] == values.tolist()
        assert values[-1] == values[99] + further[-1]
        words = " ".join(Seen(server.get("/streams/visits.html").text).words)
        assert "Promised in 2 parts, which add up: rho = 0.5, rho = 0.25." in words
        assert "(103 steps). 47 steps left." in words
        assert "visits-2: These are running counts" in words


def test_a_store_that_is_damaged_or_gone(path):
    with Served(path) as server:
        path.write_bytes(b"no store")
        answer = server.get("/api/streams")
        assert answer.status_code == 503
        assert str(path) not in answer.text
        assert server.get("/healthz").status_code == 503


def test_the_document_names_what_is_there(served):
    document = served.get("/api/openapi.json").json()
    for address in document["paths"]:
        if "events-stream" not in address:
            assert served.get(address.replace("{name}", "visits")).status_code == 200
    table = openapi_document(ingest=True)["paths"]["/api/streams/{name}/events"]["post"]["requestBody"]["content"]
    assert table["text/csv"]["schema"]["minLength"] == 1  # without a header it is refused
    first = served.get("/api/streams/visits/releases?to=1").json()["releases"][0]
    listed = document["components"]["schemas"]["Releases"]["properties"]["releases"]["items"]["properties"]
    assert set(first) <= set(listed)


@pytest.mark.parametrize("every", ["15m", "1h", "1d", "1w"])
def test_a_page_can_be_the_first_thing_that_is_asked_for(tmp_path, every):
    """After a start, and after each release, nothing else may have to be asked for before."""
    source = json.dumps({"time": "when", "every": every, "start": "2026-01-01"})
    with dp.Store(tmp_path / "counts.db") as store:
        visits = store.counter("visits", 3650, dp.zcdp(0.5), mechanism=SmoothBinary(3650), source=source)
        for total in ([], [5], [5, 5, 5]):
            visits.extend(total)
            with Served(tmp_path / "counts.db") as server:
                answer = server.get("/streams/visits.html")
                assert answer.status_code == 200
                if total:
                    visits.add(5)
                    assert server.get("/streams/visits.html").status_code == 200


def test_a_long_stream_has_a_small_page(tmp_path):
    """The page holds some of the points; those between come from the API, for a zoom."""
    with dp.Store(tmp_path / "counts.db") as store:
        store.counter("long", 30_000, dp.zcdp(0.5), mechanism=SmoothBinary(30_000)).extend(np.full(20_000, 3))
    with Served(tmp_path / "counts.db") as server:
        page = server.get("/streams/long.html").text
        assert len(page) < 400_000
        data = json.loads(html.unescape(re.findall('data-chart="([^"]*)"', page)[-1]))
        assert (data["kind"], data["more"], len(data["value"])) == ("total", True, 2000)
        assert (data["step"][0], data["step"][-1]) == (1, 20_000)
        finer = server.get("/api/streams/long/releases?from=101&to=900&points=50").json()["releases"]
        assert len(finer) == 50
        assert (finer[0]["step"], finer[-1]["step"]) == (101, 900)
        assert server.get("/api/streams/long/releases?points=1").status_code == 400
        assert server.get("/api/streams/long/releases?category=x").status_code == 400
