"""`dpstream plan`: the sentence is true, and its inverse finds the least budget."""

import inspect
import json
import sys
from typing import get_args

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import dpstream as dp
from dpstream.cli.app import CommandGroup
from dpstream.cli.plan import plan
from dpstream.mechanisms import BalancedToeplitz, Binary, GrowingSmooth, SignedDigits, SmoothBinary, Unbounded
from dpstream.release.error_bars import half_width
from dpstream.release.least_budget import largest_error, mean_rounded_variance, widest_noise
from dpstream.release.noise_law import noise_at, rounded_variance
from dpstream.release.plan import Objective

app = typer.Typer(cls=CommandGroup, pretty_exceptions_enable=False)
app.command()(plan)
app.command("other")(lambda: None)  # one command alone would have no name


@pytest.fixture(autouse=True)
def narrow_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")


def invoke(*arguments):
    return CliRunner().invoke(app, ["plan", *arguments])


def answer(*arguments):
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


# -- the sentence -----------------------------------------------------------------------------------------------------


def test_the_sentence_and_the_table():
    result = invoke("--epsilon", "1", "--delta", "1e-6", "--horizon", "365")
    assert result.exit_code == 0
    first, *lines = result.output.splitlines()
    assert first == (
        "With ε = 1, δ = 1e-06 over 365 steps each published count is within ±22 of the count without noise, 95 % of"
        " the time."
    )
    assert "BalancedToeplitz is first because its largest variance is least" in result.output
    assert "ask for it with --optimal" in result.output
    table = [line for line in lines if "±" in line]
    assert len(table) >= 7
    assert "…" not in result.output
    assert max(len(line) for line in table) <= 80


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        (["--rho", "0.5", "--horizon", "200"], {"horizon": 200, "budget": dp.zcdp(0.5)}),
        (["--epsilon", "1", "--horizon", "200"], {"horizon": 200, "budget": dp.pure_dp(1)}),
        (
            ["--rho", "0.1", "--horizon", "50", "--per-person", "3", "--max-contributions", "4", "--categories", "5"],
            {"horizon": 50, "budget": dp.zcdp(0.1), "per_person": 12, "shape": (5,)},
        ),
    ],
)
def test_the_error_is_that_of_a_counter(options, settings):
    """The largest half width of the counter's own intervals, over all its releases."""
    found = answer(*options, "--confidence", "0.9")
    counter = dp.Counter(**settings)
    widths = []
    for _ in range(settings["horizon"]):
        release = counter.add(np.zeros(counter.shape, dtype=int) if counter.shape else 0)
        _, _, low, high = counter.estimate(0.9)
        widths.append(int(np.max(high - release)))
        assert np.all(low <= high)
    assert found["error"] == max(widths)
    assert found["mechanism"] == repr(counter.mechanism)
    assert found["mechanisms"][0]["max_stddev"] == pytest.approx(
        max(counter.stddev(t) for t in range(1, settings["horizon"] + 1)), rel=1e-9
    )


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.9999])
@pytest.mark.parametrize(
    "mechanism",
    [
        Binary(300, noise="laplace"),
        SmoothBinary(300, noise="laplace"),
        SmoothBinary(300, noise="laplace", padded=True),
        SignedDigits(300),
        GrowingSmooth(noise="laplace"),
        Unbounded(noise="laplace"),
        Unbounded(Binary, noise="laplace"),
        SmoothBinary(300),
    ],
    ids=repr,
)
def test_no_release_is_wider_than_the_widest(mechanism, confidence):
    widest = half_width(widest_noise(mechanism, 7.0, 300), confidence)
    assert widest == max(half_width(noise_at(mechanism, 7.0, t), confidence) for t in range(1, 301))


def test_without_a_last_step():
    result = invoke("--epsilon", "2", "--unbounded")
    assert result.exit_code == 0
    assert result.output.startswith("With ε = 2 without a last step each of the first 65,536 published counts")
    assert "GrowingSmooth is first" in result.output


