"""`dpstream audit`: what it says, and its exit status."""

import re
import sys

import pytest
from typer.testing import CliRunner

from dpstream import zcdp
from dpstream.audit import table
from dpstream.audit.threads import ThreadCheck
from dpstream.audit.timing import time_counter
from dpstream.cli import audit_run as command
from dpstream.cli.app import app
from dpstream.mechanisms import Binary
from tests.audit.subjects import OneNodeShort


def invoke(*arguments):
    return CliRunner().invoke(app, ["audit", "--confidence", "0.9999999", *arguments])


def test_one_mechanism():
    result = invoke("--mechanism", "Binary", "--steps", "3", "--rho", "4.5", "--trials", "20000")
    assert result.exit_code == 0
    assert "promises ρ = 4.5" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("arguments", "promise"),
    [(["--epsilon", "1"], "ε = 1."), (["--epsilon", "3", "--delta", "1e-6"], "ε = 3 at δ = 1e-06.")],
)
def test_other_budgets(arguments, promise):
    result = invoke("--mechanism", "Binary", "--steps", "2", "--trials", "5000", *arguments)
    assert result.exit_code == 0
    assert f"The budget promises {promise} In" in " ".join(result.output.split())


def test_a_violation_has_exit_status_1(monkeypatch):
    broken = table.Subject("Broken", OneNodeShort, 3)
    monkeypatch.setattr(table, "SUBJECTS", (broken,))
    result = invoke("--mechanism", "Broken", "--trials", "20000")
    assert result.exit_code == 1
    assert "VIOLATED" in result.output
    assert "do not publish" in " ".join(result.output.split())


@pytest.fixture
def few_calls(monkeypatch):
    """Threads, times and names are checked elsewhere, by more calls."""
    monkeypatch.setattr(command, "check_threads", lambda: [ThreadCheck("Counter", 4, 8, 0, 0)])
    monkeypatch.setattr(command, "time_counter", lambda budget: time_counter(budget, 400))
    monkeypatch.setattr(command, "check_names", lambda confidence: [])


def test_repeated_noise_has_exit_status_1(monkeypatch, few_calls):
    monkeypatch.setattr(table, "SUBJECTS", table.SUBJECTS[:1])
    monkeypatch.setattr(table, "all_doors", list)
    monkeypatch.setattr(command, "check_threads", lambda: [ThreadCheck("Counter", 4, 8, 1, 0)])
    result = invoke("--all", "--trials", "200", "--jobs", "1")
    assert result.exit_code == 1
    assert "8 calls, 1 repeated" in result.output


def test_the_table(monkeypatch, few_calls):
    few = (table.Subject("Binary", Binary, 3), table.Subject("Broken", OneNodeShort, 3))
    monkeypatch.setattr(table, "SUBJECTS", few)
    monkeypatch.setattr(table, "all_doors", list)
    result = invoke("--all", "--trials", "20000", "--jobs", "1")
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
        "notices",
        "4 threads on one Counter",
        "rank correlation",
    ):
        assert word in " ".join(result.output.split())


@pytest.mark.heavy
def test_the_table_in_two_processes(monkeypatch, few_calls):
    """The processes build the whole table themselves; its first row is this one, too."""
    monkeypatch.setattr(table, "SUBJECTS", table.SUBJECTS[:1])
    monkeypatch.setattr(table, "LANES", ("exact",))
    monkeypatch.setattr(table, "all_doors", list)
    monkeypatch.setattr(table, "BUDGETS", {"zcdp": zcdp(0.5)})
    result = invoke("--all", "--trials", "2000", "--jobs", "2")
    assert result.exit_code == 0
    assert "1 audits: 0 violated" in " ".join(result.output.split())


def test_names_of_the_catalogue_and_mechanisms_of_ones_own():
    for name in ("smooth", "growing", "tests.audit.subjects:OneNodeShort"):
        result = invoke("--mechanism", name, "--steps", "3", "--trials", "20000")
        assert result.exit_code == ("Short" in name), result.output
    result = invoke("--mechanism", "smoth")
    assert result.exit_code == 2
    assert "SmoothBinary" in result.output


def test_one_door():
    result = invoke("--door", "moved to another category", "--trials", "50000")
    assert result.exit_code == 0
    assert "promises ρ = 4.5" in " ".join(result.output.split())
    result = invoke("--door", "the back door")
    assert result.exit_code == 2
    assert "one of one number, add by add" in " ".join(result.output.split())


def test_the_example_of_the_help_is_answered():
    """What the help tells to type must not end in "Unclear" (with the help's own confidence: false alarms 1e-6)."""
    example = re.search(r"Example: dpstream audit ([^│\n]+)", CliRunner().invoke(app, ["audit", "--help"]).output)
    result = CliRunner().invoke(app, ["audit", *example.group(1).split()])
    assert result.exit_code == 0
    assert result.output.startswith("Kept.")


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
