"""Streams of discovered names: pages, search, downloads, metrics and live events show what is published, no more."""

import itertools
import json
import shutil
import sqlite3

import polars as pl
import pytest

import dpstream as dp
from dpstream.events.stored_names import StoredNames
from dpstream.mechanisms import SmoothBinary
from dpstream.serve.export import export_site
from dpstream.store import PublishedStore

from .conftest import EVIL, SOURCE, Served
from .test_live import following
from .test_no_secrets import SEALED
from .test_pages import Seen

LONG = "long " * 800  # 4,000 characters; more than 4,096 are refused
#: Brought by one person each: never published.
RARE = ["rare-name-of-ann", "rare-name-of-bob"]
NAMES = [EVIL, LONG, "Grippe", *(f"term {i:02}" for i in range(28))]
DAYS = 6


def open_searches(store):
    return store.open_names(
        "searches",
        20,
        dp.approx_dp(6, 1e-6),
        names_per_person=2,
        pairs=20_000,
        declared=["declared"],
        mechanism=SmoothBinary(20),
        source=json.dumps(SOURCE),
    )


def fill(path):
    """Everybody brings a name a day; those of number 3 are brought from the second day on."""
    with dp.Store(path) as store:
        searches = open_searches(store)
        for day in range(1, DAYS + 1):
            brought = [
                (f"{day} {name} {i}", name) for at, name in enumerate(NAMES) if at != 3 or day > 1 for i in range(40)
            ]
            brought += [("ann", RARE[0]), ("bob", RARE[1])]
            searches.ingest([day] * len(brought), [who for who, _ in brought], [name for _, name in brought])
            searches.release_through(day)
        store.counter("visits", 10, dp.zcdp(0.5)).extend([3, 4])


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    path = tmp_path_factory.mktemp("names") / "counts.db"
    fill(path)
    return path


@pytest.fixture(scope="module")
def server(named):
    with Served(named) as server:
        yield server


@pytest.fixture(scope="module")
def published(named):
    return PublishedStore(named).published_names("searches")


def test_the_page_shows_the_largest_names(server, published):
    assert set(published.names) == {*NAMES, "declared"}
    page = server.get("/streams/searches.html").text
    seen = Seen(page)
    words = " ".join(seen.words)
    assert "Released up to 2026-01-06 (6 steps). 32 names published" in words
    assert "The 30 largest of 32 names" in words
    assert "Pictures show the 24 largest of 32 names" in words
    largest = sorted(zip(published.values[-1].tolist(), published.names, strict=True), reverse=True)
    assert f"{largest[0][0]:,}" in words
    assert page.count("<figure") >= 24 * 2  # the running total and each day
    drawn = {value for _, name, value in seen.attributes if name == "data-name"}
    assert largest[0][1] in drawn
    assert largest[-1][1] not in drawn
    assert seen.tags.count("script") == 1
    assert "the figures say nothing about other names" in words
    assert "To whom: everyone who brings at most 2 names" in words


def test_bars_are_changes_of_releases_and_begin_when_a_name_does(server, published):
    """A name that was published on day two has no figure of day one, and of day two only its total."""
    page = Seen(server.get("/streams/searches.html", params={"find": "TERM 00"}).text)
    assert "1 of 32 names holds “TERM 00”; it is drawn." in " ".join(page.words)
    bars, total = (json.loads(value) for _, name, value in page.attributes if name == "data-chart")
    values = published.of("term 00").tolist()
    since = int(published.since[published.names.index("term 00")])
    assert since >= 2
    assert total["value"] == values
    assert total["step"] == list(range(since, DAYS + 1))
    assert bars["value"] == [after - before for before, after in itertools.pairwise(values)]
    assert bars["x"][0] == f"2026-01-0{since + 1}"
    assert all(low < v < high for low, v, high in zip(bars["low"], bars["value"], bars["high"], strict=True))


def test_a_search_is_text_and_finds_what_is_not_drawn(server, published):
    last = min(zip(published.values[-1].tolist(), published.names, strict=True))[1]
    assert last[:30] in " ".join(Seen(server.get("/streams/searches.html", params={"find": last}).text).words)
    hostile = Seen(server.get("/streams/searches.html", params={"find": '"><script>alert(2)</script>'}).text)
    assert hostile.tags.count("script") == 1
    assert "None of 32 names holds" in " ".join(hostile.words)
    assert server.get("/streams/searches.html", params={"find": "x" * 10_000}).status_code == 200


