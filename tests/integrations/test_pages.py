"""The code blocks of the two pages run, top to bottom, as they stand."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["training-pytorch.md", "training-jax.md"])
def test_the_page_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    blocks = re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(), re.M | re.S)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, page, "exec"), names)  # noqa: S102
    if page == "training-pytorch.md":
        spent = [float(found) for found in re.findall(r"epsilon=([\d.]+)", capsys.readouterr().out)]
        assert len(spent) == 4
        assert spent == sorted(spent)
        assert spent[-1] == pytest.approx(8)
