"""`dpstream compare`: every mechanism is in the table, with the numbers of the library."""

import pytest
from typer.testing import CliRunner

import dpstream
from dpstream import mechanisms
from dpstream.cli.app import app
from dpstream.mechanisms.base import Mechanism

runner = CliRunner()


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("NO_COLOR", "1")


def test_every_mechanism_has_a_row():
    result = runner.invoke(app, ["compare", "--horizon", "100"])
    assert result.exit_code == 0
    for name in mechanisms.__all__:
        kind = getattr(mechanisms, name)
        if isinstance(kind, type) and issubclass(kind, Mechanism):
            assert name in result.output
    row = next(line for line in result.output.splitlines() if " SmoothBinary.paper " in line)
    assert " 25.00 " in row  # C(10, 5) > 100, five zeros and five ones
    assert " 2.236 " in row


def test_a_long_horizon_says_what_it_leaves_out():
    result = runner.invoke(app, ["compare", "--horizon", "5000"])
    assert result.exit_code == 0
    assert "a dense solver: up to 2,048 steps here" in result.output


def test_a_bad_horizon_is_one_line():
    result = runner.invoke(app, ["compare", "--horizon", "0"])
    assert result.exit_code == 2
    assert "horizon must be a whole number of at least 1, got 0" in result.output
    assert "Traceback" not in result.output


def test_version():
    assert runner.invoke(app, ["--version"]).output == f"dpstream {dpstream.__version__}\n"
