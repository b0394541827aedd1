"""`dpstream audit`: what it says, and its exit status."""

import sys

import pytest
from typer.testing import CliRunner

from dpstream.audit import catalogue
from dpstream.cli import audit as command
from dpstream.cli.app import app
from dpstream.mechanisms import Binary

from .subjects import OneNodeShort


def invoke(*arguments):
    return CliRunner().invoke(app, ["audit", "--confidence", "0.9999999", *arguments])


def test_one_mechanism():
    result = invoke("--mechanism", "Binary", "--steps", "3", "--rho", "4.5", "--trials", "20000")
    assert result.exit_code == 0
    assert "promises ρ = 4.5" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("arguments", "promise"), [(["--epsilon", "1"], "PureDP"), (["--epsilon", "3", "--delta", "1e-6"], "ApproxDP")]
)
def test_other_budgets(arguments, promise):
    result = invoke("--mechanism", "Binary", "--steps", "2", "--trials", "5000", *arguments)
    assert result.exit_code == 0
    assert promise in result.output


def test_a_violation_has_exit_status_1(monkeypatch):
    broken = catalogue.Subject("Broken", OneNodeShort, 3)
    monkeypatch.setattr(command, "SUBJECTS", (broken,))
    result = invoke("--mechanism", "Broken", "--trials", "20000")
    assert result.exit_code == 1
    assert "VIOLATED" in result.output
    assert "do not publish" in " ".join(result.output.split())


def test_the_table(monkeypatch):
    few = (catalogue.Subject("Binary", Binary, 3), catalogue.Subject("Broken", OneNodeShort, 3))
    monkeypatch.setattr(catalogue, "SUBJECTS", few)
    result = invoke("--all", "--trials", "20000")
    assert result.exit_code == 1
    for word in (
        "Binary",
        "Broken",
        "exact",
        "float32",
        "zcdp",
        "approx_dp",
        "violated",
        "12 audits",
        "rank correlation",
    ):
        assert word in " ".join(result.output.split())


def test_a_picture(tmp_path):
    path = tmp_path / "curve.png"
    assert invoke("--mechanism", "Binary", "--steps", "2", "--trials", "5000", "--plot", str(path)).exit_code == 0
    assert path.read_bytes()[:4] == b"\x89PNG"


def test_without_matplotlib_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = invoke("--mechanism", "Binary", "--steps", "2", "--trials", "5000", "--plot", str(tmp_path / "curve.png"))
    assert result.exit_code == 2
    assert "dpstream[plot]" in result.output


@pytest.mark.parametrize(
    "arguments",
    [
        ["--mechanism", "None"],
        ["--lane", "int8"],
        ["--delta", "1e-6"],
        ["--rho", "-1"],
        ["--rho", "1", "--epsilon", "1"],
    ],
)
def test_bad_options_have_exit_status_2(arguments):
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert "dpstream audit:" in result.output
