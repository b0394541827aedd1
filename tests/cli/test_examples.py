"""Every command says how it is used, and what it says works."""

import datetime as dt
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dpstream as dp
from dpstream.cli.app import COMMANDS as NAMES
from dpstream.cli.app import app, load

ROOT = Path(__file__).parents[2]


def commands():
    """Every command that does something, with its full name."""
    for name in NAMES:
        command = load(name)
        if hasattr(command, "commands"):
            yield from ((f"dpstream {name} {word}", sub) for word, sub in command.commands.items())
        else:
            yield f"dpstream {name}", command


COMMANDS = dict(commands())
EXAMPLES = {
    # A backslash at the end of a line joins it to the next, as in a shell.
    name: [
        " ".join(example.replace("\\\n", " ").split())
        for example in re.findall(r"Example: (dpstream .*?)(?:\n\n|$)", command.help or "", re.DOTALL)
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
        source = '{"time": "when", "every": "1d", "start": "2026-01-01"}'
        smooth = dp.mechanisms.SmoothBinary(365)
        visits = store.counter("visits", 365, dp.zcdp(0.5), mechanism=smooth, source=source)
        visits.extend([1, 0, 1] * 50, 0)
    return tmp_path


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_an_example(prepared, name):
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
    assert max(map(len, shown.output.splitlines())) <= 80
    # A space after a backslash would end a pasted command there.
    assert not [line for line in shown.output.splitlines() if line.endswith(" ")]
    assert CliRunner().invoke(app, [*name.split()[1:], "-h"]).output == shown.output


def test_paragraphs_flow_and_examples_can_be_pasted(prepared):
    """What the help shows in 80 columns is what was written: no ragged lines, and examples that a shell joins again."""
    shown = CliRunner().invoke(app, ["count", "--help"]).output
    lines = [line.lstrip() for line in shown.splitlines()]
    first = next(i for i, line in enumerate(lines) if line.startswith("Each step"))
    assert len(lines[first]) > 60 < len(lines[first + 1])
    examples = "\n".join(lines).split("Example: ")[1:]
    pasted = [shlex.split(example.split("\n\n")[0].replace("\\\n", "")) for example in examples]
    assert pasted == [shlex.split(example) for example in EXAMPLES["dpstream count"]]


def example_or_heavy(example):
    """A quick paper takes half a minute, a demo ten seconds; test_paper.py and test_demo.py make one anyway."""
    slow = "paper --quick" in example or example == "dpstream demo"
    return pytest.param(example, marks=pytest.mark.heavy) if slow else example


#: A server runs until it is stopped: tests/serve has it.
SINGLE_EXAMPLES = [
    example_or_heavy(example)
    for found in EXAMPLES.values()
    for example in found
    if not example.startswith("dpstream serve")
]


@pytest.mark.parametrize("example", SINGLE_EXAMPLES)
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
