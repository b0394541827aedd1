"""`count --protect-text` and `store protect-text`: the paragraph and the registry's entry, of a run and of a store."""

import json

import pytest
from typer.testing import CliRunner

import dpstream as dp
from dpstream.cli.app import app
from dpstream.events.stored_stream import StoredStream
from tests.cli.test_count import count, month, narrow_terminal  # noqa: F401
from tests.events.event_logs import write
from tests.store.conftest import path  # noqa: F401

RUN = ("--time", "when", "--from", "2026-01-30", "--through", "2026-02-18", "--rho", 0.5, "--horizon", 40)


@pytest.fixture
def log(tmp_path):
    return write(month(), tmp_path, "csv")


def test_of_a_run(log, tmp_path):
    file = tmp_path / "protection.txt"
    users = ("--user", "ward", "--max-contributions", 3)
    result = count(
        log, *RUN, *users, "--windows", "7d", "--protect-text", file, "--label", "visits", "--title", "A clinic"
    )
    assert result.exit_code == 0, result.output
    said = file.read_text()
    assert said.startswith("These figures are published with differential privacy.")
    assert "At most 3 rows of each person in the whole stream are counted, so figures fall behind" in said
    assert "each figure of 7 days within ±" in said
    entry = json.loads(file.with_suffix(".json").read_text())
    assert entry["deployment"]["basic"]["name"] == "A clinic"
    assert entry["deployment"]["basic"]["description"] == said.strip()
    assert entry["deployment"]["privacy_loss"]["privacy_parameters"] == {"rho": 0.5}
    assert "taken from the data" not in entry["deployment"]["dp_variant"]["unprotected_quantities"]


def test_what_the_data_decide_is_confessed(log, tmp_path):
    file = tmp_path / "p.md"
    arguments = ("--time", "when", "--rho", 0.5, "--horizon", 40, "--protect-text", file)
    assert count(log, *arguments).exit_code == 0
    entry = json.loads(file.with_suffix(".json").read_text())
    quantities = entry["deployment"]["dp_variant"]["unprotected_quantities"]
    assert "But the first step and the last step was taken from the data." in quantities


def test_of_a_store_and_on_a_page(path, tmp_path):  # noqa: F811
    store, page = path.parent / "s.db", tmp_path / "out.html"
    log = write(month(), path.parent, "csv")
    file = tmp_path / "protection.txt"
    made = count(
        log, *RUN, "--windows", "1d", "--store", store, "--name", "visits", "--protect-text", file, "--plot", page
    )
    assert made.exit_code == 0, made.output
    shown = CliRunner().invoke(app, ["store", "protect-text", str(store), "visits"])
    assert shown.output == file.read_text()
    entry = CliRunner().invoke(app, ["store", "protect-text", str(store), "--json"])  # of the only stream
    assert json.loads(entry.output) == json.loads(file.with_suffix(".json").read_text())
    again = tmp_path / "again.txt"
    CliRunner().invoke(app, ["store", "protect-text", str(store), "visits", "--output", str(again)])
    assert again.read_text() == file.read_text()
    assert file.read_text().split(". ")[0] in page.read_text()
    with dp.Store(store) as opened:
        assert StoredStream(opened, "visits").protection().paragraph() == file.read_text().strip()


def test_refusals(log, tmp_path):
    for arguments, message in (
        (("--protect-text", tmp_path / "p.json"), "--protect-text must be a file for the text"),
        (("--protect-text", tmp_path / "no" / "p.txt"), "--protect-text must be a file in a folder that is there"),
        (("--protect-text", tmp_path / "p.txt", "--output", tmp_path / "p.json"), "must be a file of its own"),
    ):
        result = count(log, *RUN, *arguments)
        assert result.exit_code == 2, result.output
        assert message in " ".join(result.stderr.split())
        assert not list(tmp_path.glob("p.*"))
