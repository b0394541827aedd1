"""`dpstream plan --discover`: the figures are those of the settings, and what makes no sense is refused."""

import json

import pytest
from typer.testing import CliRunner

import dpstream as dp
from dpstream.cli.app import app
from dpstream.release import OpenSettings

DISCOVER = ["plan", "--epsilon", "6", "--delta", "1e-9", "--horizon", "100", "--discover", "--names-per-person", "32"]


def run(*arguments):
    return CliRunner().invoke(app, [*DISCOVER, *arguments], env={"COLUMNS": "200"})


def test_figures_are_those_of_the_settings():
    settings = OpenSettings.of(100, dp.approx_dp(6, 1e-9), names_per_person=32, per_name=3)
    found = json.loads(run("--per-name", "3", "--confidence", "0.9", "--json").stdout)
    assert found["threshold"] == settings.threshold
    assert found["appears_from"] == settings.appears_from(0.9)
    assert found["error"] == settings.half_width(100, 0.9)
    assert OpenSettings.from_json(found["settings"]) == settings


def test_it_is_said_in_words():
    said = " ".join(run().stdout.split())
    assert "A name that 121 people have brought is published by the last step, 95 % of the time." in said
    assert "is then within ±26 of the counted number" in said
    assert "Threshold: a noisy number of 99 people." in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plan", "--rho", "1", "--horizon", "9", "--discover", "--names-per-person", "2"], "--epsilon and --delta"),
        (["plan", "--epsilon", "1", "--horizon", "9", "--discover", "--names-per-person", "2"], "no --delta"),
        ([*DISCOVER[:-2]], "--names-per-person must be given"),
        ([*DISCOVER, "--categories", "3"], "--categories must be left out"),
        ([*DISCOVER, "--names-per-person", "0"], "at least 1"),
        ([*DISCOVER[:5], "--discover", "--names-per-person", "2"], "--horizon must be given"),
        ([*DISCOVER[:7], "--names-per-person", "2"], "used with --discover"),
        ([*DISCOVER[:7], "--per-name", "2"], "used with --discover"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, message):
    done = CliRunner().invoke(app, arguments, env={"COLUMNS": "300"})
    assert done.exit_code == 2
    assert message in " ".join((done.output + done.stderr).split())
