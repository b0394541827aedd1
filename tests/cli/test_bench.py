"""`dpstream bench`: finds the benchmarks of the source, passes names on, and says what is missing."""

import importlib.util
import json
import sys
import textwrap

import pytest
from typer.testing import CliRunner

from dpstream.cli import bench as command
from dpstream.cli.app import app


def invoke(*arguments):
    return CliRunner().invoke(app, ["bench", *arguments])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A source tree whose runner writes down what it was asked for."""
    made = tmp_path / "benchmarks"
    made.mkdir()
    (made / "run.py").write_text(
        textwrap.dedent(
            """
            import json, os, sys
            from pathlib import Path
            Path("asked.json").write_text(json.dumps([os.getcwd(), sys.executable, sys.argv[1:]]))
            sys.exit(3 * ("fails" in sys.argv))
            """
        )
    )
    (made / "first.py").write_text("import a_peer_that_nobody_has\n\n\ndef one(): ...\n\n\nALL = (one, two)\n")
    (made / "second.py").write_text("ALL = (three, fails)\n")
    (made / "requirements.txt").write_text("# peers\n\nnumpy>=2\n")
    monkeypatch.setattr(command, "FOLDER", made)
    return made


def asked(folder):
    where, python, names = json.loads((folder.parent / "asked.json").read_text())
    assert where == str(folder.parent)
    assert python == sys.executable  # where the peers are installed
    return names


def test_what_is_there_is_listed():
    """The real benchmarks, in the source that these tests belong to."""
    result = invoke("--list")
    assert result.exit_code == 0
    pairs = [line.split() for line in result.output.splitlines()]
    assert ["release", "additions"] in pairs
    assert ["store", "durable_releases"] in pairs


def test_every_listed_benchmark_is_a_function_of_its_file():
    for suite, names in command._suites(command.FOLDER).items():
        source = (command.FOLDER / f"{suite}.py").read_text()
        assert names
        for name in names:
            assert f"def {name}(" in source


def test_names_are_passed_on(folder):
    assert invoke().exit_code == 0
    assert asked(folder) == []
    assert invoke("--only", "second", "--only", "two").exit_code == 3
    assert asked(folder) == ["three", "fails", "two"]
    assert invoke("--only", "three").exit_code == 0
    assert asked(folder) == ["three"]


def test_an_unknown_name_is_refused(folder):
    result = invoke("--only", "third")
    assert result.exit_code == 2
    assert "--only must be first, second, or a name that --list shows, got 'third'" in result.output
    assert not (folder.parent / "asked.json").exists()


def test_a_missing_peer_is_named(folder):
    assert importlib.util.find_spec("no_such_peer") is None
    (folder / "requirements.txt").write_text("numpy\nno_such_peer==1.0\n")
    result = invoke()
    assert result.exit_code == 2
    assert "the benchmarks compare with no_such_peer: not installed here; pip install -r" in result.output


def test_an_installed_package_says_where_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "FOLDER", tmp_path / "benchmarks")
    for arguments in ([], ["--list"], ["--only", "store"]):
        result = invoke(*arguments)
        assert result.exit_code == 2
        assert "the benchmarks come with the source of dpstream" in result.output
        assert result.output.count("\n") == 1
