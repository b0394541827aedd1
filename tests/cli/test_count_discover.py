"""dpstream count --discover: day by day, what is said, what the store shows, and what is refused."""

import csv
import io

import numpy as np
import pytest
from typer.testing import CliRunner

from dpstream.cli.app import app

FLAGS = (
    *("--time", "when", "--from", "2026-03-01", "--by", "term", "--discover", "--user", "who"),
    *("--names-per-person", "3", "--epsilon", "6", "--delta", "1e-6"),
)


def told(result):
    return " ".join(result.stderr.split())


def run(*arguments):
    return CliRunner().invoke(app, [str(one) for one in arguments])


@pytest.fixture
def days(tmp_path):
    chance, paths = np.random.default_rng(5), []
    for day in (1, 2):
        paths.append(tmp_path / f"{day}.csv")
        lines = [
            f"2026-03-{day:02d},{who},t{min(term, 20)}"
            for who, term in zip(chance.integers(0, 500, 700), chance.geometric(0.3, 700), strict=True)
        ]
        paths[-1].write_text("when,who,term\n" + "\n".join(lines) + "\n")
    return paths


def rows_of(output):
    return list(csv.DictReader(io.StringIO(output)))


def test_day_by_day(days, tmp_path):
    store = str(tmp_path / "terms.db")
    end = ["--until", "2026-03-10", "--windows", "1d", "--values", "t1", "--max-pairs", "9000"]
    first = run("count", str(days[0]), *FLAGS, *end, "--store", store, "--through", "2026-03-01")
    assert first.exit_code == 0, first.output
    assert "protects every user. At most 3 names of each person in the whole stream are counted" in told(first)
    assert "A name is published once its noisy number of users reaches" in told(first)
    assert "Names beyond the first 3 of each user" in told(first)
    assert rows_of(first.stdout)[0]["category"] == "t1"
    second = run("count", str(days[1]), "--store", store, "--through", "2026-03-02")
    assert second.exit_code == 0, second.output
    released = rows_of(second.stdout)
    assert {row["step"] for row in released} == {"2"}
    assert len(released) > 4
    again = run("count", str(days[1]), "--store", store, "--through", "2026-03-02", "--all")
    assert "was counted before" in told(again)
    assert rows_of(again.stdout) == rows_of(first.stdout) + released
    shown = run("store", "releases", store, "--json")
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.count("\n") == len(rows_of(again.stdout))
    shown = run("store", "show", store)
    assert "published names" in shown.stdout
    assert "at most 3, in whatever steps" in shown.stdout
    assert run("store", "verify", store).exit_code == 0
    table = run("count", str(days[1]), "--store", store, "--through", "2026-03-03", "--as", "table")
    assert "Release 3" in table.stdout


def test_a_settings_file(days, tmp_path):
    settings = tmp_path / "terms.toml"
    settings.write_text(
        'time = "when"\nfrom = 2026-03-01\nthrough = 2026-03-02\nby = "term"\ndiscover = true\nuser = "who"\n'
        "names-per-person = 3\nper-name = 2\nepsilon = 6\ndelta = 1e-6\n"
    )
    made = run("count", *map(str, days), "--settings", str(settings), "--verbose")
    assert made.exit_code == 0, made.output
    assert "3 names of each person in the whole stream are counted, and at most 2 rows of each" in told(made)
    assert "Mechanism: BalancedToeplitz, the least error that names can have." in told(made)
    assert len(rows_of(made.stdout)) > 5


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--names-per-person", "0"], "--names-per-person must be a whole number of at least 1"),
        (["--compare-with-truth"], "--compare-with-truth must be left out with --discover"),
        (["--max-contributions", "3"], "--max-contributions must be left out with --discover"),
        (["--delta", "2"], "delta"),
        (["--rho", "0.5"], "--rho must be left out with --discover: give --epsilon and --delta"),
        (["--total"], "--total must be left out with --discover"),
        (["--max-pairs", "100", "--store", "STORE"], "Give a larger number, such as --max-pairs 200"),
    ],
)
def test_refusals_in_the_words_of_the_command(days, tmp_path, given, message):
    store = tmp_path / "s.db"
    options = [str(store) if one == "STORE" else one for one in given]
    end = ["--until", "2026-03-10"] if "--store" in options else []
    refused = run("count", str(days[0]), *FLAGS, "--through", "2026-03-01", *end, *options)
    assert refused.exit_code == 2
    assert message in told(refused)
    assert not refused.stdout


@pytest.mark.parametrize(("cell", "message"), [("", "a name"), ("x" * 100_000, "at most 4,096 characters")])
def test_bad_names_are_refused_with_their_line(days, cell, message):
    with days[0].open("a") as file:
        file.write(f"2026-03-01,7,{cell}\n")
    refused = run("count", str(days[0]), *FLAGS, "--through", "2026-03-01")
    assert refused.exit_code == 2
    assert message in told(refused)
    assert "line 702" in refused.stderr
    assert len(refused.stderr) < 1000
