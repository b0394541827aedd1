"""The code blocks of the two pages run, top to bottom, as they stand, and the pages are short."""

import math
import re
import textwrap
from pathlib import Path

import pytest

import dpstream as dp

DOCS = Path(__file__).parents[2] / "docs"


PAGES = pytest.mark.parametrize("page", ["training-pytorch.md", "training-jax.md"])


@PAGES
def test_the_page_has_at_most_two_screens(page):
    """Two screens of 50 lines of 120 characters."""
    lines = (DOCS / page).read_text().splitlines()
    assert sum(max(1, len(textwrap.wrap(line, 120))) for line in lines) <= 100


def test_the_table_of_errors_is_what_its_calls_give():
    """Each row's call, with what … stands for, has the error of that row: ε = 8, δ = 1e-5, gradients of norm 1."""
    text = (DOCS / "training-pytorch.md").read_text()
    stands_for = re.search(r"`…` is `([^`]+)`", text)[1]
    epochs, budget = dp.Participation(times=8, separation=20), dp.approx_dp(8, 1e-5)
    rows = re.findall(r"^\| .* \| `(\w+)(\.fit\(.*\))?` \| ([\d.]+) \|$", text, re.M)
    assert len(rows) == 5
    for name, call, error in rows:
        made = eval(  # noqa: S307
            f"{name}{call.replace('…', stands_for) or '(160)'}", {**vars(dp.mechanisms), "epochs": epochs}
        )
        assert f"{math.sqrt(made.mean_variance(participation=epochs)) / budget.mu:.2f}" == error, name


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
