"""Names that would do something to a terminal, or to the library that prints tables: they are shown as text."""

import io

import polars as pl
import pytest
from rich.console import Console
from typer.testing import CliRunner

from dpstream.cli.app import app
from dpstream.cli.output import print_rows, say

HOSTILE = {
    "a\x1b[31mred": r"a\x1b[31mred",
    "\x1b]0;title\x07": r"\x1b]0;title\x07",
    "\x9b31m": r"\x9b31m",
    "two\nlines": r"two\nlines",
    "back\rward": r"back\rward",
    "\u202egnp.exe": r"\u202egnp.exe",
    "[/nothing]": "[/nothing]",
    "[red]r": "[red]r",
    "été, 日本": "été, 日本",
}


@pytest.mark.parametrize(("name", "shown"), HOSTILE.items())
def test_names_in_tables_and_sentences(name, shown):
    for terminal in (True, False):
        console = Console(file=io.StringIO(), force_terminal=terminal, width=120, color_system=None)
        print_rows(pl.DataFrame({"category": [name], "value": [12]}), "Release 1", console)
        printed = console.file.getvalue()
        assert shown in printed
        assert not {"\x1b", "\x07", "\x9b", "\r", "\u202e"} & set(printed.replace("\x1b[1m", "").replace("\x1b[0m", ""))
    say(console, f"It is called {name}.")
    assert shown.replace("\\n", "\n") in console.file.getvalue()


@pytest.mark.parametrize("name", ["\x1b]0;title\x07", "[/nothing]"])
def test_names_that_are_discovered(tmp_path, name):
    """A hundred people bring it, where the threshold is 22: that it is missing has a chance below 1e-20."""
    (tmp_path / "terms.csv").write_text("when,who,term\n" + "".join(f"2026-03-01,{i},{name}\n" for i in range(100)))
    flags = ["--time", "when", "--from", "2026-03-01", "--through", "2026-03-01", "--until", "2026-03-31"]
    flags += ["--by", "term", "--discover", "--user", "who", "--names-per-person", "3", "--epsilon", "6"]
    flags += ["--delta", "1e-6", "--max-pairs", "9000", "--store", str(tmp_path / "terms.db")]
    counted = CliRunner().invoke(app, ["count", str(tmp_path / "terms.csv"), *flags, "--as", "table"])
    listed = CliRunner().invoke(app, ["store", "releases", str(tmp_path / "terms.db")])
    for result in (counted, listed):
        assert result.exit_code == 0, result.output
        assert "\x1b" not in result.output
        assert name.encode("unicode_escape").decode() in result.output