def test_contributions_multiply_the_bound():
    one = answer("--rho", "0.001", "--horizon", "100")
    three = answer("--rho", "0.001", "--horizon", "100", "--max-contributions", "3")
    six = answer("--rho", "0.001", "--horizon", "100", "--max-contributions", "3", "--per-person", "2")
    as_bound = answer("--rho", "0.001", "--horizon", "100", "--per-person", "6")
    assert three["error"] == pytest.approx(3 * one["error"], abs=3)
    assert six["error"] == as_bound["error"]
    text = invoke("--rho", "0.001", "--horizon", "100", "--max-contributions", "3").output
    assert "Up to 3 rows of one person are covered as one row that adds 3." in text


def test_other_objectives_and_memory():
    assert answer("--rho", "1", "--horizon", "99", "--objective", "speed")["mechanism"].startswith(
        ("Honaker", "Weighted", "Binary")
    )
    uniform = answer("--rho", "1", "--horizon", "99", "--objective", "uniform")
    assert [row["mechanism"].split("(")[0] for row in uniform["mechanisms"]] == ["SmoothBinary"]
    little = answer("--rho", "1", "--horizon", "99", "--memory", "60")
    assert not little["mechanism"].startswith("Balanced")
    assert "more memory than may be kept" in invoke("--rho", "1", "--horizon", "99", "--memory", "60").output
    assert "Optimal" in str(answer("--rho", "1", "--horizon", "20", "--optimal")["mechanisms"])


# -- the other way round ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [0, 1, 20, 1000])
@pytest.mark.parametrize(
    ("options", "make"),
    [
        ([], lambda b: dp.zcdp(b["rho"])),
        (["--delta", "1e-6"], lambda b: dp.approx_dp(b["epsilon"], b["delta"])),
        (["--pure"], lambda b: dp.pure_dp(b["epsilon"])),
    ],
    ids=["rho", "epsilon and delta", "pure"],
)
def test_the_least_budget_for_an_error(options, make, target):
    found = answer("--horizon", "365", "--target-error", str(target), "--confidence", "0.99", *options)
    kept = dict(found["budget"])
    budget = make(kept)
    mechanism = dp.plan(365, budget).mechanism
    assert largest_error(mechanism, budget, 1, 365, 0.99) <= target
    assert found["error"] <= target
    name = "rho" if "rho" in kept else "epsilon"
    less = make(kept | {name: 0.999 * kept[name]})
    assert largest_error(mechanism, less, 1, 365, 0.99) > target


def test_the_least_budget_in_words():
    output = invoke("--horizon", "365", "--target-error", "20", "--delta", "1e-6").output
    assert "The least budget for ±20 is ε = 1.0755, δ = 1e-06; 0.1 % less is not enough." in output
    assert (
        "With ε = 1.0755, δ = 1e-06 over 365 steps each published count is within ±20 of the count without noise"
        in output
    )


# -- pictures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("suffix", "start"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_a_picture(tmp_path, suffix, start):
    path = tmp_path / f"errors{suffix}"
    assert invoke("--rho", "0.5", "--horizon", "50", "--plot", str(path)).exit_code == 0
    assert path.read_bytes().startswith(start)


