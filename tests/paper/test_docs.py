"""docs/paper.md is the page of a full run of this version's parts and claims."""

import re
from pathlib import Path

import dpstream
from dpstream.paper.claims import CLAIMS
from dpstream.paper.parts import PARTS

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "paper.md").read_text()


def test_it_is_the_page_of_a_full_run():
    assert f"Made by dpstream {dpstream.__version__} with “dpstream paper”" in TEXT


def test_every_part_and_claim_is_there():
    headings = re.findall(r"^### (.*)$", TEXT, flags=re.MULTILINE)
    assert headings == [part.title for part in PARTS] + [maker.title for maker in CLAIMS]


def test_its_pictures_are_those_that_lie_beside_it():
    linked = re.findall(r"\]\(paper/([^)]*)\)", TEXT)
    assert sorted(linked) == sorted(path.name for path in (DOCS / "paper").iterdir())


def test_what_is_exact_in_it_is_still_so():
    assert "a factor of 3.27. The paper states 3.27: the same." in TEXT
    assert "In 922 of the 922 steps" in TEXT
    assert TEXT.count("the paper has the same nodes") == 2
