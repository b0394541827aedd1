"""`dpstream paper --quick`, end to end: files, report, resuming, refusals."""

import csv
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from dpstream.cli.app import app
from dpstream.errors import MissingExtra
from dpstream.paper.claims import CLAIMS
from dpstream.paper.parts import PARTS
from dpstream.paper.run import make_report

TITLES = [part.title for part in PARTS]


def invoke(*arguments):
    return CliRunner().invoke(app, ["paper", *map(str, arguments)])


class Stop(Exception):
    """An interruption."""


def stop_before(title):
    def report(doing, done, total):
        if doing == title:
            raise Stop

    return report


def times(folder):
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run that is interrupted after three parts, then finished by the command."""
    folder = tmp_path_factory.mktemp("paper")
    with pytest.raises(Stop):
        make_report(folder / "out", quick=True, report=stop_before(TITLES[3]))
    before = times(folder / "out" / "finished")
    result = invoke("--quick", "--output", folder / "out", "--docs", folder / "docs")
    assert result.exit_code == 0, result.output
    return folder, before, result.output


@pytest.mark.heavy
def test_an_interrupted_run_goes_on_where_it_stopped(made):
    folder, before, _ = made
    assert sorted(before) == sorted(f"{part.key}.json" for part in PARTS[:3])
    after = times(folder / "out" / "finished")
    assert before.items() <= after.items()
    assert len(after) == len(PARTS) + len(CLAIMS)


@pytest.mark.heavy
def test_every_part_has_its_files(made):
    out = made[0] / "out"
    for part in PARTS:
        with (out / f"{part.key}.csv").open() as file:
            rows = list(csv.DictReader(file))
        assert rows
        assert None not in rows[0]
        assert (out / f"{part.key}.png").read_bytes()[:4] == b"\x89PNG"
        assert ElementTree.parse(out / f"{part.key}.svg").getroot().tag.endswith("svg")  # noqa: S314
    for maker in CLAIMS:
        assert (out / f"claim-{maker.key}.csv").exists()
        assert (out / f"claim-{maker.key}.svg").exists() == (maker.draw is not None)
    assert not list(out.rglob(".*"))


class Page(HTMLParser):
    """Checks that tags close in order; gathers pictures, headings, anchors and links."""

    def __init__(self):
        super().__init__()
        self.open, self.images, self.keys, self.links, self.text = [], [], set(), [], []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag == "img":
            self.images.append(given)
        if tag not in ("img", "meta"):
            self.open.append(tag)
        if "id" in given:
            self.keys.add(given["id"])
        if tag == "a":
            self.links.append(given["href"])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@pytest.mark.heavy
def test_the_page_stands_by_itself(made):
    out = made[0] / "out"
    page = Page()
    page.feed((out / "report.html").read_text())
    assert page.open == []
    assert len(page.images) == len(PARTS) + sum(maker.draw is not None for maker in CLAIMS)
    assert all(image["src"].startswith("data:image/svg+xml;base64,") and image["alt"] for image in page.images)
    for link in page.links:
        assert link[1:] in page.keys if link.startswith("#") else (out / link).exists()
    text = "".join(page.text)
    assert f"{len(CLAIMS)} claims:" in text
    for title in (*TITLES, *(maker.title for maker in CLAIMS)):
        assert title in text


@pytest.mark.heavy
def test_the_docs_hold_the_same_with_their_pictures(made):
    docs = made[0] / "docs"
    text = (docs / "paper.md").read_text()
    for part in PARTS:
        assert f"](paper/{part.key}.svg)" in text
        assert (docs / "paper" / f"{part.key}.svg").exists()
    assert ".csv" not in text


@pytest.mark.heavy
def test_the_command_says_what_it_found(made):
    assert f"{len(PARTS)} tables and figures; {len(CLAIMS)} claims" in " ".join(made[2].split())
    assert "report.html" in made[2]


@pytest.mark.heavy
def test_fresh_computes_again_what_is_finished(made):
    finished = made[0] / "out" / "finished"
    first = f"{PARTS[0].key}.json"
    before = times(finished)
    with pytest.raises(Stop):
        make_report(made[0] / "out", quick=True, report=stop_before(TITLES[1]))
    assert times(finished) == before
    with pytest.raises(Stop):
        make_report(made[0] / "out", quick=True, fresh=True, report=stop_before(TITLES[1]))
    assert {name for name, changed in times(finished).items() if changed != before[name]} == {first}


@pytest.mark.heavy
def test_a_picture_that_is_gone_is_drawn_again(made):
    picture = made[0] / "out" / f"{PARTS[0].key}.png"
    picture.unlink()
    with pytest.raises(Stop):
        make_report(made[0] / "out", quick=True, report=stop_before(TITLES[1]))
    assert picture.exists()


@pytest.mark.heavy
def test_ctrl_c_says_how_to_go_on(tmp_path):
    program = "from dpstream.cli.app import main; main()"
    command = [sys.executable, "-c", program, "paper", "--quick", "--output", str(tmp_path)]
    running = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603
    first = tmp_path / "finished" / f"{PARTS[0].key}.json"
    deadline = time.monotonic() + 120
    while not first.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    _, message = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "dpstream paper: interrupted. The parts that are finished are kept" in message
    assert first.exists()
    assert not list(tmp_path.rglob(".*"))


@pytest.mark.parametrize("option", ["--output", "--docs"])
def test_a_file_is_no_directory(tmp_path, monkeypatch, option):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("mine")
    result = invoke("--quick", option, "taken")
    assert result.exit_code == 2
    message = result.stderr.strip()
    assert message == f"dpstream paper: {option} must be a directory, but it is a file, got 'taken'"
    assert (tmp_path / "taken").read_text() == "mine"


def test_without_matplotlib_nothing_is_done(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r"dpstream\[plot\]"):
        make_report(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
