"""What the documentation points to is there."""

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_test_that_a_page_names_exists(page):
    """Paths of tests as they stand, names of test files and functions wherever they are."""
    text = page.read_text()
    gone = {path for path in re.findall(r"tests/[\w/]+\.(?:py|json|csv)", text) if not (ROOT / path).exists()}
    files = {path.name for path in (ROOT / "tests").rglob("*.py")}
    gone |= {name for name in re.findall(r"(?<![\w/])test_\w+\.py", text) if name not in files}
    if page.name != "CHANGELOG.md":
        gone |= {name for name in re.findall(r"`(test_\w+)`", text) if name not in FUNCTIONS}
    assert not gone


@pytest.mark.parametrize("page", [page for page in PAGES if ">>> " in page.read_text()], ids=lambda page: page.name)
def test_examples_print_what_the_page_says(page):
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    assert doctest.testfile(str(page), module_relative=False, optionflags=flags).failed == 0


FUNCTIONS = {
    name
    for path in (ROOT / "tests").rglob("*.py")
    for name in [path.stem, *re.findall(r"def (test_\w+)", path.read_text())]
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_a_page_links_to_exists(page):
    # Pages in api/ are made when the site is built, which finds links that lead nowhere by itself.
    links = re.findall(r"\]\((?!https?:|#|mailto:|(?:\.\./reference/)?api/)([^)#\s]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []
