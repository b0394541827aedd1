"""The code blocks of the two pages run, top to bottom, as they stand, and the pages are short."""

import re
import textwrap
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


PAGES = pytest.mark.parametrize("page", ["training-pytorch.md", "training-jax.md"])


@PAGES
def test_the_page_has_at_most_two_screens(page):
    """Two screens of 50 lines of 120 characters."""
    lines = (DOCS / page).read_text().splitlines()
    assert sum(max(1, len(textwrap.wrap(line, 120))) for line in lines) <= 100


@PAGES
def test_the_page_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    blocks = re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(), re.M | re.S)
    assert len(blocks) == (3 if page == "training-pytorch.md" else 2)
    printed = []
    for block in blocks:
        exec(compile(block, page, "exec"), names)  # noqa: S102
        printed.append(capsys.readouterr().out)
    if page == "training-pytorch.md":
        assert "1  Banded, 20 bands" in printed[-1]
        spent = [float(found) for found in re.findall(r"epsilon=([\d.]+)", printed[0])]
        assert len(spent) == 4
        assert spent == sorted(spent)
        assert spent[-1] == pytest.approx(8)
