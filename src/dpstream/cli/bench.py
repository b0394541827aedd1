"""`dpstream bench`: the benchmarks that come with the source, run from there."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import dpstream
from dpstream.cli.output import narrow_table, show_table
from dpstream.errors import DpstreamError, InvalidArgument

__all__ = ["bench"]

#: Where the benchmarks are if dpstream runs from its source, as src/dpstream.
FOLDER = Path(dpstream.__file__).resolve().parents[2] / "benchmarks"


def bench(
    only: Annotated[
        list[str] | None, typer.Option(help="A suite (noise, release, ...) or one benchmark of it; may be repeated.")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the suites and their benchmarks, and stop.")] = False,
) -> None:
    """Measure dpstream against its peers on one core of this machine: minutes, and a table.

    The benchmarks come with the source, not with the installed package. `--only store` runs one suite of them.

    Example: dpstream bench --list
    """
    suites = _suites(FOLDER)
    if listed:
        table = narrow_table(("suite", "benchmark"), words=("benchmark",))
        for suite, names in suites.items():
            for name in names:
                table.add_row(suite, name)
        show_table(Console(), table)
        return
    wanted = [name for text in only or [] for name in _named(text, suites)]
    _check_peers(FOLDER)
    command = [sys.executable, str(FOLDER / "run.py"), *wanted]
    # The figures go to output/ of the source, as they do with `make bench`.
    status = subprocess.run(command, cwd=FOLDER.parent, check=False).returncode  # noqa: S603
    if status:
        raise typer.Exit(status)


def _suites(folder: Path) -> dict[str, list[str]]:
    """The benchmarks of each suite: what its file lists as ALL. Read, not run: running would load every peer."""
    if not (folder / "run.py").is_file():
        raise DpstreamError(
            "the benchmarks come with the source of dpstream, not with the installed package: get the source,"
            " pip install --editable '.[dev]' in it, and run this again (or make bench, which does both)"
        )
    found: dict[str, list[str]] = {}
    for file in sorted(folder.glob("*.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ALL":
                found[file.stem] = [ast.unparse(one) for one in getattr(node.value, "elts", [])]
    return found


def _named(text: str, suites: dict[str, list[str]]) -> list[str]:
    if text in suites:
        return suites[text]
    if any(text in names for names in suites.values()):
        return [text]
    raise InvalidArgument("--only", text, f"{', '.join(suites)}, or a name that --list shows")


def _check_peers(folder: Path) -> None:
    """Refuse before the work, by name, where a peer to compare with is not installed."""
    missing = []
    for line in (folder / "requirements.txt").read_text(encoding="utf-8").splitlines():
        name = re.match(r"[A-Za-z0-9_.-]+", line)
        if name:
            try:
                distribution(name[0])
            except PackageNotFoundError:
                missing.append(name[0])
    if missing:
        raise DpstreamError(
            f"the benchmarks compare with {', '.join(missing)}: not installed here;"
            f" pip install -r {folder / 'requirements.txt'}"
        )
