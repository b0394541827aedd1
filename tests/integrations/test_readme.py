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


NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[-+]\d+)?")


def words_and_numbers(results):
    """What was printed, number by number: trained models differ a little from machine to machine."""
    texts = [text for result in results for text in result.outputs]
    return [NUMBER.sub("#", text) for text in texts], [found for text in texts for found in NUMBER.findall(text)]


@pytest.mark.parametrize("name", [page.name for page in page_runs.pages() if page.recorded])
def test_a_recorded_page_prints_what_the_site_shows(name):
    """Words and whole numbers, such as releases of Spark, must be equal; numbers with decimals may be 3 % apart."""
    page = page_runs.read_page(page_runs.DOCS / f"{name}.md")
    words, numbers = words_and_numbers(page_runs.shown_of(page))
    recorded_words, recorded_numbers = words_and_numbers(page_runs.recorded(page))
    assert words == recorded_words
    for now, then in zip(numbers, recorded_numbers, strict=True):
        assert now == then or ("." in now and float(now) == pytest.approx(float(then), rel=0.03)), (now, then)
