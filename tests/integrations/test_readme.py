"""The README's training snippet runs as it stands, and the pages that need these libraries still run."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "_ext"))

import page_runs  # noqa: E402


def test_training_works_as_pasted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    (training,) = [block for block in blocks if "make_private" in block]
    names: dict[str, object] = {}
    exec(compile(training, "README.md", "exec"), names)  # noqa: S102
    assert names["epoch"] == 3
    names["optimizer"].close()


def masked(results):
    """What was printed, without numbers: they may differ in the last digits from machine to machine."""
    return [[re.sub(r"[-+]?\d[\d.,e+-]*", "0", text) for text in result.outputs] for result in results]


@pytest.mark.parametrize("name", [page.name for page in page_runs.pages() if page.recorded])
def test_a_recorded_page_prints_what_the_site_shows(name):
    page = page_runs.read_page(page_runs.DOCS / f"{name}.md")
    assert masked(page_runs.shown_of(page)) == masked(page_runs.recorded(page))