def test_the_overview_and_the_list(server, published):
    words = " ".join(Seen(server.get("/").text).words)
    assert "searches" in words
    assert "The 5 largest of 32 names" in words
    found = {stream["name"]: stream for stream in server.get("/api/streams").json()["streams"]}
    assert list(found) == ["visits", "searches"]
    assert found["searches"]["discovers"]
    assert (found["searches"]["names"], found["searches"]["categories"]) == (32, [])
    assert found["searches"]["budgets"] == [{"kind": "approx_dp", "epsilon": 6, "delta": 1e-6}]


def test_releases_of_all_names_or_of_one(server, published):
    table = pl.read_csv(server.get("/streams/searches.csv").content)
    assert table.height == sum(len(values) for values in published.values)
    for name in (EVIL, LONG, "declared"):
        values = published.of(name).tolist()
        assert table.filter(category=name)["value"].to_list() == values
        rows = server.get("/api/streams/searches/releases", params={"category": name}).json()["releases"]
        assert [row["value"] for row in rows] == values
        assert all(row["low"] < row["value"] < row["high"] for row in rows)
    one = server.get("/api/streams/searches/releases?from=2&to=2").json()["releases"]
    assert [row["value"] for row in one] == published.values[1].tolist()
    some = table.filter(step=2).select("value", "stddev", "low", "high").rows()
    assert [(row["value"], row["stddev"], row["low"], row["high"]) for row in one] == some
    assert server.get("/api/streams/searches/releases", params={"category": RARE[0]}).status_code == 400


def test_metrics_are_bounded(server, monkeypatch, named):
    from dpstream.serve import metrics
    from dpstream.serve.figures import Figures

    assert 'dpstream_published_names{stream="searches"} 32' in server.get("/metrics").text
    monkeypatch.setattr(metrics, "NAMES_MEASURED", 7)
    lines = metrics.metrics_text(Figures(named).streams()).decode().splitlines()
    assert sum(line.startswith('dpstream_running_count{stream="searches",category=') for line in lines) == 7


def test_live_events_say_that_there_is_something_new(server):
    with following(server, "/api/streams/searches/events-stream?after=4") as told:
        assert next(told) == (5, {"step": 5, "names": 32})
        assert next(told)[0] == 6


def test_the_export_has_them(named, tmp_path, server):
    done = export_site(named, tmp_path)
    assert done.streams == 2
    for form in ("csv", "json", "parquet", "registry.json"):
        body = (tmp_path / f"streams/searches.{form}").read_bytes()
        assert body == server.get(f"/streams/searches.{form}").content
    package = json.loads((tmp_path / "datapackage.json").read_text())
    resource = next(one for one in package["resources"] if one["title"] == "searches")
    assert resource["schema"]["primaryKey"] == ["step", "category"]
    entry = json.loads((tmp_path / "streams/searches.registry.json").read_text())
    assert entry["deployment"]["privacy_loss"]["privacy_parameters"] == {"epsilon": 6, "delta": 1e-6}
    assert entry["deployment"]["basic"]["publication_date"] == "(to fill in)"


def test_the_protection_is_that_of_the_commands(named, server):
    text = StoredNames(PublishedStore(named), "searches").protection().paragraph()
    assert text in Seen(server.get("/streams/searches.html").text).words


def test_nothing_but_what_is_published_is_served(named, tmp_path, server):
    """The file alone, without its key, with random bytes for all that is sealed; and no name that few have brought."""
    addresses = ["/", "/api/streams", "/metrics", "/streams/searches.html", "/streams/searches.html?find=rare-name"]
    addresses += [f"/streams/searches.{form}" for form in ("csv", "json", "parquet", "registry.json")]

    def answers(server):
        return {address: server.get(address).content for address in addresses}

    shutil.copy2(named, tmp_path / "counts.db")
    connection = sqlite3.connect(tmp_path / "counts.db")
    for table, columns in SEALED.items():
        for column in columns:
            connection.execute(f"UPDATE {table} SET {column} = randomblob(length({column}))")  # noqa: S608
    connection.commit()
    connection.close()
    with Served(tmp_path / "counts.db") as other:
        found = answers(other)
    assert found == answers(server)
    for address, body in found.items():
        for name in RARE:
            assert name.encode() not in body, address


def test_a_stream_of_names_before_anything_is_published(tmp_path):
    with dp.Store(tmp_path / "counts.db") as store:
        searches = store.open_names(
            "new", 20, dp.approx_dp(1, 1e-6), names_per_person=1, pairs=1000, mechanism=SmoothBinary(20)
        )
        with Served(tmp_path / "counts.db") as server:
            assert "Nothing is released yet." in server.get("/streams/new.html").text
            searches.release_through(2)
            page = server.get("/streams/new.html")
            assert page.status_code == 200
            assert "2 steps released. 0 names published" in page.text
            assert server.get("/streams/new.csv").content == b"step,category,value,stddev,low,high\n"
            assert server.get("/").status_code == server.get("/metrics").status_code == 200
