"""What is written is whole, what is finished is found again, and text stays text."""

import json

import pytest

from dpstream.errors import InvalidArgument
from dpstream.paper.as_html import as_html
from dpstream.paper.as_markdown import as_markdown
from dpstream.paper.atomic_write import check_directory, write
from dpstream.paper.document import Data, Heading, Judgement, Paragraph, Picture, Points, Quote, Table
from dpstream.paper.finished import Finished
from dpstream.paper.model import Claim, Grid, Measured

DATA = Measured([{"T": 3, "V": 1.5}], ["It is 1.5 < 2."], Grid(["a", "b"], [["x", "1"]]))
CLAIM = Claim("lemma-1", "Lemma 1", "It holds.", "It does.", "agrees", "", [{"T": 1}])


def test_a_file_is_replaced_as_a_whole(tmp_path):
    write(tmp_path / "a", "one")
    write(tmp_path / "a", b"two")
    assert (tmp_path / "a").read_text() == "two"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_write_that_fails_leaves_nothing_behind(tmp_path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match="taken"):
        write(tmp_path / "taken", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_directories_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InvalidArgument, match="output must be a directory, but it is a file"):
        check_directory("output", tmp_path / "file")
    with pytest.raises(InvalidArgument, match="output must be a directory that can be written"):
        check_directory("output", tmp_path / "file" / "below")
    assert (tmp_path / "file").read_text() == "mine"
    check_directory("output", tmp_path / "new" / "deep")
    assert list((tmp_path / "new" / "deep").iterdir()) == []


@pytest.mark.parametrize("data", [DATA, CLAIM])
def test_what_is_kept_comes_back(tmp_path, data):
    Finished(tmp_path / "kept", {"version": "1"}).keep("part", data)
    assert Finished(tmp_path / "kept", {"version": "1"}).find("part") == data


def test_what_does_not_fit_is_not_found(tmp_path):
    finished = Finished(tmp_path, {"version": "1", "quick": True})
    assert finished.find("part") is None
    finished.keep("part", DATA)
    assert Finished(tmp_path, {"version": "2", "quick": True}).find("part") is None
    assert Finished(tmp_path, {"version": "1", "quick": False}).find("part") is None
    path = tmp_path / "part.json"
    whole = path.read_text()
    for damaged in (whole[:-20], "", "[]", json.dumps(json.loads(whole) | {"data": {"rows": []}})):
        path.write_text(damaged)
        assert finished.find("part") is None
    path.write_text(whole)
    assert finished.find("part") == DATA


BLOCKS = [
    Heading("Title", 1, "top"),
    Heading("A & B", 2, "a"),
    Paragraph("1 < 2"),
    Quote("V_t <b>"),
    Points(["a | b", "*c*"]),
    Table("T", Grid(["name", "V"], [["x|y", "1"], ["<z>", "–"]])),
    Picture("figure", 'says "so"'),
    Data("figure"),
    Judgement("differs"),
]


def test_html_holds_everything_and_escapes_it():
    page = as_html(BLOCKS, lambda key: f"<svg>{key}</svg>".encode())
    for text in (
        "1 &lt; 2",
        "V_t &lt;b&gt;",
        "&lt;z&gt;",
        "A &amp; B",
        "says &quot;so&quot;",
        "✘ differs",
        "figure.csv",
    ):
        assert text in page
    assert 'src="data:image/svg+xml;base64,' in page
    assert '<td class="number">1</td>' in page
    assert "<td>x|y</td>" in page


def test_markdown_holds_everything_and_escapes_it():
    page = as_markdown(BLOCKS, pictures="paper/")
    for text in ("# Title", r"1 \< 2", r"V\_t \<b\>", r"a \| b", r"\*c\*", "| --- | ---: |", "(paper/figure.svg)"):
        assert text in page
    assert "figure.csv" in page
    assert "figure.csv" not in as_markdown(BLOCKS, data=False)
