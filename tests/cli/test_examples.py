"""Every command says how it is used, and what it says works."""

import datetime as dt
import re
import shlex
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import dpstream as dp
from dpstream.cli.app import app

ROOT = Path(__file__).parents[2]


def commands(command, name="dpstream"):
    """Every command that does something, with its full name."""
    if hasattr(command, "commands"):
        for word, sub in command.commands.items():
            yield from commands(sub, f"{name} {word}")
    else:
        yield name, command


COMMANDS = dict(commands(typer.main.get_command(app)))
EXAMPLES = {
    name: [
        " ".join(one.split())
        for one in re.findall(r"Example: (dpstream .*?)(?:\n\s*\n|\s*$)", command.help or "", re.DOTALL)
    ]
    for name, command in COMMANDS.items()
}


@pytest.fixture
def prepared(tmp_path, monkeypatch):
    """A folder with the files that the examples name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    days = [dt.date(2026, 1, 1) + dt.timedelta(days=i // 5) for i in range(300)]
    rows = [f"{day}T{i % 24:02}:15:00,{'north' if i % 3 else 'south'},p{i % 40}\n" for i, day in enumerate(days)]
    Path("visits.csv").write_text("when,ward,patient\n" + "".join(rows))
    with dp.Store("counts.db") as store:
        visits = store.counter("visits", 365, dp.zcdp(0.5), mechanism=dp.mechanisms.SmoothBinary(365))
        visits.extend([1, 0, 1] * 50, 0)
    return tmp_path


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_an_example(name):
    assert (COMMANDS[name].help or "").strip().splitlines()[0].endswith(".")
    assert EXAMPLES[name]
    for example in EXAMPLES[name]:
        assert example.startswith(name)
    # Nothing in it is left unsaid.
    for parameter in COMMANDS[name].params:
        assert parameter.name == "help" or getattr(parameter, "help", None), (name, parameter.name)
    shown = CliRunner().invoke(app, [*name.split()[1:], "--help"])
    assert shown.exit_code == 0
    assert "Example: dpstream" in shown.output


@pytest.mark.parametrize("example", [example for found in EXAMPLES.values() for example in found])
def test_examples_work(prepared, example):
    result = CliRunner().invoke(app, shlex.split(example)[1:], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert result.output.strip()
    for made in re.findall(r"--(?:output|plot|store) (\S+)", example):
        assert (prepared / made).exists()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_in_the_documentation(name):
    _, command, *sub = name.split()
    text = (ROOT / "docs" / "command-line.md").read_text()
    (row,) = [line for line in text.splitlines() if line.startswith(f"| `dpstream {command}` |")]
    assert all(f"`{word}`" in row for word in sub)
    assert f"dpstream {command}" in (ROOT / "README.md").read_text()
