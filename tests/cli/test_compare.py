"""`dpstream compare`: every mechanism is in the table, with the numbers of the library."""

import json
import re
import sys

import pytest
from typer.testing import CliRunner

import dpstream
from dpstream import Participation, mechanisms
from dpstream.cli.app import app
from dpstream.cli.mechanism_speed import nanoseconds_a_release
from dpstream.mechanisms.catalogue import ENTRIES

runner = CliRunner()


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("NO_COLOR", "1")


def invoke(*arguments):
    return runner.invoke(app, ["compare", *arguments])


def test_every_mechanism_has_a_row():
    result = invoke("--horizon", "100")
    assert result.exit_code == 0
    for entry in ENTRIES:
        assert f" {entry.name} " in result.output
    row = next(line for line in result.output.splitlines() if " SmoothBinary.paper " in line)
    assert " 25.00 " in row  # C(10, 5) > 100, five zeros and five ones
    assert " 2.236 " in row
    assert "the paper's tree and sensitivity" in row
    assert "ns is the time of a release's noise here" in result.output


def test_a_narrow_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    result = invoke("--horizon", "100", "--no-speed")
    assert result.exit_code == 0
    table = [line for line in result.output.splitlines() if "Binary" in line or "Toeplitz" in line]
    assert len(table) >= 8
    assert max(map(len, table)) <= 80
    assert "…" not in result.output
    assert " ns" not in result.output


@pytest.mark.heavy
def test_a_long_horizon_says_what_it_leaves_out():
    result = invoke("--horizon", "5000", "--no-speed")
    assert result.exit_code == 0
    assert "Optimal is left out: a dense solver: up to 2,048 steps here." in result.output
    result = invoke("--horizon", "513", "--no-speed")
    assert "Optimal is left out: it takes seconds to minutes to find; ask for it with --optimal." in result.output


def test_the_optimum_can_be_asked_for(monkeypatch):
    monkeypatch.setattr("dpstream.cli.compare_run.OPTIMAL_AT_ONCE", 10)
    assert "Optimal is left out" in invoke("--horizon", "50", "--no-speed").output
    assert "Optimal is left out" not in invoke("--horizon", "50", "--no-speed", "--optimal").output


def test_as_json():
    found = json.loads(invoke("--horizon", "200", "--json").output)
    rows = {row["mechanism"]: row for row in found["gaussian"]}
    binary = mechanisms.Binary(200)
    assert rows["Binary"]["largest"] == binary.max_variance()
    assert rows["Binary"]["mean"] == binary.mean_variance()
    assert all(row["nanoseconds"] > 0 for row in found["gaussian"] + found["laplace"])
    assert json.loads(invoke("--horizon", "20", "--json", "--no-speed").output)["laplace"][0]["nanoseconds"] is None


@pytest.mark.parametrize(
    ("options", "law", "other", "budget"),
    [
        (["--rho", "0.1"], "gaussian", "laplace", dpstream.zcdp(0.1)),
        (["--epsilon", "1", "--delta", "1e-6"], "gaussian", "laplace", dpstream.approx_dp(1, 1e-6)),
        (["--epsilon", "1"], "laplace", "gaussian", dpstream.pure_dp(1)),
    ],
)
def test_a_budget_turns_errors_into_standard_deviations(options, law, other, budget):
    found = json.loads(invoke("--horizon", "100", "--no-speed", "--json", *options).output)
    assert other not in found
    row = next(row for row in found[law] if row["mechanism"] == "Binary")
    counter = dpstream.Counter(100, budget, mechanism=mechanisms.Binary(100, noise=law))
    largest = max(counter.settings.noise_at(t).variance for t in range(1, 101)) ** 0.5
    assert row["largest"] == pytest.approx(largest, rel=1e-9)
    assert "max std" in invoke("--horizon", "100", "--no-speed", *options).output


def test_a_picture(tmp_path):
    for name, options in (("v.png", []), ("std.svg", ["--rho", "1"])):
        path = tmp_path / name
        assert invoke("--horizon", "100", "--no-speed", "--plot", str(path), *options).exit_code == 0
        assert path.stat().st_size > 20_000
    picture = (tmp_path / "std.svg").read_text()  # which has its words as comments
    assert all(name in picture for name in ("BalancedToeplitz", "Optimal"))
    assert "mechanisms with the least error" in picture
    assert "SmoothBinary.paper" not in picture


def test_a_picture_of_chosen_mechanisms(tmp_path):
    """All that are chosen, also those of large errors; errors that jump as what is largest nearby."""
    path = tmp_path / "chosen.svg"
    options = ("--mechanism", "Binary", "--mechanism", "SmoothBinary.paper", "--participation", "2x16")
    assert invoke("--horizon", "100", "--no-speed", "--plot", str(path), "--rho", "1", *options).exit_code == 0
    picture = path.read_text()
    for words in ("Binary", "SmoothBinary.paper", "errors that jump", "at most 2 times a person", "100 releases"):
        assert words in picture
    assert "with the least error" not in picture


def test_a_page_of_curves(tmp_path):
    path = tmp_path / "chosen.html"
    assert invoke("--horizon", "50", "--no-speed", "--plot", str(path), "--mechanism", "Binary").exit_code == 0
    page = path.read_text()
    assert page.count("<h1>") == 1
    assert "<h1>Error over 50 releases</h1>" in page
    assert 'download="curves.csv"' in page
    assert re.search(r'aria-label="Error over 50 releases[^"]*Binary ends at', page)
    assert not re.search(r"<script[^>]* src=|<link", page)