def test_the_planned_mechanism_is_drawn_boldly_and_all_settings_are_named(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr("dpstream.cli.plan_run.save_curves", lambda figure, *_: drawn.append(figure))
    asked = ("--horizon", "50", "--max-contributions", "3", "--per-person", "2", "--categories", "4")
    asked += ("--plot", str(tmp_path / "plan.png"))
    assert invoke("--epsilon", "1", "--delta", "1e-6", *asked).exit_code == 0
    assert invoke("--target-error", "20", "--delta", "1e-6", *asked).exit_code == 0
    for figure in drawn:
        (axes,) = figure.axes
        planned, *others = [line for line in axes.get_lines() if len(line.get_xdata()) > 1]
        assert planned.get_label() == "BalancedToeplitz (planned)"
        assert planned.get_linestyle() == "-"
        assert all(planned.get_linewidth() >= 2 * line.get_linewidth() for line in others)
        assert all(planned.get_zorder() > line.get_zorder() for line in others)
        title = axes.get_title(loc="left")
        for words in ("50 releases", "a row adds at most 2", "at most 3 rows of one person", "4 categories"):
            assert words in title
    assert drawn[0].axes[0].get_title(loc="left").startswith("ε = 1, δ = 1e-06")


def test_a_picture_of_many_steps_and_one_of_budgets(tmp_path):
    for name, options in (
        ("many", ["--rho", "0.5", "--horizon", "3000"]),
        ("endless", ["--epsilon", "1", "--unbounded"]),
        ("budgets", ["--horizon", "50", "--target-error", "3"]),
    ):
        path = tmp_path / f"{name}.svg"
        assert invoke(*options, "--plot", str(path)).exit_code == 0
        assert path.stat().st_size > 5000


def test_without_matplotlib_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = invoke("--rho", "0.5", "--horizon", "50", "--plot", str(tmp_path / "errors.png"))
    assert result.exit_code == 2
    assert "dpstream[plot]" in result.output


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rho", "1"], "the horizon must be given as --horizon N, or as --unbounded, got 'neither'"),
        (["--rho", "1", "--horizon", "5", "--unbounded"], "got 'both'"),
        (["--horizon", "5"], "the budget must be given as --rho"),
        (["--rho", "1", "--horizon", "0"], "horizon must be a whole number of at least 1, got 0"),
        (["--rho", "nan", "--horizon", "5"], "rho must be a positive, finite number"),
        (["--rho", "1", "--horizon", "5", "--confidence", "1"], "confidence must be a number strictly between 0 and 1"),
        (["--rho", "1", "--horizon", "5", "--per-person", "0"], "--per-person must be a whole number of at least 1"),
        (["--rho", "1", "--horizon", "5", "--max-contributions", "0"], "--max-contributions must be"),
        (["--rho", "1", "--horizon", "5", "--categories", "0"], "--categories must be"),
        (["--rho", "1", "--horizon", "5", "--pure"], "--pure must be used with --target-error"),
        (["--rho", "1", "--horizon", "5", "--target-error", "3"], "left out with --target-error"),
        (["--horizon", "5", "--target-error", "-1"], "--target-error must be a whole number of at least 0"),
        (["--horizon", "5", "--target-error", "3", "--pure", "--delta", "0.1"], "--delta must be left out with --pure"),
        (["--rho", "1", "--horizon", "5", "--plot", "curve.gif"], "a file ending in .png, .svg, .pdf, .html"),
        (["--rho", "1", "--horizon", "5", "--plot", "nowhere/curve.png"], "a file in a folder that is there"),
        (["--rho", "1", "--unbounded", "--objective", "uniform"], "no mechanism fits"),
    ],
)
def test_what_makes_no_sense_is_one_line(options, message):
    result = invoke(*options)
    assert result.exit_code == 2
    assert message in result.output
    assert result.output.count("\n") == 1


@pytest.mark.parametrize("budget", [("--epsilon", "100"), ("--rho", "50"), ("--rho", "3"), ("--epsilon", "2")])
@pytest.mark.parametrize("end", [("--horizon", "365"), ("--horizon", "5000"), ("--unbounded",)])
def test_no_mean_is_above_its_maximum(budget, end):
    answer = json.loads(CliRunner().invoke(app, ["plan", *budget, *end, "--json"]).output)
    assert answer["mechanisms"]
    for row in answer["mechanisms"]:
        assert 0 < row["mean_stddev"] <= row["max_stddev"] * (1 + 1e-9)


