"""CONTRIBUTING.md, "Add a mechanism", followed word for word."""

import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import dpstream as dp
from dpstream.cli.app import app
from dpstream.mechanisms import Unbounded, mechanism_from_json, mechanism_to_json
from dpstream.testing import check_counter, check_noise, check_running_sum

PAGE = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text().partition("## Add a mechanism")[2]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of the newcomer's own, with the page's file in it."""
    program = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]
    (tmp_path / "two_levels.py").write_text(program)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("two_levels", None)


def test_the_page_names_the_file():
    assert "`two_levels.py`" in PAGE


def test_the_python_runs(folder, capsys):
    exec(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[1], {})  # noqa: S102
    printed = capsys.readouterr().out
    assert "TwoLevels" in printed
    assert "Binary" in printed


def test_the_commands_run(folder):
    commands = re.findall(r"^    dpstream (.*)$", PAGE, re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["compare", "audit"]
    for command in commands:
        result = CliRunner().invoke(app, shlex.split(command))
        assert result.exit_code == 0, result.output
        assert "TwoLevels" in result.output or "Kept" in result.output
    assert (folder / "both.png").stat().st_size > 10_000


def test_what_the_page_promises(folder):
    """It works everywhere: both lanes, saved and restored, inside Unbounded, as JSON."""
    from two_levels import TwoLevels

    for dtype in ("int64", "float32", "float64"):
        check_noise(lambda key, size, d=dtype: dp.NoiseStream(TwoLevels(30), 2.0, size, dtype=d, key=key))
    check_counter(lambda horizon, budget, **more: dp.Counter(horizon, budget, mechanism=TwoLevels(horizon), **more))
    check_running_sum(
        lambda horizon, budget, *more, **options: dp.RunningSum(
            horizon, budget, *more, mechanism=TwoLevels(horizon), **options
        )
    )
    assert mechanism_from_json(mechanism_to_json(TwoLevels(9)), classes=[TwoLevels]) == TwoLevels(9)
    assert dp.NoiseStream(Unbounded(TwoLevels), 1e4, 3, dtype="int64").block(40).shape == (40, 3)
    L, _ = TwoLevels(100).factors()
    assert np.allclose(TwoLevels(100).max_variance(), (1 + 9 / 10) * (L**2).sum(axis=1).max())
