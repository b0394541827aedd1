"""docs/guarantees.md: its example runs, and every test that it names exists."""

import doctest
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "docs" / "guarantees.md").read_text()


def test_the_example_runs():
    result = doctest.testfile(str(ROOT / "docs" / "guarantees.md"), module_relative=False)
    assert result.attempted > 0
    assert result.failed == 0


def test_every_test_that_is_named_exists():
    sources = "".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    names = re.findall(r"`(test_\w+)`", TEXT)
    assert len(names) > 3
    assert all(f"def {name}(" in sources for name in names)
    paths = re.findall(r"`(tests/[\w/.]*)`", TEXT)
    assert len(paths) > 5
    assert all((ROOT / path).exists() for path in paths)


def test_every_page_that_is_linked_exists():
    for page in ("guarantees.md", "threat-model.md", "limitations.md"):
        text = (ROOT / "docs" / page).read_text()
        assert all((ROOT / "docs" / link).exists() for link in re.findall(r"\]\(([\w.-]+\.md)\)", text))
