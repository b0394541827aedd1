"""`dpstream export` and `dpstream serve`: the same pages as files, and clear words when something is wrong."""

import json
import socket
import subprocess
import sys
from types import SimpleNamespace

import polars as pl
import pytest
from typer.testing import CliRunner

import dpstream as dp
from dpstream.cli.app import app
from dpstream.cli.serve import warnings_of
from dpstream.serve.export import Exported, export_site

from .conftest import open_visits


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments], terminal_width=200)


def test_the_files_are_the_pages_of_the_server(served, made, tmp_path):
    done = export_site(made / "counts.db", tmp_path / "site")
    assert done == Exported(4, 25, 0)
    page = (tmp_path / "site/streams/visits.html").read_text()
    theirs = served.get("/streams/visits.html").text
    for of_a_server in (
        ' data-events="/api/streams/visits/events-stream?after=100"',
        ' data-releases="/api/streams/visits/releases"',
    ):
        assert of_a_server in theirs
        theirs = theirs.replace(of_a_server, "")
    assert page == theirs
    assert (tmp_path / "site/streams/visits.csv").read_bytes() == served.get("/streams/visits.csv").content
    for link in ("index.html", "static/page.css", "static/page.js", "static/plotly.min.js"):
        assert (tmp_path / "site" / link).is_file()


def test_the_package_describes_the_files(made, tmp_path):
    export_site(made / "counts.db", tmp_path)
    package = json.loads((tmp_path / "datapackage.json").read_text())
    assert [resource["title"] for resource in package["resources"]][:2] == ["visits", "by ward/2026"]
    for resource in package["resources"]:
        assert [field["name"] for field in resource["schema"]["fields"]] == pl.read_csv(
            tmp_path / resource["path"]
        ).columns


def test_only_what_is_new_is_written(path, tmp_path):
    site = tmp_path / "site"
    export_site(path, site)
    before = {file: file.stat().st_mtime_ns for file in site.rglob("*") if file.is_file()}
    assert export_site(path, site) == Exported(4, 0, 25)
    assert {file: file.stat().st_mtime_ns for file in before} == before
    with dp.Store(path) as store:
        open_visits(store).add(90)
    assert export_site(path, site) == Exported(4, 5, 20)  # four files of the stream, and the overview
    assert pl.read_csv(site / "streams/visits.csv").height == 101


def test_the_command(made, tmp_path):
    done = run("export", made / "counts.db", tmp_path / "site")
    assert done.exit_code == 0
    assert "4 streams, 25 files written, 0 as they were." in done.output


@pytest.mark.parametrize("command", ["serve", "export"])
def test_what_is_no_store_is_refused(command, tmp_path):
    file = tmp_path / "other.db"
    more = [tmp_path / "site"] if command == "export" else ["--port", 0]
    assert run(command, file, *more).exit_code == 2
    file.write_text("hello")
    refused = run(command, file, *more)
    assert refused.exit_code == 2
    assert "is not a dpstream store" in refused.output
    assert not (tmp_path / "site").exists()


def test_a_folder_that_cannot_be_written(made, tmp_path):
    (tmp_path / "site").write_text("a file")
    refused = run("export", made / "counts.db", tmp_path / "site")
    assert refused.exit_code == 2
    assert "a folder that can be written" in refused.output


def test_a_port_that_is_taken(made):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        refused = run("serve", made / "counts.db", "--port", other.getsockname()[1])
    assert refused.exit_code == 2
    assert "--port" in refused.output
    assert "a port that is free" in refused.output


def test_an_address_of_another_machine(made):
    refused = run("serve", made / "counts.db", "--host", "192.0.2.1", "--port", 0)
    assert refused.exit_code == 2
    assert "--host must be an address of this machine" in refused.output


@pytest.mark.parametrize(
    ("address", "tls", "words"),
    [
        ("127.0.0.1", False, []),
        ("::1", False, []),
        ("0.0.0.0", True, []),  # noqa: S104
        ("0.0.0.0", False, ["without encryption: give --certificate", "sent in clear"]),  # noqa: S104
        ("192.0.2.7", False, ["without encryption: give --certificate", "sent in clear"]),
    ],
)
def test_an_address_that_others_reach_is_warned_of(address, tls, words):
    """With a token and a stream there is nothing else to say; without them that is said, too."""
    link = SimpleNamespace(tokens=["a token"], columns={"visits": ["when"]})
    found = warnings_of(address, tls=tls, link=link)
    assert len(found) == len(words)
    assert all(word in sentence for word, sentence in zip(words, found, strict=True))
    assert len(warnings_of(address, tls=tls, link=None)) == len(words[:1])
    bare = warnings_of(address, tls=tls, link=SimpleNamespace(tokens=[], columns={}))
    assert ["no token" in bare[-2], "No stream takes events" in bare[-1]] == [True, True]


def test_without_the_extra(made):
    """In a process of its own, in which Starlette cannot be imported: serve says what to install, export works."""
    code = (
        "import sys; sys.modules['starlette'] = None; from dpstream.cli.app import main;"
        f"sys.argv = ['dpstream', 'serve', {str(made / 'counts.db')!r}]; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)  # noqa: S603
    assert done.returncode == 2
    assert "pip install 'dpstream[serve]'" in done.stderr