@pytest.mark.parametrize("scale", [0.2, 1.0, 30.0])
@pytest.mark.parametrize(
    "mechanism", [BalancedToeplitz(300), SmoothBinary(300, noise="laplace"), Binary(300)], ids=repr
)
def test_the_mean_is_that_of_every_release(mechanism, scale):
    wanted = np.mean([rounded_variance(noise_at(mechanism, scale, t)) for t in range(1, 301)])
    assert mean_rounded_variance(mechanism, scale, 300) == pytest.approx(wanted, rel=1e-6)


def test_all_objectives_of_the_library_can_be_asked_for():
    # The option repeats them: the library's list is not loaded to print a usage error.
    option = inspect.signature(plan, eval_str=True).parameters["objective"].annotation.__origin__
    assert set(get_args(option)) == set(get_args(Objective))


@pytest.mark.parametrize("contributions", [1, 3])
def test_windows_are_within_what_is_said(contributions):
    """The figures are those of `plan` for one row of a person, and of a counter's own windows for several."""
    options = ("--epsilon", "1", "--delta", "1e-6", "--horizon", "60", "--windows", "1,7")
    found = json.loads(invoke(*options, "--max-contributions", str(contributions), "--json").output)
    budget = dp.approx_dp(1, 1e-6)
    planned = dp.plan(60, budget, windows=(1, 7))
    if contributions == 1:
        assert found["windows"] == {str(length): int(off) for length, off in planned.within(0.95).items()}
    counter = dp.Counter(60, budget, windows=(1, 7), per_person=contributions, mechanism=planned.mechanism)
    largest = {1: 0, 7: 0}
    for _ in range(60):
        counter.add(5)
        for length in largest:
            estimate = counter.window(length)
            largest[length] = max(largest[length], (estimate.high - estimate.low) // 2)
    assert found["windows"] == {str(length): off for length, off in largest.items()}
    shown = invoke(*options, "--max-contributions", str(contributions)).output
    for length, words in ((1, "each step's own count"), (7, "each sum of 7 steps in a row")):
        assert f"{words} is within ±{largest[length]:,} of the count without noise, 95 % of the time." in " ".join(
            shown.split()
        )


def test_windows_of_time_are_told_in_their_words():
    """Days, weeks and months of steps of a day, or of an hour; a year has as many steps as there are."""
    result = invoke("--rho", "0.05", "--horizon", "40", "--windows", "1d,7d,1mo,1y,1,12")
    assert result.exit_code == 0, result.output
    said = " ".join(result.output.split())
    planned = dp.plan(40, dp.zcdp(0.05), windows=(1, 7, 12, 31, 40)).within()
    names = {"each day's figure": 1, "each week's figure": 7, "each month's figure": 31, "each year's figure": 40}
    for words, length in (names | {"each step's own count": 1, "each sum of 12 steps in a row": 12}).items():
        assert f"From the same releases, {words} is within ±{int(planned[length])} of the count without noise" in said
    hours = invoke("--rho", "0.05", "--horizon", "30", "--windows", "1d", "--every", "1h", "--json")
    assert list(json.loads(hours.output)["windows"]) == ["24"]
    refused = invoke("--rho", "0.05", "--horizon", "30", "--windows", "1h")
    assert refused.exit_code == 2
    assert "--windows must be a whole number of steps of 1d" in refused.output


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ("--rho", "1", "--horizon", "9", "--windows", "1,week"),
            "--windows must be a number of steps such as 7, or a length of time",
        ),
        (("--rho", "1", "--horizon", "9", "--windows", "1,10"), "--windows must be"),
        (("--rho", "1", "--unbounded", "--windows", "7"), "--windows must be left out without a horizon"),
        (("--target-error", "9", "--horizon", "9", "--windows", "7"), "--windows must be left out with --target-error"),
    ],
)
def test_windows_that_are_refused(options, said):
    refused = invoke(*options)
    assert refused.exit_code == 2
    assert said in " ".join(refused.output.split())