def test_without_matplotlib_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = invoke("--horizon", "10", "--plot", str(tmp_path / "v.png"))
    assert result.exit_code == 2
    assert "dpstream[plot]" in result.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--horizon", "0"], "horizon must be a whole number of at least 1, got 0"),
        (["--horizon", str(2**60)], "horizon must be at most"),
        (["--delta", "0.1"], "the budget must be given as"),
        (["--plot", "v.gif"], "a file ending in .png, .svg, .pdf, .html"),
        (["--plot", "v.png", "--epsilon", "1"], "it shows Gaussian mechanisms"),
    ],
)
def test_what_makes_no_sense_is_one_line(options, message):
    result = invoke(*options)
    assert result.exit_code == 2
    assert message in result.output
    assert result.output.count("\n") == 1


def test_speed_tells_a_slow_mechanism_from_a_fast_one():
    """A tree of several nodes a step runs in Python, others are compiled: forty times apart, and four are asked for."""
    slow, fast = nanoseconds_a_release([mechanisms.SignedDigits(1000), mechanisms.SmoothBinary(1000)], 1000)
    assert slow > 4 * fast > 0


def test_version():
    assert runner.invoke(app, ["--version"]).output == f"dpstream {dpstream.__version__}\n"


def test_only_the_mechanisms_asked_for():
    found = json.loads(
        invoke("--horizon", "50", "--json", "--no-speed", "--mechanism", "smooth", "--mechanism", "honaker").output
    )
    assert [row["mechanism"] for row in found["gaussian"]] == ["SmoothBinary", "Honaker"]
    assert [row["mechanism"] for row in found["laplace"]] == ["SmoothBinary"]


OWN = """
import numpy as np
from dpstream.mechanisms import FromCoefficients

fresh = FromCoefficients(np.eye(1, 40)[0])

def decaying(horizon):
    return FromCoefficients(0.5 ** np.arange(horizon))

nonsense = 3
"""


def test_mechanisms_of_ones_own(tmp_path, monkeypatch):
    (tmp_path / "own_for_compare.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    options = ["--horizon", "40", "--mechanism", "own_for_compare:fresh", "--mechanism", "own_for_compare:decaying"]
    rows = json.loads(invoke("--json", *options).output)["gaussian"]
    assert [row["mechanism"] for row in rows] == ["fresh", "decaying"]
    assert rows[0]["largest"] == pytest.approx(40)  # L = I: the first element is in all 40 releases
    assert "yours" in invoke("--no-speed", *options).output
    picture = tmp_path / "own.svg"
    assert invoke("--no-speed", "--plot", str(picture), *options).exit_code == 0
    assert "decaying" in picture.read_text()
    for name, message in {
        "own_for_compare:fresh": "one for 41 steps; this one has 40",
        "own_for_compare:nonsense": "a mechanism, or a class or function that makes one from a horizon",
        "own_for_compare:missing": "has no attribute 'missing'",
        "nowhere:fresh": "No module named 'nowhere'",
        "bnary": "did you mean Binary?",
    }.items():
        result = invoke("--horizon", "41", "--no-speed", "--mechanism", name)
        assert result.exit_code == 2
        assert message in result.output


def test_errors_under_participation_and_for_windows():
    result = invoke("--horizon", "64", "--participation", "2x16", "--windows", "1,7", "--no-speed", "--json")
    assert result.exit_code == 0
    rows = {row["mechanism"]: row for row in json.loads(result.output)["gaussian"]}
    epochs = Participation(2, 16)
    for name, made in (("Independent", mechanisms.Independent(64)), ("Binary", mechanisms.Binary(64))):
        assert rows[name]["largest"] == pytest.approx(made.max_variance(participation=epochs))
        assert rows[name]["sensitivity"] == pytest.approx(made.sensitivity(epochs))
        assert rows[name]["windows"] == pytest.approx(
            [made.max_variance(window=w, participation=epochs) for w in (1, 7)]
        )
    fitted = mechanisms.FittedToeplitz.fit(64, participation=epochs, windows=(1, 7))
    assert rows["FittedToeplitz"]["windows"][1] == pytest.approx(fitted.max_variance(window=7, participation=epochs))
    # The same, where one of them is asked for by its name.
    chosen = invoke("--horizon", "64", "--participation", "2x16", "--mechanism", "Banded", "--no-speed", "--json")
    (row,) = json.loads(chosen.output)["gaussian"]
    banded = mechanisms.Banded.fit(64, participation=epochs, bands=16)
    assert row["mean"] == pytest.approx(banded.mean_variance(participation=epochs))
    table = invoke("--horizon", "64", "--windows", "1,7", "--no-speed", "--mechanism", "Binary")
    assert "last 7" in table.output


@pytest.mark.parametrize(
    ("option", "text", "problem"),
    [
        ("--participation", "8", "TIMESxSEPARATION, such as 8x256"),
        ("--participation", "0x4", "TIMESxSEPARATION, such as 8x256"),
        ("--windows", "1;7", "whole numbers separated by commas"),
        ("--windows", "7,1", "in rising order, each once: give 1,7"),
        ("--windows", "1,1001", "no longer than the horizon, 1000 steps"),
    ],
)
def test_bad_participation_and_windows(option, text, problem):
    result = invoke("--no-speed", option, text)
    assert result.exit_code != 0
    assert problem in " ".join((result.output + str(result.exception)).split())
