"""`dpstream init`: its options. What they do is in init_run.py, which is loaded when they make sense."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["init"]


def init(
    file: Annotated[str, typer.Argument(help="A file of events: CSV, JSON lines, Parquet or Excel.")],
    output: Annotated[
        Path | None,
        typer.Option(help="Where the settings go: a .toml file; by default here, under the name of the events."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing, and take what was guessed.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Write over settings that are there.")] = False,
    file_format: Annotated[str | None, typer.Option("--format", help="csv, tsv, jsonl, parquet or xlsx.")] = None,
    delimiter: Annotated[str | None, typer.Option(help="The separator between fields: ; or tab, ...")] = None,
    encoding: Annotated[str | None, typer.Option(help="The encoding: utf-8, cp1252, ...")] = None,
    sheet: Annotated[str | None, typer.Option(help="The sheet of an Excel file.")] = None,
) -> None:
    """Look at a file of events, ask what is to be published, and write the settings for dpstream count.

    dpstream guesses the column of times and how they are written from the first rows of the file. It says what each
    choice means, with its error bar. Nothing is counted, and no budget is spent.

    By default each row is protected by itself. If you protect people instead, you choose how many rows of each are
    counted, and dpstream shows how many rows of the file that leaves out, which is not for publication.

    Categories are never taken from the data unasked: which of them there are may tell something about people, so their
    owner must say that they are public.

    Example: dpstream init visits.csv --yes
    """
    from dpstream.cli.init_run import InitCommand

    InitCommand(file, output, yes, force, file_format, delimiter, encoding, sheet).run()
